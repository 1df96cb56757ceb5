"""The course of a run: every opening is foreseen, and nothing else is taken."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefedyj import SecureFedYJ
from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.search import exp_update
from securefedyj.protocol import schedule as schedule_module
from securefedyj.protocol.reveals import (
    Counts,
    Final,
    Magnitudes,
    Moments,
    Step,
    Variation,
    Verdict,
    read_reveal,
    to_line,
)
from securefedyj.protocol.schedule import Schedule
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from securefedyj.strict import Malformed
from tests.datasets import table
from tests.federated_data import agreement
from tests.protocol.small_run import NAMES, STEPS, data, small_run, small_verified_run

RUNS = {
    "small": lambda: small_run(),
    "small, one level": lambda: small_run(levels=1),
    "small, verified": lambda: small_verified_run(),
    "wine": lambda: fitted(table("wine"), 40, 4, 44),
    "iris, few bits": lambda: fitted(table("iris"), 30, 8, 24),
    "nothing varies": lambda: fitted(np.full((5, 2), 3.0), 10, 4, 44),
    "single values": lambda: fitted(np.array([[1.0, np.nan], [np.nan, 2.0]]), 10, 4, 44),
    "no values": lambda: fitted(np.full((5, 2), np.nan), 10, 4, 44),
}


@cache
def _fitted(X: bytes, columns: int, steps: int, levels: int, bits: int) -> Transcript:
    agreed = agreement(
        columns, silos=1, max_steps=steps, levels_per_exchange=levels, result_bits=bits
    )
    return simulate(agreed, [np.frombuffer(X).reshape(-1, columns)])[0]


def fitted(X: Any, steps: int, levels: int, bits: int) -> Transcript:
    return _fitted(np.ascontiguousarray(X).tobytes(), X.shape[1], steps, levels, bits)


@pytest.mark.parametrize("name", RUNS)
def test_every_reveal_of_a_run_is_what_was_due(name):
    transcript = RUNS[name]()
    course = Schedule(transcript.agreement)
    for length, reveal in enumerate(transcript.reveals):
        due = course.due
        assert type(reveal) is due.kind
        assert reveal.features.tolist() == due.features.tolist()
        if isinstance(reveal, Step):
            assert reveal.step == due.step
            assert reveal.lmbda.tobytes() == due.lmbda.tobytes()
        again = Schedule.of(Transcript(transcript.agreement, transcript.reveals[:length])).due
        assert (again.kind, again.step, again.lmbda.tobytes()) == (
            due.kind,
            due.step,
            due.lmbda.tobytes(),
        )
        assert not course.complete
        course.take(reveal)
    assert course.due is None
    assert course.complete
    assert course.most_openings() == 0


def test_batches_come_one_after_the_other(monkeypatch):
    monkeypatch.setattr(schedule_module, "PAIRS_AT_ONCE", 3 * 4)
    transcript = SecureFedYJ("clear", 5, levels_per_exchange=2).fit([data()]).transcript_
    batches = [r.features.tolist() for r in transcript.all(Magnitudes)]
    assert batches == [[0, 1, 2, 3], [4]]
    assert Schedule.of(transcript).complete
    monkeypatch.undo()
    with pytest.raises(Malformed, match="reveal 8: magnitudes of other features"):
        Schedule.of(transcript)


def test_lambda_of_the_moments_is_that_of_the_result(transcript):
    course = Schedule.of(Transcript(transcript.agreement, transcript.reveals[:-1]))
    assert course.due.kind is Moments
    assert course.due.lmbda.tolist() == transcript.result.lmbda[course.due.features].tolist()


@pytest.mark.parametrize("verified", [False, True])
def test_openings_of_an_exchange_that_begins_anywhere(verified):
    transcript = small_verified_run() if verified else small_run(levels=2)
    most = []
    course = Schedule(transcript.agreement)
    for reveal in transcript.reveals:
        most.append((type(reveal), course.most_openings()))
        course.take(reveal)
    steps = [(Step, 2)] * (STEPS - 1) + [(Step, 1)]
    end = [(Final, 1)] if verified else [(Magnitudes, 2), (Moments, 1)]
    assert most == [(Counts, 1), (Variation, 3), *steps, *end]


def test_too_few_values_end_the_course_without_a_result():
    transcript = small_run()
    agreed = replace(transcript.agreement, minimum_values=13)
    course = Schedule.of(Transcript(agreed, transcript.reveals[:1]))
    assert course.due is None
    assert not course.complete
    assert [NAMES[j] for j in course.too_few()] == ["fixed", "single", "empty"]
    with pytest.raises(Malformed, match="nothing more may be revealed"):
        course.take(transcript.reveals[1])


# --- What is not due -------------------------------------------------------------------------


def at(kind: type, number: int = 0) -> int:
    """Where the reveals of a kind are in the small run."""
    return [k for k, r in enumerate(small_run().reveals) if type(r) is kind][number]


def changed(place: int, **parts: Any) -> list[Any]:
    reveals = list(small_run().reveals)
    reveals[place] = reveals[place]._replace(**parts)
    return reveals


def with_one(values: Any, value: Any, place: int = 0) -> Any:
    out = values.copy()
    out[place] = value
    return out


def moment(part: str, value: int) -> list[Any]:
    reveal: Any = small_run().reveals[-1]
    return changed(at(Moments), **{part: with_one(getattr(reveal, part), value)})


FIRST: Any = small_run().reveals
V_BITS, S_BITS = 52, 200

ALTERED = {
    "a negative count": lambda: changed(0, n=with_one(FIRST[0].n, -1)),
    "a count beyond 2^40": lambda: changed(0, n=with_one(FIRST[0].n, 2**40 + 1)),
    "a count that is too short": lambda: changed(0, n=FIRST[0].n[:-1]),
    "counts of fewer features": lambda: changed(0, features=FIRST[0].features[:-1]),
    "counts in another order": lambda: changed(0, features=FIRST[0].features[::-1]),
    "variation of another feature": lambda: changed(1, features=FIRST[1].features + 1),
    "another lambda": lambda: changed(4, lmbda=np.nextafter(FIRST[4].lmbda, 9)),
    "minus zero": lambda: changed(2, lmbda=-FIRST[2].lmbda),
    "a sign of 0": lambda: changed(4, delta=with_one(FIRST[4].delta, 0)),
    "a sign of 2": lambda: changed(4, delta=with_one(FIRST[4].delta, 2)),
    "a sign of -128": lambda: changed(4, delta=with_one(FIRST[4].delta, -128)),
    "another step": lambda: changed(4, step=3),
    "a step before the first": lambda: changed(2, step=-1),
    "a step far away": lambda: changed(4, step=10**30),
    "a step of fewer features": lambda: changed(
        4, features=FIRST[4].features[1:], lmbda=FIRST[4].lmbda[1:], delta=FIRST[4].delta[1:]
    ),
    "a negative magnitude": lambda: changed(
        at(Magnitudes), magnitude=with_one(FIRST[-2].magnitude, -1)
    ),
    "a magnitude beyond all": lambda: changed(
        at(Magnitudes), magnitude=with_one(FIRST[-2].magnitude, 10**9)
    ),
    "V with a bit more": lambda: moment("V", 1 << V_BITS),
    "V with many bits more": lambda: moment("V", 1 << 10**6),
    "V below its magnitude": lambda: moment("V", (1 << V_BITS - 8) - 1),
    "a negative V": lambda: moment("V", -1),
    "a wide S_y": lambda: moment("S_y", 1 << S_BITS),
    "a wide negative S_y": lambda: moment("S_y", -(1 << S_BITS)),
}


@pytest.mark.parametrize("change", ALTERED)
def test_what_is_not_due_is_refused(change):
    agreed, reveals = small_run().agreement, ALTERED[change]()
    Schedule.of(Transcript(agreed, list(small_run().reveals)))
    with pytest.raises(Malformed, match=r"reveal \d+: "):
        Schedule.of(Transcript(agreed, reveals))


def test_the_widest_v_and_s_y_are_taken():
    """One less than what is refused above; S_y is refused by n and the bounds."""
    agreed = small_run().agreement
    Schedule.of(Transcript(agreed, moment("V", (1 << V_BITS) - 1)))
    Schedule.of(Transcript(agreed, moment("V", 1 << V_BITS - 8)))
    reveal = small_run().reveals[-1]
    Schedule.of(Transcript(agreed, moment("S_y", -reveal.S_y[0])))


def test_precision_is_that_of_the_agreement():
    """Moments of 44 bits are refused under an agreement on fewer."""
    reveals, agreed = small_run().reveals, small_run().agreement
    for bits in (8, 24, 35):
        coarse = replace(agreed, result_bits=bits)
        with pytest.raises(Malformed, match="not of its magnitude and precision"):
            Schedule.of(Transcript(coarse, list(reveals)))


@pytest.mark.parametrize(
    ("run", "place"),
    [(run, k) for run in (small_run, small_verified_run) for k in range(len(run().reveals))],
)
def test_a_reveal_repeated_left_out_or_swapped_is_refused(run, place):
    agreed, reveals = run().agreement, list(run().reveals)
    variants = [[*reveals[: place + 1], *reveals[place:]]]
    if place < len(reveals) - 1:
        variants.append(reveals[:place] + reveals[place + 1 :])
        variants.append(
            [*reveals[:place], reveals[place + 1], reveals[place], *reveals[place + 2 :]]
        )
    for variant in variants:
        with pytest.raises(Malformed):
            Schedule.of(Transcript(agreed, variant))


def test_a_course_stays_where_it_is_when_it_refuses():
    transcript = small_run()
    course = Schedule(transcript.agreement)
    for reveal in transcript.reveals:
        for change in ALTERED.values():
            for other in change():
                if type(other) is not type(reveal) or other is reveal:
                    continue
                due = course.due
                with pytest.raises(Malformed):
                    course.take(other)
                assert course.due is due
        course.take(reveal)
    assert course.complete


# --- The end of a verified run ---------------------------------------------------------------

LAST: Any = small_verified_run().reveals[-1]
EMPTY = 5


def ended(**parts: Any) -> Any:
    """The final opening, with something else in it."""
    return LAST._replace(**parts)


def zeros(**parts: Any) -> Any:
    """What is opened if a claim does not hold, with something else in it."""
    nothing = Final(np.arange(6), False, np.zeros(6, dtype=np.int64), [0] * 6, [0] * 6)
    return nothing._replace(**parts)


ENDED = {
    "a negative magnitude": lambda: ended(magnitude=with_one(LAST.magnitude, -1, 2)),
    "a magnitude beyond all": lambda: ended(magnitude=with_one(LAST.magnitude, 10**9, 2)),
    "V with a bit more": lambda: ended(V=with_one(LAST.V, 1 << V_BITS)),
    "V below its magnitude": lambda: ended(V=with_one(LAST.V, (1 << V_BITS - 8) - 1)),
    "a negative V": lambda: ended(V=with_one(LAST.V, -1)),
    "a wide S_y": lambda: ended(S_y=with_one(LAST.S_y, 1 << S_BITS)),
    "a wide negative S_y": lambda: ended(S_y=with_one(LAST.S_y, -(1 << S_BITS))),
    "a magnitude of no values": lambda: ended(magnitude=with_one(LAST.magnitude, 1, EMPTY)),
    "V of no values": lambda: ended(V=with_one(LAST.V, 1, EMPTY)),
    "S_y of no values": lambda: ended(S_y=with_one(LAST.S_y, -1, EMPTY)),
    "fewer features": lambda: Final(
        LAST.features[:5], True, LAST.magnitude[:5], LAST.V[:5], LAST.S_y[:5]
    ),
    "features in another order": lambda: ended(features=LAST.features[::-1]),
    "a magnitude less": lambda: ended(magnitude=LAST.magnitude[:5]),
    "a V less": lambda: ended(V=LAST.V[:5]),
    "an S_y more": lambda: ended(S_y=[*LAST.S_y, 0]),
    "all of it, though it does not hold": lambda: ended(holds=False),
    "a magnitude, though it does not hold": lambda: zeros(magnitude=np.eye(6, dtype=int)[2]),
    "a V, though it does not hold": lambda: zeros(V=[0, 0, 1, 0, 0, 0]),
    "an S_y, though it does not hold": lambda: zeros(S_y=[0, 0, 0, -1, 0, 0]),
    "a verdict alone": lambda: Verdict(np.arange(6), True),
    "magnitudes": lambda: small_run().reveals[-2],
    "moments": lambda: small_run().reveals[-1],
}


@pytest.mark.parametrize("how", ENDED)
def test_a_final_opening_that_cannot_be_is_refused(how):
    transcript = small_verified_run()
    course = Schedule.of(Transcript(transcript.agreement, transcript.reveals[:-1]))
    due = course.due
    with pytest.raises(Malformed):
        course.take(ENDED[how]())
    assert course.due is due
    assert not course.complete


@pytest.mark.parametrize(
    "change",
    [{}, {"V": with_one(LAST.V, (1 << V_BITS) - 1)}, {"S_y": with_one(LAST.S_y, -LAST.S_y[0])}],
    ids=["as it is", "the largest V", "another S_y"],
)
def test_a_final_opening_that_can_be_is_the_end(change):
    transcript = small_verified_run()
    course = Schedule.of(Transcript(transcript.agreement, transcript.reveals[:-1]))
    course.take(ended(**change))
    assert course.complete
    assert not course.refuted
    assert course.magnitude.tolist() == [*LAST.magnitude[:EMPTY], -1]


def test_a_verdict_of_0_ends_the_course_without_a_result():
    transcript = small_verified_run()
    course = Schedule.of(Transcript(transcript.agreement, transcript.reveals[:-1]))
    course.take(zeros())
    assert course.refuted
    assert course.due is None
    assert not course.complete
    assert course.most_openings() == 0
    with pytest.raises(Malformed, match="nothing more may be revealed"):
        course.take(LAST)


def test_each_batch_has_its_own_final_opening(monkeypatch):
    """The last feature has no value; its batch ends with zeros that hold."""
    monkeypatch.setattr(schedule_module, "PAIRS_AT_ONCE", 3 * 5)  # five features
    transcript = small_verified_run()
    course = Schedule.of(Transcript(transcript.agreement, transcript.reveals[:-1]))
    first = Final(LAST.features[:5], True, LAST.magnitude[:5], LAST.V[:5], LAST.S_y[:5])
    nothing = zeros(features=np.array([5]), magnitude=np.zeros(1, dtype=int), V=[0], S_y=[0])
    course.take(first)
    assert course.due.kind is Final
    assert course.due.features.tolist() == [5]
    assert not course.complete
    again = Schedule.of(Transcript(transcript.agreement, [*transcript.reveals[:-1], first]))
    again.take(nothing)
    assert again.refuted
    course.take(nothing._replace(holds=True))
    assert course.complete


def test_a_verdict_of_0_is_the_end_also_where_batches_are_left(monkeypatch):
    monkeypatch.setattr(schedule_module, "PAIRS_AT_ONCE", 3 * 5)  # five features
    transcript = small_verified_run()
    course = Schedule.of(Transcript(transcript.agreement, transcript.reveals[:-1]))
    nothing = zeros(features=np.arange(5), magnitude=np.zeros(5, dtype=int))
    course.take(nothing._replace(V=[0] * 5, S_y=[0] * 5))
    assert course.due is None
    assert course.refuted
    assert not course.complete


junk = st.recursive(
    st.one_of(
        st.integers(-(10**30), 10**30),
        st.sampled_from([0, 1, -1, 2**31, 2**40, 2**63, 2**64, 10**9]),
        st.floats(),
        st.booleans(),
        st.text(max_size=4),
        st.sampled_from(["0x1", "-0x0", "0x" + "f" * 500, "0x1_0"]),
        st.none(),
    ),
    lambda inner: st.lists(inner, max_size=7),
    max_leaves=8,
)


@given(
    run=st.sampled_from([small_run, small_verified_run]),
    length=st.integers(0, len(small_verified_run().reveals)),
    place=st.integers(0, len(small_verified_run().reveals) - 1),
    key=st.integers(0, 6),
    value=junk,
)
def test_whatever_a_peer_sends_is_taken_or_malformed(run, length, place, key, value):
    """A line of a real run with one field changed, or none, after any part of the run."""
    transcript = run()
    place += len(transcript.reveals) - len(small_verified_run().reveals)
    course = Schedule.of(Transcript(transcript.agreement, transcript.reveals[:length]))
    line = to_line(transcript.reveals[place])
    fields = list(line)
    if key < len(fields):
        line[fields[key]] = value
    try:
        reveal = read_reveal(line, transcript.n_features)
        course.take(reveal)
    except Malformed:
        return
    assert length == place


@given(st.data())
def test_a_single_number_that_is_changed_is_refused_or_another_answer(drawn):
    """Only answers may differ: signs, variation, counts, magnitudes, V and S_y.

    A verdict is none without all that follows from it.
    """
    transcript = drawn.draw(st.sampled_from([small_run(), small_verified_run()]))
    place = drawn.draw(st.integers(0, len(transcript.reveals) - 1))
    line = to_line(transcript.reveals[place])
    name = drawn.draw(st.sampled_from([key for key in line if key != "reveal"]))
    if isinstance(line[name], list):
        k = drawn.draw(st.integers(0, len(line[name]) - 1))
        line[name] = with_one(line[name], drawn.draw(junk), k)
    else:
        line[name] = drawn.draw(junk)
    same = json.dumps(line) == json.dumps(to_line(transcript.reveals[place]))
    course = Schedule.of(Transcript(transcript.agreement, transcript.reveals[:place]))
    try:
        reveal = read_reveal(line, transcript.n_features)
        course.take(reveal)
    except Malformed:
        assert not same
        return
    answers = ("n", "varies", "delta", "magnitude", "V", "S_y")
    assert same or name in answers or to_line(reveal) == to_line(transcript.reveals[place])


# --- Absurd agreements -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"max_steps": 10**9},
        {"max_steps": 0},
        {"levels_per_exchange": 10**9},
        {"result_bits": 7},
        {"result_bits": 45},
        {"minimum_values": -1},
        {"helpers": ("nobody",)},
    ],
    ids=str,
)
def test_an_absurd_agreement_has_no_course(change):
    with pytest.raises(Malformed):
        Schedule(replace(small_run().agreement, **change))


def test_many_features_are_replayed_by_arrays(monkeypatch):
    """20,000 features by 40 steps take a few calls per reveal, not some per feature."""
    size, calls = 20_000, []
    agreed = agreement(size, max_steps=40)
    original = exp_update

    def counted(*args):
        calls.append(len(args[0].value))
        return original(*args)

    monkeypatch.setattr(schedule_module, "exp_update", counted)
    assert isinstance(agreed.domain, Domain)
    course, rng = Schedule(agreed), np.random.default_rng(0)
    while (due := course.due) is not None:
        some, count = due.features, len(due.features)
        if due.kind is Counts:
            course.take(Counts(some, np.full(count, 100)))
        elif due.kind is Variation:
            course.take(Variation(some, np.ones(count, dtype=bool)))
        elif due.kind is Step:
            delta = rng.choice([-1, 1], count).astype(np.int8)
            course.take(Step(due.step, some, due.lmbda, delta))
        elif due.kind is Magnitudes:
            course.take(Magnitudes(some, np.full(count, 14)))
        else:
            course.take(Moments(some, [1 << 50] * count, [5] * count))
    assert course.complete
    assert len(calls) == 80, "two batches of 40 steps"
