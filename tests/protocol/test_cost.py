"""The cost of a run: what stands in cost.json, and that what was sent arrives."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest

from securefedyj import SecureFedYJ
from securefedyj.engines.registry import facts_of
from securefedyj.numerics import streamed
from securefedyj.numerics.encoding import Domain
from securefedyj.protocol import silos, simulation
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.cost import Cost
from tests.protocol.methods import agreed


def test_cost_json_has_what_the_run_took_at_one_party():
    cost = Cost(
        rounds=12,
        bytes_sent={"ana": {"bob": 30, "cem": 12}},
        seconds_local=0.5,
        seconds_secure=1.5,
        seconds_waiting=0.25,
        bytes_received={"ana": 99},
    )
    assert json.loads(json.dumps(cost.to_json("ana"))) == {
        "party": "ana",
        "rounds": 12,
        "bytes_sent": 42,
        "bytes_received": 99,
        "seconds_local": 0.5,
        "seconds_secure": 1.5,
        "seconds_waiting": 0.25,
    }


def test_the_cost_of_another_party_is_not_known():
    cost = Cost(12, {"ana": {"bob": 30}}, 0.5, 1.5, bytes_received={"ana": 9})
    with pytest.raises(KeyError):
        cost.to_json("bob")


def test_at_all_parties_what_was_sent_has_arrived():
    sent = {"ana": {"bob": 1, "cem": 2}, "bob": {"ana": 4, "cem": 8}, "cem": {"ana": 16, "bob": 32}}
    cost = Cost.of_all(None, sent, 0.0, 0.0)
    assert cost.bytes_sent == sent
    assert cost.bytes_received == {"ana": 20, "bob": 33, "cem": 10}


def test_the_cost_of_a_simulation_can_be_told_for_each_party():
    X = np.random.default_rng(0).lognormal(size=(12, 1))
    cost = SecureFedYJ(max_steps=2).fit(np.split(X, 3)).cost_
    told = [cost.to_json(name) for name in cost.bytes_sent]
    assert sum(one["bytes_sent"] for one in told) == sum(one["bytes_received"] for one in told) > 0
    assert {one["rounds"] for one in told} == {cost.rounds}


AGREEMENT = Agreement(
    features=("x",),
    domain=Domain.from_bounds((0, 8), 1),
    parties=("a", "b", "c"),
    committee=("a", "b", "c"),
    engine="clear",
    max_steps=2,
    levels_per_exchange=1,
    result_bits=44,
    minimum_values=0,
    verified=False,
)
ROWS = [np.array([[1.0], [2.0 + k]]) for k in range(3)]


def test_rows_that_take_long_to_prepare_count_among_the_sums_alone(monkeypatch):
    slow, made = 0.05, streamed.silo_of

    def slowly(*arguments):
        time.sleep(slow)
        return made(*arguments)

    monkeypatch.setattr(silos, "silo_of", slowly)
    start = time.perf_counter()
    _, cost = simulation.simulate(AGREEMENT, ROWS)
    whole = time.perf_counter() - start
    assert cost.seconds_local >= 3 * slow
    assert cost.seconds_secure >= 0
    assert cost.seconds_local + cost.seconds_secure <= whole


def test_parties_that_compute_at_once_take_as_long_as_the_slowest(monkeypatch):
    """Their sums together may take longer than that; the rest is never negative."""
    transcript, _ = simulation.simulate(AGREEMENT, ROWS)
    local = iter((0.1, 0.3, 0.2))

    def run(parties):
        time.sleep(0.4)
        for party in parties:
            party.stop(RuntimeError())
        return [(transcript, next(local)) for _ in parties]

    monkeypatch.setattr(
        simulation, "facts_of", lambda engine: replace(facts_of(engine), run=run, in_parallel=True)
    )
    _, cost = simulation.simulate(AGREEMENT, ROWS)
    assert cost.seconds_local == 0.3
    assert cost.seconds_secure > 0


QUARTILES = {"robust": ("0.25", "0.5", "0.75")}
MIXED = [
    {"yeo-johnson": ()}, {"box-cox": ()}, {"standard": ()}, QUARTILES, {"quantiles": ("0.1", "0.9")}
]  # fmt: skip


def rounds_and_bytes(methods, verified, features):
    """Of a run of the protocol's default levels; bytes are those of the party that sends most."""
    X = np.random.default_rng(3).lognormal(size=(99, features)).clip(0.02, 100)
    about = agreed(
        [methods[j % len(methods)] for j in range(features)], (0.01, 200.0), 3, "replicated",
        verified=verified, max_steps=30,
    )  # fmt: skip
    _, cost = simulation.simulate(about, np.split(X, 3))
    return cost.rounds, max(map(cost.sent_by, about.parties)) / features


def test_three_quantiles_of_1000_features_take_75_rounds_and_15_kilobytes_each():
    rounds, sent = rounds_and_bytes([QUARTILES], False, 1000)
    assert rounds <= 75
    assert sent <= 15_000
    assert rounds_and_bytes([QUARTILES], True, 1000)[0] <= 75 + 25


def test_standard_takes_25_rounds():
    assert rounds_and_bytes([{"standard": ()}], False, 300)[0] <= 25


@pytest.mark.parametrize("verified", [False, True])
def test_a_run_of_all_methods_takes_hardly_more_rounds_than_yeo_johnson(verified):
    alone, _ = rounds_and_bytes([{"yeo-johnson": ()}], verified, 50)
    together, _ = rounds_and_bytes(MIXED, verified, 50)
    assert together <= alone + 5
