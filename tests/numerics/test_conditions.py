"""What `converged_` rests on, condition by condition: each of them alone can withhold it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from mpmath import mp, mpf
from sklearn.exceptions import ConvergenceWarning

from securefedyj import SecureFedYJ
from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.resolution import certainty
from securefedyj.numerics.search import Bracket, Path
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.pooled.likelihood import Likelihood
from tests import oracle


def one(*values: float) -> list[np.ndarray]:
    return [np.array([value]) for value in values]


def resolved(spread: float, visited: list[float], steps: int) -> bool:
    """Of a search over values around 1 that visited these points, and stayed at the last."""
    domain, n, (lmbda,) = Domain.from_bounds((0, 2), 1), np.array([100]), one(visited[-1])
    points = np.array([*visited, *visited[-1:] * (steps - len(visited))])[:, None]
    path = Path(points, np.ones(points.shape, dtype=np.int8))
    center, width, low = one(1.0, spread, 0.0)
    at = Standardization(center=center, width=width, center_low=low)
    bracket = Bracket(lmbda, lmbda, lmbda)
    return bool(certainty(domain, n, bracket, path, at, np.array([False])).resolved[0])


def test_a_sign_that_rounding_may_have_turned_makes_lambda_uncertain_wherever_it_was():
    """At 0 rounding moves the score of these values some 50 times as far as at 100."""
    assert resolved(2e-8, [100.0], steps=10)
    assert not resolved(2e-8, [0.0], steps=10)
    assert not resolved(2e-8, [0.0, 100.0], steps=10)
    assert not resolved(1e-5, [0.0], steps=30)
    assert resolved(1e-5, [0.0, 100.0], steps=30), "so far from lambda the score is larger"


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_search_that_has_not_turned_has_not_converged(sign):
    """Few steps promise little, but not even that while the maximum may be anywhere beyond."""
    x = 100 * np.exp(sign * 0.01 * np.random.default_rng(0).normal(size=50) ** 2)
    best = abs(float(oracle.optimum(x)))
    assert best > 16
    for steps in (2, 4, 5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = SecureFedYJ(engine="clear", max_steps=steps).fit([x[:, None]])
        assert abs(fitted.lambdas_[0]) < best / 1.5
        assert not fitted.converged_[0]


@pytest.mark.parametrize(
    ("lmbda", "x"),
    [
        (0.6, [-282882401.3990172, 0.3140156, 0.3140177, 0.3140193, 0.3140185]),
        (1.0056, [-278714353.5, -278656173.3, -278679518.2, 267457118.0, 267457395.6]),
    ],
)
def test_the_noise_of_a_score_covers_what_the_rounding_of_exponents_moves(lmbda, x):
    """Of values on two sides, and of as many lambdas near by as make it likely to be seen."""
    values = np.array(x)
    likelihood = Likelihood(values[None])
    scale = float(likelihood.scale[0])
    for step in range(60):
        v = (lmbda + 3e-3 * step) * scale
        found = likelihood.evaluate(np.array([0]), np.array([v]))
        with mp.workdps(60):
            exact = oracle.score(values, mpf(v) / mpf(scale)) / mpf(scale)
            assert abs(mpf(float(found.score[0])) - exact) <= mpf(float(found.score_noise[0]))
