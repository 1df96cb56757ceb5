"""The compiled loops of the pooled fit: see `survey`, `distances` and `row_sums` for what they do.

Operation by operation they do what NumPy does there, so that they give the same bits: nothing is
contracted or reordered. Importing this module imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from securefedyj.numerics import distances as by_distances
from securefedyj.numerics import elementary
from securefedyj.numerics import row_sums as by_sums
from securefedyj.numerics import survey as by_survey
from securefedyj.numerics.blocks import LANES
from securefedyj.numerics.compiled.residuals import inner, log1p
from securefedyj.numerics.fast import OPTIONS
from securefedyj.numerics.sides import TINY, logarithm
from securefedyj.numerics.yeojohnson import _PHI3_COEFFICIENTS

_LN2_HIGH, _LN2_LOW, _LOG2_E = elementary.LN2_HIGH, elementary.LN2_LOW, elementary.LOG2_E
_R, _PHI3 = elementary.R, _PHI3_COEFFICIENTS
_ROUND = 1.5 * 2.0**52
_LEAST_EXPONENT = -700.0
# Values at once: what a loop leaves for the next one stays in the innermost cache.
_SOME = 1024

_compiled = njit(**OPTIONS)
# A call inside of a loop would keep it from being vectorized.
_inlined = njit(**{**OPTIONS, "cache": False, "forceinline": True})


@_compiled
def survey(values, counts, lowest, highest):
    """Write counts and extremes of each feature: first of the values < 0, then of the others."""
    count, low, high = np.empty((2, LANES), np.int64), np.empty((2, LANES)), np.empty((2, LANES))
    for feature in range(len(values)):
        x = values[feature]
        count[:], low[:], high[:] = 0, np.inf, -np.inf
        whole = len(x) // LANES * LANES
        for begin in range(0, whole, LANES):
            for j in range(LANES):
                _survey(x[begin + j], j, count, low, high)
        for i in range(whole, len(x)):
            _survey(x[i], 0, count, low, high)
        for k in range(2):
            counts[feature, k] = count[k].sum()
            lowest[feature, k], highest[feature, k] = low[k].min(), high[k].max()


@_inlined
def _survey(x, j, count, low, high):
    below = x if x < 0.0 else np.nan
    other = x if x >= 0.0 else np.nan
    count[0, j] += x < 0.0
    count[1, j] += x >= 0.0
    low[0, j] = below if below < low[0, j] else low[0, j]
    low[1, j] = other if other < low[1, j] else low[1, j]
    high[0, j] = below if below > high[0, j] else high[0, j]
    high[1, j] = other if other > high[1, j] else high[1, j]


@_inlined
def _logarithm(x):
    return x if abs(x) < TINY else log1p(x)


@_compiled
def distances(
    chunk,
    position,
    complete,
    least,
    most,
    close,
    reference,
    log_reference,
    size,
    D,
    length,
    first,
    last,
):
    """D / s of the values of the sides and pieces from first to last."""
    pieces, width = D.shape[1:]
    for task in range(first, last):
        side, piece = task // pieces, task % pieces
        values, out = chunk[position[side], piece * width : (piece + 1) * width], D[side, piece]
        if complete[side]:
            n = len(values)
            for i in range(n):
                out[i] = abs(values[i])
        else:
            n = _magnitudes(values, least[side], most[side], out)
        padded = -(-n // LANES) * LANES
        length[side, piece] = padded
        c, log_c, s = reference[side], log_reference[side], size[side]
        out[n:padded] = c
        if close[side]:
            _measure_close(out[:padded], c, log_c, s)
        else:
            _measure(out[:padded], log_c, s)


@inner
def _magnitudes(values, least, most, out):
    """Write |x| of the values that belong, and return how many these are."""
    n = 0
    for x in values:
        out[n] = abs(x)  # overwritten by the next one, if it does not belong
        n += (x >= least) & (x <= most)
        if n == len(out):
            break
    return n


@inner
def _measure(x, log_c, s):
    for i in range(len(x)):
        x[i] = (_logarithm(x[i]) - log_c) / s


@inner
def _measure_close(x, c, log_c, s):
    far = False
    for i in range(len(x)):
        far |= (x[i] - c) / (1.0 + c) < -0.5
    for i in range(len(x)):
        share = (x[i] - c) / (1.0 + c)
        if far and share < -0.5:
            x[i] = (_logarithm(x[i]) - log_c) / s
        else:
            x[i] = _logarithm(share) / s


@_compiled
def sums(D, length, where, kappa, shift, one, small, out, first, last):
    """The sums of the sides and pieces from first to last, written to out."""
    pieces = D.shape[1]
    lanes, scratch = np.empty((8, LANES)), np.empty((2, _SOME))
    for task in range(first, last):
        k, piece = task // pieces, task % pieces
        lanes[:] = 0.0
        n = length[where[k], piece]
        for begin in range(0, n, _SOME):
            part = D[where[k], piece, begin : min(n, begin + _SOME)]
            if small[k]:
                _add_series(part, kappa[k], lanes)
            else:
                _exponentials(part, kappa[k], shift[k], scratch)
                _add_exponentials(part, scratch[0], one[k], lanes)
        for sum in range(8):
            out[piece, sum, k] = _folded(lanes[sum])


@inner
def _folded(lanes):
    half = LANES // 2
    while half:
        for j in range(half):
            lanes[j] += lanes[half + j]
        half //= 2
    return lanes[0]


@inner
def _add_series(D, kappa, lanes):
    for begin in range(0, len(D), LANES):
        for j in range(LANES):
            d = D[begin + j]
            z = kappa * d
            phi3 = _PHI3[0]
            for c in _PHI3[1:]:
                phi3 = phi3 * z + c
            phi2 = 0.5 + z * phi3
            phi1 = 1.0 + z * phi2
            r0 = d * phi1
            r1 = d * d * (phi1 - phi2)
            r2 = d * d * d * (phi1 - 2.0 * phi2 + 2.0 * phi3)
            lanes[0, j] += r0
            lanes[1, j] += r1
            lanes[2, j] += r2
            lanes[3, j] += r0 * r0
            lanes[4, j] += r0 * r1
            lanes[5, j] += r1 * r1
            lanes[6, j] += r0 * r2
            lanes[7, j] += d


@inner
def _exponentials(D, kappa, shift, scratch):
    """e^{uD}, divided by e^shift, in the first row."""
    e, power = scratch[0], scratch[1]
    for i in range(len(D)):
        z = kappa * D[i] - shift
        z = z if z > _LEAST_EXPONENT else _LEAST_EXPONENT
        rounded = z * _LOG2_E + _ROUND
        n = rounded - _ROUND
        r = (z - n * _LN2_HIGH) - n * _LN2_LOW
        square = r * r
        divisor = square * _R[0] + _R[1]
        for c in _R[2:]:
            divisor = divisor * square + c
        e[i] = r / (divisor - r) * 2.0 + 1.0
        power[i] = np.int64((np.float64(rounded).view(np.int64) + 1023) << 52).view(np.float64)
    for i in range(len(D)):
        e[i] *= power[i]


@inner
def _add_exponentials(D, e, one, lanes):
    for begin in range(0, len(D), LANES):
        for j in range(LANES):
            d = D[begin + j]
            q0 = e[begin + j]
            q1 = d * q0
            q2 = d * q1
            q0 = q0 - one
            lanes[0, j] += q0
            lanes[1, j] += q1
            lanes[2, j] += q2
            lanes[3, j] += q0 * q0
            lanes[4, j] += q0 * q1
            lanes[5, j] += q1 * q1
            lanes[7, j] += d


@_compiled
def add(summands, total, lost):
    """Add one after the other, and what rounding takes to what is lost."""
    for piece in range(summands.shape[0]):
        for i in range(total.shape[0]):
            for j in range(total.shape[1]):
                a, b = total[i, j], summands[piece, i, j]
                added = a + b
                back = added - a
                lost[i, j] += (a - (added - back)) + (b - back)
                total[i, j] = added


def check() -> None:
    """Raise an error unless all loops have the bits of NumPy on a few values."""
    values = np.random.default_rng(0).normal(2.0, 2.0, (4, 3 * LANES - 5))
    values[1, ::7] = np.nan
    values[2:] = np.exp(values[2:])
    both = [(np.empty((4, 2), np.int64), *np.empty((2, 4, 2))) for _ in range(2)]
    survey(values, *both[0])
    by_survey.by_numpy(values, *both[1])
    _compare(both)

    reference, size = np.array([1.0, 2.0, 2.0, 1.5]), np.array([1.0, 1.5, 2.0, 0.7])
    yardstick = by_distances.Yardstick(
        complete=np.array([False, False, True, True]),
        least=np.array([0.0, -np.inf, -np.inf, -np.inf]),
        most=np.array([np.inf, -5e-324, np.inf, np.inf]),
        close=np.array([False, True, True, False]),
        reference=reference,
        log_reference=logarithm(reference),
        size=size,
    )
    position = np.arange(4)
    measured = [(np.zeros((4, 1, 3 * LANES)), np.empty((4, 1), np.int64)) for _ in range(2)]
    distances(values, position, *yardstick, *measured[0], 0, 4)
    by_distances.by_numpy(values, position, yardstick, *measured[1])
    _compare(measured)

    kappa, shift = np.array([0.1, -2.0, -0.2, 40.0]), np.array([0.0, 0.0, 0.0, 310.0])
    at = by_sums.Exponents.of(kappa, shift, np.abs(kappa) < 0.25)
    summed = [(np.zeros((1, by_sums.SUMS, 4)), *np.zeros((2, by_sums.SUMS, 4))) for _ in range(2)]
    sums(*measured[0], position, *at, summed[0][0], 0, 4)
    by_sums.by_numpy(*measured[1], position, at, summed[1][0])
    for add_up, (one, total, lost) in zip((add, by_sums.add_by_numpy), summed, strict=True):
        add_up(np.concatenate([one, -one / 3]), total, lost)
    _compare(summed)


def _compare(both: list[tuple[Any, ...]]) -> None:
    for ours, right in zip(*both, strict=True):
        if not np.array_equal(ours, right):
            raise ArithmeticError("They do not give the bits of NumPy.")
