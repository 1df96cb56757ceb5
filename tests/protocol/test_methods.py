"""Every method finds what it must, whatever the engine, the split and the levels."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from securefedyj.errors import InputError, ProtocolError
from securefedyj.numerics.sums import ArraySilo
from securefedyj.party import inprocess
from securefedyj.party.messages import Kind
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript, TranscriptError
from tests.engines.test_replicated_security import looks_uniform
from tests.federated_data import agreement, plain, run, shuffled
from tests.protocol.methods import FIVE, Methods, agreed, table
from tests.simulation import THREE, Recorder, assemble


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
ASKED: dict[str, Methods] = {
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
    changes: dict[str, Any] = {
        "max_steps": 2,
        "levels_per_exchange": 2,
        "resolution": ("8", "", "", "16", "16"),
    }
    expected, _ = simulate(agreed(FIVE, **changes), shuffled(X, 3))
    transcript, _ = simulate(agreed(FIVE, engine="mpyc", **changes), shuffled(X, 3))
    assert plain(transcript.reveals) == plain(expected.reveals)
    assert list(transcript.to_lines())[-1] == list(expected.to_lines())[-1]


def changed(lines, place, value):
    """The transcript with one entry of its last line, or of one of its steps, replaced."""
    lines = copy.deepcopy(lines)
    line = lines[-1] if place[0] in lines[-1] else next(x for x in lines if x.get("step") == 2)
    *path, last = place
    for key in path:
        line = line[key]
    line[last] = value
    return Transcript.from_lines(lines)


@pytest.mark.parametrize(
    ("place", "value", "finding"),
    [
        (("points", "number", 0), 7, "number of the quantiles does not follow"),
        (("points", "value", 1), 1.0, "value of the quantiles does not follow"),
        (("points", "rank", 1), 1, "rank of the quantiles does not follow"),
        (("points", "features", 0), 0, "features of the quantiles does not follow"),
        (("points", "n", 0), 3, "n of the quantiles does not follow"),
        (("result", "mean", 2), 0.5, "feature 'feature 2', standard: mean does not follow"),
        (("result", "lmbda", 1), 0.5, "feature 'feature 1', box-cox, step 1: the sign"),
        (("delta", 4), 1, "feature 'feature 3', quantile 0.5, step 3: the sign"),
    ],
)
def test_an_audit_finds_what_does_not_follow(place, value, finding):
    transcript, _ = simulate(agreed(FIVE), shuffled(table(), 3))
    lines = list(transcript.to_lines())
    if place[0] == "delta":
        step = next(line for line in lines if line.get("step") == 2)
        place = ("delta", step["features"].index(5))
        value = -step["delta"][place[1]]
    audit = changed(lines, place, value).audit()
    assert any(finding in found for found in audit.findings), audit.findings


def test_a_transcript_without_its_quantiles_is_refused():
    transcript, _ = simulate(agreed(FIVE), shuffled(table(), 3))
    *lines, last = transcript.to_lines()
    with pytest.raises(TranscriptError, match="quantiles are missing"):
        Transcript.from_lines([*lines, {"result": last["result"]}])
    transcript.points = None
    assert not transcript.audit().passed


def test_numbers_of_values_of_one_feature_are_the_same():
    """A silo that says one thing for one question and another for the next ends the run."""

    class TwoFaced(ArraySilo):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.count[1] += 1

    names = THREE.parties
    about = replace(
        agreed([{"standard": (), "quantiles": ("0.5",)}], engine="replicated"),
        parties=names,
        committee=names,
    )
    X = np.ones((4, 1))

    async def program(engine, name):
        kind = TwoFaced if name == "ana" else ArraySilo
        silo = kind(X, about.asked.domain, about.questions, about.asked.column)
        return await secure_fed_yj(engine, silo, about)

    parties = assemble(program, THREE, "replicated")
    with pytest.raises(ProtocolError, match="different numbers of values of one feature"):
        inprocess.run(parties)


def test_an_agreement_without_new_methods_has_the_digest_that_it_had():
    old = agreement(2)
    for methods in (({"yeo-johnson": ()},) * 2, ()):
        assert replace(old, methods=methods, resolution=("", "")).to_bytes() == old.to_bytes()
    again = Agreement.from_json(json.loads(agreed(FIVE, resolution=("1",) * 5).to_bytes()))
    assert again.to_bytes() == agreed(FIVE, resolution=("1",) * 5).to_bytes()


@pytest.mark.parametrize(
    ("methods", "resolution", "bounds", "code"),
    [
        ([{}], (), (1, 2), "SFY-CON-033"),
        ([{"median": ("0.5",)}], (), (1, 2), "SFY-CON-033"),
        ([{"quantiles": ()}], (), (1, 2), "SFY-CON-034"),
        ([{"quantiles": ("0.5", "0.25")}], (), (1, 2), "SFY-CON-034"),
        ([{"quantiles": ("0.50",)}], (), (1, 2), "SFY-CON-034"),
        ([{"quantiles": ("2",)}], (), (1, 2), "SFY-CON-032"),
        ([{"robust": ("0.25", "0.5")}], (), (1, 2), "SFY-CON-034"),
        ([{"standard": ("0.5",)}], (), (1, 2), "SFY-CON-034"),
        ([{"standard": ()}], ("0",), (1, 2), "SFY-CON-035"),
        ([{"standard": ()}], ("1e-2",), (1, 2), "SFY-CON-035"),
        ([{"standard": ()}], ("1", "1"), (1, 2), "SFY-CON-036"),
        ([{"standard": (), "box-cox": ()}], (), (-1, 2), "SFY-CON-037"),
        ([{"quantiles": ("0.5",)}], ("0.0000000000000000001",), (1, 2), "SFY-NUM-015"),
    ],
)
def test_what_cannot_be_agreed_on_is_refused(methods, resolution, bounds, code):
    with pytest.raises(InputError) as refused:
        agreed(methods, bounds, resolution=resolution).check()
    assert refused.value.code == code
