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

_RADIX = 2.0**DIGIT
# A float64 of this size has no bits behind the binary point: adding it rounds to an integer.
_ROUND = 1.5 * 2.0**52
_ROUND_BITS = 0x4338_0000_0000_0000
_LOW_HALF = 0xFFFF_FFFF
_HALF_CONSTANT = 27
_NEAR, _DECAYING = encoding.NEAR, encoding.DECAYING
_SKIPPED = encoding.DIGIT


@inner
def _digit(v):
    """v rounded to an integer of at most 32 bits: as an integer, and what v has beyond it."""
    rounded = v + _ROUND
    return bits_of(rounded) - _ROUND_BITS, v - (rounded - _ROUND)


@inner
def _int32(digit):
    """Tells the compiler that 32 bits are enough."""
    return (digit << 32) >> 32


@inner
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


@inner
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


@inner
def _dot(a, b):
    total = 0
    for i in range(len(a)):
        total += np.int64(a[i]) * np.int64(b[i])
    return total


@inner
def _split(values, scale, digits):
    for i in range(len(values)):
        rest = values[i] * scale
        for row in range(len(digits) - 1, -1, -1):
            digit, rest = _digit(rest)
            digits[row, i] = digit
            rest *= _RADIX


@inner
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
def _window(e0, e1, lowest):
    """Where the bits of a block are: from 2^lo on, and how many, the sign included.

    The others of a block are between the two of the exponents, but for errors of rounding.
    """
    lo = max(min(e0, e1) - 53, lowest)
    return lo, max(e0, e1) + 3 - lo


@inner
def _constant(c, grid):
    """rint(c 2^grid), as (low + 2^27 high) 2^position."""
    lo = max(exponent(c) - 52, -grid)
    integer = np.int64(np.rint(c * power_of_two(-lo)))
    return (integer & (2**_HALF_CONSTANT - 1), integer >> _HALF_CONSTANT), lo + grid


@inner
def _add_constants(u, far, sign, grid, y_at, d_at, n, sums, total):
    """Add what c adds to the sums over c + r, of so many values whose r are summed already.

    (c_y + r_y)(c + r) = r_y r + c_y r + c r_y + c_y c, for y and for d.
    """
    c = 1.0 / abs(u)
    (c_y, cy_at), (c_d, cd_at) = _constant(c, grid), _constant(c * c, grid)
    for i in range(2):
        y_i, d_i, up = c_y[i], c_d[i], _HALF_CONSTANT * i
        _add(total[0], cy_at + up, sign * far * y_i)
        _add(total[1], cd_at + up, far * d_i)
        for j in range(2):
            at = cy_at + up + _HALF_CONSTANT * j
            _add(total[2], cy_at + at, far * y_i * c_y[j])
            _add(total[3], cd_at + at, sign * far * y_i * c_d[j])
        for a in range(n):
            at = up + DIGIT * a
            _add(total[2], cy_at + y_at + at, 2 * y_i * sums[0, a])
            _add(total[3], cy_at + d_at + at, sign * y_i * sums[1, a])
            _add(total[3], cd_at + y_at + at, sign * d_i * sums[0, a])


@inner
def _add_block(u, y, d, y_window, d_window, far, sign, grid, sums, total):
    """Add the sums over residuals, and with the constants of so many of them that have one."""
    (y_lo, y_bits), (d_lo, d_bits) = y_window, d_window
    n = max(3, -(-max(y_bits, d_bits) // DIGIT))
    y_scale = power_of_two(-y_lo - DIGIT * (n - 1))
    d_scale = power_of_two(-d_lo - DIGIT * (n - 1))
    y_at, d_at, decays = grid + y_lo, grid + d_lo, far > 0
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
        if decays:
            _add_constants(u, far, sign, grid, y_at, d_at, n, sums, total)
            far = 0  # they count once


@inner
def _take_near_zero(u, L, near):
    """Copy the values near L = 0 but 0 itself, as a block; return its length."""
    slope, count, largest = abs(u), 0, 0
    for i in range(len(L)):
        near[count] = L[i]
        if slope * L[i] <= NEAR_ZERO and L[i] > 0.0:
            if L[i] > near[largest]:
                largest = count
            count += 1
    length = -(-count // LANES) * LANES
    near[count:length] = 0.0
    # The smallest of all comes first already.
    if count > 1:
        near[1], near[largest] = near[largest], near[1]
    return length


@inner
def _add_side(values, u, L_max, sign, grid, skip, first, last, work, sums, total):
    """Add the sums over some blocks of one sign."""
    lowest = _SKIPPED * skip - grid
    all_near_one, decays = abs(u) * L_max <= _NEAR, -u * L_max > _DECAYING
    for block in range(first, last):
        L = values[block * BLOCK : (block + 1) * BLOCK]
        if L[0] == 0.0:
            continue
        # Of a decaying side, the values far from L = 0, and then those near it.
        for near in range(2 if decays else 1):
            y, d, far = work[0, : len(L)], work[1, : len(L)], 0
            if decays and not near:
                far = decaying(u, L, y, d)
                if not far:
                    continue
                # No residual is larger than its constant.
                c = 1.0 / abs(u)
                y_first, d_first = c, c * c
            else:
                if near:
                    if abs(u) * L[0] > NEAR_ZERO:
                        break
                    L = work[2, : _take_near_zero(u, L, work[2])]
                    y, d = y[: len(L)], d[: len(L)]
                if near or all_near_one:
                    near_one(u, L, y, d)
                else:
                    general(u, L, y, d)
                y_first, d_first = y[0], d[0]
            second = 1 if L[1] > 0.0 else 0
            y_window = _window(exponent(y_first), exponent(y[second]), lowest)
            d_window = _window(exponent(d_first), exponent(d[second]), lowest)
            _add_block(u, y, d, y_window, d_window, far, sign, grid, sums, total)


@inner
def _carried(total, result, pair):
    """Write the words of each sum as a wide integer."""
    for which in range(4):
        above = 0
        for limb in range(result.shape[1]):
            low = total[which, 2 * limb] + above
            high = total[which, 2 * limb + 1] + (low >> 32)
            result[which, limb, pair] = (low & _LOW_HALF) | (high << 32)
            above = high >> 32


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
        The blocks of each feature: those of its values >= 0, then those of its values < 0.
    sizes : array of shape (features, 2)
        How many values of each sign, a multiple of `LANES`.
    L_max : array of shape (2, features)
        Of the domain.
    feature, lmbda, grid : arrays of shape (pairs,)
        Of each pair, and of its encoding.
    skip : array of shape (2, pairs)
        Digits of the encoding that each side leaves out.
    digits, part, parts, first, last : int
        As many digits as any y or d of these encodings has; which of how many parts; which pairs.
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
