"""The exact sums of a silo by NumPy: docs/protocol.md, sections 4.2 and 4.4, as they are written.

The kernel gives the same integers. Here a value is cut into digits of 22 bits, by steps that are
exact in float64, and one matrix product per block of rows sums all products of two digits. With
its constant a digit has 22 bits and a sign: with 512 rows an entry is an integer of at most
2^(22 + 22 + 9) = 2^53, exact in whatever order the product adds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.elementary import exp, log1p, log_ratio, phi12, reduce_exponent
from securefedyj.numerics.encoding import CLOSED, DECAY, DIGIT, NEAR_ZERO, SERIES

# Bits of the digits of S_phi, which leave room for 2^31 values.
PHI_DIGIT = 26
ROWS = 512
# Values and digits that are worked on at once: their sums stay below 2^63.
_VALUES = 1 << 16


def arranged(X: Array, least: Array, phi_scale: Array) -> tuple[Array, Integers]:
    """L with the sign of x, 0 where x is missing, and S_phi in two digits, of each feature.

    L is log(1+|x|), or log(x/least) of a feature that has a least value.
    """
    L = np.copysign(log1p(np.where(np.isnan(X), 0.0, np.abs(X))), X)
    ratio = least > 0
    L[ratio] = np.nan_to_num(log_ratio(X[ratio], least[ratio, None]))
    phi = np.rint(L * phi_scale[:, None]).astype(np.int64)
    return L, np.stack([phi & (2**PHI_DIGIT - 1), phi >> PHI_DIGIT], axis=-1).sum(axis=1)


def residuals(S: Array, pairs: Any) -> tuple[Array, Array, Bools]:
    """What y and d have beyond their constants, and which values have constants.

    S is L with the sign of x; every row of it belongs to one pair.
    """
    negative = S < 0
    L, u = np.abs(S), np.where(negative, pairs["u"][:, 1:], pairs["u"][:, :1])
    kind = np.where(negative, pairs["kind"][:, 1:], pairs["kind"][:, :1])
    z = u * L
    T, r = reduce_exponent(z)
    a, b = phi12(r)
    y, d = a * L, ((a - b) * L) * L
    near = (kind == SERIES) | ((kind == DECAY) & (np.abs(z) <= NEAR_ZERO))
    with np.errstate(all="ignore"):
        v = 1 / u
        E = (a * r) * T + (T - 1)
        general_y = E * v
        general_d = np.where(T == 1, d, ((E + 1) * L - general_y) * v)
        decaying_y = (exp(r) * T) * v
        decaying_d = decaying_y * (L - v)
    y = np.where(near, y, np.where(kind == CLOSED, general_y, decaying_y))
    d = np.where(near, d, np.where(kind == CLOSED, general_d, decaying_d))
    return np.where(negative, -y, y), d, (kind == DECAY) & ~near


def sums(values: Array, pairs: Any, limbs: int) -> list[wide.Limbs]:
    """S_y, S_d, S_yy and S_yd of each pair of a feature and a lambda."""
    result = [wide.zeros(limbs, len(pairs)) for _ in range(4)]
    rows = next(k for k in range(ROWS, 0, -1) if values.shape[1] % k == 0)
    blocks = values.reshape(len(values), -1, rows)
    digits = np.maximum(pairs["bits_y"], pairs["bits_d"]) // DIGIT + 1
    for n in np.unique(digits).tolist():
        same, step = np.flatnonzero(digits == n), max(1, _VALUES // (rows * n))
        each, block = (part.ravel() for part in np.indices((len(same), blocks.shape[1])))
        for first in range(0, len(each), step):
            here, some = same[each[first : first + step]], block[first : first + step]
            columns = _columns(blocks[pairs["feature"][here], some], pairs[here], n)
            owners, owner = np.unique(here, return_inverse=True)
            summed = np.zeros((4, 2 * n, len(owners)), dtype=np.int64)
            np.add.at(summed.transpose(2, 0, 1), owner, columns)
            for total, part in zip(result, summed, strict=True):
                total[:, owners] = wide.add(total[:, owners], wide.from_digits(part, DIGIT, limbs))
    return result


def _columns(S: Array, pairs: Any, n: int) -> Integers:
    """The four sums over each row of S, by 2 n digits, lowest first."""
    y, d, far = residuals(S, pairs)
    negative = S < 0
    skipped = np.where(negative, pairs["skipped"][:, 1:], pairs["skipped"][:, :1]).astype(np.int32)
    to_side = np.ldexp(1.0, pairs["grid"][:, None].astype(np.int32) - skipped)
    to_top = np.ldexp(1.0, skipped - DIGIT * (n - 1))
    split = np.empty((len(S), 2 * n + 1, S.shape[1]))
    split[:, -1] = 1
    sides = (np.where(negative, -1.0, 1.0) * far, far)
    for k, (v, side, constant) in enumerate(zip((y, d), sides, _constants(pairs), strict=True)):
        # To the grid of the side, and from there in units of the highest digit.
        digits = split[:, k * n : (k + 1) * n]
        _cut(np.rint(v * to_side) * to_top, digits)
        of_constant = np.empty((len(S), n))
        _cut(np.ldexp(constant, -DIGIT * (n - 1)), of_constant)
        digits += side[:, None] * of_constant[..., None]
    products = np.matmul(split, split.swapaxes(1, 2)).astype(np.int64)
    columns = np.zeros((len(S), 4, 2 * n), dtype=np.int64)
    columns[:, :2, :n] = products[:, -1, : 2 * n].reshape(-1, 2, n)
    for a in range(n):
        columns[:, 2:, a : a + n] += products[:, a, : 2 * n].reshape(-1, 2, n)
    return columns


def _cut(v: Array, digits: Array) -> None:
    """Write the digits of v along axis 1; the highest has the unit 1."""
    for a in range(digits.shape[1] - 1, -1, -1):
        np.rint(v, out=digits[:, a])
        v = (v - digits[:, a]) * 2.0**DIGIT


def _constants(pairs: Any) -> tuple[Array, Array]:
    """1/|u| and 1/u^2 of the side that decays, as integers on the grid; 0 where none does."""
    with np.errstate(all="ignore"):
        c = 1 / np.abs(np.where(pairs["decaying"] < 0, pairs["u"][:, 1], pairs["u"][:, 0]))
    c[pairs["decaying"] == 0] = 0.0
    first, second = (np.rint(np.ldexp(part, pairs["grid"])) for part in (c, c * c))
    return first, second
