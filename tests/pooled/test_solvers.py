"""Both ways to the maximum of the likelihood: newton and the paper's exponential search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.search import Bracket, Limits, exp_update, recover_path
from securefedyj.pooled.likelihood import Likelihood, score
from securefedyj.pooled.solvers import LAMBDA_LIMIT, Optimum, expsearch, newton
from tests import oracle
from tests.datasets import NAMES, features

pytestmark = pytest.mark.filterwarnings("error")


# How far lambda may be off, relative to itself or to what changes uL by 1, if that is more.
TOLERANCE = {"newton": 1e-12, "expsearch": 1e-12}

DISTRIBUTIONS: dict[str, Callable[[Generator, int], Array]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "lognormal": lambda rng, n: rng.lognormal(0, rng.uniform(0.1, 5), n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "gamma": lambda rng, n: rng.gamma(10 ** rng.uniform(-1.5, 2), size=n),
    "beta": lambda rng, n: rng.beta(10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1), n),
    "student": lambda rng, n: rng.standard_t(rng.uniform(0.5, 10), n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "counts": lambda rng, n: rng.poisson(10 ** rng.uniform(-2, 3), n).astype(np.float64),
    "bimodal": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.normal(-3, 0.1, n), rng.normal(4, 1, n)
    ),
    "zero-inflated": lambda rng, n: np.where(rng.random(n) < 0.8, 0.0, rng.lognormal(size=n)),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "pareto": lambda rng, n: rng.pareto(10 ** rng.uniform(-1, 1), n),
    "weibull": lambda rng, n: rng.weibull(10 ** rng.uniform(-1, 1), n),
    "two values": lambda rng, n: rng.choice([0.0, 1.0], n),
}


@st.composite
def samples(draw: st.DrawFn) -> Array:
    """Data of some distribution, scale, shift, sign and number."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(2, 30) | st.integers(2, 500))
    x = DISTRIBUTIONS[draw(st.sampled_from(sorted(DISTRIBUTIONS)))](rng, n)
    x = x * draw(st.sampled_from([1.0, -1.0])) * 10.0 ** draw(st.just(0) | st.integers(-12, 12))
    x = x + draw(st.just(0.0) | st.floats(-1e6, 1e6) | st.floats(-3, 3))
    assume(np.min(x) < np.max(x))
    return x


def solve(solver: str, x: Array, max_steps: int = 120) -> Optimum:
    likelihood = Likelihood(np.array(x, dtype=np.float64).reshape(1, -1))
    return newton(likelihood) if solver == "newton" else expsearch(likelihood, max_steps)


def unit(x: Array) -> float:
    """A change of lambda by this changes uL by about 1: smaller ones are relative to it."""
    logs = np.log1p(np.abs(x))
    one_sided = np.all(x >= 0) or np.all(x <= 0)
    low, high = np.min(np.abs(x)), np.max(np.abs(x))
    return 1 / (np.log1p((high - low) / (1 + low)) if one_sided else np.max(logs))


@settings(max_examples=40)
@given(x=samples())
def test_newton_and_expsearch_find_the_same_maximum(x: Array) -> None:
    """And the score is positive below it and negative above."""
    fast, slow = (float(solve(solver, x).lmbda[0]) for solver in ("newton", "expsearch"))
    size = max(abs(slow), unit(x))
    assert abs(fast - slow) <= sum(TOLERANCE.values()) * size
    for lmbda in (fast, slow):
        assert score(x, lmbda - 1e-6 * size) > 0 > score(x, lmbda + 1e-6 * size)


@settings(max_examples=30)
@given(x=samples())
def test_lambda_is_that_of_the_oracle(x: Array) -> None:
    x = x[:20]
    assume(np.min(x) < np.max(x))
    expected = float(oracle.optimum(x))
    for solver in ("newton", "expsearch"):
        found = float(solve(solver, x).lmbda[0])
        assert abs(found - expected) <= TOLERANCE[solver] * max(abs(expected), unit(x)), solver


@pytest.mark.parametrize("start", [-1e6, -300.0, -2.0, 0.0, 5.0, 40.0, 1e3, 1e6])
def test_newton_reaches_the_maximum_from_anywhere(start: float) -> None:
    rows = [[-3.5, -1.25, 0.0, 0.25, 1.5, 7.75], [1.0, 1, 1, 1, 1, 0], [10, 10, 10, 10, 10, 9.99]]
    likelihood = Likelihood(np.array(rows))
    found = newton(likelihood, np.full(3, start)).lmbda
    expected = np.array([float(oracle.optimum(row)) for row in rows])
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE["newton"])


def test_newton_takes_few_passes_over_real_data() -> None:
    """Also where lambda* is a thousand times as far away as the start."""
    passes = []
    for dataset in NAMES:
        path = newton(Likelihood(np.array([feature.x for feature in features(dataset)]))).path
        passes.extend(np.count_nonzero(~np.isnan(path), axis=0))
    assert np.median(passes) <= 5
    assert max(passes) <= 16


def test_path_of_newton_ends_next_to_the_maximum() -> None:
    rows = np.array([feature.x for feature in features("wine")])
    optimum = newton(Likelihood(rows.copy()))
    assert optimum.path.shape[1] == len(rows)
    for path, lmbda, x in zip(optimum.path.T, optimum.lmbda, rows, strict=True):
        visited = path[~np.isnan(path)]
        assert np.all(np.isnan(path[len(visited) :]))
        assert visited[0] == 0.0  # where log(1+x) would be normal
        # The last step, from there, is not visited.
        assert abs(visited[-1] - lmbda) <= 5e-6 * max(abs(lmbda), unit(x))


@pytest.mark.parametrize("max_steps", [1, 2, 7, 40])
@pytest.mark.parametrize("dataset", ["iris", "wine"])
def test_expsearch_is_algorithm_1(dataset: str, max_steps: int) -> None:
    """Bit for bit what exact signs give: 40 steps do not go to where float64 signs are wrong."""
    columns = features(dataset)[:6]
    likelihood = Likelihood(np.array([feature.x for feature in columns]))
    optimum = expsearch(likelihood, max_steps)
    for j, feature in enumerate(columns):
        bracket, visited = Bracket.start(1), []
        for _ in range(max_steps):
            visited.append(float(bracket.value[0]))
            # The score falls strictly: it is positive below its root and negative above.
            bracket = exp_update(bracket, 1 if visited[-1] < feature.lmbda else -1)
        assert optimum.lmbda[j] == bracket.value[0]
        np.testing.assert_array_equal(optimum.path[:, j], visited)


def test_path_of_expsearch_follows_from_its_result() -> None:
    rows = np.array([feature.x for feature in features("digits")])
    optimum = expsearch(Likelihood(rows), 100)
    limits = Limits(-LAMBDA_LIMIT, LAMBDA_LIMIT)
    recovered = recover_path(optimum.lmbda, len(optimum.path), limits, optimum.at_bound)
    np.testing.assert_array_equal(recovered.points, optimum.path)


@pytest.mark.parametrize("solver", ["newton", "expsearch"])
@pytest.mark.parametrize(
    ("x", "edge"),
    [
        ([5e-324] * 3 + [1e-323], -LAMBDA_LIMIT),
        ([-5e-324] * 3 + [-1e-323], LAMBDA_LIMIT),
        ([1e-300] * 3 + [2e-300], -LAMBDA_LIMIT),
        ([-1e-300] * 3 + [-2e-300], LAMBDA_LIMIT),
    ],
)
def test_search_ends_at_the_edge_of_its_range(solver: str, x: list[float], edge: float) -> None:
    """For [a, a, a, 2a] lambda* is -2.8 / a."""
    optimum = solve(solver, np.array(x), 2000)
    assert optimum.lmbda[0] == pytest.approx(edge, rel=1e-15)
    assert optimum.at_bound[0]


@pytest.mark.parametrize("solver", ["newton", "expsearch"])
def test_maximum_just_inside_the_range_is_found(solver: str) -> None:
    x = np.array([1e-299] * 3 + [2e-299])
    optimum = solve(solver, x, 2000)
    assert not optimum.at_bound[0]
    assert optimum.lmbda[0] == pytest.approx(float(oracle.optimum(x)), rel=TOLERANCE[solver])
