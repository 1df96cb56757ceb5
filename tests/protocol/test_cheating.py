"""No honest party believes what one cheating party has changed: a sample, see `cheating`."""

from __future__ import annotations

import secrets

import numpy as np
import pytest

from securefedyj.engines.replicated.shares import Member
from securefedyj.engines.replicated.verified import VerifiedMember
from securefedyj.party.messages import Kind
from tests.protocol import cheating

KINDS = sorted(
    {
        (sender, kind)
        for sender, kinds in {
            "ana": (Kind.KEY, Kind.INPUT, Kind.PRODUCT, Kind.CARRY, Kind.CHECK, Kind.OPENING),
            "bob": (Kind.KEY, Kind.INPUT, Kind.PRODUCT, Kind.CARRY, Kind.CHECK, Kind.OPENING),
            "cem": (Kind.KEY, Kind.INPUT, Kind.PRODUCT, Kind.CARRY, Kind.CHECK, Kind.OPENING),
            "dua": (Kind.KEY, Kind.INPUT),
        }.items()
        for kind in kinds
    }
)


def test_the_sample_has_all_kinds_of_messages():
    sent = {(m.sender, kind) for m in cheating.messages(whole=False) for kind in m.kind}
    assert {pair for pair in sent if pair[1] not in (Kind.HELLO, Kind.DIGEST)} == set(KINDS)


@pytest.mark.parametrize(("sender", "kind"), KINDS, ids=str)
def test_one_message_of_each_kind_in_the_verified_exchange(sender, kind):
    targets = [m for m in cheating.messages(whole=False) if m.sender == sender and m.kind & kind]
    target = secrets.choice(targets)
    outcome = cheating.cheat(target, whole=False)
    wrong = cheating.believed(target, outcome)
    assert wrong is None or cheating.is_input(target), (target, wrong)


def test_messages_of_the_whole_run():
    stopped = 0
    for _ in range(12):
        target = cheating.choose(whole=True)
        outcome = cheating.cheat(target, whole=True)
        wrong = cheating.believed(target, outcome)
        assert wrong is None or cheating.is_input(target), (target, wrong)
        stopped += not outcome.accepted
    assert stopped


def test_a_member_can_be_the_only_one_who_has_an_opening():
    """Not prevented: made again once in a run (docs/security.md, section 6, rule 3)."""
    opening = sorted({m.round for m in cheating.messages(whole=True) if m.kind == Kind.OPENING})[1]

    def silent_from_its_last_product_on(message):
        silent = message.sender == "cem" and message.round >= opening - 1
        return [] if silent else [message]

    known = cheating.play(silent_from_its_last_product_on).known
    assert [len(known[name]) for name in ("ana", "bob", "dua")] == [2, 2, 2]
    assert known["cem"] == list(cheating.right()[:3])


def falsify(place, kind, number, terms):
    """A member that adds something to what it shares anew, and stands by it."""
    seen = []

    async def reshare(self, ring, its_kind, term, original=Member.reshare):
        if self.held[0] == place and its_kind == kind:
            seen.append(None)
            if len(seen) == number:
                term = ring.add(term, terms(ring, term))
        return await original(self, ring, its_kind, term)

    return reshare


def anything(ring, term):
    return np.frombuffer(secrets.token_bytes(term.nbytes), ring.dtype).reshape(term.shape)


def one_bit(ring, term):
    error = np.zeros(term.shape, ring.dtype)
    error.reshape(-1)[secrets.randbelow(error.size)] = 1
    return error


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("terms", [anything, one_bit])
@pytest.mark.parametrize("kind", [Kind.PRODUCT, Kind.CARRY])
def test_a_member_that_computes_something_else(place, terms, kind, monkeypatch):
    """In the search, where a wrong sign leads elsewhere, or at the end: a result is right."""
    rights = 0
    for number in (1, 2, 3, 4, 5):
        monkeypatch.setattr(Member, "reshare", falsify(place, kind, number, terms))
        outcome = cheating.play()
        monkeypatch.undo()
        for name, lines in outcome.accepted.items():
            assert name in cheating.FOUR.parties
            assert lines == list(cheating.right())
        rights += len(outcome.accepted) == 4
    if terms is anything and kind is Kind.PRODUCT:
        assert rights < 5, "all signs of an exchange at random do not go unnoticed"


@pytest.mark.parametrize("place", range(3))
def test_a_member_that_computes_other_gates(place, monkeypatch):
    original = VerifiedMember.conjunction
    for number in (1, 2, 5, 9, 14):
        seen = []

        async def conjunction(self, x, y, number=number, seen=seen):
            if self.held[0] == place:
                seen.append(None)
                if len(seen) == number:
                    y = y ^ np.uint8(255)
            return await original(self, x, y)

        monkeypatch.setattr(VerifiedMember, "conjunction", conjunction)
        outcome = cheating.play(start=cheating.right()[: -cheating.BEFORE_THE_END])
        monkeypatch.undo()
        assert len(seen) >= number
        assert outcome.accepted == {}
