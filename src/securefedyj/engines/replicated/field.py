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
_REDUCED = np.uint64(0b11011)  # x^64
_WORD = np.dtype("<u8")


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
    result = np.zeros(a.shape, dtype=np.uint64)
    if loops := kernel.loops():
        loops.field_multiply(aligned(a.reshape(-1)), aligned(b.reshape(-1)), result.reshape(-1))
        return result
    one, last = np.uint64(1), np.uint64(63)
    for place in reversed(range(64)):  # Horner's scheme
        result = (result << one) ^ (result >> last) * _REDUCED
        result ^= a * (b >> np.uint64(place) & one)
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


def spread(a: Elements) -> Elements:
    """Product of element c of the last axis with x^(c mod 64); its length is a multiple of 64."""
    powers_of_x = np.uint64(1) << np.arange(64, dtype=np.uint64)
    return multiply(a.reshape(-1, 64), powers_of_x).reshape(a.shape)


def subset_sums(a: Elements) -> Elements:
    """Return, for each eight elements, the 256 sums that the bits of a byte choose: (256, -1)."""
    sums = np.zeros((256, a.size // 8), dtype=np.uint64)
    for k, place in enumerate(a.reshape(-1, 8).T):
        sums[1 << k : 2 << k] = sums[: 1 << k] ^ place
    return sums


def _subfield() -> Elements:
    """All 256 elements of GF(2^8), in the order of their bytes."""
    return subset_sums(powers(BETA, 8))[:, 0]


POINTS = _subfield()
"""The elements of GF(2^8), by their bytes."""


def to_octets(a: Elements) -> NDArray[np.uint8]:
    """Return the bytes that stand for elements of GF(2^8)."""
    order = np.argsort(POINTS)
    return order[np.searchsorted(POINTS, a, sorter=order)].astype(np.uint8)
