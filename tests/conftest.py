"""Settings of the whole suite."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import tempfile
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import settings

from securefedyj.network.ledger import LEDGER_VARIABLE

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")

# A shell starts background jobs with Ctrl-C ignored, and processes of tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Of fixtures of whole modules, which come before those of a test. Not made unless it is needed.
os.environ[LEDGER_VARIABLE] = os.path.join(
    tempfile.gettempdir(), f"securefedyj-{os.getpid()}", "ledger.jsonl"
)
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def own_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each test has a list of runs of its own: never that of whoever runs the tests."""
    path = tmp_path_factory.getbasetemp() / f"ledger-{next(_numbers)}" / "ledger.jsonl"
    before, os.environ[LEDGER_VARIABLE] = os.environ[LEDGER_VARIABLE], str(path)
    yield
    os.environ[LEDGER_VARIABLE] = before


@pytest.fixture(scope="module")
def nothing_left_over() -> None:
    """For tests of warnings: none about what tests before them have left."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
