"""The multiple-precision oracle against results that are known without it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import yeojohnson_normmax
from sklearn import datasets

from tests import oracle

FIXTURE = Path(__file__).parents[1] / "data" / "oracle_108.json"
LOADERS = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
    "breast_cancer": datasets.load_breast_cancer,
}
MIXED = [-3.5, -1.25, -0.5, 0.0, 0.0, 0.25, 1.5, 2.0, 7.75]


def assert_close(value: mpf, expected: mpf, digits: int = 30) -> None:
    """Compare relatively, with digits enough that the comparison does not round."""
    with mp.workdps(80):
        assert abs(value - expected) <= mpf(10) ** -digits * abs(expected)


def two_value_optimum(low: float, high: float, lower_share: mpf) -> mpf:
    """Return the optimum of data that take two values >= 0 only.

    Let u = log(1 + x) and t = λ (u_high - u_low). Up to constants the log-likelihood by value is
    -log((exp(λ u_high) - exp(λ u_low)) / λ) + λ mean(u), and its derivative is zero where
    1/t - 1/(exp(t) - 1) is the share of the lower value.
    """

    def equation(t: mpf) -> mpf:
        return 1 / t - 1 / mp.expm1(t) - lower_share

    t = mp.findroot(equation, 1 / lower_share, tol=mpf(10) ** -110)
    return t / (mp.log1p(high) - mp.log1p(low))


@pytest.mark.parametrize("n", [2, 3, 10, 1000, 10**6])
def test_one_zero_among_ones(n: int) -> None:
    x = [1.0] * n + [0.0]
    with mp.workdps(60):
        expected = two_value_optimum(0.0, 1.0, mpf(1) / (n + 1))
        assert_close(oracle.optimum(x), expected)
        # For large n the term 1/(exp(t) - 1) vanishes and λ is (n + 1) / log 2.
        assert n < 1000 or abs(expected * mp.log(2) / (n + 1) - 1) < mpf(10) ** -30


@pytest.mark.parametrize("low", [9.1, 9.9, 9.999, 9.9999, float(np.nextafter(10, 0))])
def test_two_values_close_to_each_other(low: float) -> None:
    with mp.workdps(60):
        assert_close(oracle.optimum([10.0] * 3 + [low]), two_value_optimum(low, 10.0, mpf(1) / 4))
        # The other way round the share of the lower value is 3/4, and the root t is negative:
        # 1/t - 1/(exp(t) - 1) + the same at -t is 1, so that t only changes its sign.
        mirrored = -two_value_optimum(low, 10.0, mpf(1) / 4)
        assert_close(oracle.optimum([10.0] + [low] * 3), mirrored)


@pytest.mark.parametrize(
    ("x", "expected"),
    [([1.0, 5.0], 0), ([-1.0, -5.0], 2), ([-2.0, 2.0], 1), ([-1e9, -3.0, 0.0, 3.0, 1e9], 1)],
)
def test_optimum_known_by_symmetry(x: list[float], expected: int) -> None:
    assert abs(oracle.optimum(x) - expected) < mpf(10) ** -30


@pytest.mark.parametrize(
    "x", [MIXED, [10.0, 10.0, 10.0, 10.0001], [0.0, 0.0, 0.0, 1e-9, 3.0], [1e-300, 1e300, 2.0]]
)
def test_negated_data_have_two_minus_lambda(x: list[float]) -> None:
    with mp.workdps(60):
        assert_close(oracle.optimum([-value for value in x]), 2 - oracle.optimum(x))


def test_digits_column_56() -> None:
    assert mp.nstr(oracle.optimum(datasets.load_digits().data[:, 56]), 6) == "-2592.52"


def test_agrees_with_scipy() -> None:
    """Scipy compares values of the likelihood, flat at its top: half of its digits are lost."""
    x = datasets.load_iris().data[:, 1]
    assert float(oracle.optimum(x)) == pytest.approx(yeojohnson_normmax(x), rel=0, abs=1e-6)


def test_transform_is_the_definition() -> None:
    lam = mpf(3) / 4
    with mp.workdps(60):
        at_three, at_minus_two = oracle.transform([3.0, -2.0], lam)
        assert_close(at_three, (mpf(4) ** lam - 1) / lam)
        assert_close(at_minus_two, -(mpf(3) ** (2 - lam) - 1) / (2 - lam))
        assert_close(oracle.transform([3.0], 0)[0], mp.log(4))
        assert_close(oracle.transform([-2.0], 2)[0], -mp.log(3))
        for value, result in zip(MIXED, oracle.transform(MIXED, 1), strict=True):
            assert_close(result, mpf(value))


@pytest.mark.parametrize("x", [MIXED, [1.0, 2.0, 2.0, 5.0], [-1.0, -2.0, -2.0, -5.0]])
@pytest.mark.parametrize("lam", [-2.5, 0.0, 1e-9, 1.25, 2.0, 6.0])
def test_moments_are_those_of_the_transformed_values(x: list[float], lam: float) -> None:
    """The variance leaves out the constant of Ψ for data of one sign: this shows that it may."""
    with mp.workdps(60):
        y = oracle.transform(x, lam)
        mean, var = oracle.mean_var(x, lam)
        assert_close(mean, mp.fsum(y) / len(y))
        assert_close(var, mp.fsum((value - mean) ** 2 for value in y) / len(y))
        phi = mp.fsum(mp.sign(value) * mp.log(1 + abs(mpf(value))) for value in x)
        expected = -len(x) * mp.log(2 * mp.pi * var) / 2 + (mpf(lam) - 1) * phi
        assert_close(oracle.log_likelihood(x, lam), expected)


@pytest.mark.parametrize("x", [MIXED, [1.0, 2.0, 2.0, 5.0], [-1.0, -2.0, -2.0, -5.0]])
@pytest.mark.parametrize("lam", [-40.5, 0.0, 1e-9, 1.25, 2.0, 300.0])
def test_score_is_the_derivative_of_the_likelihood(x: list[float], lam: float) -> None:
    h = mpf(10) ** -20
    with mp.workdps(80):
        above, below = (oracle.log_likelihood(x, mpf(lam) + step) for step in (h, -h))
        assert_close((above - below) / (2 * h), oracle.score(x, lam), digits=25)


def test_optimum_is_a_maximum() -> None:
    lam = oracle.optimum(MIXED)
    best = oracle.log_likelihood(MIXED, lam)
    with mp.workdps(60):
        assert all(oracle.log_likelihood(MIXED, lam + h) < best for h in (mpf("1e-15"), -0.1, 4))


@pytest.mark.parametrize("x", [[], [1.0], [2.0, 2.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_data_without_an_optimum_are_refused(x: list[float]) -> None:
    with pytest.raises(ValueError, match=r"finite|distinct"):
        oracle.optimum(x)


def test_fixture_has_all_features() -> None:
    rows = json.loads(FIXTURE.read_text(encoding="utf-8"))["features"]
    assert len({(row["dataset"], row["column"]) for row in rows}) == len(rows) == 108


@pytest.mark.parametrize(
    ("dataset", "column"), [("wine", 4), ("digits", 56), ("breast_cancer", 15)]
)
def test_fixture_is_reproduced(dataset: str, column: int) -> None:
    rows = json.loads(FIXTURE.read_text(encoding="utf-8"))["features"]
    row = next(row for row in rows if (row["dataset"], row["column"]) == (dataset, column))
    x = LOADERS[dataset]().data[:, column]
    lam = oracle.optimum(x)
    mean, var = oracle.mean_var(x, lam)
    with mp.workdps(60):
        assert len(x) == row["n"]
        assert_close(lam, mpf(row["lambda"]), digits=29)
        assert_close(mean, mpf(row["mean"]), digits=24)
        assert_close(var, mpf(row["var"]), digits=24)
