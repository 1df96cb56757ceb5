"""The compiled loops of a silo's exact sums: docs/protocol.md, section 4, value by value.

Every operation on a float64 is the one of `elementary` and `residuals`, in the same order, but for
products by powers of two, which are exact. Importing this module imports Numba.

Values come in blocks of at most `BLOCK` values of one feature and sign, as L = log(1+|x|). A block
begins with its smallest L above 0, if there is one, and then its largest; zeros, which add nothing
to any sum, fill it up to a multiple of `LANES`. From the first two follows between which powers of
two all bits of y and d are. There, they are cut into digits of `DIGIT` bits, three of them as a
rule, and products of digits are summed in 64 bits. A sum is kept as words that count multiples of
2^32 each, and are not carried before the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from securefedyj.numerics import elementary, encoding, residuals
from securefedyj.numerics.fast import OPTIONS

BLOCK = 512
LANES = 16
# Four products of two digits, twice over, summed over a block: 2^(25 + 25 + 2 + 1 + 9).
DIGIT = 26
# Where digits are many, less of a block at once: 128 products, 2^(25 + 25 + 7 + 5).
_SOME = 32

_RADIX = 2.0**DIGIT
_ROUND = 1.5 * 2.0**52
_ROUND_BITS = 0x4338_0000_0000_0000
_LOW_HALF = 0xFFFF_FFFF
_HALF_CONSTANT = 27
_LN2_HIGH, _LN2_LOW, _LOG2_E = elementary.LN2_HIGH, elementary.LN2_LOW, elementary.LOG2_E
_ATANH, _PHI2, _R = elementary.ATANH, elementary.PHI2, elementary.R
_NEAR, _DECAYING, _NEAR_ZERO = encoding.NEAR, encoding.DECAYING, residuals.NEAR_ZERO
_SKIPPED = encoding.DIGIT

_compiled = njit(**OPTIONS)
_inner = njit(**{**OPTIONS, "cache": False})  # is part of what is kept of others


@intrinsic
def _bits_of(_: Any, x: Any) -> Any:
    """The 64 bits of a float64."""

    def cast(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), cast


@intrinsic
def _float_of(_: Any, bits: Any) -> Any:
    """The float64 of 64 bits."""

    def cast(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), cast


@_inner
def _exponent(x):
    """e with 2^e <= |x| < 2^(e+1); -1023 of 0."""
    return ((_bits_of(x) >> 52) & 0x7FF) - 1023


@_inner
def _power_of_two(e):
    return _float_of((e + 1023) << 52)


# Elementary functions and residuals.


@_inner
def _log1p(x):
    t = 1.0 + x
    bits = _bits_of(t)
    e = np.float64(np.int32((bits >> 52) - 1022))
    m = _float_of((bits & 0x000F_FFFF_FFFF_FFFF) | 0x3FE0_0000_0000_0000)
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


@_inner
def _phi2(r):
    p = r * _PHI2[0] + _PHI2[1]
    for c in _PHI2[2:]:
        p = p * r + c
    return p


@_inner
def _near_one(u, L, y, d):
    for i in range(len(L)):
        z = u * L[i]
        b = _phi2(z)
        a = b * z + 1.0
        y[i] = a * L[i]
        d[i] = ((a - b) * L[i]) * L[i]


@_inner
def _general(u, L, y, d):
    # Two loops: one alone would be a chain too long for the processor to overlap.
    v = 1.0 / u
    for i in range(len(L)):
        z = u * L[i]
        rounded = z * _LOG2_E + _ROUND
        k = rounded - _ROUND
        y[i] = (z - k * _LN2_HIGH) - k * _LN2_LOW
        d[i] = _float_of((_bits_of(rounded) + 1023) << 52)
    for i in range(len(L)):
        r, T = y[i], d[i]
        b = _phi2(r)
        a = b * r + 1.0
        E = (a * r) * T + (T - 1.0)
        r_y = E * v
        y[i] = r_y
        near = ((a - b) * L[i]) * L[i]
        d[i] = near if T == 1.0 else ((E + 1.0) * L[i] - r_y) * v


@_inner
def _decaying(u, L, y, d):
    """Write 0 for values near L = 0, and return how many are not."""
    v, slope, far = 1.0 / u, abs(u), 0
    for i in range(len(L)):
        z = u * L[i]
        rounded = z * _LOG2_E + _ROUND
        k = rounded - _ROUND
        r = (z - k * _LN2_HIGH) - k * _LN2_LOW
        T = _float_of((_bits_of(rounded) + 1023) << 52)
        s = r * r
        p = s * _R[0] + _R[1]
        for c in _R[2:]:
            p = p * s + c
        r_y = ((r / (p - r)) * 2.0 + 1.0) * T * v
        r_d = r_y * (L[i] - v)
        near = slope * L[i] <= _NEAR_ZERO
        far += 0 if near else 1
        y[i] = 0.0 if near else r_y
        d[i] = 0.0 if near else r_d
    return far


@_inner
def _take_near_zero(u, L, near):
    """Copy the values near L = 0 but 0 itself, as a block; return its length."""
    slope, count, largest = abs(u), 0, 0
    for i in range(len(L)):
        near[count] = L[i]
        if slope * L[i] <= _NEAR_ZERO and L[i] > 0.0:
            if L[i] > near[largest]:
                largest = count
            count += 1
    length = -(-count // LANES) * LANES
    near[count:length] = 0.0
    # The smallest of all comes first already.
    if count > 1:
        near[1], near[largest] = near[largest], near[1]
    return length


# Sums of digits, and of products of digits.


@_inner
def _digit(v):
    """v rounded to an integer of at most 32 bits: as an integer, and what v has beyond it."""
    rounded = v + _ROUND
    return _bits_of(rounded) - _ROUND_BITS, v - (rounded - _ROUND)


@_inner
def _int32(digit):
    """Tells the compiler that 32 bits are enough."""
    return (digit << 32) >> 32


@_inner
def _sum_three(y, d, y_scale, d_scale, sums):
    sy0 = sy1 = sy2 = sd0 = sd1 = sd2 = 0
    yy0 = yy1 = yy2 = yy11 = yy3 = yy4 = yd0 = yd1 = yd2 = yd3 = yd4 = 0
    for i in range(len(y)):
        y2, rest = _digit(y[i] * y_scale)
        y1, rest = _digit(rest * _RADIX)
        y0, rest = _digit(rest * _RADIX)
        d2, rest = _digit(d[i] * d_scale)
        d1, rest = _digit(rest * _RADIX)
        d0, rest = _digit(rest * _RADIX)
        sy0 += y0
        sy1 += y1
        sy2 += y2
        sd0 += d0
        sd1 += d1
        sd2 += d2
        y0, y1, y2 = _int32(y0), _int32(y1), _int32(y2)
        d0, d1, d2 = _int32(d0), _int32(d1), _int32(d2)
        yy0 += y0 * y0
        yy1 += y0 * y1
        yy2 += y0 * y2
        yy11 += y1 * y1
        yy3 += y1 * y2
        yy4 += y2 * y2
        yd0 += y0 * d0
        yd1 += y0 * d1 + y1 * d0
        yd2 += y0 * d2 + y1 * d1 + y2 * d0
        yd3 += y1 * d2 + y2 * d1
        yd4 += y2 * d2
    sums[0, 0] = sy0
    sums[0, 1] = sy1
    sums[0, 2] = sy2
    sums[1, 0] = sd0
    sums[1, 1] = sd1
    sums[1, 2] = sd2
    sums[2, 0] = yy0
    sums[2, 1] = 2 * yy1
    sums[2, 2] = 2 * yy2 + yy11
    sums[2, 3] = 2 * yy3
    sums[2, 4] = yy4
    sums[3, 0] = yd0
    sums[3, 1] = yd1
    sums[3, 2] = yd2
    sums[3, 3] = yd3
    sums[3, 4] = yd4


@_inner
def _sum_four(y, d, y_scale, d_scale, sums):
    sy0 = sy1 = sy2 = sy3 = sd0 = sd1 = sd2 = sd3 = 0
    yy0 = yy1 = yy2 = yy11 = yy3 = yy4 = yy22 = yy5 = yy6 = 0
    yd0 = yd1 = yd2 = yd3 = yd4 = yd5 = yd6 = 0
    for i in range(len(y)):
        y3, rest = _digit(y[i] * y_scale)
        y2, rest = _digit(rest * _RADIX)
        y1, rest = _digit(rest * _RADIX)
        y0, rest = _digit(rest * _RADIX)
        d3, rest = _digit(d[i] * d_scale)
        d2, rest = _digit(rest * _RADIX)
        d1, rest = _digit(rest * _RADIX)
        d0, rest = _digit(rest * _RADIX)
        sy0 += y0
        sy1 += y1
        sy2 += y2
        sy3 += y3
        sd0 += d0
        sd1 += d1
        sd2 += d2
        sd3 += d3
        y0, y1, y2, y3 = _int32(y0), _int32(y1), _int32(y2), _int32(y3)
        d0, d1, d2, d3 = _int32(d0), _int32(d1), _int32(d2), _int32(d3)
        yy0 += y0 * y0
        yy1 += y0 * y1
        yy2 += y0 * y2
        yy11 += y1 * y1
        yy3 += y0 * y3 + y1 * y2
        yy4 += y1 * y3
        yy22 += y2 * y2
        yy5 += y2 * y3
        yy6 += y3 * y3
        yd0 += y0 * d0
        yd1 += y0 * d1 + y1 * d0
        yd2 += y0 * d2 + y1 * d1 + y2 * d0
        yd3 += y0 * d3 + y1 * d2 + y2 * d1 + y3 * d0
        yd4 += y1 * d3 + y2 * d2 + y3 * d1
        yd5 += y2 * d3 + y3 * d2
        yd6 += y3 * d3
    sums[0, 0] = sy0
    sums[0, 1] = sy1
    sums[0, 2] = sy2
    sums[0, 3] = sy3
    sums[1, 0] = sd0
    sums[1, 1] = sd1
    sums[1, 2] = sd2
    sums[1, 3] = sd3
    sums[2, 0] = yy0
    sums[2, 1] = 2 * yy1
    sums[2, 2] = 2 * yy2 + yy11
    sums[2, 3] = 2 * yy3
    sums[2, 4] = 2 * yy4 + yy22
    sums[2, 5] = 2 * yy5
    sums[2, 6] = yy6
    sums[3, 0] = yd0
    sums[3, 1] = yd1
    sums[3, 2] = yd2
    sums[3, 3] = yd3
    sums[3, 4] = yd4
    sums[3, 5] = yd5
    sums[3, 6] = yd6


@_inner
def _dot(a, b):
    total = 0
    for i in range(len(a)):
        total += np.int64(a[i]) * np.int64(b[i])
    return total


@_inner
def _split(values, scale, digits):
    for i in range(len(values)):
        rest = values[i] * scale
        for row in range(len(digits) - 1, -1, -1):
            digit, rest = _digit(rest)
            digits[row, i] = digit
            rest *= _RADIX


@_inner
def _sum_many(y, d, y_scale, d_scale, n, sums):
    """Of any number of digits: for values so far apart that three or four do not hold them."""
    digits = np.empty((2 * n + 1, len(y)), np.int32)
    _split(y, y_scale, digits[:n])
    _split(d, d_scale, digits[n : 2 * n])
    digits[2 * n] = 1
    sums[:, : 2 * n] = 0
    for a in range(n):
        sums[0, a] = _dot(digits[a], digits[2 * n])
        sums[1, a] = _dot(digits[n + a], digits[2 * n])
        for b in range(n):
            sums[2, a + b] += _dot(digits[a], digits[b])
            sums[3, a + b] += _dot(digits[a], digits[n + b])


# Sums of all blocks.


@_inner
def _add(words, position, value):
    """Add value 2^position; what is beyond the last words but two is a multiple of the modulus."""
    word, shift = position >> 5, position & 31
    if word < len(words) - 2:
        low, high = (value & _LOW_HALF) << shift, (value >> 32) << shift
        words[word] += low & _LOW_HALF
        words[word + 1] += (low >> 32) + (high & _LOW_HALF)
        words[word + 2] += high >> 32


@_inner
def _window(e0, e1, lowest):
    """Where the bits of a block are: from 2^lo on, and how many, the sign included.

    The others of a block are between the two of the exponents, but for errors of rounding.
    """
    lo = max(min(e0, e1) - 53, lowest)
    return lo, max(e0, e1) + 3 - lo


@_inner
def _constant(c, grid):
    """rint(c 2^grid), as (low + 2^27 high) 2^position."""
    lo = max(_exponent(c) - 52, -grid)
    integer = np.int64(np.rint(c * _power_of_two(-lo)))
    return (integer & (2**_HALF_CONSTANT - 1), integer >> _HALF_CONSTANT), lo + grid


@_inner
def _add_constants(u, sign, grid, far, total):
    """Add what c alone adds to the sums over c + r, of at most so many values as a block has."""
    c = 1.0 / abs(u)
    (c_y, y_at), (c_d, d_at) = _constant(c, grid), _constant(c * c, grid)
    for i in range(2):
        up = _HALF_CONSTANT * i
        _add(total[0], y_at + up, sign * far * c_y[i])
        _add(total[1], d_at + up, far * c_d[i])
        for j in range(2):
            at = y_at + up + _HALF_CONSTANT * j
            _add(total[2], y_at + at, far * c_y[i] * c_y[j])
            _add(total[3], d_at + at, sign * far * c_y[i] * c_d[j])


@_inner
def _add_mixed(u, sign, grid, y_at, d_at, n, sums, total):
    """Add what products of c and r add to these: 2 c_y r_y, and c_y r_d + c_d r_y."""
    c = 1.0 / abs(u)
    (c_y, cy_at), (c_d, cd_at) = _constant(c, grid), _constant(c * c, grid)
    for i in range(2):
        for a in range(n):
            up = _HALF_CONSTANT * i + DIGIT * a
            _add(total[2], cy_at + y_at + up, 2 * c_y[i] * sums[0, a])
            _add(total[3], cy_at + d_at + up, sign * c_y[i] * sums[1, a])
            _add(total[3], cd_at + y_at + up, sign * c_d[i] * sums[0, a])


@_inner
def _add_block(u, y, d, y_window, d_window, sign, grid, constants, sums, total):
    """Add the sums over a block of residuals, or of those and their constants."""
    (y_lo, y_bits), (d_lo, d_bits) = y_window, d_window
    n = max(3, -(-max(y_bits, d_bits) // DIGIT))
    y_scale = _power_of_two(-y_lo - DIGIT * (n - 1))
    d_scale = _power_of_two(-d_lo - DIGIT * (n - 1))
    y_at, d_at = grid + y_lo, grid + d_lo
    step = BLOCK if n <= 4 else _SOME
    for first in range(0, len(y), step):
        some = slice(first, first + step)
        if n == 3:
            _sum_three(y[some], d[some], y_scale, d_scale, sums)
        elif n == 4:
            _sum_four(y[some], d[some], y_scale, d_scale, sums)
        else:
            _sum_many(y[some], d[some], y_scale, d_scale, n, sums)
        for a in range(n):
            _add(total[0], y_at + DIGIT * a, sign * sums[0, a])
            _add(total[1], d_at + DIGIT * a, sums[1, a])
        for a in range(2 * n - 1):
            _add(total[2], 2 * y_at + DIGIT * a, sums[2, a])
            _add(total[3], y_at + d_at + DIGIT * a, sign * sums[3, a])
        if constants:
            _add_mixed(u, sign, grid, y_at, d_at, n, sums, total)


@_inner
def _add_side(values, u, L_max, sign, grid, skip, first, last, work, sums, total):
    """Add the sums over some blocks of one sign."""
    lowest = _SKIPPED * skip - grid
    decays = -u * L_max > _DECAYING
    near_one = abs(u) * L_max <= _NEAR
    e_y = e_d = 0
    if decays:  # |r_y| and |r_d| are at most what the constants are
        c = 1.0 / abs(u)
        e_y, e_d = _exponent(c), _exponent(c * c)
    for block in range(first, last):
        L = values[block * BLOCK : (block + 1) * BLOCK]
        if L[0] == 0.0:
            continue
        y, d = work[0, : len(L)], work[1, : len(L)]
        if not decays:
            if near_one:
                _near_one(u, L, y, d)
            else:
                _general(u, L, y, d)
            k = 1 if L[1] > 0.0 else 0
            y_window = _window(_exponent(y[0]), _exponent(y[k]), lowest)
            d_window = _window(_exponent(d[0]), _exponent(d[k]), lowest)
            _add_block(u, y, d, y_window, d_window, sign, grid, False, sums, total)
            continue
        far = _decaying(u, L, y, d)
        if far:
            k = 1 if L[1] > 0.0 else 0
            y_window = _window(e_y, _exponent(y[k]), lowest)
            d_window = _window(e_d, _exponent(d[k]), lowest)
            _add_block(u, y, d, y_window, d_window, sign, grid, True, sums, total)
            _add_constants(u, sign, grid, far, total)
        if abs(u) * L[0] <= _NEAR_ZERO:
            length = _take_near_zero(u, L, work[2])
            L, y, d = work[2, :length], work[0, :length], work[1, :length]
            _near_one(u, L, y, d)
            k = 1 if L[1] > 0.0 else 0
            y_window = _window(_exponent(y[0]), _exponent(y[k]), lowest)
            d_window = _window(_exponent(d[0]), _exponent(d[k]), lowest)
            _add_block(u, y, d, y_window, d_window, sign, grid, False, sums, total)


@_compiled
def add_sums(values, sizes, L_max, feature, lmbda, grid, skip, digits, part, parts, total):
    """Add S_y, S_d, S_yy and S_yd over one part of the blocks to the total of each pair.

    Parameters
    ----------
    values : array of shape (features, room)
        The blocks of each feature: those of its values >= 0, then those of its values < 0.
    sizes : array of shape (features, 2)
        How many values of each sign, a multiple of `LANES`.
    L_max : array of shape (2, features)
        Of the domain.
    feature, lmbda, grid : arrays of shape (pairs,)
        Of each pair, and of its encoding.
    skip : array of shape (2, pairs)
        Digits of the encoding that each side leaves out.
    digits : int
        At least as many digits as any y or d of these encodings has.
    part, parts : int
        Which of how many parts.
    total : array of shape (pairs, 4, words)
    """
    work = np.empty((3, BLOCK))
    sums = np.empty((4, 2 * digits), np.int64)
    for pair in range(len(feature)):
        j = feature[pair]
        begin = 0
        for side in range(2):
            end = begin + sizes[j, side]
            blocks = -(-sizes[j, side] // BLOCK)
            _add_side(
                values[j, begin:end],
                lmbda[pair] if side == 0 else 2 - lmbda[pair],
                L_max[side, j],
                1 - 2 * side,
                grid[pair],
                skip[side, pair],
                blocks * part // parts,
                blocks * (part + 1) // parts,
                work,
                sums,
                total[pair],
            )
            begin = end


@_compiled
def carry(total, limbs):
    """The totals as wide integers, an array of shape (4, limbs, pairs)."""
    pairs = len(total)
    result = np.empty((4, limbs, pairs), np.uint64)
    for pair in range(pairs):
        for which in range(4):
            words = total[pair, which]
            above = 0
            for limb in range(limbs):
                low = words[2 * limb] + above
                high = words[2 * limb + 1] + (low >> 32)
                result[which, limb, pair] = (low & _LOW_HALF) | (high << 32)
                above = high >> 32
    return result


# A table becomes blocks.


@_inner
def _arrange(block):
    """Move the smallest value above 0 to the front, and the largest behind it."""
    smallest = largest = 0
    for i in range(len(block)):
        if block[i] > 0.0 and (block[i] < block[smallest] or block[smallest] == 0.0):
            smallest = i
        if block[i] > block[largest]:
            largest = i
    block[0], block[smallest] = block[smallest], block[0]
    if largest == 0:
        largest = smallest
    if len(block) > 1 and largest > 0:
        block[1], block[largest] = block[largest], block[1]


@_compiled
def arrange(x, lower, upper, phi_scale, values, sizes, count, phi):
    """Write the blocks of one feature; return how many of its values are outside its bounds.

    Parameters
    ----------
    x : array of shape (rows,)
        NaN is missing.
    values : array
        Zeros, with room for the values and for `LANES` more of each sign.
    sizes, count, phi : arrays of shape (2,), (1,) and (2,)
        Sizes of both signs; number of values; S_phi in two digits of 31 bits.
    """
    negative = outside = present = 0
    for i in range(len(x)):
        negative += 1 if x[i] < 0.0 else 0
        present += 1 if x[i] == x[i] else 0
        outside += 1 if x[i] < lower or x[i] > upper else 0
    if outside:
        return outside
    positive = present - negative
    count[0] = present
    sizes[0] = -(-positive // LANES) * LANES
    sizes[1] = -(-negative // LANES) * LANES
    work = np.empty(BLOCK)
    above, below = 0, sizes[0]
    for first in range(0, len(x), BLOCK):
        some = x[first : first + BLOCK]
        L = work[: len(some)]
        for i in range(len(some)):
            L[i] = _log1p(abs(some[i]))
        for i in range(len(some)):
            if some[i] >= 0.0:
                values[above] = L[i]
                above += 1
            elif some[i] < 0.0:
                values[below] = L[i]
                below += 1
    begin = 0
    for side in range(2):
        end = begin + sizes[side]
        for first in range(begin, end, BLOCK):
            block = values[first : min(first + BLOCK, end)]
            low = high = 0
            for i in range(len(block)):
                integer = np.int64(np.rint(block[i] * phi_scale))
                low += integer & (2**31 - 1)
                high += integer >> 31
            phi[0] += (1 - 2 * side) * low
            phi[1] += (1 - 2 * side) * high
            _arrange(block)
        begin = end
    return 0
