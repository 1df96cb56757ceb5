"""The log-likelihood and its derivatives, for data of every kind, against the oracle.

Errors are measured in the units of the problem: a feature has n values, whose logarithms
log(1+|x|) spread over s (over their whole length, if it has both signs). Then its score is of
order n s and the derivative of its score of order n s^2, whatever the magnitude of the data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import ArrayLike

from securefedyj.numerics.arrays import Array
from securefedyj.pooled.likelihood import Likelihood, log_likelihood, score, score_derivative
from tests import oracle

pytestmark = pytest.mark.filterwarnings("error")


EPS = float(np.finfo(np.float64).eps)
RNG = np.random.default_rng(1964)
YEARS = [2003.0, 1950, 1997, 2000, 2009, 2009, 1980, 1999, 2007, 1991]
SAMPLES = {
    "positive": RNG.lognormal(size=30),
    "negative": -RNG.lognormal(size=30),
    "both signs": RNG.normal(size=30) * 2,
    "years": np.array(YEARS),
    "negative years": -np.array(YEARS),
    "huge": RNG.lognormal(size=20) * 1e100,
    "huge, both signs": RNG.normal(size=20) * 1e100,
    "tiny": RNG.lognormal(size=20) * 1e-100,
    "tiny, both signs": RNG.normal(size=20) * 1e-100,
    "very close": np.array([10, 10, 10, 10 - 1e-9]),
    "mostly zero": np.array([0.0] * 10 + [3, 4, -1e-3, -2e-3]),
    "zero and negative": np.array([0.0] * 10 + [-3, -4, -1e-3]),
    "largest": np.array([1e300, 1.5e300, 1e299, 1.7e308]),
    "one negative value": np.array([-2.0, 1, 2, 3, 4]),
    "one positive value": np.array([2.0, -1, -2, -3, -4]),
}
SMALL_AND_LARGE = [-50.0, -3.0, -0.7, 0.0, 1e-9, 0.3, 1.0, 2 - 1e-9, 2.0, 5.0, 300.0]


def spread(x: Array) -> float:
    ends = np.min(np.abs(x)), np.max(np.abs(x))
    logs = [mp.log1p(mpf(float(v))) for v in ends]
    return float(max(logs) - min(logs) if np.all(x >= 0) or np.all(x <= 0) else max(logs))


def exact(x: Array, lmbda: float) -> tuple[float, float, float]:
    """Log-likelihood, score, and the derivative of the score by a difference with many digits."""
    with mp.workdps(150):
        at, h = mpf(lmbda), mpf(10) ** -25 / mpf(spread(x))
        above, below = (oracle.score(x, at + step) for step in (h, -h))
        return (
            float(oracle.log_likelihood(x, at)),
            float(oracle.score(x, at)),
            float((above - below) / (2 * h)),
        )


def lost_by_logarithms(x: Array) -> float:
    """Units that differences of L = log(1+|x|) may be wrong by, if each L is right to one.

    Values with a spread below a factor of 4 do not subtract logarithms.
    """
    L = np.log1p(np.abs(x))
    return float(L.max()) if L.max() - L.min() > np.log(4) else 0.0


def assert_exact(values: Sequence[float], x: Array, lmbda: float, slack: float = 16) -> None:
    n, s = len(x), spread(x)
    expected = exact(x, lmbda)
    # Near lambda = 1, y is e^L, of which the rounding of L makes an error of L roundings.
    slack = EPS * (slack + 2 * s + lost_by_logarithms(x) / s)
    # Terms of the log-likelihood that may cancel: each of them is rounded.
    size = abs(expected[0]) + abs(lmbda - 1) * float(np.sum(np.log1p(np.abs(x))))
    for value, right, unit in zip(values, expected, (size, n * s, n * s**2), strict=True):
        assert abs(value - right) <= slack * unit, (value, right, abs(value - right) / unit)


def lambdas(x: Array) -> list[float]:
    """Ordinary ones, the optimum, and others at its distance from zero."""
    best = float(oracle.optimum(x))
    return [*SMALL_AND_LARGE, best, 3 * best, -best]


@pytest.mark.parametrize("name", SAMPLES)
def test_likelihood_and_derivatives_are_right(name: str) -> None:
    x = SAMPLES[name]
    for lmbda in lambdas(x):
        values = log_likelihood(x, lmbda), score(x, lmbda), score_derivative(x, lmbda)
        assert_exact(values, x, lmbda)


@pytest.mark.parametrize("name", ["positive", "both signs", "years"])
def test_negative_log_likelihood_is_convex(name: str) -> None:
    x = SAMPLES[name]
    grid = np.linspace(-30, 30, 241)
    assert all(score_derivative(x, lmbda) < 0 for lmbda in grid)
    assert np.all(np.diff([score(x, lmbda) for lmbda in grid]) < 0)


def test_narrow_data_have_a_score_to_full_relative_precision() -> None:
    """The score of years is a difference of two numbers a thousand times as large."""
    x = np.array(YEARS)
    for lmbda in (-50.0, 0.0, 1.0, 300.0):
        assert score(x, lmbda) == pytest.approx(exact(x, lmbda)[1], rel=8 * EPS)


@pytest.mark.parametrize("name", ["positive", "both signs", "years", "one negative value"])
def test_missing_values_do_not_count(name: str) -> None:
    x = SAMPLES[name]
    places = np.sort(np.random.default_rng(5).integers(0, len(x) + 1, 7))
    with_missing = np.insert(x, places, np.nan)
    for function in (log_likelihood, score, score_derivative):
        assert function(with_missing, 0.7) == pytest.approx(function(x, 0.7), rel=1e-12)
    assert_exact(
        [function(with_missing, 0.7) for function in (log_likelihood, score, score_derivative)],
        x,
        0.7,
    )


def test_the_data_of_a_sample_are_left_alone() -> None:
    x = SAMPLES["both signs"].copy()
    score(x, 0.7)
    np.testing.assert_array_equal(x, SAMPLES["both signs"])


def test_features_of_all_kinds_in_one_table() -> None:
    """Each feature at its own lambda, missing values where one is shorter than the longest."""
    samples = list(SAMPLES.values())
    rows = np.full((len(samples), max(map(len, samples))), np.nan)
    for row, x in zip(rows, samples, strict=True):
        row[: len(x)] = x
    likelihood = Likelihood(rows)
    assert likelihood.n.tolist() == [len(x) for x in samples]
    everything = np.arange(len(samples))
    at = np.array([float(oracle.optimum(x)) * 1.01 + 0.1 for x in samples])
    whole = likelihood.evaluate(everything, at * likelihood.scale)
    some = everything[::-3]
    part = likelihood.evaluate(some, at[some] * likelihood.scale[some])
    for features, evaluation in ((everything, whole), (some, part)):
        scale = likelihood.scale[features]
        values = zip(
            evaluation.log_likelihood,
            evaluation.score * scale,
            evaluation.curvature * scale**2,
            strict=True,
        )
        for j, value in zip(features, values, strict=True):
            assert_exact(value, samples[j], float(at[j]))


def discrete(values: ArrayLike, n: int) -> Array:
    """Many values of few kinds: the oracle counts them."""
    return RNG.choice(np.asarray(values, dtype=np.float64), n)


LONG = {
    "positive": discrete(np.round(RNG.lognormal(size=200), 3), 20_001),
    "negative": discrete(-np.round(RNG.lognormal(size=200), 3), 20_001),
    "both signs": discrete(np.round(RNG.normal(size=200), 3), 20_001),
    "years": discrete(np.arange(1950, 2020), 20_001),
    "one block and one value": discrete(RNG.normal(size=50), 8193),
    "mostly negative": discrete(np.round(RNG.normal(size=200) - 2.5, 3), 20_001),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("lmbda", [-3.0, 0.01, 1.3])
def test_rows_longer_than_a_block_are_right(name: str, lmbda: float) -> None:
    x = LONG[name]
    values = log_likelihood(x, lmbda), score(x, lmbda), score_derivative(x, lmbda)
    # Sums of 20,000 numbers, each rounded, of random signs.
    assert_exact(values, x, lmbda, slack=64)


def test_long_and_incomplete_rows_are_right() -> None:
    rows = np.full((3, 20_001), np.nan)
    chosen = [
        LONG[name][:n] for name, n in (("positive", 20_001), ("both signs", 9000), ("years", 5))
    ]
    for row, x in zip(rows, chosen, strict=True):
        row[np.random.default_rng(6).permutation(20_001)[: len(x)]] = x
    likelihood = Likelihood(rows)
    evaluation = likelihood.evaluate(np.arange(3), 0.6 * likelihood.scale)
    for j, x in enumerate(chosen):
        scale = likelihood.scale[j]
        values = (
            evaluation.log_likelihood[j],
            evaluation.score[j] * scale,
            evaluation.curvature[j] * scale**2,
        )
        assert_exact(values, x, 0.6, slack=64)


def test_ten_thousand_distinct_values() -> None:
    x = np.random.default_rng(7).lognormal(1, 2, 10_000)
    assert len(np.unique(x)) == len(x)
    for lmbda in (-0.4, 1.2):
        expected = float(oracle.score(x, lmbda))
        assert abs(score(x, lmbda) - expected) <= 16 * EPS * len(x) * spread(x)
