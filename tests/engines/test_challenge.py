"""False claims do not cancel: nobody knows how claims are combined before all inputs are fixed."""

from __future__ import annotations

import secrets
from collections import deque
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from securefedyj.engines.replicated.keystream import Keystream
from securefedyj.engines.replicated.products import open_random
from securefedyj.engines.replicated.shares import INTEGERS
from securefedyj.engines.replicated.verified import VerifiedMember, VerifiedOutsider
from securefedyj.errors import ProtocolError, Stalled, Unverified
from securefedyj.numerics import wide
from securefedyj.party.inprocess import run
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import in_lockstep
from tests.simulation import FIVE, THREE, TWO, Recorder, assemble, simulate

SIZE = 72  # more than there are subsets
MEMBERS = range(3)


def claims_of_zero(false, consortium=THREE):
    """A program that claims that all values are zero; one silo gives 1 for those named."""
    liar = consortium.silos[0]

    async def program(engine, name):
        exchange = engine.verified()
        own = wide.from_ints([int(k in false) for k in range(SIZE)], 1) if name == liar else None
        x = await exchange.share(own, size=SIZE, limbs=1)
        await in_lockstep(exchange.claim_zero(x), exchange.challenge())
        verdict = await exchange.verdict()
        await exchange.check()
        return (await exchange.open_bits(verdict)).tolist()

    return program


@pytest.mark.parametrize("consortium", [THREE, FIVE, TWO], ids=["three", "five", "two"])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, SIZE - 1, SIZE])
def test_any_number_of_false_claims_is_found(number, consortium):
    """Also an even one, which one sum of all claims would miss."""
    false = secrets.SystemRandom().sample(range(SIZE), number)
    opened = simulate(claims_of_zero(false, consortium), consortium)
    assert opened == [[int(number == 0)]] * len(consortium.parties)


def cancelling(words):
    """Positions of words whose sum is zero; there are such if there are more than 64 words."""
    reduced: dict[int, tuple[int, int]] = {}  # by the highest bit: a sum of words, and which
    for place, word in enumerate(words):
        positions = 1 << place
        while word and word.bit_length() in reduced:
            other, of_other = reduced[word.bit_length()]
            word, positions = word ^ other, positions ^ of_other
        if not word:
            return [k for k in range(len(words)) if positions >> k & 1]
        reduced[word.bit_length()] = word, positions
    raise AssertionError("No words cancel.")


def test_who_knows_the_subsets_makes_up_inputs_whose_false_claims_cancel(monkeypatch):
    """Why they are opened after the inputs: the same inputs are found if nobody knew them."""
    words = Keystream(bytes(32)).draw((SIZE,), np.dtype("<u8")).tolist()
    false = cancelling(words)
    assert false
    assert simulate(claims_of_zero(false)) == [[0]] * 3

    async def known(self, original=VerifiedMember.challenge):
        await original(self)
        return bytes(32)

    monkeypatch.setattr(VerifiedMember, "challenge", known)
    assert simulate(claims_of_zero(false)) == [[1]] * 3
    assert simulate(claims_of_zero(false[1:])) == [[0]] * 3


def test_the_order_of_inputs_challenge_and_verdict_is_kept():
    async def no_challenge(engine, name):
        exchange = engine.verified()
        await exchange.claim_zero(await exchange.share(None, size=1, limbs=1))
        await exchange.verdict()

    with pytest.raises(ValueError, match="key"):
        simulate(no_challenge)

    async def late_input(engine, name):
        exchange = engine.verified()
        await exchange.share(None, size=1, limbs=1)
        await exchange.challenge()
        await exchange.share(None, size=1, limbs=1)

    with pytest.raises(RuntimeError, match="after `challenge`"):
        simulate(late_input)


# --- A member that does not follow the protocol ----------------------------------------------


def recorded(program, consortium):
    recorder = Recorder()
    simulate(program, consortium, observe=recorder)
    return recorder.messages


def rounds_of(consortium):
    """That of the words that all inputs are there, and that of the seed."""
    messages = recorded(claims_of_zero([], consortium), consortium)
    word, seed, *_ = sorted({m.round for m in messages if m.kind == Kind.CARRY | Kind.CHECK})
    return word, seed


def outcome(observe, consortium):
    parties = assemble(claims_of_zero([0], consortium), consortium, "replicated")
    with suppress(ProtocolError):  # and nothing else
        run(parties, observe)
    return {party.name: party for party in parties}


@pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
@pytest.mark.parametrize("to", [1, -1])
@pytest.mark.parametrize("cheater", MEMBERS)
def test_another_part_of_the_seed_ends_the_run(cheater, to, consortium):
    committee, (_, seed) = consortium.committee, rounds_of(consortium)
    sender, recipient = committee[cheater], committee[(cheater + to) % 3]

    def observe(message):
        if (message.sender, message.recipient, message.round) != (sender, recipient, seed):
            return [message]
        *others, last = message.payload
        return [replace(message, payload=bytes([*others, last ^ 1 << secrets.randbelow(8)]))]

    parties = outcome(observe, consortium)
    error = parties[recipient].error
    assert (type(error), error.code) == (Unverified, "SFY-ENG-025")
    assert all(party.error is not None for party in parties.values())


@pytest.mark.parametrize("cheater", MEMBERS)
def test_a_part_of_the_seed_in_an_earlier_round_ends_the_run(cheater):
    """In place of the word that all inputs are there."""
    word, _ = rounds_of(FIVE)
    sender, recipient = FIVE.committee[cheater], FIVE.committee[(cheater + 1) % 3]
    part = secrets.token_bytes(32)

    def observe(message):
        if (message.sender, message.recipient, message.round) != (sender, recipient, word):
            return [message]
        return [replace(message, payload=part)]

    parties = outcome(observe, FIVE)
    assert isinstance(parties[recipient].error, ProtocolError)
    assert all(party.error is not None for party in parties.values())


async def inputs_then_challenge(engine, name):
    exchange = engine.verified()
    x = await exchange.share(None, size=SIZE, limbs=1)
    await in_lockstep(exchange.claim_zero(x), exchange.challenge())


def seed_is_sent(puppets, consortium, withheld=None):
    """Whether an honest member sends its part of the seed although an input is withheld.

    Puppets wait for nothing: they say at once what they have said in another session.
    """
    before = recorded(inputs_then_challenge, consortium)
    seed = max(message.round for message in before if message.kind & Kind.CHECK)
    parties = assemble(inputs_then_challenge, consortium, "replicated")
    honest = {party.name: party for party in parties if party.name not in puppets}
    in_flight = deque(
        replace(message, session=parties[0]._session)
        for message in before
        if message.sender in puppets
        and (message.kind != Kind.INPUT or (message.sender, message.recipient) != withheld)
    )
    for party in honest.values():
        in_flight.extend(party.start())
    sent = False
    while in_flight:
        message = in_flight.popleft()
        sent |= message.sender in honest and message.round == seed and message.kind != Kind.STOP
        if message.recipient in honest:
            in_flight.extend(honest[message.recipient].receive(message))
    for party in parties:
        party.stop(Stalled("The test is over."))
    return sent


RUSHING = [
    (consortium, {consortium.committee[member], *outsiders})
    for consortium, outsiders in ((THREE, ()), (FIVE, ("bob", "eva")))
    for member in MEMBERS
]


def withheld_inputs(puppets, consortium):
    """All inputs of puppets to honest members."""
    return sorted(
        (message.sender, message.recipient)
        for message in recorded(inputs_then_challenge, consortium)
        if message.kind == Kind.INPUT
        and message.sender in puppets
        and message.recipient not in puppets
    )


@pytest.mark.parametrize(("consortium", "puppets"), RUSHING)
def test_no_part_of_the_seed_is_sent_before_all_honest_members_have_all_inputs(consortium, puppets):
    """Not even if a member colludes with all parties outside of the committee."""
    assert seed_is_sent(puppets, consortium)
    pairs = withheld_inputs(puppets, consortium)
    assert pairs
    for withheld in pairs:
        assert not seed_is_sent(puppets, consortium, withheld), withheld


@pytest.mark.parametrize(("consortium", "puppets"), RUSHING)
def test_without_the_words_it_would_be(consortium, puppets, monkeypatch):
    async def at_once(self):
        return INTEGERS.to_bytes(await open_random(self._member, 4))

    async def passed(self):
        await self._pass((32,))

    monkeypatch.setattr(VerifiedMember, "challenge", at_once)
    monkeypatch.setattr(VerifiedOutsider, "challenge", passed)
    pairs = withheld_inputs(puppets, consortium)
    assert any(seed_is_sent(puppets, consortium, withheld) for withheld in pairs)
