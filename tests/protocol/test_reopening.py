"""A final opening that was accepted is opened again as it is: nothing is shared or computed."""

from __future__ import annotations

import pytest

from securefedyj.errors import PartyStopped, Unverified
from securefedyj.party.messages import Kind
from securefedyj.protocol.reveals import Final
from securefedyj.protocol.schedule import REFUTED
from tests.protocol.cheating import FOUR, NOTHING, Outcome, beginning, play, right
from tests.protocol.cheats import with_a_wrong_sign

LINES = 6
"""How many openings there are before the final one."""


class Untouched:
    """A silo whose rows nobody asks for."""


NO_ROWS = dict.fromkeys(FOUR.silos, Untouched())


def computed(start=None):
    """What an undisturbed session leaves, and the parts of its final opening that it has sent."""
    sent = {}

    def observe(message):
        if message.kind == Kind.OPENING:
            sent[message.sender, message.recipient] = message.payload
        return [message]

    return play(observe, beginning(False) if start is None else start), sent


def reopened(parts, start=None, observe=None):
    """What comes of a session in which each party gives its part of an earlier one."""
    accepted = {name: (LINES, parts.get(name, b"")) for name in FOUR.parties}
    return play(
        observe,
        beginning(False) if start is None else start,
        silos=NO_ROWS,
        accepted=accepted,
    )


def altered(part, *components):
    """The same with a bit of each of these components changed: 0, 1 or both."""
    changed = bytearray(part)
    for component in components:
        changed[component * len(part) // 2] ^= 4
    return bytes(changed)


@pytest.fixture(scope="module")
def first() -> Outcome:
    """An undisturbed session."""
    return computed()[0]


def assert_different_parts(outcome, name):
    error = outcome.errors[name]
    assert type(error) is Unverified
    assert "sent different parts of one opening" in str(error)


def test_members_keep_their_parts_and_nobody_else_does(first):
    assert first.parts.keys() == set(FOUR.committee)
    assert len({len(part) for part in first.parts.values()}) == 1
    assert len(set(first.parts.values())) == 3


def test_nothing_is_computed_and_the_same_bytes_are_sent():
    before, sent = computed()
    again, seen = {}, []

    def observe(message):
        seen.append((message.round, message.kind))
        if message.kind == Kind.OPENING:
            again[message.sender, message.recipient] = message.payload
        return [message]

    outcome = reopened(before.parts, observe=observe)
    assert outcome.accepted == {name: list(right()) for name in FOUR.parties}
    rounds = dict(seen)
    assert [rounds[turn] for turn in range(4)] == [
        Kind.HELLO, Kind.KEY, Kind.DIGEST, Kind.OPENING,
    ]  # fmt: skip
    assert len(rounds) == 4
    assert again == sent
    for name in FOUR.parties:
        assert outcome.begun[name] == [(LINES, Final)]
        assert outcome.opened[name] == [LINES]
    assert not outcome.parts, "what is kept already is not kept again"


def test_parts_of_another_opening_are_not_used(first):
    """They are of an earlier batch: what is due now is computed."""
    accepted = {name: (LINES - 1, first.parts.get(name, b"")) for name in FOUR.parties}
    outcome = play(None, beginning(False), accepted=accepted)
    assert outcome.accepted == {name: list(right()) for name in FOUR.parties}
    assert outcome.parts.keys() == set(FOUR.committee)


@pytest.mark.parametrize("cheater", FOUR.committee)
@pytest.mark.parametrize("components", [(0,), (1,), (0, 1)], ids=str)
def test_a_part_that_one_member_has_altered_is_found_by_all_who_need_it(first, cheater, components):
    """Whoever lacks a component gets it from the two members that hold it."""
    place = FOUR.committee.index(cheater)
    parts = first.parts | {cheater: altered(first.parts[cheater], *components)}
    outcome = reopened(parts)
    needing = {FOUR.committee[(place + component + 1) % 3] for component in components} | {"dua"}
    for name in FOUR.parties:
        if name in needing:
            assert_different_parts(outcome, name)
        elif name != cheater and name in outcome.accepted:
            assert outcome.accepted[name] == list(right())
        elif name != cheater:
            assert isinstance(outcome.errors[name], PartyStopped)
        assert outcome.begun[name] == [(LINES, Final)], "it is not computed after that"
        assert outcome.opened[name] == [LINES]


def test_parts_of_different_computations_are_no_result(first):
    second, _ = computed()
    for alone in FOUR.committee:
        outcome = reopened(second.parts | {alone: first.parts[alone]})
        assert not outcome.accepted
        for name in FOUR.parties:
            if name == alone:  # the others tell it the same, which does not go with what it holds
                assert type(outcome.errors[name]) is Unverified
                assert outcome.known.get(name) in (None, [*beginning(False), NOTHING])
            else:
                assert_different_parts(outcome, name)
                assert name not in outcome.known
    outcome = reopened(second.parts)
    assert outcome.accepted == {name: list(right()) for name in FOUR.parties}


def test_who_has_another_record_sends_nothing(first):
    """The digests are compared before the opening."""
    other = [*beginning(False)[:-1], {**beginning(False)[-1], "delta": [1, 1]}]
    assert other[-1] != beginning(False)[-1]
    accepted = {name: (LINES, first.parts.get(name, b"")) for name in FOUR.parties}
    outcome = play(None, beginning(False), starts={"bob": other}, silos=NO_ROWS, accepted=accepted)
    assert not outcome.accepted
    assert not outcome.opened
    told = [error for error in outcome.errors.values() if not isinstance(error, PartyStopped)]
    assert told
    for error in told:
        assert type(error) is Unverified
        assert "has another record of what was revealed" in str(error)


def test_zeros_are_opened_again_as_zeros():
    lines = with_a_wrong_sign()
    refuted, sent = computed(lines)
    assert sent
    outcome = reopened(refuted.parts, lines)
    assert not outcome.accepted
    assert {str(error) for error in outcome.errors.values()} == {REFUTED}
    assert outcome.known == {name: [*lines, NOTHING] for name in FOUR.parties}


def test_a_part_of_another_length_is_refused_where_it_is(first):
    """It is this party's own: it comes from a file that somebody has altered."""
    with pytest.raises(ValueError, match="bytes are not what a party holds"):
        reopened(first.parts | {"ana": first.parts["ana"][:-1]})
