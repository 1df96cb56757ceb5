"""The bounds of what rounding does to a pooled fit are bounds, and not too large to be of use."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from mpmath import mp
from sklearn.exceptions import ConvergenceWarning

from securefedyj import ExpYJ
from securefedyj.numerics.arrays import Array
from securefedyj.pooled.blocks import drawn
from securefedyj.pooled.likelihood import Likelihood
from securefedyj.pooled.noise import noise as bounds
from securefedyj.pooled.solvers import newton
from tests import oracle
from tests.datasets import NAMES, table
from tests.numerics.test_certainty import is_right, pooled

# The bulk of these values, two close ones, is far from the reference of its side: that is an
# outlier, since outliers are more than half of the rows that the reference is chosen from.
FAR_FROM_THE_REFERENCE = [
    (0.1204682250126302, 0.12055166321308951, 0.038113924375593, 100),
    (501.3157795999304, 501.8937446069165, 17.78377568656428, 10),
]


def three_values(low: float, high: float, outlier: float, every: int) -> Array:
    n = 70_000
    x = np.full(n, low)
    x[::every] = high
    looked_at = drawn(n, 16 * 64)[np.arange(64) * 16]
    x[np.unique(looked_at)[:33]] = outlier
    return x


def with_outliers(seed: int) -> Array:
    source = np.random.default_rng(seed)
    low, close, far = 10 ** source.uniform([-1, -5, -2], [3, -1.5, 2])
    x = three_values(low, low * (1 + close), low * far, int(source.choice([2, 3, 10, 100])))
    return -x if seed % 2 else x


def repeated(seed: int) -> Array:
    """A few values of any kind, each of them often."""
    source = np.random.default_rng(seed)
    values = 10 ** source.uniform(-3, 6) * source.standard_t(2, size=4) + source.choice([0, 0, 30])
    return np.repeat(values, source.integers(1, 20_000, size=4))


def spread_out(seed: int) -> Array:
    """Values of one or both signs, close to each other or not."""
    source = np.random.default_rng(seed)
    return 10 ** source.uniform(-3, 3) * (source.choice([0, 1, 1e4]) + source.normal(size=25))


def unit_of_variance(likelihood: Likelihood, top: float, lmbda: mp.mpf) -> mp.mpf:
    """What the variance of an evaluation is divided by."""
    sides, factor = likelihood.sides, mp.mpf(1)
    if sides.one_sided[0]:
        u = lmbda if sides.sign[0] > 0 else 2 - lmbda
        factor = (1 + mp.mpf(sides.measure.reference[0])) ** (2 * u)
    return factor * mp.mpf(likelihood.scale[0]) ** 2 * mp.exp(2 * mp.mpf(top))


@pytest.mark.parametrize("values", FAR_FROM_THE_REFERENCE)
def test_values_far_from_their_reference_are_fitted_right_or_flagged(values):
    x = three_values(*values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = pooled(x)
    assert is_right(x, fitted.lambdas_[0]) or not fitted.converged_[0]


def rare(seed: int) -> Array:
    """All values but one or two are equal."""
    source = np.random.default_rng(seed)
    x = np.full(source.integers(1000, 20_000), source.choice([0.0, 1.0, 100.0]))
    x[:2] = [[-1e6, 1e-6], [0.001, -5], [3, 4], [1e6, -1e-6], [-1e6, 1], [5, x[1]]][seed % 6]
    return x


@pytest.mark.parametrize("family", [with_outliers, repeated, spread_out, rare])
@pytest.mark.parametrize("seed", range(6))
def test_rounding_moves_nothing_by_more_than_its_bound(family, seed):
    x = family(seed)
    likelihood, feature = Likelihood(x[None].copy()), np.array([0])
    scale = likelihood.scale[0]
    best = newton(likelihood).lmbda[0]
    for v in np.array([best, best + 1, 0.3, 2 - best]) * scale:
        found = likelihood.evaluate(feature, np.array([v]))
        noise = bounds(found.rounding, likelihood.sides)
        with mp.workdps(50):
            lmbda = mp.mpf(v) / mp.mpf(scale)
            right = oracle.score(x, lmbda) / scale
            _, variance = oracle.mean_var(x, lmbda)
            ratio = (
                found.variance[0, 0] * unit_of_variance(likelihood, found.top[0], lmbda) / variance
            )
            assert abs(found.score[0] - right) <= len(x) * noise.score[0]
            # The unit e^top is known to the digits of top only: no result depends on it.
            assert abs(ratio - 1) <= noise.variance[0] + 2.0**-49 * (1 + found.top[0])


@pytest.mark.parametrize("solver", ["newton", "expsearch"])
@pytest.mark.parametrize("dataset", NAMES)
def test_no_ordinary_feature_is_flagged(dataset, solver):
    assert ExpYJ(solver=solver, max_steps=100).fit(table(dataset)).converged_.all()


def test_no_random_feature_is_flagged():
    columns = [spread_out(seed) for seed in range(200)]
    assert ExpYJ().fit(np.array(columns).T).converged_.all()


def test_no_rare_value_is_flagged():
    assert all(pooled(sign * rare(seed)).converged_[0] for seed in range(12) for sign in (-1, 1))
