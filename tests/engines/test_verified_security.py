"""What one party sees of a verified exchange tells nothing, as in `test_replicated_security`.

Payloads that must be noise are inputs, products, conjunctions, masked factors, proofs and the
evaluations of polynomials; of the masked factors also what they open to. The rest is public
(a random factor, challenges, the list of products, the word that all is well) or a hash of what
the receiver has itself: too short to tell anything else. Openings have tests of their own.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from securefedyj.engines.additive import bit_planes
from securefedyj.engines.replicated import inputs
from securefedyj.engines.replicated.gates import Check, Draws
from securefedyj.engines.replicated.keystream import Keystream
from securefedyj.engines.replicated.products import Products
from securefedyj.engines.replicated.shares import INTEGERS, Member
from securefedyj.engines.replicated.verified import VerifiedMember
from securefedyj.errors import ProtocolError
from securefedyj.numerics import wide
from securefedyj.party.messages import Kind
from tests.engines.test_replicated_security import BARE, INPUTS, NoMask, findings, keystreams
from tests.simulation import FIVE, THREE, Recorder, simulate

LIMBS, SIZE = 2, 160
ALONE = replace(FIVE, silos=("bob",))  # outside, and without masks among silos
PUBLIC = {0: 32, 1: 8 + 16}  # at the front: the list of products; random factor and challenge
SHORT = 48  # a hash, or a challenge behind the list of products


def leaks(consortium, value, monkeypatch, *, broken=False, given_before=False):
    """Run an exchange on inputs all equal to `value`; return what in any view is not noise."""
    shares = [components_of([value] * SIZE) for _ in range(2)]
    recorder = Recorder()
    drawn, held, opened, given = defaultdict(list), {}, defaultdict(list), defaultdict(list)
    guessed = []

    def draw(self, shape, dtype, original=Keystream.draw):
        numbers = original(self, shape, dtype)
        drawn[self].append(numbers.tobytes())
        return numbers

    def set_aside(self, shape, dtype, original=Keystream.set_aside):
        later = original(self, shape, dtype)
        drawn[self].append(later().tobytes())
        return later

    async def open_differences(self, t, factors, original=Products._open_differences):
        rho = await original(self, t, factors)
        name = self._member.committee[self._member.held[0]]
        opened[name] += [("opened factor", INTEGERS.to_bytes(one)) for one in rho]
        return rho

    def given_to(payload, components, shape, original=inputs._given):
        parts = original(payload, components, shape)
        for i, part in zip(components, parts, strict=True):
            given[components] += [INTEGERS.to_bytes(part)] if i < 2 else []
        return parts

    def unmasked(of, mask):
        """What a member would send in a proof without a mask: who knew all inputs would know it."""

        def send(self, *challenge):
            left_out = [zeroed(draws, mask) for draws in (self._own, self._other)]
            check = Check(self._recorded, self.layout, *left_out)
            # A proof begins with its challenge, which is public.
            guessed.append(of(check, *challenge)[sum(map(len, challenge)) :])
            return of(self, *challenge)

        return send

    async def program(engine, name):
        context = engine.verified()
        own = wide.from_ints([value] * SIZE, LIMBS) if name in consortium.silos else None
        if given_before:
            x, y = (given_in(context, name, consortium, parts) for parts in shares)
        else:
            x = await context.share(own, size=SIZE, limbs=LIMBS)
            y = await context.share(own, size=SIZE, limbs=LIMBS)
        product = await context.sum_of_products([(x, y), (y, x)])
        await context.challenge()
        signs = await context.negative(product)
        below = await context.below_powers(await context.bits(x), 8, 4)
        context.claim(signs, np.zeros(SIZE, dtype=np.uint8))
        await context.claim_zero(x)
        verdict = await context.verdict()
        components = [c for one in (x, y, product) for c in one.components]
        planes = [bit_planes(form).tobytes() for c in components for form in (c, wide.negate(c))]
        held[name] = keystreams(engine), planes
        await context.check()
        await context.open_bits(verdict)
        await context.open_bits(below)

    with monkeypatch.context() as patch:
        patch.setattr(Keystream, "draw", draw)
        patch.setattr(Keystream, "set_aside", set_aside)
        patch.setattr(Products, "_open_differences", open_differences)
        patch.setattr(inputs, "_given", given_to)
        patch.setattr(Check, "evaluations", unmasked(Check.evaluations, "left"))
        patch.setattr(Check, "proof", unmasked(Check.proof, "share"))
        with suppress(*[ProtocolError] * broken):
            simulate(program, consortium, observe=recorder)
    found = set()
    for receiver, (streams, components) in held.items():
        known = [numbers for stream in streams for numbers in drawn[stream]] + components + guessed
        if receiver in consortium.committee:
            i = consortium.committee.index(receiver)
            known += given[i, (i + 1) % 3]
        received = [*opened[receiver], *_secret_parts(recorder.messages, receiver, consortium)]
        found |= findings(received, known)
    assert held.keys() == set(consortium.parties)
    return found


def components_of(values):
    """Three components that sum to the values."""
    first, second = (noise_of(len(values)) for _ in range(2))
    rest = wide.subtract(wide.subtract(wide.from_ints(values, LIMBS), first), second)
    return [first, second, rest]


def noise_of(size):
    return np.frombuffer(secrets.token_bytes(8 * LIMBS * size), np.uint64).reshape(LIMBS, size)


def given_in(context, name, consortium, parts):
    """A vector whose components the members hold before the exchange."""
    held = None
    if name in consortium.committee:
        i = consortium.committee.index(name)
        held = np.stack([parts[i], parts[(i + 1) % 3]])
    return context.given(held, size=SIZE, limbs=LIMBS)


def _secret_parts(messages, receiver, consortium):
    """What a party receives and must be noise, by its kind."""
    own = [m for m in messages if m.recipient == receiver]
    last = max(m.round for m in messages if m.kind == Kind.CHECK)  # the word that all is well
    for message in own:
        if message.kind & (Kind.HELLO | Kind.KEY | Kind.OPENING | Kind.STOP):
            continue
        if message.kind != Kind.CHECK:
            keys = {1: 32, 0: 64}.get(consortium.committee.index(receiver), 0)
            outside = message.sender not in consortium.committee
            yield str(message.kind), message.payload[keys if outside else 0 :]
            continue
        secret = message.payload[PUBLIC.get(message.round - last + 4, 0) :]
        if len(message.payload) > SHORT:
            label = {-4: "evaluations", -3: "proof", -2: "masked factor"}
            yield label[message.round - last], secret


CASES = {"three": THREE, "five": FIVE, "bare": BARE, "alone": ALONE}


@pytest.mark.parametrize(
    ("consortium", "value"), [*((name, "zeros") for name in CASES), ("five", "huge")]
)
def test_the_view_of_every_party_is_noise(consortium, value, monkeypatch):
    assert leaks(CASES[consortium], wide_enough(INPUTS[value]), monkeypatch) == set()


@pytest.mark.parametrize("value", ["zeros", "huge"])
def test_the_view_of_what_is_given_is_noise(value, monkeypatch):
    """Components that serve exchange after exchange: whatever is sent has fresh masks."""
    value = wide_enough(INPUTS[value])
    for name in ("three", "five"):
        assert leaks(CASES[name], value, monkeypatch, given_before=True) == set()


def wide_enough(value):
    return value & ((1 << (64 * LIMBS - 2)) - 1)


def test_all_that_is_secret_is_looked_at(monkeypatch):
    """Kinds of payloads at a member, with an exchange in which each must be there."""
    recorder = Recorder()

    async def program(engine, name):
        context = engine.verified()
        x = await context.share(None, size=SIZE, limbs=LIMBS)
        await context.negative(await context.multiply(x, x))
        await context.check()

    simulate(program, FIVE, observe=recorder)
    labels = {label for label, _ in _secret_parts(recorder.messages, "ana", FIVE)}
    expected = {"INPUT", "PRODUCT", "CARRY", "evaluations", "proof", "masked factor"}
    assert labels == expected
    assert {label for label, _ in _secret_parts(recorder.messages, "bob", FIVE)} == set()


def no_masks(self, ring, shape):
    return np.zeros((2, *shape), ring.dtype)


async def factors_unmasked(self, x, y, original=Products.sum_of_products):
    """c = a y with a = 0: rho is t x."""
    return await unmasked_draws(self, x, y, original)


async def gates_unmasked(self, x, y, original=VerifiedMember.conjunction):
    return await unmasked_draws(self, x, y, original)


async def unmasked_draws(self, x, y, original):
    self._member.set_aside = lambda ring, shape: partial(no_masks, self, ring, shape)
    result = await original(self, x, y)
    del self._member.set_aside
    return result


def zeroed(draws, mask):
    """The draws with one mask that is zero."""
    known = getattr(draws, mask)
    zeros = np.zeros_like(known() if callable(known) else known)
    return replace(draws, **{mask: (lambda: zeros) if callable(known) else zeros})


def without(mask):
    """Draws for the proofs of which one is zero."""

    def of(cls, keystream, layout, original=Draws.of):
        return zeroed(original(keystream, layout), mask)

    return classmethod(of)


class Bare(Keystream):
    def draw(self, shape, dtype):
        return NoMask().draw(shape, dtype)


BROKEN = {
    "no masks": (THREE, Member, "draw", no_masks, ("INPUT", "not uniform")),
    "factors": (
        THREE, Products, "sum_of_products", factors_unmasked, ("opened factor", "not uniform"),
    ),
    "gates": (THREE, VerifiedMember, "conjunction", gates_unmasked, ("CARRY", "not uniform")),
    "evaluations": (THREE, Draws, "of", without("left"), ("evaluations", "mask known")),
    "proofs": (THREE, Draws, "of", without("share"), ("proof", "mask known")),
    "outsiders": (ALONE, inputs, "Keystream", Bare, ("INPUT", "not uniform")),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_engine_is_caught(fault, monkeypatch):
    consortium, owner, name, replacement, leak = BROKEN[fault]
    monkeypatch.setattr(owner, name, replacement)
    assert leak in leaks(consortium, 0, monkeypatch, broken=True)
