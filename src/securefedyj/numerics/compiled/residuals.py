"""Elementary functions and residuals, docs/protocol.md, sections 4.1 and 4.2.

Every operation on a float64 is the one of `elementary` and `residuals`, in the same order, but for
products by powers of two, which are exact and come later.

What Numba keeps of a loop, it takes for valid until the file of that loop changes, and does not
look at this one. Whoever changes it removes what was kept: `*.nbi` in `__pycache__`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import int32, njit, types
from numba.extending import intrinsic

from securefedyj.numerics import elementary, residuals
from securefedyj.numerics.fast import OPTIONS

_ROUND = 1.5 * 2.0**52
_LN2_HIGH, _LN2_LOW, _LOG2_E = elementary.LN2_HIGH, elementary.LN2_LOW, elementary.LOG2_E
_ATANH, _PHI2, _R = elementary.ATANH, elementary.PHI2, elementary.R
NEAR_ZERO = residuals.NEAR_ZERO

inner = njit(**{**OPTIONS, "cache": False})  # becomes part of what is kept


def kept(signature: Any) -> Any:
    """Compile for these types at once and keep the result; other types are an error."""
    return njit(signature, **OPTIONS)


@intrinsic
def bits_of(_: Any, x: Any) -> Any:
    """The 64 bits of a float64."""

    def cast(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), cast


@intrinsic
def float_of(_: Any, bits: Any) -> Any:
    """The float64 of 64 bits."""

    def cast(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), cast


@inner
def exponent(x):
    """e with 2^e <= |x| < 2^(e+1); -1023 of 0."""
    return ((bits_of(x) >> 52) & 0x7FF) - 1023


@inner
def power_of_two(e):
    return float_of((e + 1023) << 52)


@inner
def log1p(x):
    t = 1.0 + x
    bits = bits_of(t)
    e = float(int32((bits >> 52) - 1022))
    m = float_of((bits & 0x000F_FFFF_FFFF_FFFF) | 0x3FE0_0000_0000_0000)
    if m < 0.7071067811865476:
        m *= 2.0
        e -= 1.0
    lost = (x - (t - 1.0) if x < 1.0 else 1.0 - (t - x)) / t
    near = e == 0.0
    s = (x if near else m - 1.0) / (2.0 + x if near else m + 1.0)
    q = s * s
    p = q * _ATANH[0] + _ATANH[1]
    for c in _ATANH[2:]:
        p = p * q + c
    return e * _LN2_HIGH + (e * _LN2_LOW + (0.0 if near else lost) + 2.0 * s * p)


# Each of these loops is short: a longer one would be a chain of operations on each value that the
# processor cannot overlap with the next ones.


@inner
def _reduce(u, L, r, T):
    """e^{uL} = T e^r, with T a power of two."""
    for i in range(len(L)):
        z = u * L[i]
        rounded = z * _LOG2_E + _ROUND
        k = rounded - _ROUND
        r[i] = (z - k * _LN2_HIGH) - k * _LN2_LOW
        T[i] = float_of((bits_of(rounded) + 1023) << 52)


@inner
def _phi2_begun(r):
    """Horner's scheme as far as it goes in one loop."""
    p = r * _PHI2[0] + _PHI2[1]
    for c in _PHI2[2:7]:
        p = p * r + c
    return p


@inner
def _phi2(p, r):
    """The rest of it."""
    for c in _PHI2[7:]:
        p = p * r + c
    return p


@inner
def near_one(u, L, y, d):
    for i in range(len(L)):
        d[i] = _phi2_begun(u * L[i])
    for i in range(len(L)):
        z = u * L[i]
        b = _phi2(d[i], z)
        a = b * z + 1.0
        y[i] = a * L[i]
        d[i] = ((a - b) * L[i]) * L[i]


@inner
def general(u, L, y, d, scratch):
    v = 1.0 / u
    _reduce(u, L, y, d)
    for i in range(len(L)):
        scratch[i] = _phi2_begun(y[i])
    for i in range(len(L)):
        scratch[i] = _phi2(scratch[i], y[i])
    for i in range(len(L)):
        r, T, b = y[i], d[i], scratch[i]
        a = b * r + 1.0
        E = (a * r) * T + (T - 1.0)
        r_y = E * v
        y[i] = r_y
        near = ((a - b) * L[i]) * L[i]
        d[i] = near if T == 1.0 else ((E + 1.0) * L[i] - r_y) * v


@inner
def decaying(u, L, y, d):
    """Write 0 for values near L = 0, and return how many are not."""
    v, slope, far = 1.0 / u, abs(u), 0
    _reduce(u, L, y, d)
    for i in range(len(L)):
        r = y[i]
        s = r * r
        p = s * _R[0] + _R[1]
        for c in _R[2:]:
            p = p * s + c
        y[i] = r / (p - r)
    for i in range(len(L)):
        r_y = (y[i] * 2.0 + 1.0) * d[i] * v
        r_d = r_y * (L[i] - v)
        near = slope * L[i] <= NEAR_ZERO
        far += 0 if near else 1
        y[i] = 0.0 if near else r_y
        d[i] = 0.0 if near else r_d
    return far
