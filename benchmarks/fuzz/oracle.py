"""The sign of the score in hundreds of bits, and what follows from it.

Nothing here is shared with the package. A fit is not solved for again: lambda is right if the
score is positive a little below it and negative a little above, since the score falls strictly.
Only where that does not hold is the optimum searched for, to say how far off the fit is.

MPFR's numbers (gmpy2) have exponents of 62 bits, so nothing overflows at any lambda below 1e18.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

Array = NDArray[np.float64]

PRECISION = 1e-9
"""What is promised: lambda within so many times max(|lambda|, 1/sqrt(|score'|/n))."""

_BITS = 256
_MOST_BITS = 16_000
_MOST_BITS_OF_MANY = 400  # of features with many distinct values: their nearest ones are noise
_MANY = 10_000
# No optimum is there: the exponents of Psi would differ by so much between two values.
_ABSURD = 1e12


@contextmanager
def _bits(precision: int) -> Iterator[None]:
    with gmpy2.context(
        gmpy2.get_context(),
        precision=precision,
        emin=gmpy2.get_emin_min(),
        emax=gmpy2.get_emax_max(),
    ):
        yield


@dataclass(frozen=True)
class Sample:
    """The distinct values of a feature, ascending, and how often each occurs."""

    values: Array
    counts: NDArray[np.int64]
    box_cox: bool = False
    """Whether L is log(x), in place of log(1+|x|)."""

    @classmethod
    def of(cls, x: Array, box_cox: bool = False) -> Sample:
        return cls(*np.unique(x[~np.isnan(x)] + 0.0, return_counts=True), box_cox)

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def constant(self) -> bool:
        return len(self.values) < 2

    @property
    def extent(self) -> float:
        """How far apart the L of two values are, or how large where both signs occur."""
        L = np.log(self.values) if self.box_cox else np.log1p(np.abs(self.values))
        one_sided = self.values[0] >= 0 or self.values[-1] <= 0
        return float(np.ptp(L)) if one_sided else float(L.max())

    def bits(self, lmbda: float) -> int:
        """Enough for the nearest two values to differ in their second derivatives."""
        with np.errstate(all="ignore"):
            gaps = np.diff(self.values) / ((not self.box_cox) + np.abs(self.values[1:]))
        nearest = min(max(float(gaps.min()), 1e-320), 1.0)
        u = min((abs(v) for v in (lmbda, 2 - lmbda) if v), default=1.0)
        # What e^{uL} - 1 loses where it is near 0, and what it gains where it is large.
        lost = -4 * math.log2(nearest) + 2 * max(0.0, -math.log2(u))
        ends = np.abs(self.values[[0, -1]])
        largest = float(np.abs(np.log(ends) if self.box_cox else np.log1p(ends)).max())
        grown = 2 * max(0.0, math.log2(max(abs(lmbda), 1.0)) + math.log2(max(largest, 1e-300)))
        most = _MOST_BITS if len(self.values) <= _MANY else _MOST_BITS_OF_MANY
        return min(_BITS + int(lost + grown), most)


@dataclass(frozen=True)
class Moments:
    """Of y = Psi(lambda, x), less a constant and over a factor where all values have one sign."""

    y: list[Any]
    mean: Any
    variance: Any
    covariance: Any  # of y and its derivative by lambda
    mean_phi: Any


def moments(sample: Sample, lmbda: Any) -> Moments:
    """Means over the sample, at the precision of the context."""
    lmbda, n = mpfr(lmbda), sample.n
    weights = [mpfr(int(count)) for count in sample.counts]
    logarithm = gmpy2.log if sample.box_cox else gmpy2.log1p
    L = [logarithm(abs(mpfr(float(value)))) for value in sample.values]
    one_sided = sample.values[0] >= 0 or sample.values[-1] <= 0
    if one_sided:
        # Psi = (1+|c|)^u r + constant with r = ((1+|x|)/(1+|c|))^u - 1)/u, for any c of the sample;
        # without the 1+ for Box-Cox.
        side = 1 if sample.values[0] >= 0 else -1
        origin = L[int(np.searchsorted(np.cumsum(sample.counts), n / 2))]
        u = lmbda if side > 0 else 2 - lmbda
        D = [one - origin for one in L]
        pairs = [_power(u, one) for one in D]
        y = [side * r for r, _ in pairs]
        d = [slope for _, slope in pairs]
        phi = [side * one for one in D]
    else:
        sides = [1 if value >= 0 else -1 for value in sample.values]
        pairs = [
            _power(lmbda if side > 0 else 2 - lmbda, one)
            for side, one in zip(sides, L, strict=True)
        ]
        y = [side * r for side, (r, _) in zip(sides, pairs, strict=True)]
        d = [slope for _, slope in pairs]
        phi = [side * one for side, one in zip(sides, L, strict=True)]
    mean, mean_d = _dot(weights, y) / n, _dot(weights, d) / n
    centered = [one - mean for one in y]
    return Moments(
        y,
        mean,
        _dot(weights, [one * one for one in centered]) / n,
        _dot(weights, [one * (slope - mean_d) for one, slope in zip(centered, d, strict=True)]) / n,
        _dot(weights, phi) / n,
    )


def _power(u: Any, L: Any) -> tuple[Any, Any]:
    """(e^{uL} - 1)/u and its derivative by u, which is that of Psi by lambda on both sides."""
    if u == 0:
        return L, L * L / 2
    grown = gmpy2.expm1(u * L)
    r = grown / u
    return r, (L * (grown + 1) - r) / u


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return gmpy2.fsum([one * other for one, other in zip(a, b, strict=True)])


def score(sample: Sample, lmbda: Any) -> Any:
    """The derivative of the log-likelihood, divided by n."""
    with _bits(sample.bits(float(lmbda))):
        at = moments(sample, lmbda)
        return at.mean_phi - at.covariance / at.variance


def standardized(sample: Sample, lmbda: float) -> Array:
    """(Psi(lambda, x) - mean) / standard deviation of each distinct value."""
    with _bits(sample.bits(lmbda)):
        at = moments(sample, lmbda)
        deviation = gmpy2.sqrt(at.variance)
        return np.array([float((one - at.mean) / deviation) for one in at.y])


def scale(sample: Sample, lmbda: Any) -> float:
    """1/sqrt(|score'|/n): how far lambda moves the log-likelihood of one value by about 1."""
    with _bits(sample.bits(float(lmbda)) + 200):
        step = max(abs(mpfr(lmbda)), mpfr(1)) * mpfr(2) ** -100
        at = [moments(sample, mpfr(lmbda) + sign * step) for sign in (-1, 1)]
        low, high = (one.mean_phi - one.covariance / one.variance for one in at)
        return float(1 / gmpy2.sqrt(abs(high - low) / (2 * step)))


def error(sample: Sample, lmbda: float, search: bool = True) -> float:
    """How far lambda is off, in units of max(|lambda*|, scale).

    At most PRECISION only where the score is positive a little below lambda and negative a little
    above. Otherwise the optimum is searched for, or else, to save time, the error counts as inf.
    """
    if not math.isfinite(lmbda) or abs(lmbda) * sample.extent > _ABSURD:
        return math.inf
    off = _bracketed(sample, lmbda, PRECISION * abs(lmbda) / 2)
    if off is None:
        off = _bracketed(sample, lmbda, PRECISION * scale(sample, lmbda) / 2)
    if off is not None:
        return off
    best = optimum(sample, lmbda) if search else mpfr("inf")
    if not gmpy2.is_finite(best):
        return math.inf
    unit = max(abs(float(best)), scale(sample, best))
    with _bits(_BITS):
        return float(abs(mpfr(lmbda) - best)) / unit


def _bracketed(sample: Sample, lmbda: float, distance: float) -> float | None:
    """The error if the optimum is no farther away than this, by the secant; None if it is not."""
    if not distance > 0 or not math.isfinite(distance):
        return None
    with _bits(_BITS):
        below, above = mpfr(lmbda) - distance, mpfr(lmbda) + distance
    before, after = score(sample, below), score(sample, above)
    if not before > 0 > after:
        return None
    with _bits(_BITS):
        unit = max(mpfr(abs(lmbda)), gmpy2.sqrt(2 * mpfr(distance) / (before - after)))
        return float(distance * abs(before + after) / (before - after) / unit)


def optimum(sample: Sample, near: float = 0.0) -> Any:
    """The true lambda to 1e-13 of its size: a bracket from anywhere, then narrowed."""
    with _bits(_BITS):
        rising = score(sample, near) > 0
        width = mpfr(max(abs(near), 1.0)) * mpfr(1e-12)
        low = high = mpfr(near)
        while True:
            if rising:
                low, high = high, mpfr(near) + width
            else:
                low, high = mpfr(near) - width, low
            if (score(sample, high if rising else low) > 0) != rising:
                break
            width *= 16
            if width > mpfr("1e305"):
                return mpfr("inf") if rising else mpfr("-inf")
        return _false_position(sample, low, high)


def _false_position(sample: Sample, low: Any, high: Any) -> Any:
    """A bracketed root: points on both sides of the secant's, and the middle."""
    f_low, f_high = score(sample, low), score(sample, high)
    for _ in range(200):
        tolerance = mpfr("1e-13") * max(abs(low), abs(high)) + mpfr("1e-40")
        if high - low <= tolerance:
            break
        secant = low + (high - low) * f_low / (f_low - f_high)
        # Both ends must move: overshoot the secant's root by a share of the bracket.
        for guess in (secant - (high - low) / 1000, secant + (high - low) / 1000, (low + high) / 2):
            if not low < guess < high:
                continue
            f = score(sample, guess)
            if f > 0:
                low, f_low = guess, f
            else:
                high, f_high = guess, f
    return (low + high) / 2
