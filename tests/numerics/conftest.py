"""Settings of the numerical tests."""

from __future__ import annotations

import gc
import warnings

import pytest


@pytest.fixture(scope="module", autouse=True)
def nothing_left_over() -> None:
    """Where warnings are errors, so would be those about sockets that tests before have left."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
