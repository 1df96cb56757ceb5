"""Data that once broke the fit, the transformation or the search."""

import warnings

import numpy as np
import pytest

from securefedyj import ExpYJ
from securefedyj.numerics import yeojohnson as yj
from securefedyj.numerics.search import Bracket, Limits, at_bound, exp_update, recover_path
from securefedyj.pooled.fit import fit_pooled
from tests import oracle

pytestmark = pytest.mark.filterwarnings("error")


def fit(x, solver="newton", max_steps=120):
    return fit_pooled(np.array(x, dtype=float).reshape(-1, 1), solver, max_steps)


def z_of(x, fitted):
    at = fitted.standardization.take(0)
    return yj.standardize(np.array(x, dtype=float), fitted.lmbda[0], at)


# solvers.newton accepts a bisection step as converged
@pytest.mark.parametrize("x", [[5.0, 120, -36, 47, 210], [-1.0, -2, 0, 2, 1]])
def test_newton_is_right_to_full_precision(x):
    fitted = fit(x)
    assert fitted.lmbda[0] == pytest.approx(float(oracle.optimum(x)), rel=1e-12)
    assert len(fitted.path) <= 8


# a side with one distinct value makes the scale >= 1
@pytest.mark.parametrize("size", [1e-9, 1e-100, 1e-170])
def test_tiny_data_with_one_value_on_a_side(size):
    x = size * np.array([-1.0, -1, -1, 1, 2])
    fitted = fit(x)
    assert fitted.lmbda[0] == pytest.approx(float(oracle.optimum(x)), rel=1e-12)
    assert len(fitted.path) <= 12


# center cancels when it is far below the reference
@pytest.mark.parametrize("size", [1e20, 1e40, 1e90])
def test_two_groups_far_apart(size):
    x = np.repeat([0.0, size], [21, 29])
    z = z_of(x, fit(x))
    assert abs(z.mean()) <= 1e-12
    assert abs(z.var() - 1) <= 1e-12


# e^top is missing where u is nearly 0 on the side of the mean
@pytest.mark.parametrize("offset", [1e-9, 1e-7, 1e-5, 1e-3])
def test_values_on_both_sides_of_zero_one_of_them_near_it(offset):
    x = np.array([-1.0, offset])
    np.testing.assert_allclose(z_of(x, fit(x)), [-1, 1], rtol=1e-12)


# B5, test_pooled.py, test_yeojohnson.py: widths that are subnormal or 0, lambda * L that overflows
@pytest.mark.parametrize("x", [[5e-324] * 3 + [1e-323], [1e-310, 3e-310, 1e-309, 0.0]])
def test_subnormal_data_are_transformed_to_numbers(x):
    z = z_of(x, fit(x))
    assert np.all(np.isfinite(z))
    assert np.max(np.abs(z)) < 10


def test_subnormal_data_of_both_signs_are_fitted():
    fitted = fit([-5e-324, 0, 0, 5e-324])
    assert fitted.lmbda[0] == pytest.approx(1)  # by symmetry
    assert not fitted.at_bound[0]


def test_standardize_gives_no_warning_for_any_finite_lambda():
    yj.standardize(2.5, -4e306, yj.Standardization(np.array(-1e112), np.array(0.05)))


# log_likelihood promises inf and NaN for constant and empty features
def test_log_likelihood_of_constant_and_empty_features():
    X = np.column_stack([np.full(4, 5.0), np.full(4, np.nan), [1.0, 2, 3, 5]])
    with pytest.warns(UserWarning, match="all values are missing"):
        fitted = ExpYJ().fit(X)
    values = fitted.log_likelihood(X)
    assert values[0] == np.inf
    assert np.isnan(values[1])
    assert np.isfinite(values[2])


# the warning of transform points into scikit-learn, not at the caller
def test_saturation_warning_points_at_the_caller():
    X = np.array([[10.0], [10.0], [10.0], [10 - 1e-4]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ExpYJ(standardize=False).fit(X).transform(X)
    assert caught[0].filename == __file__


# limits beyond 2^1023, or none, and more than 1024 growing signs
def test_a_search_without_limits_does_not_overflow():
    bracket = Bracket.start(1)
    for sign in [+1] * 1025 + [-1]:
        bracket = exp_update(bracket, sign)
    assert bracket.value[0] >= 2.0**1000


# highest = 0 is the start, and at_bound means the lower edge
def test_path_to_the_lower_edge_is_recovered_when_the_start_is_the_upper_edge():
    limits = Limits(-0.5, 0.0)
    bracket, points = Bracket.start(1), []
    for _ in range(2):
        points.append(bracket.value[0])
        bracket = exp_update(bracket, -1, limits)
    assert at_bound(bracket, limits)[0]
    path = recover_path(bracket.value, 2, limits, at_bound(bracket, limits))
    np.testing.assert_array_equal(path.points[:, 0], points)
    np.testing.assert_array_equal(path.signs[:, 0], [-1, -1])
