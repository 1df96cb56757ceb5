"""No honest party believes what one cheating party has changed: a sample, see `cheating`."""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
import pytest

from securefedyj.engines.replicated import products
from securefedyj.engines.replicated.gates import Check
from securefedyj.errors import PartyStopped, Unverified
from securefedyj.party.messages import Kind
from securefedyj.protocol.schedule import REFUTED
from tests.protocol import cheating, cheats
from tests.protocol.cheating import (
    FOUR,
    NOTHING,
    Change,
    believed,
    can_be_changed,
    labels,
    wrong_in,
)

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


def test_a_long_run_changes_every_message_of_every_round():
    every = [(m.sender, m.recipient, m.round) for w in (False, True) for m in can_be_changed(w)]
    first = [change.target for change in cheating.changes(0)]
    assert [(m.sender, m.recipient, m.round) for m in first] == every
    assert {labels(False)[m.round].split()[0] for m in can_be_changed(False)} == {
        "KEY", "INPUT+DIGEST", "PRODUCT+CARRY+CHECK", "CARRY", "CHECK", "OPENING",
    }  # fmt: skip


@pytest.mark.parametrize(("sender", "kind"), KINDS, ids=str)
def test_one_message_of_each_kind_in_the_verified_exchange(sender, kind):
    targets = [m for m in can_be_changed(False) if m.sender == sender and m.kind & kind]
    change = Change(secrets.choice(targets), False, False, secrets.choice(cheating.WAYS))
    assert wrong_in(sender, cheating.cheat(change)) is None, change


def test_messages_of_the_whole_run():
    stopped = 0
    for _ in range(12):
        change = cheating.choose(whole=True)
        outcome = cheating.cheat(change)
        assert wrong_in(change.target.sender, outcome) is None, change
        stopped += not outcome.accepted
    assert stopped


def test_a_member_can_be_the_only_one_who_has_an_opening():
    """Not prevented: made again once in a run (docs/security-details.md, section 6, rule 3)."""
    opening = sorted({m.round for m in cheating.messages(whole=True) if m.kind == Kind.OPENING})[1]

    def silent_from_its_last_product_on(message):
        silent = message.sender == "cem" and message.round >= opening - 1
        return [] if silent else [message]

    known = cheating.play(silent_from_its_last_product_on).known
    assert [len(known[name]) for name in ("ana", "bob", "dua")] == [2, 2, 2]
    assert known["cem"] == list(cheating.right()[:3])


def flipped(kind, sender, recipient):
    """Flip a bit of the last message of a kind, from one party to another."""
    target = [
        m
        for m in can_be_changed(False)
        if (m.sender, m.recipient) == (sender, recipient) and m.kind & kind
    ][-1]
    return cheating.cheat(Change(target, False, False, "bit"))


@pytest.mark.parametrize("sender", FOUR.committee)
@pytest.mark.parametrize("recipient", FOUR.parties)
def test_a_changed_part_of_the_final_opening_ends_the_run_of_who_receives_it(sender, recipient):
    """The parts that are the same come from two members: who sees others has no result."""
    if sender == recipient:
        sender = next(name for name in FOUR.committee if name != recipient)
    outcome = flipped(Kind.OPENING, sender, recipient)
    assert wrong_in(sender, outcome) is None
    error = outcome.errors[recipient]
    assert type(error) is Unverified
    assert "sent different parts of one opening" in str(error)
    assert recipient not in outcome.known, "nothing is taken from it"


@pytest.mark.parametrize("recipient", FOUR.parties)
def test_who_hears_of_another_record_computes_nothing(recipient):
    """The digest is the first part of the first message."""
    sender = next(name for name in FOUR.parties if name != recipient)

    def observe(message):
        if (message.sender, message.recipient) != (sender, recipient):
            return [message]
        if message.kind & Kind.DIGEST:
            payload = bytes([message.payload[0] ^ 1]) + message.payload[1:]
            return [replace(message, payload=payload)]
        return [message]

    outcome = cheating.play(observe, cheating.beginning(False))
    assert wrong_in(sender, outcome) is None
    error = outcome.errors.pop(recipient)
    assert type(error) is Unverified
    assert "has another record of what was revealed" in str(error)
    assert {type(error) for error in outcome.errors.values()} == {PartyStopped}
    assert not outcome.accepted
    assert not outcome.parts
    assert not outcome.opened


def test_a_claim_that_does_not_hold_opens_zeros_and_nothing_after_them():
    lines = cheats.with_a_wrong_sign()
    outcome = cheating.play(start=lines)
    assert not outcome.accepted
    assert {(type(error), str(error)) for error in outcome.errors.values()} == {
        (Unverified, REFUTED)
    }
    for name in FOUR.parties:
        assert outcome.known[name] == [*lines, NOTHING]
        assert [number for number, _ in outcome.begun[name]] == [len(lines) - 1]
        assert outcome.opened[name] == [len(lines) - 1]


ALWAYS_FOUND = (
    cheats.wrong_products,
    cheats.wrong_moment,
    cheats.false_verdict,
    cheats.other_seed,
    cheats.other_input,
    cheats.helper_with_input,
    cheats.two_vectors,
    cheats.accepted_early,
)
"""The others may do what has no effect."""


@pytest.mark.parametrize(
    ("cheat", "who"), [(cheat, who) for cheat, parties in cheats.CHEATS.items() for who in parties]
)
def test_a_cheater_that_stands_by_what_it_does(cheat, who):
    outcome = cheat(who)
    assert wrong_in(who, outcome) is None
    if cheat in ALWAYS_FOUND:
        assert outcome.changed
        honest = [name for name in FOUR.parties if name != who]
        assert not any(name in outcome.accepted for name in honest)
        assert not any(outcome.opened.get(name) for name in honest), "found before the opening"
        assert any(isinstance(outcome.errors[name], Unverified) for name in honest)


CHECKS = {
    cheats.wrong_moment: (products, "must_agree", lambda *_: None),
    cheats.false_verdict: (Check, "accepts", lambda *_: True),
    cheats.helper_with_input: (products, "must_agree", lambda *_: None),
}
"""What finds each cheat, and what does not."""


@pytest.mark.parametrize("cheat", CHECKS)
def test_without_its_check_a_cheat_is_believed(cheat, monkeypatch):
    """So that the tests above do not pass for want of a cheat."""
    where, name, instead = CHECKS[cheat]
    cheating.right()
    monkeypatch.setattr(where, name, instead)
    for who in cheats.CHEATS[cheat]:
        assert believed(who, cheat(who)) is not None


def test_in_a_run_that_is_not_verified_a_wrong_product_is_believed():
    """A member adds something to what it shares anew, and stands by it."""
    wrong = 0
    plain = cheating.play(verified=False).accepted["ana"]

    def change(engine):
        original, now = engine._role.reshare, cheats.Nth(6)

        async def reshare(ring, kind, term):
            if kind == Kind.PRODUCT and now():
                term = ring.add(term, cheats.noise(term.shape, np.uint64) >> np.uint64(40))
            return await original(ring, kind, term)

        engine._role.reshare = reshare

    for _ in range(12):
        outcome = cheating.play(verified=False, tamper=cheats.of("bob", change))
        wrong += any(lines != plain for lines in outcome.accepted.values())
    assert wrong


@pytest.mark.parametrize("methods", [name for name in cheating.GAMES if name != "yeo-johnson"])
def test_messages_of_runs_with_other_methods(methods):
    """Half of them in the verified exchange alone. `cheating --game` does more."""
    with cheating.game(methods):
        for number in range(16):
            change = cheating.choose(whole=number % 2 == 0)
            assert wrong_in(change.target.sender, cheating.cheat(change)) is None, change
