"""Scalers and quantiles over silos: against scikit-learn and exact order statistics."""

from __future__ import annotations

import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import KBinsDiscretizer, RobustScaler, StandardScaler

from securefedyj import SecureQuantiles, SecureRobustScaler, SecureStandardScaler
from tests.datasets import table
from tests.refusals import refused

COLUMNS = ["alcohol", "malic acid", "ash", "alcalinity"]
TWENTIETHS = (0.05, 0.5, 0.95)


@pytest.fixture(scope="module")
def wine() -> np.ndarray:
    """Four columns of wine, on a grid of 0.01; the second has both signs, and a missing value."""
    X = np.round(table("wine")[:, :4], 2)
    X[:, 1] = np.round(X[:, 1] - 2.5, 2)
    X[7, 1] = np.nan
    return X


def splits(X: np.ndarray) -> list[list[Any]]:
    """The same rows in several orders at several silos."""
    shuffled = np.random.default_rng(1).permutation(X)
    return [[X, None, None], np.split(X, [50, 120]), [*np.split(shuffled, [3, 3, 100]), None]]


def order_statistic(x: np.ndarray, q: str) -> float:
    known = np.sort(x[~np.isnan(x)])
    return float(known[max(1, ceil(Fraction(q) * len(known))) - 1])


def each_column(X: np.ndarray, q: str) -> list[float]:
    return [order_statistic(x, q) for x in X.T]


KINDS: list[Any] = [
    SecureStandardScaler(engine="clear"),
    SecureRobustScaler(engine="clear", resolution=0.01, bounds=(-100, 100)),
    SecureQuantiles(TWENTIETHS, engine="clear", resolution=0.01, bounds=(-100, 100)),
]
KINDS_OF = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)


# --- Right ---------------------------------------------------------------------------------------


def test_standard_is_that_of_the_pooled_rows(wine):
    fitted: Any = SecureStandardScaler().fit(np.split(wine, [50, 120]))
    theirs = StandardScaler()
    expected = theirs.fit_transform(wine)
    np.testing.assert_allclose(fitted.mean_, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(fitted.var_, theirs.var_, rtol=1e-12)
    np.testing.assert_allclose(fitted.scale_, theirs.scale_, rtol=1e-12)
    assert fitted.n_samples_seen_.tolist() == [178, 177, 178, 178]
    np.testing.assert_allclose(fitted.transform(wine), expected, rtol=0, atol=1e-11)
    back = fitted.inverse_transform(fitted.transform(wine))
    np.testing.assert_allclose(back, wine, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(("with_mean", "with_std"), [(True, False), (False, True), (False, False)])
def test_standard_without_mean_or_deviation(wine, with_mean, with_std):
    options = {"with_mean": with_mean, "with_std": with_std}
    fitted = SecureStandardScaler(engine="clear", **options).fit([wine])
    expected = StandardScaler(**options).fit_transform(wine)
    np.testing.assert_allclose(fitted.transform(wine), expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        fitted.to_sklearn().transform(wine), expected, rtol=1e-11, atol=1e-11
    )
    assert (fitted.scale_ is None) == (not with_std)


@pytest.mark.parametrize("mean", [1e9, -1e15, 3 * 2.0**90])
def test_standard_loses_nothing_to_a_large_mean(mean):
    """float64 has a unit of the last place there, and the mean lies between two values."""
    unit = float(np.spacing(abs(mean)))
    X = mean + unit * np.array([[0.0], [1.0], [1.0], [5.0]])
    bounds = (min(1.5 * mean, 0), max(1.5 * mean, 0))
    fitted = SecureStandardScaler(engine="clear", bounds=bounds).fit([X[:2], X[2:]])
    centered = np.array([-7, -3, -3, 13]) / 4
    expected = centered / np.sqrt(np.mean(centered**2))
    np.testing.assert_allclose(fitted.transform(X).ravel(), expected, rtol=1e-12)
    np.testing.assert_array_equal(fitted.inverse_transform(fitted.transform(X)), X)
    with pytest.warns(UserWarning, match="The mean of feature 0 is so large") as caught:
        fitted.to_sklearn()
    assert caught[0].filename == __file__


def test_quantiles_are_order_statistics(wine):
    texts = ("0", "0.05", "0.07", "0.25", "0.5", "0.95", "1")
    given: list[Any] = ["0.0", 0.05, Decimal("0.07"), Fraction(1, 4), 0.5, "0.950", 1]
    for silos in splits(wine):
        fitted = SecureQuantiles(given, resolution="0.01", bounds=(-100, 100)).fit(silos)
        expected = [each_column(wine, q) for q in texts]
        assert fitted.quantiles_.tolist() == expected
    np.testing.assert_array_equal(
        fitted.quantiles_[3:6],
        np.nanquantile(wine, [0.25, 0.5, 0.95], axis=0, method="inverted_cdf"),
    )


def test_quantiles_may_be_the_floats_that_numpy_makes():
    deciles = np.linspace(0, 1, 11)  # with 0.30000000000000004
    X = np.arange(100.0)[:, None]
    fitted = SecureQuantiles(deciles, bounds=(0, 128), engine="clear").fit([X])
    assert fitted.quantiles_.ravel().tolist() == [0, *range(9, 100, 10)]


@pytest.mark.parametrize("median", [0.5, "0.5", np.float64(0.5)])
def test_one_quantile_needs_no_list(median):
    X = np.arange(9.0)[:, None]
    fitted = SecureQuantiles(median, bounds=(0, 16), engine="clear").fit([X])
    assert fitted.quantiles_.tolist() == [[4.0]]


def test_values_off_the_grid_are_rounded_up_to_it():
    X = np.random.default_rng(2).normal(size=(101, 3))
    exact = np.array(each_column(X, "0.5"))
    for resolution, step in (
        (None, 16 / 2**24),
        (0.25, 0.25),
        ([0.5, None, "0.1"], [0.5, 1e-6, 0.1]),
    ):
        fitted = SecureQuantiles(engine="clear", bounds=(-8, 8), resolution=resolution).fit([X])
        above = fitted.quantiles_[0] - exact
        assert np.all((above >= 0) & (above < np.array(step)))


def test_robust_is_that_of_the_pooled_rows(wine):
    low, median, high = (np.array(each_column(wine, q)) for q in ("0.25", "0.5", "0.75"))
    for silos in splits(wine):
        fitted: Any = SecureRobustScaler(resolution=0.01, bounds=(-100, 100)).fit(silos)
        np.testing.assert_array_equal(fitted.center_, median)
        np.testing.assert_array_equal(fitted.scale_, high - low)
    np.testing.assert_array_equal(fitted.transform(wine), (wine - median) / (high - low))
    assert fitted.converged_.all()
    # scikit-learn interpolates between neighbours.
    theirs = RobustScaler().fit(wine)
    np.testing.assert_allclose(fitted.center_, theirs.center_, atol=0.05)
    np.testing.assert_allclose(fitted.scale_, theirs.scale_, atol=0.1)


@pytest.mark.parametrize("ends", [(5, 95), (33.3, 66.7), (50.0, 75.0), (60, 80)])
def test_robust_with_other_ranges(wine, ends):
    fitted = SecureRobustScaler(
        engine="clear", quantile_range=ends, resolution=0.01, bounds=(-100, 100)
    ).fit([wine])
    low, high = (each_column(wine, str(Decimal(str(end)) / 100)) for end in ends)
    np.testing.assert_array_equal(fitted.scale_, np.subtract(high, low))
    np.testing.assert_array_equal(fitted.center_, each_column(wine, "0.5"))


@pytest.mark.parametrize(("centering", "scaling"), [(True, False), (False, True), (False, False)])
def test_robust_without_center_or_scale(wine, centering, scaling):
    options = {"with_centering": centering, "with_scaling": scaling}
    fitted = SecureRobustScaler(engine="clear", bounds=(-64, 64), **options).fit([wine])
    theirs = fitted.to_sklearn()
    assert (fitted.center_ is None, fitted.scale_ is None) == (not centering, not scaling)
    assert theirs.get_params() == RobustScaler(**options).get_params()
    np.testing.assert_array_equal(theirs.transform(wine), fitted.transform(wine))


@KINDS_OF
def test_the_bits_do_not_depend_on_split_engine_levels_or_verification(kind, wine):
    def bits(silos: list[Any], **options: Any) -> list[bytes]:
        fitted = clone(kind).set_params(**options).fit(silos)
        learned = ("mean_", "var_", "center_", "scale_", "quantiles_")
        found = [getattr(fitted, name).tobytes() for name in learned if hasattr(fitted, name)]
        return [*found, fitted.transform(wine).tobytes()]

    can_step = "levels_per_exchange" in kind.get_params()
    expected = bits([wine], engine="clear")
    for silos, levels in product(splits(wine), (1, 6) if can_step else (4,)):
        steps = {"levels_per_exchange": levels} if can_step else {}
        assert bits(silos, engine="clear", **steps) == expected
    assert bits(splits(wine)[1], engine="replicated", verified=True) == expected
    assert bits(splits(wine)[2], engine="replicated") == expected


@pytest.mark.mpyc
@KINDS_OF
def test_mpyc_gives_the_same(kind, wine):
    silos = np.split(wine[:, :2], [50, 120])
    one, other = (clone(kind).set_params(engine=e).fit(silos) for e in ("clear", "mpyc"))
    np.testing.assert_array_equal(one.transform(wine[:, :2]), other.transform(wine[:, :2]))


# --- Constants, missing values, refusals --------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: type(kind).__name__)
def test_constants_become_0_and_have_scale_1(kind):
    X = np.column_stack([np.full(9, 37.25), np.zeros(9), np.full(9, -0.1)])
    fitted = clone(kind).set_params(engine="clear").fit([X[:3], X[3:]])
    assert fitted.scale_.tolist() == [1, 1, 1]
    np.testing.assert_allclose(fitted.transform(X), 0, atol=1e-16)
    assert fitted.transform(X + 2).round(12).tolist() == [[2, 2, 2]] * 9


@KINDS_OF
def test_missing_values_stay_unless_they_are_filled(kind, wine):
    Z = clone(kind).fit([wine, np.full((4, 4), np.nan), None]).transform(wine)
    if isinstance(kind, SecureQuantiles):
        assert Z[7, 1] == order_statistic(wine[:, 1], "0.5")
        np.testing.assert_array_equal(np.delete(Z, 7, 0), np.delete(wine, 7, 0))
    else:
        np.testing.assert_array_equal(np.isnan(Z), np.isnan(wine))


def test_a_column_without_values_is_said():
    X = np.column_stack([np.arange(9.0), np.full(9, np.nan)])
    with pytest.warns(UserWarning, match="quantile 0.5 of 1: there are no values") as caught:
        fitted = SecureQuantiles(engine="clear").fit([X])
    assert caught[0].filename == __file__
    assert np.isnan(fitted.quantiles_[0, 1])
    assert np.isnan(fitted.transform(X)[:, 1]).all()


def test_quantiles_of_too_few_values_are_refused():
    X = np.arange(20.0)[:, None]
    with pytest.warns(UserWarning, match=r"quantile 0.1 of 0: its rank is 2 of 20") as caught:
        fitted = SecureQuantiles((0.5, 0.1), minimum_values=5, engine="clear").fit([X])
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(fitted.quantiles_, [[9.0], [np.nan]])
    with refused("SFY-FIT-024", naming="feature 0"):
        fitted.to_sklearn()
    with pytest.warns(UserWarning, match="quantile 0.02 of 0"):
        scaler: Any = SecureRobustScaler(
            quantile_range=(2, 60), minimum_values=5, engine="clear", resolution=1
        ).fit([X])
    assert np.isnan(scaler.scale_[0])
    assert np.isnan(scaler.transform(X)).all()


def test_a_grid_that_is_too_coarse_is_said():
    X = np.random.default_rng(3).normal(size=(50, 2)) * [1, 1000]
    with pytest.warns(ConvergenceWarning, match="0: the scale is less than 100 steps") as caught:
        fitted = SecureRobustScaler(engine="clear").fit([X])
    assert caught[0].filename == __file__
    assert fitted.converged_.tolist() == [False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SecureRobustScaler(engine="clear", bounds=(-1e4, 1e4)).fit([X]).converged_.all()


def test_a_variance_that_is_too_small_for_its_bounds_is_said():
    X = 2.0**-99 * np.array([[1.0], [2.0], [4.0]])
    with pytest.warns(ConvergenceWarning, match="0: the values vary too little"):
        fitted = SecureStandardScaler(engine="clear").fit([X])
    assert not fitted.converged_.any()
    assert SecureStandardScaler(engine="clear", bounds=(0, 2.0**-90)).fit([X]).converged_.all()


def with_range(given: Any) -> SecureRobustScaler:
    return SecureRobustScaler(quantile_range=given)


@pytest.mark.parametrize(
    ("estimator", "code"),
    [
        (SecureRobustScaler(quantile_range=(75, 25)), "SFY-FIT-021"),
        (SecureRobustScaler(quantile_range=(0, 75)), "SFY-FIT-021"),
        (with_range((np.nan, 75)), "SFY-FIT-021"),
        (with_range(("low", "high")), "SFY-FIT-021"),
        (with_range((25,)), "SFY-FIT-021"),
        (SecureRobustScaler(resolution=[1, 2]), "SFY-FIT-018"),
        (SecureRobustScaler(resolution="coarse"), "SFY-CON-035"),
        (SecureRobustScaler(resolution=-1), "SFY-CON-035"),
        (SecureQuantiles((0.1, 0.9)), "SFY-FIT-023"),
        (SecureQuantiles(use="fill"), "SFY-FIT-022"),
        (SecureQuantiles((0.5, 1.5)), "SFY-CON-032"),
        (SecureQuantiles((), use="bins"), "SFY-CON-034"),
        (SecureQuantiles(minimum_values=-1), "SFY-CON-001"),
        (SecureStandardScaler(minimum_values=99), "SFY-RUN-001"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_in_fit(estimator, code):
    with refused(code):
        clone(estimator).set_params(engine="clear").fit([np.arange(12.0).reshape(4, 3)])


# --- Bins, and ways out --------------------------------------------------------------------------


def test_bins_are_those_of_scikit_learn(wine):
    fifths = ("0.2", "0.4", "0.6", "0.8")
    fitted = SecureQuantiles(fifths, use="bins", resolution=0.01, bounds=(-100, 100)).fit(
        np.split(wine, [50, 120])
    )
    Z, X = fitted.transform(wine), np.delete(wine, 7, 0)
    assert np.isnan(Z[7, 1])
    assert np.nanmax(Z) == 4
    theirs = fitted.to_sklearn()
    assert isinstance(theirs, KBinsDiscretizer)
    np.testing.assert_array_equal(theirs.transform(X), np.delete(Z, 7, 0))
    assert theirs.n_bins_.tolist() == [5] * 4
    own = KBinsDiscretizer(5, encode="ordinal", strategy="quantile").fit(X)
    for ours, edges in zip(theirs.bin_edges_, own.bin_edges_, strict=True):
        np.testing.assert_allclose(ours[1:-1], edges[1:-1], atol=0.5)
        assert ours[[0, -1]].tolist() == [-100, 100]


@KINDS_OF
def test_to_sklearn_transforms_alike_and_needs_nothing_of_ours(kind, wine):
    frame = pd.DataFrame(wine, columns=COLUMNS)
    fitted = clone(kind).fit([frame[:50], frame[50:]])
    theirs: Any = pickle.loads(pickle.dumps(fitted.to_sklearn()))
    assert isinstance(theirs, StandardScaler | RobustScaler | SimpleImputer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Z = theirs.transform(frame)
    np.testing.assert_allclose(Z, fitted.transform(frame), rtol=1e-13, atol=1e-13)
    assert theirs.get_feature_names_out().tolist() == COLUMNS
    assert clone(theirs).get_params() == theirs.get_params()


# --- The contract --------------------------------------------------------------------------------


@KINDS_OF
def test_pickles_clones_and_says_what_it_cost(kind, wine):
    fitted = clone(kind).fit(np.split(wine, [50, 120]))
    again = pickle.loads(pickle.dumps(fitted))
    assert again.transform(wine).tobytes() == fitted.transform(wine).tobytes()
    assert again.cost_ == fitted.cost_
    assert fitted.cost_.rounds >= 3
    assert fitted.transcript_.audit().passed
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "transcript_")
    assert "transcript" not in repr(fitted)


@KINDS_OF
def test_frames_keep_their_names_and_type(kind, wine, tmp_path):
    frame = pd.DataFrame(wine, columns=COLUMNS)
    frame[:20].to_csv(tmp_path / "t.csv", index=False)
    silos = [tmp_path / "t.csv", pl.from_pandas(frame[20:90]).lazy(), frame[90:]]
    fitted = clone(kind).fit(silos).set_output(transform="pandas")
    Z: Any = fitted.transform(frame[3:8])
    assert list(Z.columns) == COLUMNS
    assert Z.index.tolist() == [3, 4, 5, 6, 7]
    np.testing.assert_array_equal(Z, clone(kind).fit([wine]).transform(wine)[3:8])
    assert fitted.transcript_.agreement.features == tuple(COLUMNS)
    assert set(fitted.transform(frame[:2].astype(np.float32)).dtypes) == {np.dtype(np.float32)}


@KINDS_OF
def test_values_outside_the_bounds_are_transformed_with_a_warning(kind, wine):
    fitted = clone(kind).set_params(bounds=(-100, 100)).fit([wine])
    far = wine.copy()
    far[2, 2] = 1e6
    with pytest.warns(UserWarning, match=r"feature 2 lie outside .* \(1 in all\)") as caught:
        assert np.isfinite(fitted.transform(far)[2, 2])
    assert caught[0].filename == __file__
    with refused("SFY-NUM-009"):
        clone(fitted).fit([far])
