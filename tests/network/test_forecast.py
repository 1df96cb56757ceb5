"""What a run will cost, before it is run."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from securefedyj.network import forecast as module
from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.forecast import Forecast, Outlook, forecast
from securefedyj.network.local import Crossing
from securefedyj.protocol import schedule
from securefedyj.protocol.simulation import simulate
from tests.federated_data import agreement
from tests.network.harness import THREE

NETWORK: dict[str, Any] = {
    "rows": 100,
    "delay": 0.02,
    "bytes_per_second": 1e8,
    "crossing": Crossing(0.0, 0.0),
}


@pytest.fixture(scope="module")
def consortium(tmp_path_factory) -> Consortium:
    folder = tmp_path_factory.mktemp("forecast")
    return local.prepare(folder, THREE_OF_48, features(48), max_steps=12)


def features(number: int) -> list[Feature]:
    return [Feature(f"feature {j}", 0.0, 10.0 ** (1 + j % 4)) for j in range(number)]


THREE_OF_48 = {name: rows[:, [0] * 48] for name, rows in THREE.items()}


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize(
    ("silos", "helpers", "committee"),
    [
        (3, 0, (0, 1, 2)),
        (4, 0, (0, 1, 2)),
        (2, 1, (0, 1, 2)),
        (4, 2, (0, 2, 5)),
        (3, 1, (2, 1, 0)),
    ],
    ids=["three silos", "an outsider", "a helper", "both", "a helper outside"],
)
def test_rounds_and_bytes_are_those_of_a_run(
    tmp_path, consortium, verified, silos, helpers, committee
):
    """A real one, whose rows are those that the forecast has made up."""
    names = [f"party {j}" for j in range(silos + helpers)]
    rows = module._made_up_rows(consortium.agreement().domain.take(np.arange(6)), module._VALUES)
    table = np.repeat(rows, 3, axis=0)
    agreed = local.prepare(
        tmp_path,
        {name: table if j < silos else None for j, name in enumerate(names)},
        features(6),
        committee=[names[j] for j in committee],
        verified=verified,
        minimum_values=0,
        max_steps=10,
    )
    (plan,) = forecast(agreed, **{**NETWORK, "rows": len(table)}, levels=[4]).forecasts
    tables = [table] * silos + [None] * helpers
    _, cost = simulate(agreed.agreement(), tables)
    assert plan.rounds == cost.rounds
    assert round(1e6 * plan.megabytes) == max(map(cost.sent_by, names))


@pytest.mark.parametrize("verified", [True, False])
def test_a_part_of_the_features_tells_the_cost_of_all(consortium, monkeypatch, verified):
    agreed = replace(consortium, verified=verified)
    (whole,) = forecast(agreed, **NETWORK, levels=[2]).forecasts
    monkeypatch.setattr(module, "_PAIRS", 48)
    (part,) = forecast(agreed, **NETWORK, levels=[2]).forecasts
    assert part.rounds == whole.rounds
    assert part.megabytes == pytest.approx(whole.megabytes, rel=0.05)


def test_every_batch_takes_its_rounds(consortium, monkeypatch):
    monkeypatch.setattr(schedule, "PAIRS_AT_ONCE", 3 * 20)
    (whole,) = forecast(consortium, **NETWORK, levels=[2]).forecasts
    monkeypatch.setattr(module, "_PAIRS", 48)
    (part,) = forecast(consortium, **NETWORK, levels=[2]).forecasts
    assert part.rounds == whole.rounds


def test_claims_of_many_features_take_no_more_rounds(consortium, monkeypatch):
    many = replace(consortium, features=tuple(features(1100)), max_steps=2)
    (whole,) = forecast(many, **NETWORK, levels=[2]).forecasts
    monkeypatch.setattr(module, "_PAIRS", 48)
    (part,) = forecast(many, **NETWORK, levels=[2]).forecasts
    few = forecast(replace(many, features=many.features[:16]), **NETWORK, levels=[2]).forecasts[0]
    assert part.rounds == whole.rounds == few.rounds


def test_what_verification_costs_is_told_for_the_recommended_levels(consortium):
    told = forecast(consortium, **NETWORK, levels=[2, 4], compare=True)
    without = forecast(replace(consortium, verified=False), **NETWORK, levels=[2, 4], compare=True)
    assert told.unverified is not None
    assert told.unverified.levels == told.recommended
    (same,) = (one for one in without.forecasts if one.levels == told.recommended)
    assert told.unverified[:3] == same[:3]
    assert without.unverified is None


def test_more_levels_must_be_worth_it():
    forecasts = [
        Forecast(m, 100, 1.0, seconds, 0.0, 0.0) for m, seconds in ((2, 20), (4, 10.5), (8, 10))
    ]
    assert Outlook(tuple(forecasts), (64,)).recommended == 4


def test_recommended_levels_follow_the_line(consortium):
    line = {**NETWORK, "levels": [1, 4]}
    far = forecast(consortium, **line | {"delay": 5.0, "bytes_per_second": 1e9})
    assert far.recommended == 4
    narrow = forecast(consortium, **line | {"delay": 0.0, "bytes_per_second": 1e3})
    assert narrow.recommended == 1


@pytest.mark.parametrize("live", [0, 2], ids=["all submitted", "some live"])
def test_rounds_and_bytes_of_a_submitted_run_are_forecast(live: int) -> None:
    """Of a real one, whose counts lead to other points: rings may be a little wider or narrower."""
    agreed = agreement(
        6, 4, (0.0, 30.0), "replicated", max_steps=8, verified=True, submitted=True,
        resolution=("1",) * (6 - live) + ("",) * live,
    )  # fmt: skip
    consortium: Any = SimpleNamespace(agreement=lambda: agreed, verified=True)
    domain = agreed.domain
    table = np.repeat(module._made_up_rows(domain, module._VALUES).round(), 4, axis=0)
    (plan,) = forecast(consortium, **{**NETWORK, "rows": len(table)}, levels=[4]).forecasts
    _, cost = simulate(agreed, [table] * 4)
    assert cost.rounds is not None
    assert abs(plan.rounds - cost.rounds) <= 2
    submission = 32 + 32 + 16 * 31 * (6 - live)
    sent = max(map(cost.sent_by, agreed.committee)) - 2 * submission
    assert abs(1e6 * plan.megabytes / sent - 1) < 0.05


def test_a_part_of_submitted_features_tells_the_cost_of_all(monkeypatch) -> None:
    agreed = agreement(
        24, 3, (0.0, 30.0), "replicated", max_steps=8, verified=True, submitted=True,
        resolution=("1",) * 24,
    )  # fmt: skip
    consortium: Any = SimpleNamespace(agreement=lambda: agreed, verified=True)
    (whole,) = forecast(consortium, **NETWORK, levels=[2]).forecasts
    monkeypatch.setattr(module, "_POINTS", 12 * 31)
    (part,) = forecast(consortium, **NETWORK, levels=[2]).forecasts
    assert abs(part.rounds - whole.rounds) <= 2
    assert abs(part.megabytes / whole.megabytes - 1) < 0.05
    monkeypatch.setattr(schedule, "POINTS_AT_ONCE", 100)
    (more,) = forecast(consortium, **NETWORK, levels=[2]).forecasts
    assert more.rounds > part.rounds + 80
