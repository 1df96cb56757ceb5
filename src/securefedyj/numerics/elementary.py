"""Logarithms and the exponential from +, -, *, / and rounding: the same bits on every machine.

The exact sums of a silo depend on nothing but its values, as long as every silo computes the
same residual for the same value. NumPy's own exp and log1p do not promise that: which library
or vector unit computes them, and so their last bit, differs between machines. IEEE 754 fixes
the result of every operation used here. docs/protocol.md, section 4.1, has them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

import numpy as np

from securefedyj.numerics.arrays import Array

# ln 2 = LN2_HIGH + LN2_LOW; the high part has 21 trailing zero bits, so that its product with
# an exponent is exact.
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
LOG2_E = float.fromhex("0x1.71547652b82fep+0")
# A float64 of this size has no bits behind the binary point: adding it rounds to an integer.
_ROUND = 1.5 * 2.0**52

_SQRT_HALF_BITS = 0x3FE6_A09E_667F_3BCD
_MANTISSA_BITS = 0x000F_FFFF_FFFF_FFFF

# atanh(s) = s (1 + s^2/3 + s^4/5 + ...), for |s| <= 3 - 2 sqrt(2).
ATANH = tuple(1 / (2 * k + 1) for k in reversed(range(13)))

# phi_2(r) = sum_j r^j/(j+2)!, for |r| <= ln(2)/2: twelve terms are right to 2^-53.
PHI2 = tuple(1 / factorial(j + 2) for j in reversed(range(12)))

# r coth(r/2) = 2 + t/6 - t^2/360 + ... of t = r^2 <= ln(2)^2/4. But for the 2, the polynomial of
# degree 4 in t that is nearest to the rest divided by t, to 2^-53: found by `mpmath.chebyfit`.
R = (
    float.fromhex("0x1.63f285639f513p-25"),
    float.fromhex("-0x1.bbd5323fac0f0p-20"),
    float.fromhex("0x1.1566ab5c1bf72p-14"),
    float.fromhex("-0x1.6c16c16c0ac0cp-9"),
    float.fromhex("0x1.5555555555553p-3"),
    2.0,
)


def log1p(x: Array) -> Array:
    """log(1 + x) for x >= -1/2, to within three units of the last place."""
    t = 1 + x
    m, e = _mantissa(t)
    # What 1 + x lost in rounding. Where e = 0, x itself is used and nothing is lost.
    near = e == 0
    lost = np.where(near, 0.0, (np.minimum(x, 1.0) - (t - np.maximum(x, 1.0))) / t)
    # log(t) = e ln 2 + 2 atanh(s) of s = (t - 1)/(t + 1)
    s = np.where(near, x, m - 1) / np.where(near, 2 + x, m + 1)
    log: Array = e * LN2_HIGH + ((e * LN2_LOW + lost) + 2 * s * _polynomial(ATANH, s * s))
    return log


def log_ratio(x: Array, a: Array) -> Array:
    """log(x / a) for any x, a > 0, to within three units of the last place; NaN stays NaN."""
    with np.errstate(over="ignore"):
        (m_x, e_x), (m_a, e_a) = _mantissa_of_any(x), _mantissa_of_any(a)
        difference = x - a
        close = 2 * np.abs(difference) <= a  # where the difference is exact
        share = np.where(close, difference, 0.0) / a
    e = np.where(close, 0.0, e_x - e_a)
    log = e * LN2_HIGH + (e * LN2_LOW + log1p(np.where(close, share, m_x / m_a - 1)))
    return np.where(np.isnan(difference), np.nan, log)


def _mantissa(t: Array) -> tuple[Array, Array]:
    """m and e with t = m 2^e and m between sqrt(1/2) and sqrt(2), for normal numbers t > 0."""
    # Counted from the bits of sqrt(1/2), those of the exponent are e.
    bits = t.view(np.int64) - _SQRT_HALF_BITS
    m = ((bits & _MANTISSA_BITS) + _SQRT_HALF_BITS).view(np.float64)
    return m, (bits >> 52).astype(np.float64)


def _mantissa_of_any(x: Array) -> tuple[Array, Array]:
    """As `_mantissa`, for any x > 0."""
    subnormal = x < np.finfo(np.float64).tiny
    m, e = _mantissa(np.where(subnormal, x * 2.0**54, x))
    return m, e - np.where(subnormal, 54.0, 0.0)


def phi12(r: Array) -> tuple[Array, Array]:
    """(e^r - 1)/r and (e^r - 1 - r)/r^2 for |r| <= ln(2)/2, right also at r = 0."""
    phi2 = _polynomial(PHI2, r)
    return phi2 * r + 1.0, phi2


def exp(r: Array) -> Array:
    """e^r = 1 + 2 r / (R - r) with R = r coth(r/2), for |r| <= ln(2)/2."""
    return r / (_polynomial(R, r * r) - r) * 2.0 + 1.0


def reduce_exponent(z: Array) -> tuple[Array, Array]:
    """2^n and r with e^z = 2^n e^r and |r| <= ln(2)/2, for -710 < z < 709."""
    rounded = z * LOG2_E + _ROUND
    n = rounded - _ROUND
    # The lowest bits of n + _ROUND are those of n: shift them to where the exponent belongs.
    power = ((rounded.view(np.int64) + 1023) << 52).view(np.float64)
    return power, (z - n * LN2_HIGH) - n * LN2_LOW


def exponential(z: Array) -> Array:
    """e^z for -700 <= z <= 700, which is right to a few units of the last place."""
    power, r = reduce_exponent(z)
    return exp(r) * power


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Horner's scheme, the highest coefficient first."""
    p = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        p = p * x + c
    return p
