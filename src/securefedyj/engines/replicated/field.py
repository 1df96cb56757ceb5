"""The field GF(2^64), in vectors of words.

Bit j of a word is the coefficient of x^j, modulo x^64 + x^4 + x^3 + x + 1. The field contains
GF(2^8): the powers of BETA, a root of t^8 + t^4 + t^3 + t^2 + 1, and 0. Bit k of a byte stands for
BETA^k there. The sum of two elements, and their difference, is their exclusive or.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from securefedyj import kernel

Elements: TypeAlias = NDArray[np.uint64]

BETA = 0x033C_E8BE_DDC8_A657
_TAPS = (0, 1, 3, 4)  # x^64 = x^4 + x^3 + x + 1
_WORD = np.dtype("<u8")

_CHUNK = 2048  # elements to multiply at once: some ten vectors of 48 kB


def to_bytes(a: Elements) -> bytes:
    """Return the words one after the other, little-endian."""
    return a.astype(_WORD, copy=False).tobytes()


def from_bytes(data: bytes) -> Elements:
    return np.frombuffer(data, _WORD).astype(np.uint64, copy=False)


def aligned(a: Elements) -> Elements:
    """The same in one piece, as the kernel takes it."""
    return np.require(a, np.uint64, ["C", "A"])


def total(a: Elements, axis: int = -1) -> Elements:
    result: Elements = np.bitwise_xor.reduce(a, axis=axis)
    return result


def multiply(a: Elements, b: Elements) -> Elements:
    a, b = np.broadcast_arrays(a, b)
    result = np.empty(a.shape, dtype=np.uint64)
    x, y, out = a.reshape(-1), b.reshape(-1), result.reshape(-1)
    if loops := kernel.loops():
        loops.field_multiply(aligned(x), aligned(y), out)
        return result
    for start in range(0, out.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        out[chunk] = _product(x[chunk], y[chunk])
    return result


def sum_products(a: Elements, b: Elements) -> Elements:
    """Sum over the last axis of the products."""
    return total(multiply(a, b))


def power(a: Elements, exponent: int) -> Elements:
    """a^exponent, for an exponent that is not negative."""
    result = np.ones_like(a)
    for bit in f"{exponent:b}":
        result = multiply(result, result)
        if bit == "1":
            result = multiply(result, a)
    return result


def powers(a: int, count: int) -> Elements:
    """Return 1, a, a^2, ..., `count` of them."""
    result = np.array([1, a], dtype=np.uint64)
    while (known := len(result)) < count:
        more = result[1 : count - known + 1]
        result = np.concatenate([result, multiply(more, result[-1:])])
    return result[:count]


def shifted(a: Elements, by: int) -> Elements:
    """Product with x^by, for 0 < by <= 32."""
    high = a >> np.uint64(64 - by)
    return (a << np.uint64(by)) ^ _reduced(high)


def spread(a: Elements) -> Elements:
    """Product of element c of the last axis with x^(c mod 64); its length is a multiple of 64."""
    places = np.ascontiguousarray(a.reshape(-1, 64).T)
    for by in (1, 2, 4, 8, 16, 32):
        odd = places.reshape(32 // by, 2, by, -1)[:, 1]
        odd[:] = shifted(odd, by)
    return places.T.reshape(a.shape)


def folded(a: Elements) -> Elements:
    """Sum over each 64 elements of `spread`."""
    for by in (1, 2, 4, 8, 16, 32):
        pairs = a.reshape(-1, 2)
        a = pairs[:, 0] ^ shifted(pairs[:, 1], by)
    return a


def subset_sums(a: Elements) -> Elements:
    """Return, for each eight elements, the 256 sums that the bits of a byte choose: (256, -1)."""
    places = np.ascontiguousarray(a.reshape(-1, 2, 4).T)
    sums = np.zeros((16, *places.shape[1:]), dtype=np.uint64)
    for k in range(4):
        known = 1 << k
        sums[known : 2 * known] = sums[:known] ^ places[k]
    low, high = sums[:, 0], sums[:, 1]
    return np.bitwise_xor(high[:, None], low[None]).reshape(256, -1)


def chosen_sums(a: Elements) -> Elements:
    """Return the sums that bits choose of the second axis: from (n, k, m) to (n, 2^k, m)."""
    sums = np.empty((len(a), 1 << a.shape[1], a.shape[2]), dtype=np.uint64)
    sums[:, 0] = 0
    for k in range(a.shape[1]):
        known = 1 << k
        np.bitwise_xor(sums[:, :known], a[:, k, None], out=sums[:, known : 2 * known])
    return sums


def multiples(a: Elements) -> Elements:
    """Return the products of one element with all bytes at each of eight places: (8, 256)."""
    return np.ascontiguousarray(subset_sums(spread(np.repeat(a, 64))).T)


def scaled(table: Elements, b: Elements) -> Elements:
    """Product with the one element that the table is the `multiples` of."""
    octets = b.astype(_WORD, order="C", copy=False).view(np.uint8).reshape(-1, 8)
    result: Elements = table[0].take(octets[:, 0])
    for k in range(1, 8):
        result ^= table[k].take(octets[:, k])
    return result.reshape(b.shape)


def _reduced(high: Elements) -> Elements:
    """x^64 times a polynomial of degree below 60. Of others, what is shifted out is lost."""
    result = high.copy()
    for tap in _TAPS[1:]:
        result ^= high << np.uint64(tap)
    return result


_HOLES = [np.uint64(0x1111_1111_1111_1111 << k) for k in range(4)]
_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)


def _product(a: Elements, b: Elements) -> Elements:
    """Karatsuba's three half products, and the reduction."""
    low: Elements
    low, high, middle = _carryless(_halves(a), _halves(b))
    middle ^= low
    middle ^= high
    low ^= middle << _HALF
    high ^= middle >> _HALF
    # What is shifted out of 64 bits below comes back at the other end.
    high ^= (high >> np.uint64(63)) ^ (high >> np.uint64(61)) ^ (high >> np.uint64(60))
    return low ^ _reduced(high)


def _halves(a: Elements) -> Elements:
    """The low half, the high half, and their sum."""
    low, high = a & _LOW, a >> _HALF
    return np.stack([low, high, low ^ high])


def _carryless(a: Elements, b: Elements) -> Elements:
    """Product of polynomials of degree below 32.

    By products of integers with three holes between any two bits: at most eight ones meet at one
    place, so that nothing is carried over to the next.
    """
    xs, ys = [a & hole for hole in _HOLES], [b & hole for hole in _HOLES]
    result = np.zeros_like(a)
    for k, hole in enumerate(_HOLES):
        term = xs[0] * ys[k]
        for j in (1, 2, 3):
            term ^= xs[j] * ys[(k - j) % 4]
        term &= hole
        result |= term
    return result


def _subfield() -> Elements:
    """All 256 elements of GF(2^8), in the order of their bytes."""
    return subset_sums(powers(BETA, 8))[:, 0]


POINTS = _subfield()
"""The elements of GF(2^8), by their bytes."""


def to_octets(a: Elements) -> NDArray[np.uint8]:
    """Return the bytes that stand for elements of GF(2^8)."""
    order = np.argsort(POINTS)
    return order[np.searchsorted(POINTS, a, sorter=order)].astype(np.uint8)
