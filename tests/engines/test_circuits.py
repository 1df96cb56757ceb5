"""Circuits of conjunctions, on bits that nobody hides, against Python's integers."""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from securefedyj.engines.additive import AdditiveBits, bit_planes, pack, unpack
from securefedyj.engines.replicated import circuits
from securefedyj.engines.replicated.keystream import Keystream
from securefedyj.numerics import wide
from tests.simulation import wrapped

SIZE = 11


class Counter:
    """A product of bits that counts its gates, per value, and its rounds."""

    def __init__(self):
        self.gates = self.rounds = 0

    async def __call__(self, a, b):
        assert a.shape == b.shape
        self.gates += int(np.prod(a.shape[:-1]))
        self.rounds += 1
        return AdditiveBits(a.components & b.components, a.held, size=a.shape[-1])


def plain(planes):
    return AdditiveBits(planes[None], (0,), size=SIZE)


def bits_of(shared):
    return unpack(shared.components[0], shared.shape[-1])


def done(coroutine):
    """The result of something that waits for nobody."""
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return stop.value.value


def three(values, limbs):
    """Integers as random ones that sum to them."""
    first, second = (
        [wrapped(secrets.randbits(64 * limbs), limbs) for _ in values] for _ in range(2)
    )
    third = [wrapped(v - a - b, limbs) for v, a, b in zip(values, first, second, strict=True)]
    return [plain(bit_planes(wide.from_ints(part, limbs))) for part in (first, second, third)]


def edges(limbs):
    w = 64 * limbs
    special = [0, 1, -1, 2, (1 << (w - 1)) - 1, -(1 << (w - 1)), 1 << (w - 2), -(1 << 63)]
    return special + [wrapped(secrets.randbits(w), limbs) for _ in range(SIZE - len(special))]


@pytest.mark.parametrize("limbs", [1, 2, 5])
def test_the_top_bit_is_the_sign_in_four_gates_per_position(limbs):
    for _ in range(5):
        values, product = edges(limbs), Counter()
        sign = bits_of(done(circuits.top_bit(three(values, limbs), product)))
        assert sign.tolist() == [v < 0 for v in values]
    w = 64 * limbs
    assert product.gates <= 4 * w
    assert product.rounds == 2 + (w - 3).bit_length()


@pytest.mark.parametrize("limbs", [1, 2, 5])
def test_all_bits_in_five_gates_per_position(limbs):
    for _ in range(5):
        values, product = edges(limbs), Counter()
        bits = bits_of(done(circuits.all_bits(three(values, limbs), product)))
        assert np.array_equal(bits, unpack(bit_planes(wide.from_ints(values, limbs)), SIZE))
    w = 64 * limbs
    assert product.gates <= 5 * w
    assert product.rounds <= 1 + 2 * (w - 2).bit_length()


@pytest.mark.parametrize("width", [2, 3, 4, 5, 7, 8, 9, 63, 64, 65])
def test_both_trees_add_integers_of_any_width(width):
    for sparing in (False, True):
        a, b = ([secrets.randbits(width) for _ in range(SIZE)] for _ in range(2))
        first, second = (
            plain(
                pack(np.array([[v >> k & 1 for v in part] for k in range(width)], dtype=np.uint8))
            )
            for part in (a, b)
        )
        bits = bits_of(done(circuits.sum_bits(first, second, Counter(), sparing=sparing)))
        total = [x + y for x, y in zip(a, b, strict=True)]
        assert bits.tolist() == [[v >> k & 1 for v in total] for k in range(width)]


@pytest.mark.parametrize("limbs", [1, 3])
def test_zero_is_told_from_everything_else_in_three_gates_per_position(limbs):
    w = 64 * limbs
    for k in range(w):
        values = [0, 1 << k, -(1 << k), *edges(limbs)[: SIZE - 3]]
        values = [wrapped(v, limbs) for v in values]
        product = Counter()
        bits = bits_of(done(circuits.is_zero(three(values, limbs), product)))
        assert bits.tolist() == [[v == 0 for v in values]]
    assert (product.gates, product.rounds) == (3 * w - 4, 2 + (w - 1).bit_length())


@pytest.mark.parametrize("limbs", [1, 2, 5])
def test_which_powers_are_reached(limbs):
    values = [0, 1, 255, 256, 257, (1 << (64 * limbs - 2)) - 1]
    values += [secrets.randbits(1 + secrets.randbelow(64 * limbs - 1)) for _ in range(SIZE - 6)]
    product = Counter()
    planes = plain(bit_planes(wide.from_ints(values, limbs)))
    found = bits_of(done(circuits.reached(planes, 8, product)))
    powers = [1 << k for k in range(8, 64 * limbs, 8)]
    assert found.tolist() == [[v >= power for v in values] for power in powers]
    assert product.rounds == 3 + (len(powers) - 1).bit_length()


@pytest.mark.parametrize("limbs", [1, 2])
@pytest.mark.parametrize("spread", [0, 3, 30])
def test_what_is_below_its_bound_is_told_in_two_gates_per_position(limbs, spread):
    """At the edges above all; `spread` is by how much the lengths of bounds differ."""
    w = 64 * limbs
    bounds = [1 << 17, 3 << 15, *((4 + secrets.randbelow(4)) << 20 for _ in range(SIZE - 2))]
    bounds = [bound << secrets.randbelow(spread + 1) for bound in bounds]
    low = min((bound & -bound).bit_length() for bound in bounds) - 1
    places = max(bound.bit_length() for bound in bounds) - low
    for change in (lambda b: b - 1, lambda b: b, lambda b: b + 1, lambda b: 0, lambda b: -1,
                   lambda b: -b, lambda b: -b - 1, lambda b: secrets.randbelow(2 * b),
                   lambda b: -secrets.randbelow(2 * b), lambda b: b + (1 << w - 2)):  # fmt: skip
        values = [change(bound) for bound in bounds]
        planes = plain(bit_planes(wide.from_ints(values, limbs)))
        unsigned, signed = (
            done(circuits.below(own, bounds, product := Counter()))
            for own in (planes, circuits.folded(planes))
        )
        for bits, least in ((unsigned, [0] * SIZE), (signed, [-b for b in bounds])):
            holds = [lo <= v < b for lo, v, b in zip(least, values, bounds, strict=True)]
            assert bits_of(bits).all(axis=0).tolist() == holds
        assert (product.gates, product.rounds) == (2 * (places - 1), (places - 1).bit_length())


def vector(bits):
    return AdditiveBits(pack(np.array([bits], dtype=np.uint8)), (0,), size=len(bits))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 100])
def test_the_conjunction_of_all(size):
    def planes(bits):
        return circuits.separated(vector(bits), 1)

    product = Counter()
    assert bits_of(done(circuits.all_of(planes([1] * size), product)))[:, 0].tolist() == [1]
    assert product.rounds == (size - 1).bit_length()
    for k in range(size):
        bits = [1] * size
        bits[k] = 0
        assert bits_of(done(circuits.all_of(planes(bits), product)))[:, 0].tolist() == [0]


@pytest.mark.parametrize("size", [1, 8, 9, 1000, 2**16, 2**16 + 5])
def test_each_sum_is_that_of_the_bits_that_its_subset_has(size):
    """In each component, by one word for each bit."""
    both = np.frombuffer(secrets.token_bytes(2 * size), np.uint8).reshape(2, size) & np.uint8(1)
    key = secrets.token_bytes(32)
    shared = AdditiveBits(pack(both), (2, 0), size=size)
    sums = circuits.random_sums(shared, Keystream(key))
    assert sums.shape == (64, 1)
    words = Cipher(AES256(key), CTR(bytes(16))).encryptor().update(bytes(8 * size))
    for k, bits in enumerate(both.tolist()):
        total = 0
        for n in range(size):
            total ^= bits[n] * int.from_bytes(words[8 * n : 8 * n + 8], "little")
        bytes_of_sums = [total >> j & 1 for j in range(64)]
        assert sums.components[k, :, 0].tolist() == bytes_of_sums


def test_vectors_and_arrays_are_joined_in_order():
    first = plain(pack(np.arange(3 * SIZE).reshape(3, SIZE).astype(np.uint8) % 2))
    second = plain(pack(np.ones((1, SIZE), dtype=np.uint8)))[0]
    both = circuits.joined([first, second])
    assert bits_of(both).tolist() == [k % 2 for k in range(3 * SIZE)] + [1] * SIZE
    assert (
        bits_of(circuits.inverted(both)).tolist()
        == [1 - k % 2 for k in range(3 * SIZE)] + [0] * SIZE
    )


def test_the_bits_of_components_are_shared_for_free():
    x = np.arange(2 * 1 * SIZE, dtype=np.uint64).reshape(2, 1, SIZE) * np.uint64(77)
    parts = circuits.summands(x, (2, 0))
    assert not parts[1].components.any()
    for component, k in ((2, 0), (0, 1)):
        assert np.array_equal(parts[component].components[k], bit_planes(x[k]))
        assert not parts[component].components[1 - k].any()
    assert circuits.summands(x[:0], ())[0].components.shape == (0, 64, 2)
