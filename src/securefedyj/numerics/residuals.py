"""y = Psi and d = dPsi/dlambda of every value, as constant + residual.

This is section 4.2 of docs/protocol.md. Every function here takes u and the scale, a power of
two, of each row, L in the first of `WORK_ARRAYS` arrays, and the others as scratch. It returns y
and d, or their residuals, times the scale, in two of these arrays.

On a decaying side y nears 1/|u| and d nears 1/u^2. These constants are left out, so that what
tells two values apart is not rounded away.
"""

from __future__ import annotations

import numpy as np

from securefedyj.numerics.arrays import Array, Bools
from securefedyj.numerics.elementary import LN2_HIGH, LN2_LOW, exp, phi12, reduce_exponent

WORK_ARRAYS = 5

# On a decaying side, w/u cannot tell values of smaller |u| L from each other; y itself can.
NEAR_ZERO = 2.0**-3
# 2^-1023 has the exponent field of zero: `reduce_exponent` turns e^-_VANISHES into 0.
_VANISHES = 1023 * (LN2_HIGH + LN2_LOW)


def near_one(
    u: Array, scale: Array, L: Array, z: Array, y: Array, d: Array, _: Array
) -> tuple[Array, Array]:
    """y = L phi_1(z), d = L^2 (phi_1 - phi_2)(z) where w = e^z is near 1 for all values."""
    np.multiply(u, L, out=z)
    phi12(z, y, d)
    np.subtract(y, d, out=d)
    d *= L
    L *= scale
    y *= L
    d *= L
    return y, d


def general(
    u: Array, scale: Array, L: Array, z: Array, power: Array, d: Array, series: Array
) -> tuple[Array, Array]:
    """y = (w - 1)/u, d = (L w - y)/u, and the series of d where these would cancel."""
    np.multiply(u, L, out=z)
    reduce_exponent(z, power, d, series)
    phi12(z, d, series)
    near = power == 1.0
    np.subtract(d, series, out=series)
    series *= L
    L *= scale
    series *= L
    # expm1(z) = 2^n r phi_1(r) + (2^n - 1), which is r phi_1(r) itself where n = 0.
    d *= z
    d *= power
    power -= 1.0
    d += power
    inverse = 1 / u
    y = np.multiply(d, inverse * scale, out=z)
    d += 1.0
    d *= L
    d -= y
    d *= inverse
    np.copyto(d, series, where=near)
    return y, d


def decaying(
    u: Array, scale: Array, L: Array, z: Array, power: Array, a: Array, b: Array
) -> tuple[Array, Array]:
    """r_y = w/u, r_d = (w/u)(L - 1/u): what y and d have beyond their constants."""
    np.multiply(u, L, out=z)
    reduce_exponent(z, power, a, b)
    exp(z, a, b)
    z *= power
    inverse = 1 / u
    z *= inverse * scale
    L -= inverse
    L *= z
    return z, L


def is_near_zero(L: Array, u: Array) -> Bools:
    """Which values of a decaying side are so close to L = 0 that they have no constant."""
    near: Bools = np.abs(u) * L <= NEAR_ZERO
    return near


def vanishing(u: Array) -> Array:
    """The L whose residual on a decaying side is 0."""
    gone: Array = _VANISHES / np.abs(u)
    return gone
