"""The result of a run, as it follows from what was revealed and nothing else.

docs/protocol.md, section 7. From exact integers to float64 there is one rounding each, by integer
and decimal arithmetic: every party gets the same bits.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj.numerics.arrays import Array, Integers
from securefedyj.numerics.encoding import choose_encoding, decaying
from securefedyj.numerics.search import at_bound
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import Moments, Revealed, lowest_opened


class Result(NamedTuple):
    """The fit: what everybody is meant to learn, one entry per feature."""

    lmbda: Array
    mean: Array
    var: Array
    n: Integers
    at_bound: NDArray[np.bool_]
    constant: NDArray[np.bool_]
    standardization: Standardization


def compute_result(revealed: Revealed) -> Result:
    """The fit, from what was revealed in a whole run."""
    p, domain = revealed.n_features, revealed.agreement.domain
    state, constant = revealed.search_state(), revealed.constant()
    lmbda = np.where(constant, 1.0, state.value)
    beyond = at_bound(state, domain.limits())
    n = revealed.counts()
    moments: dict[int, tuple[int, int]] = {}
    for reveal in revealed.all(Moments):
        values = zip(*_complete(reveal), strict=True)
        moments |= dict(zip(reveal.features.tolist(), values, strict=True))
    grid = choose_encoding(domain, n, lmbda).grid
    standardization = Standardization(np.zeros(p), np.ones(p))
    result = Result(
        lmbda, np.zeros(p), np.zeros(p), n, beyond & ~constant, constant, standardization
    )
    decays = zip(
        decaying(domain.L_positive, lmbda).tolist(),
        decaying(domain.L_negative, 2 - lmbda).tolist(),
        strict=True,
    )
    for j, (step, sides) in enumerate(zip(grid.tolist(), decays, strict=True)):
        if j in moments:
            _fill(result, j, step, sides, *moments[j])
    return result


def unresolved(agreement: Agreement, result: Result) -> list[str]:
    """Features that vary so little, for their bounds, that lambda is not certain.

    The score is the difference of terms of which each sample contributes its d, rounded to
    the grid and to float64. Near the center, d varies with the square of the spread s of
    log(1+|x|), and the score falls by s^2 per unit of lambda: so an error e of d, in units of
    the slope of Psi, moves lambda by about e / s^3.
    """
    center, spread = result.standardization
    L = np.log1p(np.abs(center))
    u = np.where(center >= 0, result.lmbda, 2 - result.lmbda)
    grid = choose_encoding(agreement.domain, result.n, result.lmbda).grid
    with np.errstate(all="ignore"):
        size = np.where(np.abs(u * L) < 1e-8, L, -np.expm1(-u * L) / u)  # |mean| / slope
        size = np.where(u * L < -1, 1 / np.abs(u), size)  # where the constant is kept apart
        error = np.exp2(-grid) * np.exp(-u * L) + 2.0**-53 * L * size
        uncertain = error / spread**3 > 1e-6 * np.maximum(1, np.abs(result.lmbda))
    chosen = np.flatnonzero(uncertain & ~result.constant)
    return [agreement.features[j] for j in chosen]


def _complete(reveal: Moments) -> tuple[list[int], list[int]]:
    """V and S_y, with what was not opened at the middle of its range."""
    V, S_y = (
        [(value << low) + (1 << low >> 1) for value, low in zip(values, lows.tolist(), strict=True)]
        for values, lows in zip(
            (reveal.V, reveal.S_y), lowest_opened(reveal.magnitude), strict=True
        )
    )
    return V, S_y


def _fill(result: Result, j: int, grid: int, decays: tuple[bool, bool], V: int, S_y: int) -> None:
    """Mean, variance, center and width of one feature, from exact integers.

    ``decays`` tells of the two sides, mean >= 0 and mean < 0, whether they are decaying.
    """
    n, u = int(result.n[j]), float(result.lmbda[j])
    negative = S_y < 0
    if negative:
        u = 2 - u
    # Fractions are kept as numerator and denominator, since none needs its lowest terms.
    unit, size = n << grid, abs(S_y)
    p, q = u.as_integer_ratio()
    # At the center c, where Psi is |mean|, e^{uL} = 1 + u |mean|. It may be tiny: on a decaying
    # side |mean| is close to the constant that the silos have added, 1/|u| as a float64.
    growth, slope, scale = p * size, p * size + q * unit, q * unit
    if decays[negative]:
        a, b = (1 / abs(u)).as_integer_ratio()
        growth, slope, scale = b * growth, p * (b * size - a * unit), b * scale
    variance = V / (n * n << 2 * grid)
    result.mean[j], result.var[j] = S_y / unit, variance
    if slope <= 0:  # only a forged transcript has a mean beyond the range of Psi
        result.standardization.center[j] = result.standardization.width[j] = np.nan
        return
    center = float(
        _center(_ratio(slope, scale), _ratio(growth, scale), _ratio(size, unit), Decimal(u))
    )
    result.standardization.center[j] = -center if negative else center
    # A constant is centered as if its standard deviation were 1.
    deviation = 1.0 if result.constant[j] else sqrt(variance)
    result.standardization.width[j] = deviation / (slope / scale)


# Decimal arithmetic gives the same digits everywhere; the logarithms of C libraries do not. Of
# these, float64 takes 17, and `_center` may lose 12.
_DIGITS = Context(prec=32)


def _ratio(a: int, b: int) -> Decimal:
    return _DIGITS.divide(Decimal(a), Decimal(b))


def _center(slope: Decimal, growth: Decimal, mean: Decimal, u: Decimal) -> Decimal:
    """c with (1 + c)^u = slope = 1 + growth, where growth = u mean."""
    with localcontext(_DIGITS):
        # Two terms of each series where a logarithm or exponential would cancel.
        tiny = Decimal("1e-12")
        L = mean * (1 - growth / 2) if abs(growth) < tiny else _log(slope) / u
        return L * (1 + L / 2) if tiny > L else L.exp() - 1


def _log(x: Decimal) -> Decimal:
    """The logarithm, by one exponential: that of float64, and what is missing to 30 digits."""
    near = Decimal(log(x))
    rest = x * (-near).exp() - 1
    return near + rest * (1 - rest / 2)
