"""What the tests of transcripts, results and audits share."""

from __future__ import annotations

from typing import Any

import pytest

from securefedyj.protocol.transcript import Transcript
from tests.protocol.small_run import small_run, tampered_lines


@pytest.fixture
def transcript() -> Transcript:
    """One run with every kind of feature; not to be changed."""
    return small_run()


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    """The file of that run, to be tampered with."""
    return tampered_lines()
