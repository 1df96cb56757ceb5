"""Settings of the numerical tests."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def nothing_left_over() -> None:
    """Where Numba compiles, warnings are errors: also those about sockets of tests before these."""
    gc.collect()
