"""What the kernel does for the engines: the same bits at every level and by NumPy."""

import numpy as np
import pytest

from securefedyj import kernel
from securefedyj.engines import additive
from securefedyj.engines.replicated import columns, field
from securefedyj.engines.replicated.columns import Weights
from securefedyj.engines.replicated.keystream import Keystream
from securefedyj.kernel import NUMPY, VARIABLE
from securefedyj.numerics import wide

RNG = np.random.default_rng(24)
COMPILED = kernel.levels()[1:]
EDGES = np.array([0, 1, 1 << 63, (1 << 64) - 1, 0x1111111111111111], dtype=np.uint64)

pytestmark = pytest.mark.parametrize("level", COMPILED)


def words(*shape):
    """Random words, and some with all bits, none or one."""
    drawn = RNG.integers(0, 1 << 64, shape, dtype=np.uint64)
    return np.where(RNG.random(shape) < 0.2, RNG.choice(EDGES, shape), drawn)


def unaligned(octets):
    """The same octets at an odd address."""
    room = np.empty(octets.size + 1, dtype=np.uint8)
    room[1:] = octets.ravel()
    return room[1:].reshape(octets.shape)


def same(level, monkeypatch, function):
    monkeypatch.setenv(VARIABLE, NUMPY)
    expected = function()
    monkeypatch.setenv(VARIABLE, level)
    assert np.array_equal(function(), expected)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 65, 200])
@pytest.mark.parametrize("limbs", [0, 1, 3])
def test_bit_planes(level, limbs, size, monkeypatch):
    values = words(limbs, size)
    same(level, monkeypatch, lambda: additive.bit_planes(values))
    same(level, monkeypatch, lambda: additive.bit_planes(values[:, ::2]))


@pytest.mark.parametrize("size", [0, 1, 5, 511, 512, 513, 1100])
@pytest.mark.parametrize("limbs", [1, 2, 5])
@pytest.mark.parametrize("operation", [wide.add, wide.subtract, lambda a, b: wide.add(b, a)])
def test_sums_of_integers(level, operation, limbs, size, monkeypatch):
    a, b = words(2, limbs, 2, size)
    same(level, monkeypatch, lambda: operation(a, b))
    same(level, monkeypatch, lambda: operation(a[:, 0], np.invert(a[:, 0])))
    same(level, monkeypatch, lambda: operation(a.swapaxes(0, 1), b.swapaxes(0, 1)))
    same(level, monkeypatch, lambda: operation(a[:, :, ::2], b[:, :, ::2]))


@pytest.mark.parametrize("size", [0, 1, 5, 25, 4097])
def test_products_of_elements(level, size, monkeypatch):
    a, b = words(size), words(size)
    same(level, monkeypatch, lambda: field.multiply(a, b))
    same(level, monkeypatch, lambda: field.multiply(EDGES[:, None], EDGES))
    same(level, monkeypatch, lambda: field.multiply(a[:1], b[::-1]))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 24])
def test_weighted_sums(level, count, monkeypatch):
    values, weights = words(64 * count), words(count)
    same(level, monkeypatch, lambda: columns.weighted(values, weights))


@pytest.mark.parametrize("count", [8, 16, 32, 64, 128])
@pytest.mark.parametrize("groups", [0, 1, 7, 8, 9, 17])
def test_sums_over_gates(level, groups, count, monkeypatch):
    shape = count // 8, 64 * groups
    bits = [unaligned(RNG.integers(0, 256, shape, dtype=np.uint8)) for _ in range(4)]
    masks, coefficients = words(2, 2, shape[1]), words(count)
    eta, theta = words(2).tolist()
    same(level, monkeypatch, lambda: columns.evaluated(bits[0], coefficients))
    some = slice(64 * (groups // 2), shape[1])
    same(level, monkeypatch, lambda: columns.evaluated(bits[1], coefficients, some))
    same(
        level, monkeypatch, lambda: columns.quotient(bits, masks[0], masks[1], Weights(eta, theta))
    )


def test_threads_share_the_gates(level, monkeypatch):
    bits = RNG.integers(0, 256, (4, 16, 512 * 40 + 64), dtype=np.uint8)
    masks, weights = words(2, 2, bits.shape[2]), Weights(*words(2).tolist())
    monkeypatch.setenv(kernel.THREADS_VARIABLE, "3")
    same(level, monkeypatch, lambda: columns.quotient(list(bits), masks[0], masks[1], weights))


def test_wrong_sizes_are_refused(level, monkeypatch):
    monkeypatch.setenv(VARIABLE, level)
    loops, bits = kernel.loops(), np.zeros((1, 64), dtype=np.uint8)
    eight, out = np.zeros(8, dtype=np.uint64), np.zeros(64, dtype=np.uint64)
    calls = [
        lambda: loops.bit_planes(eight, 1, 8, np.zeros(63, dtype=np.uint8)),
        lambda: loops.field_multiply(eight, eight[:7], eight.copy()),
        lambda: loops.field_weighted(out, eight),
        lambda: loops.evaluated(bits, 64, eight, 0, 128, out),
        lambda: loops.evaluated(bits, 64, eight, 0, 64, out[:32]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="wrong size"):
            call()


def test_what_was_set_aside_is_what_would_have_been_drawn(level):
    word, octet = np.dtype("<u8"), np.dtype("u1")
    one, other = Keystream(bytes(32)), Keystream(bytes(32))
    for size in (0, 1, 5, 16, 33):
        later, drawn = one.set_aside((size,), octet), other.draw((size,), octet)
        assert np.array_equal(later(), drawn)
        assert np.array_equal(later(), drawn)
        assert np.array_equal(one.draw((3,), word), other.draw((3,), word))
