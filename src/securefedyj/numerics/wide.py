"""Vectors of wide integers, as arrays of 64-bit limbs.

A vector of n integers modulo 2^(64 * limbs), in two's complement, is an array of shape
``(limbs, n)``: little-endian limbs, one row per limb. Rows are contiguous, so that every
step of an algorithm is one NumPy operation over all n values, and no value is ever a Python
object. What acts on each value alone takes arrays with more axes, too. No function branches on a
value, except on the public factor of ``scale``.
"""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from securefedyj import kernel
from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Bools, Integers

Limbs: TypeAlias = NDArray[np.uint64]

BITS = 64
BYTES = 8
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFF_FFFF)
_TOP_BIT = np.uint64(63)
_ALL_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def from_ints(values: Iterable[int], limbs: int) -> Limbs:
    """Return the vector of the given signed integers."""
    encoded = []
    for position, value in enumerate(values):
        try:
            encoded.append(int(value).to_bytes(BYTES * limbs, "little", signed=True))
        except OverflowError:
            # The value itself stays out of the message: it may be secret.
            raise OverflowError(
                f"The integer at position {position} does not fit into {BITS * limbs} bits "
                "(two's complement); use more limbs."
            ) from None
    rows = np.frombuffer(b"".join(encoded), dtype="<u8").reshape(len(encoded), limbs)
    return np.ascontiguousarray(rows.T, dtype=np.uint64)


def from_digits(digits: Integers, bits: int, limbs: int) -> Limbs:
    """Return the sums of digit_j * 2^(bits j), lowest digit first; digits are signed and large."""
    # Above these limbs there is nothing but the sign.
    needed = min(limbs, bits * len(digits) // BITS + 2)
    result = zeros(needed, digits.shape[1])
    carry = np.zeros(digits.shape[1], dtype=np.int64)
    mask = np.int64((1 << bits) - 1)
    for position in range(0, BITS * needed, bits):
        j = position // bits
        value = digits[j] + carry if j < len(digits) else carry
        carry = value >> bits  # arithmetic: floor division also of negative values
        low = (value & mask).view(np.uint64)
        limb, offset = divmod(position, BITS)
        result[limb] |= low << np.uint64(offset)
        if offset + bits > BITS and limb + 1 < needed:
            result[limb + 1] |= low >> np.uint64(BITS - offset)
    return resize(result, limbs)


def to_ints(a: Limbs) -> list[int]:
    """Return the signed values as Python integers."""
    width = BYTES * a.shape[0]
    data = np.ascontiguousarray(a.T, dtype="<u8").tobytes()
    return [
        int.from_bytes(data[start : start + width], "little", signed=True)
        for start in range(0, len(data), width)
    ]


def to_bytes(a: Limbs) -> bytes:
    """Return the limbs in memory order, each little-endian: limb 0 of all values first."""
    return a.astype("<u8", copy=False).tobytes()


def from_bytes(data: bytes, limbs: int) -> Limbs:
    """Return the vector that ``to_bytes`` wrote."""
    if len(data) % (BYTES * limbs):
        raise InputError(
            "SFY-NUM-011",
            f"{len(data)} bytes are not a whole number of {BITS * limbs}-bit integers.",
        )
    return np.frombuffer(data, dtype="<u8").reshape(limbs, -1).astype(np.uint64, copy=False)


def zeros(limbs: int, size: int) -> Limbs:
    return np.zeros((limbs, size), dtype=np.uint64)


def add(a: Limbs, b: Limbs) -> Limbs:
    """Return a + b; either may be a single value, of shape (limbs, 1)."""
    if (combined := _combined(a, b, subtract=False)) is not None:
        return combined
    total = np.add(a, b)
    # A limb overflows by itself, or when a carry turns all ones into zero.
    _ripple(total[:-1] < b[:-1], total[:-1] == _ALL_ONES, total[1:], np.add)
    return total


def negate(a: Limbs) -> Limbs:
    negative = np.invert(a)
    carry = np.ones(a.shape[1:], dtype=np.bool_)
    for row in negative:
        row += carry
        carry &= row == 0
    return negative


def subtract(a: Limbs, b: Limbs) -> Limbs:
    """Return a - b; either may be a single value, of shape (limbs, 1)."""
    if (combined := _combined(a, b, subtract=True)) is not None:
        return combined
    difference = np.subtract(a, b)
    # A limb borrows by itself, or when a borrow turns zero into all ones.
    _ripple(a[:-1] < b[:-1], difference[:-1] == 0, difference[1:], np.subtract)
    return difference


def _combined(a: Limbs, b: Limbs, *, subtract: bool) -> Limbs | None:
    """The sum or difference by the kernel, if it is there."""
    loops = kernel.loops()
    if loops is None or a.shape != b.shape:
        return None
    a, b = (np.require(v, np.uint64, ["C", "A"]) for v in (a, b))
    result = np.empty(a.shape, dtype=np.uint64)
    loops.combine(a, b, 1, len(a), math.prod(a.shape[1:]), subtract, result)
    return result


def _ripple(overflows: Bools, passes: Bools, following: Limbs, apply: np.ufunc) -> None:
    """Apply to each limb the carry of the one before, which may have passed through several."""
    for (before, carry), through in zip(pairwise(overflows), passes[1:], strict=True):
        through &= before
        carry |= through
    apply(following, overflows, out=following)


def sum_of_products(a: Limbs, b: Limbs) -> Limbs:
    """Return a_0 * b_0 + a_1 * b_1 + ... of vectors side by side, of shape (limbs, terms, n)."""
    _check_shapes(a, b)
    return _products(a, b)


def scale(a: Limbs, factor: int | Limbs) -> Limbs:
    """Return a times a public factor: one integer, or one for each value."""
    if isinstance(factor, int):
        factor = np.repeat(from_ints([factor], a.shape[0]), a.shape[1], axis=1)
    _check_shapes(a, factor)
    used = np.flatnonzero(factor.any(axis=1)).max(initial=-1) + 1
    return _products(a[:, None], factor[:used, None])


def _products(a: Limbs, b: Limbs) -> Limbs:
    """The sum of products; b may have fewer limbs than a."""
    limbs, terms, size = a.shape
    if loops := kernel.loops():
        a, b = (np.require(v, np.uint64, ["C", "A"]) for v in (a, b))
        total, shape = np.empty((limbs, size), dtype=np.uint64), (limbs, len(b), terms, size)

        def work(first: int, last: int) -> None:
            loops.products(a, b, *shape, first, last, total)

        kernel.shared_out(size, a.size * len(b), work)
        return total
    # Columns of digits of 32 bits: each gathers the halves of its products, which are far fewer
    # than 2^32, and is carried at the end. Only columns below the modulus are formed.
    first, second = _halves(a), _halves(b)
    columns = np.zeros((2 * limbs + 1, size), dtype=np.uint64)
    for i, digit in enumerate(second):
        product = first[: 2 * limbs - i] * digit
        columns[i:-1] += np.add.reduce(product & _LOW_HALF, axis=1)
        columns[i + 1 :] += np.add.reduce(product >> _HALF, axis=1)
    for low, high in pairwise(columns):
        high += low >> _HALF
    result: Limbs = (columns[1::2] << _HALF) | (columns[:-1:2] & _LOW_HALF)
    return result


def shift_left(a: Limbs, bits: int) -> Limbs:
    if bits < 0:
        raise InputError(
            "SFY-NUM-012", f"Cannot shift left by {bits} bits; the number must not be negative."
        )
    whole, rest = divmod(bits, BITS)
    shifted = np.zeros_like(a)
    if whole >= a.shape[0]:
        return shifted
    kept = a[: a.shape[0] - whole]
    np.left_shift(kept, np.uint64(rest), out=shifted[whole:])
    if rest:
        shifted[whole + 1 :] |= kept[:-1] >> np.uint64(BITS - rest)
    return shifted


def resize(a: Limbs, limbs: int) -> Limbs:
    """Return the same signed values with another number of limbs, or their low limbs."""
    resized = np.empty((limbs, a.shape[1]), dtype=np.uint64)
    common = min(limbs, a.shape[0])
    resized[:common] = a[:common]
    resized[common:] = np.uint64(0) - (a[-1] >> _TOP_BIT)
    return resized


def _check_shapes(*vectors: Limbs) -> None:
    shapes = {vector.shape for vector in vectors}
    if len(shapes) != 1:
        raise InputError("SFY-NUM-013", f"Cannot multiply vectors of shapes {sorted(shapes)}.")


def _halves(a: Limbs) -> Limbs:
    """Return the 32-bit digits of a, one row each, in 64-bit lanes."""
    halves = np.empty((2 * len(a), *a.shape[1:]), dtype=np.uint64)
    np.bitwise_and(a, _LOW_HALF, out=halves[0::2])
    np.right_shift(a, _HALF, out=halves[1::2])
    return halves
