"""Tests refer to an error by its code: the wording is free."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from securefedyj.errors import CodedError


@contextmanager
def refused(
    code: str, kind: type[CodedError] = CodedError
) -> Iterator[pytest.ExceptionInfo[CodedError]]:
    """The block raises the error with this code."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
