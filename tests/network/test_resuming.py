"""Where a session resumes, in a verified run with a party outside of the committee."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from securefedyj.errors import ProtocolError
from securefedyj.network.errors import EndOfRun, JoinError, NotVerified
from securefedyj.network.session.memory import HeldPart, Memory, part_is_lost
from securefedyj.network.session.records import NO_SESSION, Begin, read, write
from securefedyj.network.session.resuming import (
    begin_of,
    hand_over,
    reopens,
    starting_point,
    take_over,
)
from securefedyj.numerics.encoding import Domain
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import Final, to_line
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript

SESSION = "ef" * 16
PARTIES = ("ana", "bob", "cem", "dua")
AGREEMENT = Agreement(
    features=("x",),
    domain=Domain.from_bounds((0.0, 9.0), 1),
    parties=PARTIES,
    committee=PARTIES[:3],
    engine="replicated",
    max_steps=3,
    levels_per_exchange=3,
    result_bits=44,
    minimum_values=0,
    verified=True,
)


@functools.lru_cache
def whole() -> Transcript:
    rows = np.arange(1.0, 9.0)[:, None]
    return simulate(AGREEMENT, np.array_split(rows, len(PARTIES)))[0]


def memory(lacking: int, *, member: bool = True) -> Memory:
    """Of a party that takes part in the verified exchange, and lacks the end of it."""
    known, reveals = Memory(AGREEMENT, member=member), whole().reveals
    for number in range(len(reveals) - lacking + 1):
        before = Transcript(AGREEMENT, reveals[:number])
        if number in (0, 1, len(reveals) - 1):
            known.exchange(before)
        if number < len(reveals) - lacking:
            known.take([reveals[number]])
    return known


def what_it_has(known: Memory) -> Begin:
    return begin_of(known, SESSION)


def start_of(known: Memory, claims: dict[str, Begin]) -> Begin:
    return starting_point(known, what_it_has(known), claims)


def claim(lacking: int) -> Begin:
    return what_it_has(memory(lacking))


@pytest.mark.parametrize("ahead", [("bob", "cem"), ("ana", "cem"), ("ana", "bob", "dua")])
def test_what_two_members_have_is_taken(ahead):
    own = memory(0 if "ana" in ahead else 1)
    claims = {name: claim(0 if name in ahead else 1) for name in PARTIES[1:]}
    assert start_of(own, claims).reveals == len(whole().reveals)


@pytest.mark.parametrize("ahead", [("cem", "dua"), ("dua",), ("cem",)])
def test_nobody_takes_a_result_from_a_member_and_an_outsider(ahead):
    """One of two members may cheat, and then no honest member has verified what they hand on."""
    claims = {name: claim(0 if name in ahead else 1) for name in PARTIES[1:]}
    assert start_of(memory(1), claims).reveals == len(whole().reveals) - 1


def test_nor_does_a_party_outside_take_it_from_one_member():
    claims = {name: claim(1) for name in ("ana", "bob")} | {"cem": claim(0)}
    start = start_of(memory(1, member=False), claims)
    assert start.reveals == len(whole().reveals) - 1


PART: dict[str, Any] = {"accepted": len(whole().reveals) - 1, "computed": "ab" * 16}


def held(*parts: dict[str, Any], **changes: Any) -> list[Begin]:
    """What three members say that have accepted parts of a final opening, or none."""
    return [replace(claim(1), **{**part, **changes}) for part in parts]


@pytest.mark.parametrize("sending", [False, True])
def test_parts_that_all_members_have_accepted_are_sent_as_they_are(sending):
    members = held(PART, PART, PART, sending=sending)
    assert reopens(claim(1), [*members, claim(1)], members)
    ahead = replace(claim(0), **PART)
    assert reopens(claim(1), [ahead, *members], [ahead, *members[:2]])


OTHERS: dict[str, dict[str, Any]] = {
    "none": {},
    "of another session": {**PART, "computed": "cd" * 16},
    "of an earlier opening": {**PART, "accepted": 1},
}


@pytest.mark.parametrize("other", OTHERS)
def test_otherwise_it_is_computed_again_only_if_nobody_has_sent_a_part(other):
    members = held(PART, PART, OTHERS[other])
    assert not reopens(claim(1), [*members, claim(1)], members)
    for sent in (replace(claim(1), sending=True), claim(0)):
        with pytest.raises(EndOfRun) as caught:
            reopens(claim(1), [*members, sent], members)
        assert str(caught.value) == str(part_is_lost(PART["accepted"]))


@pytest.mark.parametrize("part", [{}, OTHERS["of an earlier opening"]])
def test_what_all_hold_of_no_opening_or_another_one_opens_nothing(part):
    members = held(part, part, part)
    assert not reopens(claim(1), members, members)


def test_who_has_sent_its_part_accepts_no_other():
    known, before = memory(1), Transcript(AGREEMENT, whole().reveals[:-1])
    known.begin(len(before.reveals), "ab" * 16)
    known.accepted(before, b"first")
    known.begin(len(before.reveals), "cd" * 16)
    known.accepted(before, b"second")
    part = HeldPart(PART["accepted"], "cd" * 16, b"second".hex())
    assert (known.part, known.repeats) == (part, [])
    assert part.bits not in repr(known.part)
    known.opening(before)
    known.begin(len(before.reveals), "ef" * 16)
    with pytest.raises(EndOfRun) as caught:
        known.accepted(before, b"third")
    assert caught.value.code == "SFY-JOIN-030"
    known.begin(len(before.reveals), "ef" * 16, reopening=True)
    known.opening(before)
    assert known.repeats == []
    own = what_it_has(known)
    assert (own.accepted, own.computed) == (PART["accepted"], "cd" * 16)


def test_who_is_outside_of_the_committee_holds_nothing():
    known, before = memory(1, member=False), Transcript(AGREEMENT, whole().reveals[:-1])
    known.begin(len(before.reveals), "ab" * 16)
    known.accepted(before, b"")
    assert known.part is None
    own = what_it_has(known)
    assert (own.accepted, own.computed) == (0, NO_SESSION)


def test_which_opening_ends_a_batch():
    known = memory(0)
    ends = [known.ends_batch(length) for length in range(len(whole().reveals) + 1)]
    assert ends == [False] * (len(ends) - 2) + [True, False]


NOT_VERIFIED = dataclasses.replace(AGREEMENT, verified=False)


@functools.lru_cache
def begun(length: int) -> Begin:
    """Of a party in the first exchange of a search, in a run that is not verified."""
    return what_it_has(_begun(length))


def _begun(length: int) -> Memory:
    known, reveals = Memory(NOT_VERIFIED), whole().reveals
    for number in range(length + 1):
        if number in (0, 1):
            known.exchange(Transcript(NOT_VERIFIED, reveals[:number]))
        if number < length:
            known.take([reveals[number]])
    return known


@pytest.mark.parametrize(
    ("own", "others", "start"),
    [(3, (3, 2, 2), 3), (2, (3, 3, 2), 3), (2, (2, 2, 3), 2), (1, (2, 3, 3), 3), (3, (3, 3, 3), 3)],
)
def test_of_four_parties_too_the_most_that_two_have_is_the_start(own, others, start):
    """Not the least: what two have opened is never opened again."""
    claims = dict(zip(PARTIES[1:], map(begun, others), strict=True))
    assert start_of(_begun(own), claims).reveals == start


@pytest.mark.parametrize("ahead", ["ana", "dua"])
def test_an_end_of_two_openings_that_one_party_has_is_not_made_again(ahead):
    claims = {name: begun(4 if name == ahead else 2) for name in PARTIES[1:]}
    with pytest.raises(JoinError, match="One party has 4 openings of this run, and all others"):
        start_of(_begun(4 if ahead == "ana" else 2), claims)


def test_nobody_has_less_than_nothing():
    with pytest.raises(ProtocolError, match=r"^Party bob sent a record of type 3 we "):
        read("bob", write(replace(begun(2), reveals=-1)))


def test_only_who_lacks_something_that_we_have_is_handed_it():
    known = _begun(3)
    start = what_it_has(known)
    assert hand_over(known, SESSION, start, 3) is None
    for has in (0, 2):
        handover = hand_over(known, SESSION, start, has)
        assert handover is not None
        assert handover.first == has
        taken = take_over(_begun(has), handover, start, "bob")
        assert list(map(to_line, taken)) == list(map(to_line, known.transcript.reveals[has:]))
    assert hand_over(_begun(2), SESSION, start, 0) is None, "we have not all of it"


@pytest.mark.parametrize("holds", [True, False])
def test_a_run_that_was_refuted_has_no_outcome(holds):
    """Whoever comes back with such a record ends as all others did, and nothing is opened again."""
    known, final = memory(1), whole().reveals[-1]
    assert isinstance(final, Final)
    nothing = Final(final.features, False, 0 * final.magnitude, [0], [0])
    known.take([final if holds else nothing])
    assert known.finished
    if holds:
        assert known.outcome().to_text() == whole().to_text()
    else:
        with pytest.raises(NotVerified):
            known.outcome()


@pytest.mark.parametrize(
    "change", [{"first": 1}, {"lines": []}, {"digest": "0" * 64}, {"reveals": 4}], ids=str
)
def test_what_is_handed_on_is_all_of_it_from_where_we_are(change):
    known = _begun(3)
    start = what_it_has(known)
    handover = hand_over(known, SESSION, start, 2)
    assert handover is not None
    of_start = {name: value for name, value in change.items() if hasattr(start, name)}
    fields = {name: value for name, value in change.items() if not hasattr(start, name)}
    with pytest.raises(JoinError, match="Party bob handed over a different transcript") as caught:
        take_over(_begun(2), replace(handover, **fields), replace(start, **of_start), "bob")
    assert caught.value.code == "SFY-JOIN-015"
