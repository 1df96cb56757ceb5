"""What a run will cost, before it is run."""

from __future__ import annotations

from typing import Any

import pytest

from securefedyj.network import forecast as module
from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.forecast import Forecast, Outlook, forecast
from tests.network.harness import THREE


@pytest.fixture(scope="module")
def consortium(tmp_path_factory) -> Consortium:
    features = [Feature(f"feature {j}", 0.0, 10.0 ** (1 + j % 4)) for j in range(48)]
    return local.prepare(tmp_path_factory.mktemp("forecast"), THREE_OF_48, features)


THREE_OF_48 = {name: rows[:, [0] * 48] for name, rows in THREE.items()}


def test_a_part_of_the_features_tells_the_cost_of_all(consortium, monkeypatch):
    network: dict[str, Any] = {"rows": 100, "delay": 0.02, "bytes_per_second": 1e8, "levels": [2]}
    (whole,) = forecast(consortium, **network).forecasts
    monkeypatch.setattr(module, "_PAIRS", 48)
    (part,) = forecast(consortium, **network).forecasts
    assert part.rounds == whole.rounds
    assert part.megabytes == pytest.approx(whole.megabytes, rel=0.05)


def test_more_levels_must_be_worth_it():
    forecasts = [
        Forecast(m, 100, 1.0, seconds, 0.0, 0.0) for m, seconds in ((2, 20), (4, 10.5), (8, 10))
    ]
    assert Outlook(tuple(forecasts), (64,)).recommended == 4


def test_recommended_levels_follow_the_line(consortium):
    far = forecast(consortium, rows=100, delay=5.0, bytes_per_second=1e9, levels=[1, 4])
    assert far.recommended == 4
    narrow = forecast(consortium, rows=100, delay=0.0, bytes_per_second=1e3, levels=[1, 4])
    assert narrow.recommended == 1
