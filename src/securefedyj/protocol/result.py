"""The result of a run, as it follows from what was revealed and nothing else.

docs/protocol.md, section 7. From exact integers to float64 there is one rounding each, by integer
and decimal arithmetic: every party gets the same bits.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.encoding import choose_encoding, is_decaying
from securefedyj.numerics.resolution import Certainty, certainty
from securefedyj.numerics.search import at_bound, recover_path
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.protocol.constants import constants
from securefedyj.protocol.reach import bounds_of_y
from securefedyj.protocol.reveals import Moments, Revealed, lowest_opened

# Up to this version of the protocol a constant was centered where log(1 + |x|) puts it.
CENTERED_BY_LOGARITHM = 3


class Result(NamedTuple):
    """The fit: what everybody is meant to learn, one entry per feature."""

    lmbda: Array
    mean: Array
    var: Array
    n: Integers
    at_bound: Bools
    converged: Bools
    """Whether lambda is certain to the promised precision: see `resolution` and `constants`."""
    constant: Bools
    standardization: Standardization


def compute_result(revealed: Revealed) -> Result:
    """The fit, from what was revealed in a whole run."""
    p, domain = revealed.n_features, revealed.agreement.domain
    state, constant = revealed.search_state(), revealed.constant()
    lmbda = np.where(constant, 1.0, state.value)
    beyond = at_bound(state, domain.limits())
    n, magnitude = revealed.counts(), revealed.magnitudes()
    moments = dict[int, tuple[int, int]]()
    for reveal in revealed.all(Moments):
        chosen, bits = reveal.features, revealed.agreement.result_bits
        V_low, y_low = lowest_opened(magnitude[chosen], bits)
        V, S_y = _complete(reveal.V, V_low), _complete(reveal.S_y, y_low)
        # A mean of n values is at least 1/sqrt(n) of a standard deviation within their range: only
        # with very many can the middle of what was not opened be beyond.
        for place in np.flatnonzero((n[chosen] > 4.0 ** (bits + 1)) & (y_low > 0)).tolist():
            j = chosen[place : place + 1]
            (lowest,), (highest,) = bounds_of_y(domain.take(j), n[j], lmbda[j])
            count = int(n[j][0])
            S_y[place] = min(max(S_y[place], count * lowest), count * highest)
        moments |= dict(zip(chosen.tolist(), zip(V, S_y, strict=True), strict=True))
    grid = choose_encoding(domain, n, lmbda).grid
    result = Result(
        lmbda,
        np.zeros(p),
        np.zeros(p),
        n,
        beyond & ~constant,
        np.ones(p, dtype=bool),
        constant,
        Standardization(np.zeros(p), np.ones(p), np.zeros(p)),
    )
    decays = zip(
        is_decaying(domain.L_positive, lmbda).tolist(),
        is_decaying(domain.L_negative, 2 - lmbda).tolist(),
        strict=True,
    )
    for feature, (step, sides) in enumerate(zip(grid.tolist(), decays, strict=True)):
        if feature in moments:
            _fill(result, feature, step, sides, *moments[feature])
    if revealed.agreement.version > CENTERED_BY_LOGARITHM:
        _place_constants(revealed, result, moments)
    resolved, narrowed = certainty_of(revealed, result)
    result.converged[:] = resolved & narrowed
    return result


def _place_constants(
    revealed: Revealed, result: Result, moments: dict[int, tuple[int, int]]
) -> None:
    """Center constant features at their value, and say where others may be among the values."""
    chosen = np.array([j for j in moments if result.constant[j]], dtype=np.intp)
    V, S_y = zip(*(moments[j] for j in chosen.tolist()), strict=True) if len(chosen) else ((), ())
    n, y = result.n[chosen], [S // n for S, n in zip(S_y, result.n[chosen].tolist(), strict=True)]
    domain, center = revealed.agreement.domain.take(chosen), result.standardization.center[chosen]
    value, certain = constants(domain, n, y, center)
    result.converged[chosen] = certain & (np.array(V, dtype=object) == 0)
    result.mean[chosen] = result.standardization.center[chosen] = value
    result.standardization.center_low[chosen] = 0.0
    # As if the standard deviation were 1.
    result.standardization.width[chosen] = 1 / (1 + np.abs(value))


def certainty_of(revealed: Revealed, result: Result) -> Certainty:
    """Why a lambda is not certain, or that all values are equal."""
    p, agreement = revealed.n_features, revealed.agreement
    varies = np.flatnonzero(~result.constant)
    resolved, narrowed = result.converged | ~result.constant, np.ones(p, dtype=bool)
    domain, beyond = agreement.domain.take(varies), result.at_bound[varies]
    path = recover_path(result.lmbda[varies], agreement.max_steps, domain.limits(), beyond)
    resolved[varies], narrowed[varies] = certainty(
        domain,
        result.n[varies],
        revealed.search_state().take(varies),
        path,
        result.standardization.take(varies),
        beyond,
    )
    return Certainty(resolved, narrowed)


def _complete(values: list[int], low: Integers) -> list[int]:
    """V or S_y, with what was not opened at the middle of its range."""
    return [
        (value << shift) + (1 << shift >> 1)
        for value, shift in zip(values, low.tolist(), strict=True)
    ]


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
    # Values that do not vary at lambda = 0 may do so by a unit of the grid at lambda = 1.
    variance = 0.0 if result.constant[j] else V / (n * n << 2 * grid)
    result.mean[j], result.var[j] = S_y / unit, variance
    if slope <= 0:  # only a forged transcript has a mean beyond the range of Psi
        result.standardization.center[j] = result.standardization.width[j] = np.nan
        return
    center = _center(_ratio(slope, scale), _ratio(growth, scale), _ratio(size, unit), Decimal(u))
    if negative:
        center = -center
    result.standardization.center[j] = float(center)
    with localcontext(_DIGITS):
        result.standardization.center_low[j] = float(center - Decimal(float(center)))
    # A constant is centered as if its standard deviation were 1.
    deviation = 1.0 if result.constant[j] else sqrt(variance)
    result.standardization.width[j] = deviation / (slope / scale)


# Decimal arithmetic gives the same digits everywhere; the logarithms of C libraries do not. With
# so many, those that are kept of the center do not depend on where `_log` starts.
_DIGITS = Context(prec=50)
_KEPT = Context(prec=36)


def _ratio(a: int, b: int) -> Decimal:
    return _DIGITS.divide(Decimal(a), Decimal(b))


def _center(slope: Decimal, growth: Decimal, mean: Decimal, u: Decimal) -> Decimal:
    """c with (1 + c)^u = slope = 1 + growth, where growth = u mean."""
    with localcontext(_DIGITS):
        # Three terms of each series where a logarithm or exponential would cancel.
        tiny = Decimal("1e-16")
        small = mean * (1 - growth * (1 - growth * 2 / 3) / 2)
        L = small if abs(growth) < tiny else _log(slope) / u
        return _KEPT.plus(L * (1 + L * (1 + L / 3) / 2) if tiny > L else L.exp() - 1)


def _log(x: Decimal) -> Decimal:
    """The logarithm, by one exponential: that of float64, and what is missing to 46 digits."""
    near = Decimal(log(x))
    rest = x * (-near).exp() - 1
    return near + rest * (1 - rest * (1 - rest * 2 / 3) / 2)
