"""A federated fit is right, or at its bound, or says that it cannot tell: never silently wrong."""

import warnings

import numpy as np
import pytest
from numpy.typing import ArrayLike

from securefedyj import SecureFedYJ
from tests import oracle

SOURCE = np.random.default_rng(0)
HARD: dict[str, ArrayLike] = {
    "zeros and a few tiny values": [0.0] * 11 + [2e-8] * 7,
    "two tiny values around zero": [-3e-7, 2e-7],
    "two tiny values": [1e-7, 3e-7],
    "nearly constant": [10.0, 10, 10, 10 + 1e-7],
    "tiny and normal": SOURCE.normal(size=200) * 1e-11,
    "small and even": [0.0] * 10 + [2e-5] * 10,
    "years": [2003.0, 1950, 1997, 2000, 2009, 2009, 1980, 1999, 2007, 1991],
    "a narrow cluster": 1000 + 1e-7 * SOURCE.lognormal(size=100),
    "decaying": 100 * np.exp(0.1 * SOURCE.normal(size=100) ** 2),
    "ordinary": SOURCE.lognormal(size=100),
}


def fit(x, **parameters):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        column = np.array(x).reshape(-1, 1)
        fitted = SecureFedYJ(engine="clear", max_steps=100, **parameters).fit([column])
    return fitted, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("name", HARD)
def test_a_wrong_lambda_is_never_silent(name):
    fitted, caught = fit(HARD[name])
    exact = float(oracle.optimum(np.asarray(HARD[name], dtype=float)))
    right = abs(fitted.lambdas_[0] - exact) <= 1e-6 * max(1, abs(exact))
    beyond = bool(fitted.at_bound_[0]) and np.sign(fitted.lambdas_[0]) == np.sign(exact)
    assert right or beyond or any("lambda is not certain" in text for text in caught)


@pytest.mark.parametrize("name", ["years", "decaying", "ordinary"])
def test_there_is_no_warning_where_lambda_is_right_or_at_its_bound(name):
    assert fit(HARD[name])[1] == []


@pytest.mark.parametrize("size", [1, 1e-3, 1e-6, 1e-9, 1e-12])
def test_bounds_close_to_the_values_resolve_them(size):
    x = size * SOURCE.lognormal(size=100)
    fitted, caught = fit(x, bounds=(0, 2 * x.max()))
    assert caught == []
    assert fitted.lambdas_[0] == pytest.approx(float(oracle.optimum(x)), rel=1e-9)
