"""What a peer may send is bounded by the agreement, and no honest party comes near the bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from securefedyj.engines import registry
from securefedyj.network import bounds
from securefedyj.network.bounds import largest_message, most_waiting, rounds_at_most
from securefedyj.party import inprocess
from securefedyj.party.machine import MAX_AHEAD, Party
from securefedyj.party.messages import Kind
from securefedyj.protocol.agreement import MOST_LEVELS
from securefedyj.protocol.program import run_party
from securefedyj.protocol.silos import timed_silo
from securefedyj.protocol.simulation import counts_of
from securefedyj.protocol.submissions import held_by, masked, share
from tests.federated_data import agreement
from tests.simulation import Recorder

BOUNDS = [(0, 1), (-(2.0**20), 2.0**20), (-(2.0**-40), 2.0**100)]


def agreed(size, bounds=(-1, 1), verified=True, silos=4, **options):
    return agreement(size, silos, bounds, "replicated", verified=verified, **options)


@pytest.mark.parametrize(
    ("engine", "verified"), [("replicated", True), ("replicated", False), ("clear", False)]
)
@pytest.mark.parametrize("size", [1, 9, 80])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_message_of_a_run_is_larger_than_the_bound(size, bounds, engine, verified):
    """The range of lambda has wider integers than this run meets."""
    rows = np.random.default_rng(size).uniform(0, 0.5e-12, size=(12, size))
    agreement = replace(agreed(size, bounds, verified, max_steps=3), engine=engine)
    if engine == "clear":
        agreement = replace(agreement, committee=agreement.parties)
    tables = dict(zip(agreement.parties, np.array_split(rows, 4), strict=True))
    recorder = Recorder()
    parties = [
        Party(
            name,
            agreement.parties,
            run_party(name, agreement, timed_silo(agreement, table)),
            session=bytes(16),
            parameters=b"",
        )
        for name, table in tables.items()
    ]
    inprocess.run(parties, recorder)
    largest = max(len(message.payload) for message in recorder.messages)
    bound = largest_message(agreement) - 2**16
    assert largest <= bound <= 64 * largest
    assert most_waiting(agreement) == 4 * largest_message(agreement)


@pytest.mark.parametrize("levels", [1, 4])
@pytest.mark.parametrize(
    "resolution", [("1",) * 3, ("1", "", "0.01"), ("0.01", "1", "")], ids=["all", "one", "other"]
)
def test_no_message_of_a_submitted_run_is_larger_than_the_bound(resolution, levels):
    agreement = agreed(
        3, (0, 20), max_steps=4, submitted=True, resolution=resolution, levels_per_exchange=levels
    )
    recorder = Recorder()
    rows = np.random.default_rng(levels).integers(0, 21, (40, 3)).astype(float)
    shares = [share(masked(counts_of(agreement, rows), (), ()))]
    held = held_by(agreement, shares, bytes(32))
    live = not agreement.given.all()
    parties = [
        Party(
            name,
            agreement.online,
            run_party(
                name,
                agreement,
                timed_silo(agreement, rows) if live else None,
                submissions=held.get(name),
            ),
            session=bytes(16),
            parameters=b"",
        )
        for name in agreement.online
    ]
    inprocess.run(parties, recorder)
    largest = max(len(message.payload) for message in recorder.messages)
    assert largest <= largest_message(agreement) - 2**16 <= 64 * largest


@pytest.mark.parametrize("verified", [True, False])
def test_the_bound_of_many_features_is_that_of_some_several_times(verified, monkeypatch):
    some = agreed(200, verified=verified)
    bound = largest_message(some)
    monkeypatch.setattr(bounds, "_COUNTED", 200)
    bounds._largest_payload.cache_clear()
    exact = largest_message(some)
    bounds._largest_payload.cache_clear()
    assert exact <= bound <= 2 * exact


def longest_exchange(agreement, features):
    longest = 0
    for rounds in rounds_at_most(agreement, features):
        begins = [k for k, one in enumerate(rounds) if one.kind & Kind.DIGEST]
        longest = max(longest, *np.diff([*begins, len(rounds)]))
    return longest


@pytest.mark.parametrize("size", [1, 64, 3000])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("levels", [1, MOST_LEVELS])
def test_no_exchange_is_longer_than_messages_may_be_ahead(size, bounds, levels):
    """The rounds of the program itself, with the widest integers and a helper in the committee."""
    agreement = agreed(size, bounds, levels_per_exchange=levels, max_steps=12)
    longest = longest_exchange(agreement, size)
    assert 40 <= longest <= MAX_AHEAD
    assert longest_exchange(replace(agreement, verified=False), size) <= 24


def test_a_verified_opening_of_many_features_takes_no_more_rounds():
    agreement = agreed(1)
    assert longest_exchange(agreement, 3000) == longest_exchange(agreement, 30)


def test_a_stream_is_bounded_by_its_engine():
    facts = registry.facts_of("mpyc")
    stream = replace(agreed(3, verified=False), engine="mpyc", committee=agreed(3).parties)
    assert facts.largest_piece is not None
    assert largest_message(stream) == 2**16 + facts.largest_piece
    widest = most_waiting(stream)
    assert most_waiting(replace(stream, levels_per_exchange=MOST_LEVELS)) > widest
