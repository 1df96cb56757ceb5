"""Tests refer to an error by its code: the wording is free."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from securefedyj.errors import CodedError


@contextmanager
def refused(
    code: str, kind: type[CodedError] = CodedError, *, naming: str | tuple[str, ...] = ()
) -> Iterator[pytest.ExceptionInfo[CodedError]]:
    """The block raises the error with this code; its message has the values that it is to name."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
    for value in (naming,) if isinstance(naming, str) else naming:
        assert value in str(caught.value)
