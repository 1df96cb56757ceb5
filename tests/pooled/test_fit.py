"""The pooled fit: right on the paper's data, on hard data, and on much data."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.yeojohnson import Standardization, standardize, transform, unstandardize
from securefedyj.pooled import fit as pooled
from securefedyj.pooled.fit import PooledFit, fit_pooled
from tests import oracle
from tests.datasets import NAMES, WRONG_IN_SCIKIT_LEARN, features, table
from tests.numerics.test_yeojohnson import exact_standardize

pytestmark = pytest.mark.filterwarnings("error")

SOLVERS = ["newton", "expsearch"]

EPS = float(np.finfo(np.float64).eps)
RNG = np.random.default_rng(2022)
YEARS = [2003.0, 1950, 1997, 2000, 2009, 2009, 1980, 1999, 2007, 1991]

# Data whose transformed values overflow, cancel or saturate if nothing is done about it.
HARD = {
    **{f"10 and 10-{eps}": np.array([10.0] * 3 + [10 - eps]) for eps in (0.9, 0.1, 1e-3, 1e-4)},
    **{f"-10 and -10+{eps}": np.array([-10.0] * 3 + [-10 + eps]) for eps in (0.9, 0.1, 1e-3, 1e-4)},
    **{f"{n} ones and a zero": np.array([1.0] * n + [0]) for n in (2, 3, 10, 100, 1000, 10_000)},
    "years": np.array(YEARS),
    "around 1e6 with a long tail": 1e6 + RNG.lognormal(0, 2, 40),
    "around 1e7 with a long tail": 1e7 + 1e4 * RNG.lognormal(0, 2, 40),
    "around 1e8 with a long tail": 1e8 + 1e5 * RNG.lognormal(0, 2, 40),
    "around 1e8 with a long tail down": 1e8 - 1e5 * RNG.lognormal(0, 2, 40),
    "around 1e-9": 1e-9 * RNG.lognormal(size=40),
    "around -1e-9": -1e-9 * RNG.lognormal(size=40),
    "1e-9 of both signs": 1e-9 * RNG.normal(size=40),
    "both signs and an outlier above": np.array([*RNG.normal(size=40), 1e12]),
    "both signs and an outlier below": np.array([*RNG.normal(size=40), -1e12]),
    "positive and an outlier above": np.array([*RNG.lognormal(size=40), 1e15]),
    "positive and an outlier below": np.array([*RNG.lognormal(size=40), -1e15]),
    "an outlier of 1e300": np.array([*RNG.normal(size=40), 1e300]),
    "largest": np.array([1e308, 1.2e308, 1.5e308, 1.7e308]),
    "from smallest to largest": np.array([1e-300, 1.0, 2.0, 1e300]),
    "zeros and one positive": np.array([0.0] * 30 + [7]),
    "zeros and one negative": np.array([0.0] * 30 + [-7]),
}
# An outlier or a crowd takes the digits of values next to a bound: those do not come back.
COMES_BACK = [
    *(f"10 and 10-{eps}" for eps in (0.9, 0.1, 1e-3, 1e-4)),
    *(f"-10 and -10+{eps}" for eps in (0.9, 0.1, 1e-3, 1e-4)),
    *(name for name in HARD if "around" in name),
    *("years", "1e-9 of both signs", "largest"),
]


def fit(x: Array, solver: str = "newton", max_steps: int = 120) -> PooledFit:
    return fit_pooled(np.array(x, dtype=np.float64).reshape(-1, 1), solver, max_steps)


def standardization(fitted: PooledFit, j: int = 0) -> Standardization:
    return fitted.standardization.take(j)


def center_step(at: Standardization) -> float:
    """By how much z changes when the center moves by its last digit."""
    return float(np.spacing(abs(at.center)) / ((1 + abs(at.center)) * at.width))


def assert_standardized(x: Array, fitted: PooledFit, j: int = 0) -> None:
    """Mean 0 and variance 1, as far as float64 has digits for the center and for log(1+|x|)."""
    at = standardization(fitted, j)
    z = standardize(x, fitted.lmbda[j], at)
    assert np.all(np.isfinite(z))
    lost = 2 * EPS * np.log1p(np.max(np.abs(x))) / at.width if at.width >= 1e-3 else 0.0
    tolerance = 64 * EPS * (1 + np.max(np.abs(z))) + center_step(at) + lost
    assert abs(np.mean(z)) <= tolerance
    assert abs(np.var(z) - 1) <= 2 * tolerance


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dataset", NAMES)
def test_lambda_of_the_108_features(dataset: str, solver: str) -> None:
    fitted = fit_pooled(table(dataset), solver, 100)
    columns = [feature.column for feature in features(dataset)]
    expected = [feature.lmbda for feature in features(dataset)]
    np.testing.assert_allclose(fitted.lmbda[columns], expected, rtol=1e-12)
    assert not fitted.at_bound.any()
    assert np.flatnonzero(~fitted.constant).tolist() == columns
    assert np.all(fitted.lmbda[fitted.constant] == 1)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("column", "right"),
    [
        pytest.param(column, right, id=f"{column}: {right}, not {wrong}")
        for column, right, wrong in WRONG_IN_SCIKIT_LEARN
    ],
)
def test_features_that_scikit_learn_gets_wrong(column: int, right: float, solver: str) -> None:
    fitted = fit(table("digits")[:, column], solver)
    assert fitted.lmbda[0] == pytest.approx(right, abs=0.005)


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_pixel_that_is_nearly_always_dark(solver: str) -> None:
    """Column 56 of digits is one 1 among 1796 zeros: lambda* is -n / log 2."""
    x = table("digits")[:, 56]
    assert fit(x, solver).lmbda[0] == pytest.approx(-len(x) / np.log(2), rel=1e-14)
    assert round(float(fit(x, solver).lmbda[0]), 2) == -2592.52


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dataset", NAMES)
def test_the_108_features_are_standardized(dataset: str, solver: str) -> None:
    fitted = fit_pooled(table(dataset), solver, 100)
    for feature in features(dataset):
        assert_standardized(feature.x, fitted, feature.column)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", HARD)
def test_hard_data(name: str, solver: str) -> None:
    x = HARD[name]
    fitted = fit(x, solver)
    assert fitted.lmbda[0] == pytest.approx(float(oracle.optimum(x)), rel=1e-12)
    assert not fitted.at_bound[0]
    assert fitted.n[0] == len(x)
    assert_standardized(x, fitted)


@pytest.mark.parametrize("name", HARD)
def test_center_and_width_of_hard_data(name: str) -> None:
    """With them, exact arithmetic gives mean 0 and variance 1 also where Psi is beyond float64."""
    fitted = fit(HARD[name])
    at, lmbda = standardization(fitted), float(fitted.lmbda[0])
    values, counts = np.unique(HARD[name], return_counts=True)
    with mp.workdps(400):
        z = [exact_standardize(float(value), lmbda, at) for value in values]
        n = int(np.sum(counts))
        mean = mp.fsum(int(c) * v for c, v in zip(counts, z, strict=True)) / n
        var = mp.fsum(int(c) * (v - mean) ** 2 for c, v in zip(counts, z, strict=True)) / n
        # Rounding the center moves the mean, and changes the slope there, the unit of the width.
        step, u = center_step(at), max(abs(lmbda), abs(2 - lmbda))
        assert abs(mean) <= step + 16 * EPS
        assert abs(var - 1) <= 2 * step * u * at.width + 64 * EPS


@pytest.mark.parametrize("name", COMES_BACK)
def test_hard_data_come_back(name: str) -> None:
    x = HARD[name]
    fitted = fit(x)
    z = standardize(x, fitted.lmbda[0], standardization(fitted))
    back = unstandardize(z, fitted.lmbda[0], standardization(fitted))
    np.testing.assert_allclose(back, x, rtol=1e-11)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("offset", [1e-9, 1e-7, 1e-5, 1e-3])
def test_values_on_both_sides_of_zero_one_of_them_near_it(offset: float, sign: float) -> None:
    """lambda* is next to 2 (or to 0), where u vanishes on the side of the mean."""
    x = sign * np.array([-1.0, offset])
    for solver in SOLVERS:
        fitted = fit(x, solver)
        np.testing.assert_allclose(
            standardize(x, fitted.lmbda[0], standardization(fitted)),
            sign * np.array([-1.0, 1.0]),
            rtol=1e-12,
        )


@pytest.mark.parametrize(
    ("solver", "size"),
    [
        *(("newton", size) for size in (1e-3, 1e-9, 1e-15, 1e-100, 1e-170, 1e-290)),
        *(("expsearch", size) for size in (1e-9, 1e-170)),
    ],
)
def test_tiny_data_with_one_value_on_a_side(solver: str, size: float) -> None:
    for x in (size * np.array([-1.0, -1, -1, 1, 2]), size * np.array([0.0, 0, -1, 1, 1, 1])):
        fitted = fit(x, solver, 2000)
        assert fitted.lmbda[0] == pytest.approx(float(oracle.optimum(x)), rel=1e-12)
        assert len(fitted.path) <= 12 or solver == "expsearch"
        assert_standardized(x, fitted)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [1e3, 1e9, 1e20, 1e90])
def test_two_groups_far_apart(size: float, solver: str) -> None:
    """The mean is far from where most values are."""
    x = np.repeat([0.0, size], [21, 29])
    for values in (x, -x):
        fitted = fit(values, solver)
        assert fitted.lmbda[0] == pytest.approx(float(oracle.optimum(values)), rel=1e-12)
        assert_standardized(values, fitted)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "x", [[5e-324] * 3 + [1e-323], [-5e-324] * 3 + [-1e-323], [1e-300] * 3 + [2e-300]]
)
def test_optimum_beyond_the_range_is_flagged(x: list[float], solver: str) -> None:
    fitted = fit(np.array(x), solver, 2000)
    assert fitted.at_bound[0]
    assert abs(fitted.lmbda[0]) == pytest.approx(1e300, rel=1e-15)


def test_tiny_data_at_the_edge_of_the_range_are_still_standardized() -> None:
    x = np.array([1e-300] * 3 + [2e-300])
    fitted = fit(x)
    assert_standardized(x, fitted)


@pytest.mark.parametrize(
    ("values", "weights"),
    [
        pytest.param([-3, -1, -0.5, 0, 0.25, 1, 2, 7.5], [1, 2, 5, 9, 5, 4, 2, 1], id="both signs"),
        pytest.param(
            [0, 1, 2, 3, 5, 8, 2000], [40_000, 30_000, 9000, 4000, 300, 5, 1], id="counts"
        ),
        pytest.param(np.arange(1950, 2020), [1] * 70, id="years"),
    ],
)
def test_ten_million_values(values: list[float], weights: list[int]) -> None:
    """Of few kinds, which the oracle counts: sums of many numbers lose nothing that matters."""
    urn = np.repeat(np.arange(len(values)), weights)
    kinds = urn[np.random.default_rng(7).integers(len(urn), size=10_000_000)]
    distinct, counts = np.array(values, dtype=np.float64), np.bincount(kinds)
    x = distinct[kinds]
    # What oracle.group(x) would return, in a tenth of the time.
    groups = oracle.Groups(tuple(distinct.tolist()), tuple(counts.tolist()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "group", lambda _: groups)
        expected = float(oracle.optimum([]))
    fitted = fit_pooled(x.reshape(-1, 1), "newton", 1)
    assert fitted.lmbda[0] == pytest.approx(expected, rel=1e-12)
    assert fitted.n[0] == len(x)
    z = standardize(distinct, fitted.lmbda[0], standardization(fitted))
    mean = np.average(z, weights=counts)
    assert abs(mean) <= 1e-12
    assert abs(np.average((z - mean) ** 2, weights=counts) - 1) <= 1e-12


@pytest.mark.parametrize("solver", SOLVERS)
def test_order_of_rows_does_not_matter(solver: str) -> None:
    X = table("breast_cancer")
    one = fit_pooled(X, solver, 100)
    other = fit_pooled(X[np.random.default_rng(1).permutation(len(X))], solver, 100)
    assert_same(one, other)


def assert_same(one: PooledFit, other: PooledFit) -> None:
    np.testing.assert_allclose(one.lmbda, other.lmbda, rtol=1e-12)
    np.testing.assert_allclose(one.standardization.center, other.standardization.center, rtol=1e-12)
    np.testing.assert_allclose(one.standardization.width, other.standardization.width, rtol=1e-12)
    np.testing.assert_array_equal(one.constant, other.constant)
    np.testing.assert_array_equal(one.at_bound, other.at_bound)
    np.testing.assert_array_equal(one.n, other.n)


def mixed_table() -> Array:
    """Features of all kinds, among them constant and empty ones, and missing values."""
    rng = np.random.default_rng(60)
    X = np.full((60, 9), np.nan)
    X[:, 0] = rng.lognormal(size=60)
    X[:, 1] = rng.normal(size=60)
    X[:, 2] = 7.0
    X[:, 3] = -rng.lognormal(size=60)
    X[:30, 4] = rng.normal(size=30)
    X[:10, 5] = YEARS
    X[5:9, 7] = -2.5
    X[:, 8] = rng.choice([0.0, 1.0], 60, p=[0.9, 0.1])
    return X


@pytest.mark.parametrize("solver", SOLVERS)
def test_features_do_not_depend_on_each_other(solver: str) -> None:
    """Alone, among others, or twice in a table: a feature has the same fit."""
    X = mixed_table()
    together = fit_pooled(X, solver, 100)
    twice = fit_pooled(np.hstack([X, X[:, ::-1]]), solver, 100)
    for j in range(X.shape[1]):
        alone = fit_pooled(X[:, [j]], solver, 100)
        for fitted, columns in ((together, [j]), (twice, [j]), (twice, [2 * 9 - 1 - j])):
            chosen = PooledFit(
                fitted.lmbda[columns],
                fitted.at_bound[columns],
                fitted.converged[columns],
                fitted.constant[columns],
                fitted.standardization.take(np.array(columns)),
                fitted.path[:, columns],
                fitted.n[columns],
            )
            assert_same(chosen, alone)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("batch", [1, 200, 60 * 4])
def test_batches_do_not_matter(batch: int, solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = mixed_table()
    whole = fit_pooled(X, solver, 100)
    monkeypatch.setattr(pooled, "_BATCH", batch)
    parts = fit_pooled(X, solver, 100)
    assert_same(whole, parts)
    assert parts.path.shape[1] == X.shape[1]
    # The lambdas visited are the same as well, up to rounding.
    visits = np.count_nonzero(~np.isnan(parts.path), axis=0)
    assert np.all(np.abs(visits - np.count_nonzero(~np.isnan(whole.path), axis=0)) <= 1)


def test_constant_and_empty_features() -> None:
    X = mixed_table()
    fitted = fit_pooled(X, "newton", 1)
    assert np.flatnonzero(fitted.constant).tolist() == [2, 6, 7]
    assert fitted.lmbda[fitted.constant].tolist() == [1, 1, 1]
    assert fitted.n.tolist() == [60, 60, 60, 60, 30, 10, 0, 4, 60]
    assert np.all(np.isnan(fitted.path[:, fitted.constant]))
    at = standardization(fitted, 2)
    np.testing.assert_allclose(standardize([7.0, 8.5], 1.0, at), [0, 1.5], rtol=16 * EPS)


def test_the_table_is_left_alone() -> None:
    X = mixed_table()
    before = X.copy()
    for solver in SOLVERS:
        fit_pooled(X, solver, 40)
    np.testing.assert_array_equal(X, before)


class TestManyRows:
    """Above 65,536 rows a fit to every 16th gives the start."""

    def check(self, x: Array) -> None:
        fitted = fit(x)
        assert fitted.lmbda[0] == pytest.approx(float(oracle.optimum(x)), rel=1e-12)
        assert_standardized(x, fitted)

    def test_the_part_is_like_the_whole(self) -> None:
        self.check(np.round(np.random.default_rng(2).lognormal(size=70_000), 1))

    def test_the_part_is_constant(self) -> None:
        x = np.zeros(70_000)
        x[[1, 3, 17]] = 5.0
        self.check(x)

    def test_the_part_is_unlike_the_whole(self) -> None:
        """Of the part alone lambda* is -6300."""
        x = np.round(np.random.default_rng(2).lognormal(size=70_000), 1)
        x[::16] = 0.0
        x[160] = 1.0
        self.check(x)

    def test_the_part_is_very_narrow(self) -> None:
        """Of the part alone lambda* is about 10^13."""
        x = np.round(np.random.default_rng(3).normal(size=70_000), 2)
        x[::16] = 10.0
        x[160] = 10 + 1e-12
        self.check(x)

    def test_two_signs_and_missing_values(self) -> None:
        x = np.round(np.random.default_rng(3).normal(size=140_000), 2)
        with_missing = np.where(np.random.default_rng(4).random(140_000) < 0.4, np.nan, x)
        present = with_missing[~np.isnan(with_missing)]
        fitted = fit(with_missing)
        assert fitted.n[0] == len(present)
        assert fitted.lmbda[0] == pytest.approx(float(oracle.optimum(present)), rel=1e-12)


def test_mean_is_the_image_of_the_center() -> None:
    for feature in features("wine"):
        fitted = fit(feature.x)
        mean = transform(standardization(fitted).center, fitted.lmbda[0])
        assert float(mean) == pytest.approx(feature.mean, rel=1e-13)
