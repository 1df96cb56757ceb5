"""Constant features become 0, and no others are taken for constant without a warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from securefedyj import ExpYJ, SecureFedYJ, load, parameters
from securefedyj.numerics.arrays import Array
from tests.numerics.test_certainty import federated, is_right

TOLD_APART_BY_NOTHING = [
    (2.0**60 + np.array([0.0, 256, 512, 1024]), (0, 2.0**61)),
    (np.array([8, np.nextafter(8, 9), np.nextafter(8, 9)]), None),
    (-np.array([8, np.nextafter(8, 9), np.nextafter(8, 9)]), None),
]


def column(x: Array) -> Array:
    return np.asarray(x, dtype=float).reshape(-1, 1)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("c", [1.4e11, 2.4e14, 2.4e17, 1731957600123.0, 98.6, 7.25e-5, 3e-12, 6e29])
def test_a_constant_of_few_digits_is_transformed_to_0(c, sign):
    x = np.full(20, sign * c)
    bounds = (0, 2 * c) if sign > 0 else (-2 * c, 0)
    fitted = federated(x, bounds=bounds)
    assert fitted.transform(column(x)).tolist() == [[0.0]] * 20
    assert (fitted.mean_[0], fitted.var_[0], fitted.lambdas_[0]) == (x[0], 0, 1)
    assert fitted.to_sklearn().lambdas_[0] == 1
    assert fitted.transcript_.audit().passed


def test_any_constant_is_transformed_to_0_or_flagged():
    source = np.random.default_rng(5)
    c = source.choice([-1, 1], 150) * 10 ** source.uniform(-3, 25, 150)
    bounds = [(min(0, 2 * a), max(0, 2 * a)) for a in c.tolist()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = SecureFedYJ(engine="clear", bounds=bounds).fit([np.tile(c, (5, 1))])
    Z = fitted.transform(c[None])[0]
    assert np.all((Z == 0) | ~fitted.converged_)
    np.testing.assert_allclose(fitted.mean_, c, rtol=1e-13)


def test_usual_constants_are_certain():
    """Of a column that is 0 or 1 everywhere there is nothing to warn of."""
    x = np.array([0.0, 1, -1, 0.5, 0.1, 0.25, -0.75, 0.001])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = SecureFedYJ(engine="clear").fit([np.tile(x, (3, 1)), np.tile(x, (4, 1))])
    assert fitted.converged_.all()
    assert fitted.transform(x[None]).tolist() == [[0.0] * len(x)]


@pytest.mark.parametrize(("x", "bounds"), TOLD_APART_BY_NOTHING)
def test_distinct_values_that_count_as_constant_are_flagged(x, bounds, tmp_path):
    silos = [column(x[:2]), column(x[2:]), None]
    with pytest.warns(ConvergenceWarning, match="0: all values count as equal"):
        fitted = SecureFedYJ(engine="clear", bounds=bounds).fit(silos)
    assert not fitted.converged_[0]
    assert fitted.transcript_.audit().passed
    parameters.save(fitted.transcript_, tmp_path / "parameters.json")
    assert not load(tmp_path / "parameters.json").converged_[0]
    fitted.transcript_.result.converged[0] = True
    assert not fitted.transcript_.audit().passed


@pytest.mark.parametrize(("x", "bounds"), TOLD_APART_BY_NOTHING)
def test_a_pooled_fit_tells_them_apart(x, bounds):
    fitted = ExpYJ().fit(column(x))
    assert fitted.converged_[0]
    assert is_right(x, fitted.lambdas_[0])
    np.testing.assert_allclose(np.var(fitted.transform(column(x))), 1, rtol=1e-9)


def test_neighbours_of_any_size_are_constant_only_if_that_is_said():
    """Or if they differ by less than the documented 2^-53 (1 + |x|)."""
    source = np.random.default_rng(6)
    c = np.concatenate([10 ** source.uniform(-1, 6, 150), 2.0 ** np.arange(-3, 20)])
    other = np.where(source.random(len(c)) < 0.5, np.nextafter(c, np.inf), np.nextafter(c, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = SecureFedYJ(engine="clear").fit([np.stack([c, other, other])])
    constant = fitted.transcript_.result.constant
    unsaid = constant & fitted.converged_
    assert np.all((np.abs(c - other) <= 2.0**-53 * (1 + c))[unsaid])
    assert np.count_nonzero(constant & ~fitted.converged_) > 20
