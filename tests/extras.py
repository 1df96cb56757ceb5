"""Marks of tests that need an extra of the package."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_mpyc = pytest.mark.skipif(
    find_spec("mpyc") is None, reason="the extra `mpyc` is not installed"
)
