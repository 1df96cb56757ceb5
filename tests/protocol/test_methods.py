"""Every method finds what it must, whatever the engine, the split and the levels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from securefedyj.party.messages import Kind
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from tests.engines.test_replicated_security import looks_uniform
from tests.federated_data import plain, run, shuffled
from tests.protocol.methods import FIVE, agreed, table
from tests.simulation import Recorder


@pytest.mark.parametrize(
    ("engine", "verified"), [("clear", False), ("replicated", False), ("replicated", True)]
)
def test_five_methods_in_one_run(engine, verified):
    """Values are on the grid of 2^24 steps between the bounds, or close to it."""
    X = table()
    run = agreed(FIVE, engine=engine, verified=verified)
    transcript, _ = simulate(run, shuffled(X, 3))
    assert transcript.audit().findings == []
    again = Transcript.from_lines(transcript.to_lines())
    assert again.to_text() == transcript.to_text()
    (column,), fit = transcript.fit_of("standard")
    known = [Fraction(x) for x in X[~np.isnan(X[:, column]), column].tolist()]
    mean = sum(known) / len(known)
    assert fit.mean[0] == pytest.approx(float(mean), rel=1e-12)
    assert fit.var[0] == pytest.approx(
        float(sum((x - mean) ** 2 for x in known) / len(known)), rel=1e-12
    )


def test_engines_splits_and_levels_reveal_the_same():
    X = table()
    first, _ = simulate(agreed(FIVE), shuffled(X, 3))
    for silos, engine, levels in ((3, "replicated", 4), (5, "clear", 1), (4, "replicated", 7)):
        run = agreed(FIVE, silos=silos, engine=engine, levels_per_exchange=levels)
        transcript, _ = simulate(run, shuffled(X, silos, seed=silos))
        assert plain(transcript.reveals) == plain(first.reveals)
        assert list(transcript.to_lines())[-1] == list(first.to_lines())[-1]


PUBLIC = Kind.HELLO | Kind.OPENING | Kind.CHECK
"""Greetings, openings, and checks, of which `tests.engines` speaks; all else must be noise."""
ASKED = {
    "box-cox": {"box-cox": ()},
    "standard": {"standard": ()},
    "quantiles": {"quantiles": ("0.5",)},
}


def secret(message):
    """The payload of a message without a digest."""
    return message.payload[32 if message.kind & Kind.DIGEST else 0 :]


@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("method", ASKED)
def test_what_a_party_sees_does_not_depend_on_the_data(method, verified):
    """With all rows at one silo, or dealt out, the transcript and all sizes are the same.

    The sums of all features are equal, and yet what is sent looks like noise.
    """
    about = agreed([ASKED[method]] * 200, engine="replicated", verified=verified, max_steps=3)
    X = np.repeat(np.array([[1.0], [2.0], [2.0], [3.0], [9.0]]), 200, axis=1)
    sizes, transcripts = [], []
    for tables in ([X, X[:0], X[:0]], [X[:1], X[1:3], X[3:]]):
        recorder = Recorder()
        transcripts.append(run(about, tables, recorder)[0].to_text())
        messages = recorder.messages
        sizes.append(sorted((m.sender, m.recipient, m.round, len(m.payload)) for m in messages))
        hidden = [message for message in messages if not message.kind & PUBLIC]
        assert {kind for message in hidden for kind in message.kind} >= {Kind.INPUT, Kind.CARRY}
        assert all(looks_uniform(secret(message)) for message in hidden)
    assert transcripts[0] == transcripts[1]
    assert sizes[0] == sizes[1]


@pytest.mark.mpyc
def test_mpyc_reveals_the_same():
    X = table(12)
    changes = {"max_steps": 2, "levels_per_exchange": 2, "resolution": ("8", "", "", "16", "16")}
    expected, _ = simulate(agreed(FIVE, **changes), shuffled(X, 3))
    transcript, _ = simulate(agreed(FIVE, engine="mpyc", **changes), shuffled(X, 3))
    assert plain(transcript.reveals) == plain(expected.reveals)
    assert list(transcript.to_lines())[-1] == list(expected.to_lines())[-1]
