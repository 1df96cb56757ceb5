"""The Box-Cox transformation against its definition in multiple precision."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf

from securefedyj.numerics import boxcox, yeojohnson
from securefedyj.numerics.arrays import each
from securefedyj.numerics.yeojohnson import Standardization

pytestmark = pytest.mark.filterwarnings("error")

EPS = float(np.finfo(np.float64).eps)
MAX = float(np.finfo(np.float64).max)
TINY = 5e-324  # the smallest number
RNG = np.random.default_rng(1964)
VALUES = [TINY, 1e-310, 1e-300, 1e-8, 0.5, 1 - EPS, 1.0, 1 + EPS, 1.5, 3.0, 1e6, 1e300, MAX]
LAMBDAS = [-1e6, -40.0, -2.0, -0.3, -1e-9, -1e-300, 0.0, 1e-12, 0.5, 1.0, 7.0, 1e3, 1e300]
POINTS = [
    *product(VALUES, LAMBDAS),
    *zip(10 ** RNG.uniform(-300, 300, 200), RNG.normal(size=200) * 3, strict=True),
]
X, LMBDA = (np.array(part) for part in zip(*POINTS, strict=True))


def power(L, u):
    return mp.expm1(u * L) / u if u else L


def exact_transform(x, lmbda):
    with mp.workdps(1000):
        return power(mp.log(mpf(float(x))), mpf(float(lmbda)))


def is_close(found, exact, allowed) -> bool:
    """Within an error relative to the exact value, or beyond float64 where that is."""
    if abs(exact) > mpf(MAX):
        return bool(np.isinf(found)) and (found > 0) == (exact > 0)
    return bool(abs(mpf(float(found)) - exact) <= mpf(allowed) * abs(exact) + mpf(TINY))


@pytest.mark.parametrize("at", [1e-310, 1e-300, 2e-5, 1.0, 33.0, 1e6 + 500, 3e299])
def test_transform_and_its_standardization_are_right(at):
    found = boxcox.transform(X, LMBDA)
    center = Standardization(np.array(at), np.array(0.25), np.array(at * 1e-17))
    standardized = boxcox.standardize(X, LMBDA, center)
    for x, lmbda, y, z in zip(X, LMBDA, found, standardized, strict=True):
        exponent = min(abs(lmbda * np.log(x)), 710)
        assert is_close(y, exact_transform(x, lmbda), EPS * (8 + 2 * exponent)), (x, lmbda)
        with mp.workdps(1000):
            distance = mp.log(mpf(float(x)) / (mpf(at) + mpf(float(center.center_low))))
            exact = power(distance, mpf(float(lmbda))) / mpf(0.25)
            lost = 8 + 8 * min(abs(mpf(float(lmbda)) * distance), 710)
        assert is_close(z, exact, EPS * lost), (x, lmbda)


@pytest.mark.parametrize("at", [1e-300, 2e-5, 1.0, 1e6 + 500, 3e299])
@pytest.mark.parametrize("lmbda", [-7.0, -0.3, 0.0, 1e-12, 0.5, 1.0, 40.0])
def test_inverse_finds_the_values_again(at, lmbda):
    """A factor 20 below and above the center, where the transform is as far from its bound."""
    x = at * np.exp(np.linspace(-3, 3, 61) / max(1, abs(lmbda)))
    center = Standardization(np.array(at), np.array(0.5), np.array(0.0))
    z = boxcox.standardize(x, lmbda, center)
    np.testing.assert_allclose(boxcox.unstandardize(z, lmbda, center), x, rtol=1e-13)
    if abs(lmbda * np.log(at)) < 5:
        again = boxcox.inverse(boxcox.transform(x, lmbda), lmbda)
        np.testing.assert_allclose(again, x, rtol=1e-11)


def test_inverse_of_what_is_beyond_the_bound_is_missing():
    assert np.isnan(boxcox.inverse(2.0, -1.0))
    assert np.isnan(boxcox.inverse(-2.0, 1.0))
    at = Standardization(np.array(1.0), np.array(1.0), np.array(0.0))
    assert np.isnan(boxcox.unstandardize([2.0, -np.inf], [-1.0, 1.0], at)).all()


def test_what_is_missing_or_not_positive_has_no_transform():
    at = Standardization(np.array(1.0), np.array(1.0), np.array(0.0))
    values = np.array([np.nan, 0.0, -0.0, -1.0, -MAX, 1.0])
    for found in (boxcox.transform(values, 0.3), boxcox.standardize(values, 0.3, at)):
        np.testing.assert_array_equal(np.isnan(found), [True] * 5 + [False])


@pytest.mark.parametrize("lmbda", [-30.0, -1.0, 0.0, 0.4, 1.0, 25.0])
@pytest.mark.parametrize("a", [1e-300, 1e-9, 0.1, 1.0, 1e6, 1e299])
def test_center_of_the_ratio_is_that_of_the_values(a, lmbda):
    """Box-Cox of x is Yeo-Johnson of x/a - 1, but for an affine map."""
    ratio = np.array([0.0, 1e-12, 0.001, 0.5, 3.0, 1e6])
    at = Standardization(np.array([0.7]), np.array([0.3]), np.array([1e-18]))
    with mp.workdps(60):
        exact = mpf(a) * (1 + mpf(0.7) + mpf(1e-18))
        center = float(exact)
        of_values = Standardization(np.array([center]), at.width, np.array([float(exact - center)]))
    z = yeojohnson.standardize(ratio, lmbda, each(lambda column: column[0], at))
    # x is only as close to the ratio as its own rounding.
    allowed = EPS * 8 * (1 + abs(lmbda)) / 0.3
    x = a * (1 + ratio)
    np.testing.assert_allclose(
        boxcox.standardize(x, lmbda, of_values), z, rtol=EPS * 500, atol=allowed
    )


def test_mean_and_variance_overflow_quietly():
    at = Standardization(np.array([3.0, 1e300, 1e300]), np.full(3, 0.5), np.zeros(3))
    mean, var = boxcox.moments(np.array([2.0, 2.0, -2.0]), at)
    np.testing.assert_allclose(mean, [4.0, np.inf, 0.5])
    np.testing.assert_allclose(var, [20.25, np.inf, 0.0])
