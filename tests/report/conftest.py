"""The run that most tests of the report look at, and its page."""

from __future__ import annotations

import pytest

from securefedyj.protocol.transcript import Transcript
from securefedyj.report import page as report
from securefedyj.report.results import CostColumn
from tests.report.runs import NAMES, as_engine, data, fit


@pytest.fixture(scope="module")
def transcript() -> Transcript:
    parties = ("silo A", "silo B", "<b>silo C</b>", "silo D")
    return as_engine(fit(data(), NAMES, parties), "replicated", parties[:3])


@pytest.fixture(scope="module")
def page(transcript) -> str:
    cost = {
        "plan": CostColumn(10, {}, 2000, 1.0),
        "this run": CostColumn(None, {"<i>": 1000}, 1000, None),
    }
    return report.render(transcript, data()[:20], cost)
