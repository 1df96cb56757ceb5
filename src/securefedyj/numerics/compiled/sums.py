"""Exact sums over blocks of values, docs/protocol.md, section 4.4.

A block holds at most `BLOCK` values of one feature and sign, as L = log(1+|x|). It begins with its
smallest L above 0, if there is one, and then its largest; zeros, which add nothing to any sum, fill
it up to a multiple of `LANES`. From the first two follows between which powers of two all bits of y
and d are. There, they are cut into digits of `DIGIT` bits, three of them as a rule, and products of
digits are summed in 64 bits. A sum over blocks is kept as words that count multiples of 2^32 each,
and are not carried before the end.
"""

from __future__ import annotations

import numpy as np

from securefedyj.numerics import encoding
from securefedyj.numerics.compiled.residuals import (
    NEAR_ZERO,
    bits_of,
    decaying,
    exponent,
    general,
    inner,
    kept,
    near_one,
    power_of_two,
)

BLOCK = 512
LANES = 16
# Four products of two digits, twice over, summed over a block: 2^(25 + 25 + 2 + 1 + 9).
DIGIT = 26
# Where digits are many, less of a block at once: 128 products, 2^(25 + 25 + 7 + 5).
_SOME = 32

# From the unit of a digit to that of the one below.
_NEXT = 2.0**-DIGIT
# A float64 of this size has no bits behind the binary point: adding it rounds to an integer.
_ROUND = 1.5 * 2.0**52
_LOW_HALF = 0xFFFF_FFFF
_NEAR, _DECAYING = encoding.NEAR, encoding.DECAYING
_SKIPPED = encoding.DIGIT


@inner
def _digit(v, unit):
    """v rounded to a multiple of 2^e, for unit = _ROUND 2^e, and what v has beyond it.

    The multiple, which has at most 32 bits, comes with the bits of the unit, whose low 32 are 0.
    """
    rounded = v + unit
    return bits_of(rounded), v - (rounded - unit)


@inner
def _int32(digit):
    """Tells the compiler that 32 bits are enough."""
    return (digit << 32) >> 32


@inner
def _write_sums(of_digits, n, unit, sums):
    """Write sums of n digits each, the highest first, without what the bits of the units add."""
    for a in range(len(of_digits)):
        sums[len(of_digits) - 1 - a] = of_digits[a] - n * bits_of(unit)
        unit *= _NEXT


@inner
def _sum_three(y, d, y_unit, d_unit, sums):
    sy0 = sy1 = sy2 = sd0 = sd1 = sd2 = 0
    yy0 = yy1 = yy2 = yy11 = yy3 = yy4 = yd0 = yd1 = yd2 = yd3 = yd4 = 0
    for i in range(len(y)):
        y2, rest = _digit(y[i], y_unit)
        y1, rest = _digit(rest, y_unit * _NEXT)
        y0, rest = _digit(rest, y_unit * _NEXT**2)
        d2, rest = _digit(d[i], d_unit)
        d1, rest = _digit(rest, d_unit * _NEXT)
        d0, rest = _digit(rest, d_unit * _NEXT**2)
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
    _write_sums((sy2, sy1, sy0), len(y), y_unit, sums[0])
    _write_sums((sd2, sd1, sd0), len(d), d_unit, sums[1])
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


@inner
def _sum_four(y, d, y_unit, d_unit, sums):
    sy0 = sy1 = sy2 = sy3 = sd0 = sd1 = sd2 = sd3 = 0
    yy0 = yy1 = yy2 = yy11 = yy3 = yy4 = yy22 = yy5 = yy6 = 0
    yd0 = yd1 = yd2 = yd3 = yd4 = yd5 = yd6 = 0
    for i in range(len(y)):
        y3, rest = _digit(y[i], y_unit)
        y2, rest = _digit(rest, y_unit * _NEXT)
        y1, rest = _digit(rest, y_unit * _NEXT**2)
        y0, rest = _digit(rest, y_unit * _NEXT**3)
        d3, rest = _digit(d[i], d_unit)
        d2, rest = _digit(rest, d_unit * _NEXT)
        d1, rest = _digit(rest, d_unit * _NEXT**2)
        d0, rest = _digit(rest, d_unit * _NEXT**3)
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
    _write_sums((sy3, sy2, sy1, sy0), len(y), y_unit, sums[0])
    _write_sums((sd3, sd2, sd1, sd0), len(d), d_unit, sums[1])
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


@inner
def _dot(a, b):
    total = 0
    for i in range(len(a)):
        total += np.int64(a[i]) * np.int64(b[i])
    return total


@inner
def _split(values, unit, digits):
    for row in range(len(digits) - 1, -1, -1):
        for i in range(len(values)):
            digits[row, i], values[i] = _digit(values[i], unit)
        unit *= _NEXT


@inner
def _sum_many(y, d, y_unit, d_unit, n, sums):
    """Of any number of digits: for values so far apart that three or four do not hold them."""
    digits = np.empty((2 * n + 1, len(y)), np.int32)
    _split(y, y_unit, digits[:n])
    _split(d, d_unit, digits[n : 2 * n])
    digits[2 * n] = 1
    sums[:, : 2 * n] = 0
    for a in range(n):
        sums[0, a] = _dot(digits[a], digits[2 * n])
        sums[1, a] = _dot(digits[n + a], digits[2 * n])
        for b in range(n):
            sums[2, a + b] += _dot(digits[a], digits[b])
            sums[3, a + b] += _dot(digits[a], digits[n + b])


@inner
def _add(words, position, value):
    """Add value 2^position; what is beyond the last words but two is a multiple of the modulus."""
    word, shift = position >> 5, position & 31
    if word < len(words) - 2:
        low, high = (value & _LOW_HALF) << shift, (value >> 32) << shift
        words[word] += low & _LOW_HALF
        words[word + 1] += (low >> 32) + (high & _LOW_HALF)
        words[word + 2] += high >> 32


@inner
def _window(ends, lowest):
    """Where the bits of a block are: from 2^lo on, and how many, the sign included.

    All numbers in it are between the two ends, but for errors of rounding.
    """
    e0, e1 = exponent(ends[0]), exponent(ends[1])
    lo = max(min(e0, e1) - 53, lowest)
    return lo, max(e0, e1) + 3 - lo


@inner
def _constant(c, grid):
    """rint(c 2^grid), as (low + 2^DIGIT high) 2^position; low has 26 bits, high 27."""
    lo = max(exponent(c) - 52, -grid)
    integer = np.int64(np.rint(c * power_of_two(-lo)))
    return integer & (2**DIGIT - 1), integer >> DIGIT, lo + grid


@inner
def _add_constants(u, far, sign, grid, y_at, d_at, n, sums, total):
    """Add what c adds to the sums over c + r, of so many values whose r are summed already.

    (c_y + r_y)(c + r) = r_y r + c_y r + c r_y + c_y c, for y and for d.
    """
    c = 1.0 / abs(u)
    (y0, y1, cy_at), (d0, d1, cd_at) = _constant(c, grid), _constant(c * c, grid)
    _add(total[0], cy_at, sign * far * (y0 + (y1 << DIGIT)))
    _add(total[1], cd_at, far * (d0 + (d1 << DIGIT)))
    far_y0, far_y1 = far * y0, far * y1
    at = cy_at + cy_at
    _add(total[2], at, far_y0 * y0)
    _add(total[2], at + DIGIT, 2 * far_y0 * y1)
    _add(total[2], at + 2 * DIGIT, far_y1 * y1)
    at = cy_at + cd_at
    _add(total[3], at, sign * far_y0 * d0)
    _add(total[3], at + DIGIT, sign * (far_y0 * d1 + far_y1 * d0))
    _add(total[3], at + 2 * DIGIT, sign * far_y1 * d1)
    below_y = below_d = 0
    for a in range(n + 1):
        at = DIGIT * a
        s_y, s_d = (sums[0, a], sums[1, a]) if a < n else (0, 0)
        _add(total[2], cy_at + y_at + at, 2 * (y0 * s_y + y1 * below_y))
        _add(total[3], cy_at + d_at + at, sign * (y0 * s_d + y1 * below_d))
        _add(total[3], cd_at + y_at + at, sign * (d0 * s_y + d1 * below_y))
        below_y, below_d = s_y, s_d


@inner
def _add_block(u, y, d, y_window, d_window, far, sign, grid, sums, total):
    """Add the sums over residuals, and with the constants of so many of them that have one."""
    (y_lo, y_bits), (d_lo, d_bits) = y_window, d_window
    n = max(3, -(-max(y_bits, d_bits) // DIGIT))
    y_unit = _ROUND * power_of_two(y_lo + DIGIT * (n - 1))
    d_unit = _ROUND * power_of_two(d_lo + DIGIT * (n - 1))
    y_at, d_at, decays = grid + y_lo, grid + d_lo, far > 0
    step = BLOCK if n <= 4 else _SOME
    for first in range(0, len(y), step):
        some = slice(first, first + step)
        if n == 3:
            _sum_three(y[some], d[some], y_unit, d_unit, sums)
        elif n == 4:
            _sum_four(y[some], d[some], y_unit, d_unit, sums)
        else:
            _sum_many(y[some], d[some], y_unit, d_unit, n, sums)
        for a in range(n):
            _add(total[0], y_at + DIGIT * a, sign * sums[0, a])
            _add(total[1], d_at + DIGIT * a, sums[1, a])
        for a in range(2 * n - 1):
            _add(total[2], 2 * y_at + DIGIT * a, sums[2, a])
            _add(total[3], y_at + d_at + DIGIT * a, sign * sums[3, a])
        if decays:
            _add_constants(u, far, sign, grid, y_at, d_at, n, sums, total)
            far = 0  # they count once


@inner
def _take_near_zero(u, L, near):
    """Copy the values near L = 0, up to the zeros at the end, as a block; return its length."""
    slope, count = abs(u), 0
    for i in range(len(L)):
        near[count] = L[i]  # overwritten by the next one, if it is not near
        count += slope * L[i] <= NEAR_ZERO
    while near[count - 1] == 0.0:  # the first one is not
        count -= 1
    length = -(-count // LANES) * LANES
    for i in range(count, length):
        near[i] = 0.0
    return length


@inner
def _add_side(values, u, L_max, sign, grid, skip, first, last, work, sums, total):
    """Add the sums over some blocks of one sign."""
    lowest = _SKIPPED * skip - grid
    all_near_one, decays, c = abs(u) * L_max <= _NEAR, -u * L_max > _DECAYING, 1.0 / abs(u)
    for block in range(first, last):
        L = values[block * BLOCK : (block + 1) * BLOCK]
        if L[0] == 0.0:
            continue
        largest = 1 if L[1] > 0.0 else 0
        # Of a decaying side, the values far from L = 0, and then those near it.
        for near in range(2 if decays else 1):
            if near:
                if abs(u) * L[0] > NEAR_ZERO:
                    break
                # y is between L / 2 and L, and d between L^2 / 4 and L^2.
                low, high = L[0] / 2, NEAR_ZERO * c
                y_ends, d_ends = (low, high), (low * low, high * high)
                L = work[2, : _take_near_zero(u, L, work[2])]
            y, d, far = work[0, : len(L)], work[1, : len(L)], 0
            if near or all_near_one:
                near_one(u, L, y, d)
            elif decays:
                far = decaying(u, L, y, d)
                if not far:
                    continue
            else:
                general(u, L, y, d, work[2])
            if not near:
                # No residual of a decaying side is larger than its constant.
                y_first, d_first = (c, c * c) if decays else (y[0], d[0])
                y_ends, d_ends = (y_first, y[largest]), (d_first, d[largest])
            y_window, d_window = _window(y_ends, lowest), _window(d_ends, lowest)
            _add_block(u, y, d, y_window, d_window, far, sign, grid, sums, total)


@inner
def _carried(total, result, pair):
    """Write the words of each sum as a wide integer."""
    for limb in range(result.shape[1]):
        for which in range(4):
            low = total[which, 2 * limb]
            high = total[which, 2 * limb + 1] + (low >> 32)
            result[which, limb, pair] = (low & _LOW_HALF) | (high << 32)
            total[which, 2 * limb + 2] += high >> 32


@kept(
    "void(f8[:,::1], i8[:,::1], f8[:,::1], i8[::1], f8[::1], i8[::1], i8[:,::1], i8, i8, i8, "
    "i8, i8, u8[:,:,::1])"
)
def write_sums(
    values, sizes, L_max, feature, lmbda, grid, skip, digits, part, parts, first, last, result
):
    """Write S_y, S_d, S_yy and S_yd over one part of the blocks, of some pairs.

    Parameters
    ----------
    values : array of shape (features, room)
        The blocks of each feature: those of its values > 0, then those of its values < 0.
    sizes : array of shape (features, 2)
        How many values of each sign, a multiple of `LANES`.
    L_max : array of shape (2, features)
        Of the domain.
    feature, lmbda, grid : arrays of shape (pairs,)
        Of each pair, and of its encoding.
    skip : array of shape (2, pairs)
        Digits of the encoding that each side leaves out.
    digits, part, parts, first, last : int
        No y or d of these encodings has more digits; which of how many parts; which pairs.
    result : array of shape (4, limbs, pairs)
    """
    work = np.empty((3, BLOCK))
    sums = np.empty((4, 2 * digits), np.int64)
    total = np.empty((4, 2 * result.shape[1] + 2), np.int64)
    for pair in range(first, last):
        j, begin = feature[pair], 0
        total[:] = 0
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
                total,
            )
            begin = end
        _carried(total, result, pair)
