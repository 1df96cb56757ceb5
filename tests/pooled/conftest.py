"""Settings of the tests of the pooled fit."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def warnings_of_their_own(nothing_left_over: None) -> None:
    """Some of them turn all warnings into errors."""
