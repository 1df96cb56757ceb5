"""Checked products: one member cannot falsify them, and their check tells nothing."""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
import pytest

from securefedyj.engines.additive import additive
from securefedyj.engines.replicated import products as module
from securefedyj.engines.replicated.products import Products, check_sizes
from securefedyj.engines.replicated.shares import INTEGERS, Member
from securefedyj.errors import Unverified
from securefedyj.numerics import wide
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import play_round
from tests.simulation import FIVE, THREE, Recorder, simulate, wrapped

LIMBS, SIZE = 3, 4  # of which the highest limb is to spare


async def products(engine, name, values):
    """x_0 y_0 + x_1 y_1 and its square, checked; then opened."""
    own = wide.from_ints(values, LIMBS) if name == "ana" else None
    shared = additive(await engine.share(own, size=4 * SIZE, limbs=LIMBS))
    role = engine._role
    if not isinstance(role, Member):
        for _ in range(2):
            await play_round(Kind.PRODUCT, {}, {})
        for _ in check_sizes(0):
            await play_round(Kind.CHECK, {}, {})
        return await role.open(INTEGERS, shared.components[:, :, :SIZE])
    checked = Products(role)
    x, y = np.split(shared.components.reshape(2, LIMBS, 4, SIZE), 2, axis=2)
    z = await checked.sum_of_products(x, y)
    again = await checked.sum_of_products(z[:, :, None], z[:, :, None])
    await checked.check()
    assert not len(checked)
    return await role.open(INTEGERS, again)


def run(consortium=THREE, observe=None):
    """What is opened, and what it should be, both without the highest limb."""
    values = [wrapped(secrets.randbits(64 * LIMBS), LIMBS) for _ in range(4 * SIZE)]
    parts = [values[k * SIZE : (k + 1) * SIZE] for k in range(4)]
    expected = [wrapped((a * c + b * d) ** 2, LIMBS - 1) for a, b, c, d in zip(*parts, strict=True)]
    opened = simulate(
        lambda engine, name: products(engine, name, values), consortium, observe=observe
    )
    return [wide.to_ints(x.astype(np.uint64)[:-1]) for x in opened], expected


@pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
def test_right_products_pass(consortium):
    opened, expected = run(consortium)
    assert all(own == expected for own in opened)


class Forger:
    """Adds errors to what one member sends in one round of products: to z, and to c."""

    def __init__(self, sender, turn, z_error, c_error=0):
        self.sender, self.turn, self.errors = sender, turn, (z_error, c_error)
        self.rounds, self.forged = [], 0

    def __call__(self, message):
        if message.kind != Kind.PRODUCT or message.sender != self.sender:
            return [message]
        self.rounds.append(message.round)
        if len(self.rounds) - 1 != self.turn:
            return [message]
        self.forged += 1
        sent = wide.to_ints(wide.from_bytes(message.payload, LIMBS))
        place = secrets.randbelow(SIZE)
        for offset, error in zip((0, SIZE), self.errors, strict=True):
            sent[offset + place] = wrapped(sent[offset + place] + error, LIMBS)
        return [replace(message, payload=wide.to_bytes(wide.from_ints(sent, LIMBS)))]


def errors():
    """A single bit or any number below the spare limb, and what might hide it."""
    e = secrets.choice([1 << secrets.randbelow(128), 1 + secrets.randbelow(2**128 - 1)])
    t = secrets.randbits(64)
    return e, secrets.choice([0, secrets.randbits(192), t * e])


@pytest.mark.parametrize("sender", THREE.committee)
@pytest.mark.parametrize("turn", [0, 1])
def test_a_product_that_is_altered_on_its_way_is_always_rejected(sender, turn):
    for _ in range(8):
        forger = Forger(sender, turn, *errors())
        with pytest.raises(Unverified):
            run(observe=forger)
        assert forger.forged == 1


def wrong_reshare(sender, turn, z_error, c_error):
    """One that adds errors to the products of a member, at its own place and in what it sends."""
    values = [z_error, *[0] * (SIZE - 1), c_error, *[0] * (SIZE - 1)]
    errors = wide.from_ints([wrapped(value, LIMBS) for value in values], LIMBS)
    turns = []

    async def reshare(self, ring, kind, term, original=Member.reshare):
        if self._own == sender:
            turns.append(kind)
            if len(turns) == 1 + turn:
                term = wide.add(term, errors)
        return await original(self, ring, kind, term)

    return reshare


@pytest.mark.parametrize("sender", range(3))
@pytest.mark.parametrize("turn", [0, 1])
def test_a_wrong_product_is_always_rejected(sender, turn, monkeypatch):
    """Of a member that goes on with the error that it has sent; see also `wrong_results`."""
    for _ in range(10):
        z_error, c_error = errors()
        monkeypatch.setattr(Member, "reshare", wrong_reshare(sender, turn, z_error, c_error))
        with pytest.raises(Unverified, match="a product"):
            run()
        monkeypatch.undo()


@pytest.mark.parametrize("sender", THREE.committee)
def test_a_wrong_companion_of_a_product_is_rejected_too(sender):
    with pytest.raises(Unverified):
        run(observe=Forger(sender, 0, 0, 1 << secrets.randbelow(192)))


@pytest.mark.parametrize("sender", THREE.committee)
@pytest.mark.parametrize("turn", [0, 1])
def test_an_error_in_the_spare_limb_alone_is_harmless(sender, turn):
    """Whether it is found depends on t; what is accepted is right."""
    found = 0
    for _ in range(6):
        forger = Forger(sender, turn, 1 << 128, (secrets.randbits(64)) << 128)
        try:
            opened, expected = run(observe=forger)
        except Unverified:
            found += 1
            continue
        assert all(own == expected for own in opened)
    assert found, "t e - e' is 0 with a probability of 2^-64"


def test_an_error_that_t_happens_to_cancel_is_in_the_spare_limb(monkeypatch):
    """With a t that a cheater knows, errors of the spare limb pass, and are dropped."""
    t = 12345

    async def known(member, words, original=module.open_random):
        await original(member, words)
        return np.array([t], dtype=np.uint64)

    monkeypatch.setattr(module, "open_random", known)
    opened, expected = run(observe=Forger("bob", 1, 7 << 128, (7 * t) << 128))
    assert all(own == expected for own in opened)
    opened, expected = run(observe=Forger("bob", 1, 7, 7 * t))
    assert any(own != expected for own in opened), "such a t must not be known"


NEXT = dict(zip(THREE.committee, (*THREE.committee[1:], THREE.committee[0]), strict=True))


@pytest.mark.parametrize("sender", THREE.committee)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("forward", [True, False])
def test_no_message_of_the_check_can_be_altered(sender, number, forward):
    """What was multiplied, the factor, the masked factors or their hash, the hash of zeros."""
    if number == 3 and not forward:
        return  # it goes to the next member alone
    rounds, altered = set(), []

    def observe(message):
        if message.kind != Kind.CHECK or message.sender != sender:
            return [message]
        rounds.add(message.round)
        if len(rounds) != 1 + number or forward != (message.recipient == NEXT[sender]):
            return [message]
        altered.append(message)
        changed = bytearray(message.payload)
        changed[secrets.randbelow(len(changed))] ^= 1 << secrets.randbelow(8)
        return [replace(message, payload=bytes(changed))]

    with pytest.raises(Unverified):
        run(observe=observe)
    assert len(altered) == 1


def test_the_check_costs_four_rounds_and_each_product_twice_its_bytes():
    recorder = Recorder()
    run(observe=recorder)
    sizes = {
        kind: sum(len(m.payload) for m in recorder.messages if (m.kind, m.sender) == (kind, "ana"))
        for kind in (Kind.PRODUCT, Kind.CHECK)
    }
    element = 8 * LIMBS * SIZE
    assert sizes[Kind.PRODUCT] == 2 * 2 * element
    assert sizes[Kind.CHECK] == 2 * 32 + 2 * 8 + (3 * element + 32) + 32
