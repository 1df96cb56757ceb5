"""A verified exchange gives the right values, and nothing before it has been checked."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from securefedyj.engines.clear import Clear
from securefedyj.engines.interface import concatenate
from securefedyj.engines.replicated.verified import VerifiedMember
from securefedyj.errors import ProtocolError, Unverified
from securefedyj.numerics import wide
from securefedyj.party.inprocess import run
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import in_lockstep
from tests.simulation import CONSORTIA, FIVE, Consortium, assemble, simulate, split, wrapped

LIMBS, SIZE = 2, 9
STEP, MOST = 8, 15
HELPERS = {
    f"helper {place}": Consortium(
        ("ana", "bob", "cem", "dua", "eva"),
        ("ana", "bob", "cem"),
        tuple(n for k, n in enumerate(("ana", "bob", "cem", "dua")) if k != place),
    )
    for place in range(3)
}
HELPERS["one silo"] = Consortium(("ana", "bob", "cem"), ("ana", "bob", "cem"), ("bob",))
ALL = {**CONSORTIA, **HELPERS}
every_consortium = pytest.mark.parametrize("consortium", ALL.values(), ids=ALL)


def values():
    w = 64 * LIMBS
    special = [0, 1, -1, 255, 256, (1 << (w - 1)) - 1, -(1 << (w - 1))]
    return special + [wrapped(secrets.randbits(w), LIMBS) for _ in range(SIZE - len(special))]


def exchange(x, y, consortium, claims=True):
    """A program that computes what can be computed, and opens all of it."""
    inputs = split([*x, *y], consortium, LIMBS)

    async def program(engine, name):
        context = engine.verified()
        shared = await context.share(inputs.get(name), size=2 * SIZE, limbs=LIMBS)
        a, b = shared[:SIZE], shared[SIZE:]
        product, total, _ = await in_lockstep(
            context.multiply(a, b),
            context.sum_of_products([(a, a), (a - b, b * 3 + 1)]),
            context.challenge(),
        )
        positive = [abs(v) >> 1 for v in x]
        measured = (a * 0) + wide.from_ints(positive, LIMBS)
        signs, bits, of_measured = await in_lockstep(
            context.negative(concatenate([a, product])),
            context.bits(product),
            context.bits(measured),
        )
        below, *_ = await in_lockstep(
            context.below_powers(of_measured, STEP, MOST),
            context.claim_below(of_measured, [v + 1 for v in positive]),
            context.claim_below(bits, bounds_of(products(x, y)), signed=True),
        )
        context.claim(signs[:SIZE], np.array([v < 0 for v in x], dtype=np.uint8))
        await context.claim_zero(product - wide.from_ints(products(x, y), LIMBS))
        context.claim(signs[:1], np.array([(x[0] < 0) ^ (not claims)], dtype=np.uint8))
        verdict = await context.verdict()
        await context.check()
        return [
            (await context.open_bits(verdict)).tolist(),
            wide.to_ints(await context.open(concatenate([product, total]))),
            (await context.open_bits(signs)).tolist(),
            (await context.open_bits(bits)).tolist(),
            (await context.open_bits(below)).tolist(),
        ]

    return program


def products(x, y):
    return [wrapped(a * b, LIMBS) for a, b in zip(x, y, strict=True)]


def bounds_of(signed):
    """The least bounds within which these are: -bound <= v < bound."""
    return [v + 1 if v >= 0 else -v for v in signed]


def expected(x, y, claims=True):
    product = products(x, y)
    total = [wrapped(a * a + (a - b) * (3 * b + 1), LIMBS) for a, b in zip(x, y, strict=True)]
    return [
        [int(claims)],
        [*product, *total],
        [int(v < 0) for v in [*x, *product]],
        [[v >> k & 1 for v in product] for k in range(64 * LIMBS)],
        [[int(abs(v) >> 1 < 1 << STEP * (k + 1)) for v in x] for k in range(MOST)],
    ]


@every_consortium
def test_everybody_opens_what_the_inputs_have(consortium):
    x, y = values(), values()
    for opened in simulate(exchange(x, y, consortium), consortium):
        assert opened == expected(x, y)


def test_the_verdict_is_0_if_one_claim_does_not_hold():
    x, y = values(), values()
    for opened in simulate(exchange(x, y, FIVE, claims=False), FIVE):
        assert opened == expected(x, y, claims=False)


@pytest.mark.parametrize("opening", ["open", "open_bits"])
def test_nothing_is_opened_before_it_is_checked(opening):
    async def program(engine, name):
        context = engine.verified()
        x = await context.share(None, size=1, limbs=1)
        await context.open(x)  # nothing was computed yet
        computed = await (context.multiply(x, x) if opening == "open" else context.negative(x))
        await getattr(context, opening)(computed)

    with pytest.raises(RuntimeError, match="before `check`"):
        simulate(program)


def kept(consortium, accept=lambda name: None, opened=None):
    """A program that keeps what it holds of a vector of bits, and opens it in another exchange."""
    x, y = values(), values()
    inputs = split([*x, *y], consortium, LIMBS)
    negative = np.array([v < 0 for v in [*x, *y]], dtype=np.uint8)
    both = negative[:SIZE] & negative[SIZE:]

    async def program(engine, name):
        context = engine.verified()
        shared = await context.share(inputs.get(name), size=2 * SIZE, limbs=LIMBS)
        signs = await context.negative(shared)
        product = await context.conjunction(signs[:SIZE], signs[SIZE:])
        vector = context.joined([signs, product])
        await context.check(lambda: accept(name))
        held, later = context.held(vector), engine.verified()
        assert bool(held) == (name in consortium.committee)
        if opened is not None:
            opened.append(name)
        return await later.open_bits(later.restored(held, 3 * SIZE))

    return program, np.concatenate([negative, both]).tolist()


@every_consortium
def test_bits_that_are_held_since_a_check_are_opened_in_another_exchange(consortium):
    program, expected = kept(consortium)
    for bits in simulate(program, consortium):
        assert bits.tolist() == expected


@every_consortium
def test_a_member_accepts_before_it_says_that_its_checks_have_passed(consortium):
    accepted, told = [], []

    def observe(message):
        if message.kind == Kind.CHECK and message.payload == b"\x01":
            assert message.sender in accepted
            told.append(message.sender)
        return [message]

    simulate(kept(consortium, accepted.append)[0], consortium, observe=observe)
    assert sorted(accepted) == sorted(consortium.committee) == sorted(set(told))


@pytest.mark.parametrize("member", [0, 1, 2])
def test_who_cannot_accept_says_nothing_and_nobody_opens(member):
    """Such as a member whose disk is full."""
    told, opened = set(), []

    def accept(name):
        if name == FIVE.committee[member]:
            raise OSError("the disk is full")

    def observe(message):
        if message.kind == Kind.CHECK and message.payload == b"\x01":
            told.add(message.sender)
        return [message]

    with pytest.raises(OSError, match="the disk is full"):
        simulate(kept(FIVE, accept, opened)[0], FIVE, observe=observe)
    assert FIVE.committee[member] not in told
    assert opened == []


def test_who_finds_a_cheat_does_not_accept():
    """A member whose gates are wrong: both others see it in the proof."""
    accepted, opened = [], []

    def observe(message):
        if message.kind == Kind.CARRY and message.sender == "ana" and message.round == 4:
            return [altered(message)]
        return [message]

    with pytest.raises(Unverified, match="A check has failed"):
        simulate(kept(CONSORTIA["three"], accepted.append, opened)[0], observe=observe)
    assert set(accepted) <= {"ana"}
    assert opened == []


@pytest.mark.parametrize("change", [-1, 1])
def test_bytes_of_another_length_are_not_what_is_held(change):
    async def program(engine, name):
        context = engine.verified()
        bits = await context.negative(await context.share(None, size=SIZE, limbs=LIMBS))
        await context.check()
        held = context.held(bits)
        return context.restored((held + b"\0")[: len(held) + change], SIZE)

    with pytest.raises(ValueError, match=r"bytes are not what a party holds of 9 bits"):
        simulate(program)


def test_values_that_were_not_shared_in_it_are_refused():
    async def program(engine, name):
        x = await engine.share(None, size=1, limbs=1)
        await engine.verified().negative(x)

    with pytest.raises(TypeError, match="was not shared in a verified exchange"):
        simulate(program)


def test_engine_clear_cannot():
    with pytest.raises(ValueError, match="cannot verify"):
        Clear("ana", ["ana"]).verified()


# --- One party cheats ------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(3))
def test_a_helper_with_an_input_is_found(place):
    consortium = HELPERS[f"helper {place}"]
    helper = consortium.committee[place]

    async def program(engine, name):
        own = wide.from_ints([1] + [0] * 4, 1) if name == helper else None
        await engine.verified().share(own, size=5, limbs=1)

    with pytest.raises(Unverified, match="the input of a helper"):
        simulate(program, consortium)


def altered(message, place=None):
    changed = bytearray(message.payload)
    changed[secrets.randbelow(len(changed)) if place is None else place] ^= 1 << secrets.randbelow(
        8
    )
    return replace(message, payload=bytes(changed))


@pytest.mark.parametrize("member", [0, 1, 2])
def test_an_outsider_that_tells_two_members_different_inputs_is_found(member):
    """Whichever of the three messages it alters, and whether in a key or in the rest."""
    for place in (0, -1):

        def observe(message, place=place):
            if (message.sender, message.recipient) != ("bob", FIVE.committee[member]):
                return [message]
            return [altered(message, place) if message.kind == Kind.INPUT else message]

        with pytest.raises(Unverified, match="the input of a party outside"):
            simulate(exchange(values(), values(), FIVE), FIVE, observe=observe)


def messages_of(x, y, consortium):
    """All that is sent in an exchange after keys were agreed on: sender, recipient, round, kind."""
    seen = []

    def observe(message):
        if not message.kind & (Kind.HELLO | Kind.KEY):
            seen.append((message.sender, message.recipient, message.round, message.kind))
        return [message]

    simulate(exchange(x, y, consortium), consortium, observe=observe)
    return seen


def outcomes(x, y, consortium, target):
    """What each party returns if one message is altered; None where it stops."""
    parties = assemble(exchange(x, y, consortium), consortium, "replicated")
    hits = []

    def observe(message):
        if (message.sender, message.recipient, message.round) != target[:3]:
            return [message]
        hits.append(message)
        return [altered(message)]

    with suppress(ProtocolError):  # and nothing else
        run(parties, observe)
    assert len(hits) == 1, target
    return {p.name: None if p.error is not None else p.result for p in parties}


@pytest.mark.parametrize("consortium", [CONSORTIA["three"], FIVE], ids=["three", "five"])
def test_no_altered_message_makes_an_honest_party_accept_anything_wrong(consortium):
    """A sample of all messages: other senders, kinds and rounds at each run of the tests.

    What the sender of an altered input gives is its own affair: then the result is another one.
    """
    x, y = values(), values()
    right = expected(x, y)
    seen = [target for target in messages_of(x, y, consortium) if target[3] != Kind.INPUT]
    first = Kind.PRODUCT | Kind.CHECK
    assert {kind for *_, kind in seen} == {first, Kind.CARRY, Kind.CHECK, Kind.OPENING}
    for _ in range(16):
        target = secrets.choice(seen)
        results = outcomes(x, y, consortium, target)
        honest = [result for name, result in results.items() if name != target[0]]
        assert all(result in (None, right) for result in honest), target
        # A high bit of the spare limb of a product is multiplied by t, and may vanish.
        assert None in honest or target[3] & Kind.PRODUCT, target


def test_a_wrong_gate_of_a_member_that_stands_by_it_is_always_found(monkeypatch):
    original = VerifiedMember.conjunction
    gates = []

    def wrong(cheater, number):
        async def conjunction(self, x, y):
            if self.held[0] != cheater:
                return await original(self, x, y)
            gates.append(None)
            if len(gates) == number:
                x = x.copy()
                x.reshape(-1)[secrets.randbelow(x.size)] ^= 1 << secrets.randbelow(8)
            return await original(self, x, y)

        return conjunction

    def count():
        gates.clear()
        monkeypatch.setattr(VerifiedMember, "conjunction", wrong(0, -1))
        simulate(exchange(values(), values(), FIVE), FIVE)
        return len(gates)

    total = count()
    assert total > 20
    for _ in range(15):
        gates.clear()
        cheater, number = secrets.randbelow(3), 1 + secrets.randbelow(total)
        monkeypatch.setattr(VerifiedMember, "conjunction", wrong(cheater, number))
        x, y = values(), values()
        try:
            opened = simulate(exchange(x, y, FIVE), FIVE)
        except ProtocolError:
            continue
        # A bit that was altered may have met a 0.
        assert all(own == expected(x, y) for own in opened)
