"""The result of a run, as it follows from what was revealed and nothing else.

docs/protocol.md, section 7. From exact integers to float64 there is one rounding each, by integer
and decimal arithmetic: every party gets the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Bools, Index, Integers, each
from securefedyj.numerics.elementary import exponential
from securefedyj.numerics.encoding import LINEAR, RATIO, Domain, choose_encoding, is_decaying
from securefedyj.numerics.resolution import Certainty, certainty
from securefedyj.numerics.search import at_bound, recover_path
from securefedyj.numerics.sums import ArraySilo
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.methods import METHODS
from securefedyj.protocol.revealed import Revealed
from securefedyj.protocol.reveals import Moments, lowest_opened

# Up to this version of the protocol a constant was centered where log(1 + |x|) puts it.
CENTERED_BY_LOGARITHM = 3

_MOST_DIGITS = 17  # they distinguish all float64
_FLOAT64_BITS = 53
# Values that were rounded to a grid have the right standard deviation if it is 2^30 of its units.
_SPREAD_BITS = 30
_CHANCE = 1e-6  # that a number of few digits has the y of another value
_STEPS = 8


class Result(NamedTuple):
    """The fit: what all parties are meant to learn, one entry per question but for quantiles.

    For box-cox, mean and variance are those of x/lower, which are always finite; see
    `numerics.boxcox.moments`. `center` and `width` are as in `Standardization`, but for standard
    the width is the standard deviation.
    """

    lmbda: Array
    mean: Array
    var: Array
    n: Integers
    at_bound: Bools
    converged: Bools
    """Whether lambda is certain to the promised precision (see `resolution`), or for a constant
    feature whether all values are equal (see `_constant_values`)."""
    constant: Bools
    center: Array
    width: Array
    center_low: Array

    @property
    def standardization(self) -> Standardization:
        return Standardization(self.center, self.width, self.center_low)

    def take(self, some: Index) -> Result:
        return each(lambda part: part[some], self)


class Points(NamedTuple):
    """The quantiles that were not refused: the smallest points that are not below `rank` values."""

    features: Index
    """The numbers of the questions."""
    n: Integers
    rank: Integers
    number: Integers
    """Of the point."""
    value: Array


def fit_of(agreement: Agreement, result: Result, method: str) -> tuple[Index, Result]:
    """The numbers of the features that have a method, and what it found, in the same order."""
    asked = agreement.asked
    some = np.flatnonzero(asked.domain.scale[asked.fitted] == METHODS[method])
    return asked.column[asked.fitted[some]], result.take(some)


def compute_points(transcript: Revealed) -> Points:
    """The quantiles, from what was revealed in a whole run."""
    asked, n = transcript.agreement.asked, transcript.counts()
    some = np.flatnonzero(transcript.admitted())
    number = transcript.search_state().value[some]
    return Points(
        some, n[some], asked.ranks(n)[some], number.astype(np.int64), asked.points(number, some)
    )


def compute_result(transcript: Revealed) -> Result:
    """The fit, from what was revealed in a whole run."""
    # With an entry for each question; those for quantiles mean nothing.
    p, domain = transcript.n_features, transcript.agreement.asked.domain
    constant, lmbda = transcript.constant(), transcript.optimum()
    linear = domain.scale == LINEAR
    beyond = at_bound(transcript.search_state(), domain.limits())
    n, magnitude = transcript.counts(), transcript.magnitudes()
    moments = dict[int, tuple[int, int]]()
    for reveal in transcript.all(Moments):
        chosen, bits = reveal.features, transcript.agreement.result_bits
        V_low, y_low = lowest_opened(magnitude[chosen], bits)
        V, S_y = _complete(reveal.V, V_low), _complete(reveal.S_y, y_low)
        # A mean of n values is at least 1/sqrt(n) of a standard deviation within their range: only
        # with very many can the middle of what was not opened be beyond.
        for place in np.flatnonzero((n[chosen] > 4.0 ** (bits + 1)) & (y_low > 0)).tolist():
            j = chosen[place : place + 1]
            own, count = domain.take(j), int(n[j][0])
            (lowest,), (highest,) = (y_of(x, own, n[j], lmbda[j]) for x in (own.lower, own.upper))
            S_y[place] = min(max(S_y[place], count * lowest), count * highest)
        moments |= dict(zip(chosen.tolist(), zip(V, S_y, strict=True), strict=True))
    result = Result(
        lmbda,
        np.zeros(p),
        np.zeros(p),
        n,
        beyond & ~constant,
        np.ones(p, dtype=bool),
        constant,
        center=np.zeros(p),
        width=np.ones(p),
        center_low=np.zeros(p),
    )
    grid = choose_encoding(domain, n, lmbda).grid.tolist()
    positive = is_decaying(domain.L_positive, lmbda).tolist()
    negative = is_decaying(domain.L_negative, 2 - lmbda).tolist()
    exponent = domain.exponent().tolist()
    for feature, (V_j, S_j) in moments.items():
        if linear[feature]:
            _fill_linear(result, feature, grid[feature] - exponent[feature], V_j, S_j)
            continue
        decays = (negative if S_j < 0 else positive)[feature]
        _fill(result, feature, grid[feature], decays, V_j, S_j, float(domain.least[feature]))
    if transcript.agreement.version > CENTERED_BY_LOGARITHM:
        _place_constants(transcript, result, moments)
    result.lmbda[constant] = 1.0
    result = result.take(transcript.agreement.asked.fitted)
    resolved, narrowed = certainty_of(transcript, result)
    result.converged[:] = resolved & narrowed
    return result


def _place_constants(
    transcript: Revealed, result: Result, moments: dict[int, tuple[int, int]]
) -> None:
    """Center constant features at their value, and mark those that may have other values."""
    domain = transcript.agreement.asked.domain
    searched = transcript.agreement.asked.searched
    chosen = np.array([j for j in moments if result.constant[j] and searched[j]], dtype=np.intp)
    if not len(chosen):
        return
    V, S_y = zip(*(moments[j] for j in chosen.tolist()), strict=True)
    n, y = result.n[chosen], [S // n for S, n in zip(S_y, result.n[chosen].tolist(), strict=True)]
    domain = domain.take(chosen)
    value, certain = _constant_values(domain, n, y, result.center[chosen])
    result.converged[chosen] = certain & (np.array(V, dtype=object) == 0)
    result.center[chosen], result.center_low[chosen] = value, 0.0
    ratio = domain.scale == RATIO
    result.mean[chosen] = np.where(ratio, result.mean[chosen], value)
    # As if the standard deviation were 1.
    result.width[chosen] = np.minimum(1 / _stretch(domain, value), np.finfo(np.float64).max)


def _stretch(domain: Domain, x: Array) -> Array:
    """By how much x grows where its logarithm grows by 1."""
    return np.where(domain.scale == RATIO, 0.0, 1.0) + np.abs(x)


def _constant_values(
    domain: Domain, n: Integers, y: Sequence[int], near: Array
) -> tuple[Array, Bools]:
    """The values of features that have the same y in all rows, and whether they are certain.

    A silo computes y from log(1 + |x|), rounded to float64, and most x share that logarithm with a
    neighbour. Of those with the y that was opened, on the grid at lambda = 1 and close to ``near``,
    the one with the fewest decimal digits is the value. (For Box-Cox lambda may be less than 1.)

    It is certain if no other value has the same y. Next to a value of few digits, one may have it
    that is no further away than 2^-53 (1 + |x|), or than two units of the grid. Digits are few if a
    number with no more of them hardly has the y by chance.
    """
    rounded = [[float(f"{c:.{digits}e}") for digits in range(_MOST_DIGITS)] for c in near.tolist()]
    # An x that is half a unit of the last place of the logarithm away may have another one.
    in_log = np.spacing(np.abs(domain.logarithm(near))) * _stretch(domain, near)
    step = np.maximum(np.spacing(np.abs(near)), in_log / 2)
    steps = near[:, None] + np.arange(-_STEPS, _STEPS + 1) * step[:, None]
    candidates = np.hstack([np.array(rounded), steps])
    fits = _have(candidates, domain, n, y)
    rows = np.arange(len(near))
    first = np.argmax(fits, axis=1)
    value = np.where(np.any(fits, axis=1), candidates[rows, first], near)
    lmbda = domain.at_constants()
    unit = np.ldexp(1.0, -choose_encoding(domain, n, lmbda).grid.astype(np.int32))
    # By how much x grows where y does, for Box-Cox: x (x/least)^-lambda.
    slope = np.where(lmbda < 1, value * exponential(-lmbda * domain.logarithm(value)), domain.least)
    unit *= np.where(domain.scale == RATIO, slope, 1.0)
    stretch = _stretch(domain, value)
    alike = np.maximum(2 * unit, np.spacing(np.abs(domain.logarithm(value))) * stretch)
    few = 10.0 ** (first + 1) * alike <= _CHANCE * np.abs(value)
    unseen = np.where(few | (value == 0), np.maximum(2 * unit, 2.0**-53 * stretch), 0.0)
    neighbours = np.stack([*_beyond(value, unseen), *_beyond(value, -unseen)], axis=1)
    alone = ~np.any(_have(neighbours, domain, n, y), axis=1)
    return value, np.any(fits, axis=1) & alone


def _beyond(value: Array, distance: Array) -> tuple[Array, Array]:
    """The first two float64 that are further from the value."""
    far, toward = value + distance, np.copysign(np.inf, distance)
    further = np.where(np.abs(far - value) > np.abs(distance), far, np.nextafter(far, toward))
    return further, np.nextafter(further, toward)


def _have(candidates: Array, domain: Domain, n: Integers, y: Sequence[int]) -> Bools:
    """Which candidates for each feature are within its bounds and have its y."""
    p, each = candidates.shape
    feature = np.repeat(np.arange(p), each)
    domain, x = domain.take(feature), candidates.ravel()
    inside = (x >= domain.lower) & (x <= domain.upper)
    found = y_of(np.where(inside, x, domain.lower), domain, n[feature], domain.at_constants())
    same = [own == y[j] for own, j in zip(found, feature.tolist(), strict=True)]
    return np.array(same).reshape(p, each) & inside.reshape(p, each)


def y_of(x: Array, domain: Domain, n: Integers, lmbda: Array) -> list[int]:
    """y of one value of each feature, on the grid at lambda, as a silo computes it."""
    encoding, every = choose_encoding(domain, n, lmbda), np.arange(len(x))
    most = np.maximum(encoding.positive.y_bits, encoding.negative.y_bits)
    silo = ArraySilo(x[None], domain, [""] * len(x))
    return wide.to_ints(silo.sums(every, lmbda, encoding, 1 + int(most.max(initial=0)) // 64).y)


def certainty_of(transcript: Revealed, result: Result) -> Certainty:
    """Why a lambda is not certain, or that all values are equal."""
    asked, max_steps = transcript.agreement.asked, transcript.agreement.max_steps
    varies = np.flatnonzero(~result.constant & asked.searched[asked.fitted])
    resolved, narrowed = result.converged.copy(), np.ones(len(result.n), dtype=bool)
    domain, beyond = asked.domain.take(asked.fitted[varies]), result.at_bound[varies]
    path = recover_path(result.lmbda[varies], max_steps, domain.limits(), beyond)
    resolved[varies], narrowed[varies] = certainty(
        domain,
        result.n[varies],
        transcript.search_state().take(asked.fitted[varies]),
        path,
        result.standardization.take(varies),
        beyond,
    )
    return Certainty(resolved, narrowed)


def _complete(values: list[int], low: Integers) -> list[int]:
    """V or S_y, with the bits that were not opened at the middle of their range."""
    return [
        (value << shift) + (1 << shift >> 1)
        for value, shift in zip(values, low.tolist(), strict=True)
    ]


def _fill_linear(result: Result, j: int, grid: int, V: int, S_y: int) -> None:
    """Mean, variance, center and width of one feature whose values are their own y."""
    n, unit = int(result.n[j]), Fraction(2) ** -grid
    mean, variance = Fraction(S_y, n) * unit, float(Fraction(V, n * n) * unit * unit)
    result.mean[j], result.var[j], result.constant[j] = float(mean), variance, V == 0
    result.center[j], result.center_low[j] = float(mean), float(mean - Fraction(float(mean)))
    result.width[j] = sqrt(variance) if V else 1.0
    # The values of a constant are rounded to the grid, unless they have all bits of a float64.
    exact = S_y == 0 or abs(S_y) >= n << _FLOAT64_BITS
    result.converged[j] = n * n <= V >> 2 * _SPREAD_BITS if V else exact


def _fill(result: Result, j: int, grid: int, decays: bool, V: int, S_y: int, least: float) -> None:
    """Mean, variance, center and width of one feature, from exact integers.

    ``decays`` says whether the side of the mean is decaying; ``least`` is the lower bound for
    box-cox, else 0.
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
    if decays:
        a, b = (1 / abs(u)).as_integer_ratio()
        growth, slope, scale = b * growth, p * (b * size - a * unit), b * scale
    # Values that do not vary at lambda = 0 may do so by a unit of the grid at lambda = 1.
    variance = 0.0 if result.constant[j] else V / (n * n << 2 * grid)
    result.mean[j], result.var[j] = S_y / unit, variance
    if slope <= 0:  # only a forged transcript has a mean beyond the range of Psi
        result.center[j] = result.width[j] = np.nan
        return
    center = _center(_ratio(slope, scale), _ratio(growth, scale), _ratio(size, unit), Decimal(u))
    if negative:
        center = -center
    if least:
        with localcontext(_DIGITS):
            center = Decimal(least) * (1 + center)
    result.center[j] = float(center)
    with localcontext(_DIGITS):
        result.center_low[j] = float(center - Decimal(float(center)))
    # A constant is centered as if its standard deviation were 1.
    deviation = 1.0 if result.constant[j] else sqrt(variance)
    result.width[j] = deviation / (slope / scale)


# Decimal arithmetic gives the same digits everywhere; the logarithms of C libraries do not. The
# digits of the center that are kept do not depend on where `_log` starts.
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
    """The logarithm to 46 digits: that of float64, corrected by one exponential."""
    near = Decimal(log(x))
    rest = x * (-near).exp() - 1
    return near + rest * (1 - rest * (1 - rest * 2 / 3) / 2)
