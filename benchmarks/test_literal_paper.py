"""The paper taken literally, a peer for benchmarks, does what the paper says."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import yeojohnson, yeojohnson_llf

from benchmarks.literal_paper import exp_update, fit_literal, transformed

pytestmark = pytest.mark.mpyc


def test_it_finds_the_maximum_of_the_likelihood():
    rows = np.random.default_rng(3).gamma(2.0, size=(90, 2)) - 1
    fit = fit_literal([rows[:20], rows[20:50], rows[50:]], max_steps=20)
    for j, x in enumerate(rows.T):
        best = minimize_scalar(lambda u, x=x: -yeojohnson_llf(u, x), bracket=(-2, 2)).x
        assert fit.lambdas[j] == pytest.approx(best, abs=1e-5)
        z = yeojohnson(x, fit.lambdas[j])
        assert (fit.means[j], fit.variances[j]) == pytest.approx((z.mean(), z.var()), abs=1e-10)
    assert fit.seconds.shape == (2,)
    assert fit.bytes_sent.shape == (3, 2)
    assert (fit.bytes_sent > 10_000).all()


@pytest.mark.parametrize("lambda_", [-1.5, 0.0, 0.7, 2.0, 3.0])
def test_the_formulas_are_those_of_yeo_and_johnson(lambda_):
    x = np.linspace(-3, 3, 13)
    psi, d_psi = transformed(lambda_, x)
    np.testing.assert_allclose(psi, yeojohnson(x, lambda_), atol=1e-14)
    step = 1e-6
    slope = (yeojohnson(x, lambda_ + step) - yeojohnson(x, lambda_ - step)) / (2 * step)
    np.testing.assert_allclose(d_psi, slope, rtol=1e-7, atol=1e-8)


def test_the_search_doubles_and_then_halves():
    state = 0.0, -math.inf, math.inf
    path = [(state := exp_update(*state, delta))[0] for delta in (1, 1, 1, -1, 1)]
    assert path == [1, 2, 4, 3, 3.5]
    assert exp_update(-1.0, -math.inf, 0.0, -1) == (-2.0, -math.inf, -1.0)
