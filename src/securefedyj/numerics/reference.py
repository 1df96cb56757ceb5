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
from securefedyj.numerics.elementary import exp, log1p, phi12, reduce_exponent
from securefedyj.numerics.encoding import CLOSED, DECAY, DIGIT, NEAR_ZERO, SERIES
from securefedyj.numerics.silo import Sums

# Bits of the digits of S_phi, which leave room for 2^31 values.
PHI_DIGIT = 26
_ROWS = 512
# Values that are worked on at once.
_VALUES = 1 << 15


def arranged(X: Array, phi_scale: Array) -> tuple[Array, Integers]:
    """L with the sign of x, 0 where x is missing, and S_phi in two digits, of each feature."""
    L = np.copysign(log1p(np.where(np.isnan(X), 0.0, np.abs(X))), X)
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


def sums(values: Array, pairs: Any, limbs: int) -> Sums:
    """S_y, S_d, S_yy and S_yd of each pair of a feature and a lambda."""
    result = Sums(*(wide.zeros(limbs, len(pairs)) for _ in Sums._fields))
    digits = np.max([pairs["digits_y"], pairs["digits_d"]], axis=0) * 26 // DIGIT + 1
    rows = min(_ROWS, max(values.shape[1], 1))
    for n in np.unique(digits).tolist():
        same = np.flatnonzero(digits == n)
        step = max(1, _VALUES // (rows * n))
        for some in (same[first : first + step] for first in range(0, len(same), step)):
            for first in range(0, values.shape[1], rows):
                S = values[pairs["feature"][some], first : first + rows]
                for total, part in zip(result, _sums(S, pairs[some], n, limbs), strict=True):
                    total[:, some] = wide.add(total[:, some], part)
    return result


def _sums(S: Array, pairs: Any, n: int, limbs: int) -> list[wide.Limbs]:
    """The same over some rows, with n digits."""
    y, d, far = residuals(S, pairs)
    split = np.empty((len(S), 2 * n + 1, S.shape[1]))
    split[:, -1] = 1
    negative = S < 0
    skipped = np.where(negative, pairs["skipped"][:, 1:], pairs["skipped"][:, :1])
    grid = pairs["grid"][:, None]
    for v, of in ((y, split[:, :n]), (d, split[:, n : 2 * n])):
        # To the grid of the side, and from there in units of the common one.
        integer = np.ldexp(np.rint(np.ldexp(v, grid - skipped)), skipped)
        rest = np.ldexp(integer, -DIGIT * (n - 1))
        for a in range(n - 1, -1, -1):
            np.rint(rest, out=of[:, a])
            rest = (rest - of[:, a]) * 2.0**DIGIT
    constants = _constants(pairs, n)
    split[:, :n] += np.where(negative, -1, 1)[:, None] * far[:, None] * constants[0][..., None]
    split[:, n : 2 * n] += far[:, None] * constants[1][..., None]
    products = np.matmul(split, split.swapaxes(1, 2)).astype(np.int64)
    of_y, of_d = slice(0, n), slice(n, 2 * n)
    columns = np.zeros((4, 2 * n, len(S)), dtype=np.int64)
    columns[0, :n], columns[1, :n] = products[:, -1, of_y].T, products[:, -1, of_d].T
    for a in range(n):
        columns[2, a : a + n] += products[:, a, of_y].T
        columns[3, a : a + n] += products[:, a, of_d].T
    return [wide.from_digits(part, DIGIT, limbs) for part in columns]


def _constants(pairs: Any, n: int) -> list[Array]:
    """1/|u| and 1/u^2 of the side that decays, on the common grid, in n digits, lowest first."""
    negative = pairs["kind"][:, 1] == DECAY
    with np.errstate(all="ignore"):
        c = 1 / np.abs(np.where(negative, pairs["u"][:, 1], pairs["u"][:, 0]))
    c[~np.any(pairs["kind"] == DECAY, axis=1)] = 0.0
    found = []
    for constant in (c, c * c):
        rest = np.ldexp(np.rint(np.ldexp(constant, pairs["grid"])), -DIGIT * (n - 1))
        digits = np.empty((len(pairs), n))
        for a in range(n - 1, -1, -1):
            digits[:, a] = np.rint(rest)
            rest = (rest - digits[:, a]) * 2.0**DIGIT
        found.append(digits)
    return found
