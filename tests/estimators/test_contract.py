"""scikit-learn's own checks, for every public estimator, and its own tests of PowerTransformer.

The checks fit tables of their own. So an estimator that takes a list of silos gets each as the
only silo with rows, and nothing else differs; and `FrozenYJ` is fitted before it is frozen.
"""

from __future__ import annotations

import doctest
import inspect
import re
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import SkipTestWarning
from sklearn.preprocessing import PowerTransformer as Theirs
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import securefedyj
from securefedyj import (
    ExpYJ,
    FrozenColumns,
    FrozenYJ,
    SecureColumnTransformer,
    SecureFedYJ,
    SecureQuantiles,
    SecureRobustScaler,
    SecureStandardScaler,
)
from securefedyj.estimators import composed, federated, frozen, pooled, quantiles, scaling
from securefedyj.estimators.frozen import Frozen
from securefedyj.estimators.secure import SecureEstimator
from securefedyj.parameters import Parameters

their_tests = pytest.importorskip("sklearn.preprocessing.tests.test_data")


OURS = (
    SecureColumnTransformer,
    SecureFedYJ,
    SecureQuantiles,
    SecureRobustScaler,
    SecureStandardScaler,
)


class AllRows(SecureEstimator):
    """All rows at one silo, so that `fit` takes what others take."""

    def fit(self, X: Any, y: object = None) -> Self:
        return super().fit([X, None, None])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


class OneSilo(AllRows, SecureFedYJ):
    pass


class OneSiloStandard(AllRows, SecureStandardScaler):
    pass


class OneSiloRobust(AllRows, SecureRobustScaler):
    pass


class OneSiloQuantiles(AllRows, SecureQuantiles):
    pass


class OneSiloColumns(AllRows, SecureColumnTransformer):
    """Two transformers of all columns, whichever they are."""

    transformers = (
        ("scaled", SecureStandardScaler(), slice(None)),
        ("filled", SecureQuantiles(), slice(None)),
    )

    def __init__(self, engine: str = "clear") -> None:
        self.engine = engine


class JustFrozen(Frozen):
    """Loads the fit of the rows that it gets, and is frozen from then on."""

    run: SecureEstimator

    def fit(self, X: Any, y: object = None) -> Self:
        fitted = clone(self.run).fit(X)
        loaded = Parameters.of(fitted.transcript_).estimator()
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(vars(loaded) | self.get_params())
        super().fit(X)
        return self

    def __sklearn_clone__(self) -> Self:
        return type(self)(**self.get_params())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags._skip_test = False
        return tags


class JustFrozenYJ(JustFrozen, FrozenYJ):
    run = OneSilo("clear", max_steps=12)


class JustFrozenColumns(JustFrozen, FrozenColumns):
    run = OneSiloColumns()


@parametrize_with_checks(
    [
        ExpYJ(),
        ExpYJ(solver="expsearch"),
        ExpYJ(standardize=False),
        OneSilo(max_steps=8),
        OneSilo("clear"),
        OneSiloStandard(engine="clear"),
        OneSiloStandard(with_mean=False),
        OneSiloRobust(engine="clear"),
        OneSiloRobust(with_scaling=False),
        OneSiloQuantiles(engine="clear"),
        OneSiloQuantiles((0.25, 0.75), use="bins"),
        OneSiloColumns(),
        JustFrozenYJ(),
        JustFrozenColumns(),
        JustFrozenColumns(use="median"),
    ]
)
def test_contract_of_scikit_learn(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


def public_estimators() -> list[type]:
    """All that users import, whichever they are."""
    public = [getattr(securefedyj, name) for name in securefedyj.__all__]
    classes = [found for found in public if isinstance(found, type)]
    return [found for found in classes if issubclass(found, BaseEstimator)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", public_estimators())
def test_check_estimator_is_clean_for_every_public_estimator(estimator: Any) -> None:
    """As a user would call it; on most of them most checks do not apply, as they say themselves."""
    made = estimator([]) if estimator is SecureColumnTransformer else estimator()
    results = check_estimator(made, on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    assert (len(results) > 40) == (estimator is ExpYJ)


@pytest.mark.parametrize("estimator", [SecureFedYJ(), SecureRobustScaler(), FrozenYJ()])
def test_who_fits_no_table_of_others_says_so_to_the_checks(estimator: Any) -> None:
    with pytest.warns(SkipTestWarning):
        check_estimator(estimator)


def test_no_public_estimator_is_left_out() -> None:
    assert set(public_estimators()) == {ExpYJ, FrozenColumns, FrozenYJ, *OURS}


@pytest.mark.parametrize(
    "module",
    [composed, federated, frozen, pooled, quantiles, scaling],
    ids=lambda module: module.__name__,
)
def test_examples_of_the_docstrings_run(module: Any) -> None:
    results = doctest.testmod(module)
    assert results.failed == 0
    assert results.attempted >= 4


# --- scikit-learn's tests of PowerTransformer ---------------------------------------------------


class PowerTransformer(ExpYJ):
    """ExpYJ under the name that an error has to have."""


def power_transform(X: Any, method: str, **options: Any) -> Any:
    return ExpYJ(method, **options).fit_transform(X)


def exact_boxcox(x: Any) -> tuple[Any, float]:
    """`scipy.stats.boxcox` with all digits of lambda: SciPy loses half of them at a flat top."""
    L = np.log(x)

    def score(lmbda: float) -> float:
        y, power = special.boxcox(x, lmbda), np.exp(lmbda * L)
        covariance = np.cov(y, (L * power - y) / lmbda, bias=True)
        return float(L.mean() - covariance[0, 1] / covariance[0, 0])

    lmbda: float = optimize.brentq(score, -5.1, 5.2, xtol=1e-14)
    return special.boxcox(x, lmbda), lmbda


def their_cases() -> Iterator[Any]:
    """Those of the installed scikit-learn, with each of their parameters."""
    for name, test in inspect.getmembers(their_tests, inspect.isfunction):
        if not re.match("test_.*(power_transformer|yeo_?johnson|box_cox)", name):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        for chosen in product(*(mark.args[1] for mark in marks)):
            arguments = dict[str, Any]()
            for mark, values in zip(marks, chosen, strict=True):
                names = re.findall(r"\w+", mark.args[0])
                arguments |= zip(names, values if len(names) > 1 else [values], strict=True)
            shown = [str(v) for v in arguments.values() if not isinstance(v, np.ndarray)]
            yield pytest.param(test, arguments, id="-".join([name[5:], *shown]))


@pytest.mark.parametrize(("test", "arguments"), list(their_cases()))
def test_of_power_transformer(
    test: Any, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(their_tests, "PowerTransformer", PowerTransformer)
    monkeypatch.setattr(their_tests, "power_transform", power_transform)
    monkeypatch.setattr(their_tests.stats, "boxcox", exact_boxcox)
    test(**arguments)


def test_there_are_their_cases() -> None:
    assert len(list(their_cases())) > 45


# --- what has no values, or one -----------------------------------------------------------------


@pytest.mark.parametrize("standardize", [True, False])
def test_columns_without_values_or_with_one_pass(standardize: bool) -> None:
    """All NaN stays so (scikit-learn 1.9 raises an error); one value becomes 0, or stays."""
    X = np.column_stack(
        [np.full(4, np.nan), [np.nan, np.nan, 5.0, np.nan], np.full(4, -7.0), np.arange(4.0)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "0: all values are missing, so lambda is 1")
        fitted = ExpYJ(standardize=standardize).fit(X)
        Z = fitted.transform(X)
    np.testing.assert_array_equal(np.isnan(Z), np.isnan(X))
    assert fitted.lambdas_[:3].tolist() == [1, 1, 1]
    constant = Theirs(standardize=standardize).fit_transform(X[:, 2:])
    np.testing.assert_allclose(Z[:, 2:], constant, rtol=1e-7, atol=1e-7)
    assert Z[2, 1] == (0 if standardize else pytest.approx(5))


@pytest.mark.parametrize("name", ["fit", "transform", "inverse_transform"])
def test_a_table_without_rows_is_refused_as_in_scikit_learn(name: str) -> None:
    for kind in (ExpYJ, Theirs):
        fitted = kind().fit(np.arange(6.0).reshape(3, 2))
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            getattr(fitted, name)(np.empty((0, 2)))


# --- copy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_without_copy_an_array_is_overwritten_and_holds_the_same(dtype: type) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(dtype)
    X[2, 1] = np.nan
    for order in ("C", "F"):
        given = np.array(X, order=order)
        fitted = ExpYJ(copy=False).fit(given)
        np.testing.assert_array_equal(given, X)
        expected = ExpYJ().fit(X).transform(X)
        Z = fitted.transform(given)
        assert Z is given
        np.testing.assert_array_equal(Z, expected)
        back = fitted.inverse_transform(Z)
        assert back is given
        np.testing.assert_array_equal(np.isnan(back), np.isnan(X))
        np.testing.assert_allclose(back, X, rtol=1e-5 if dtype is np.float32 else 1e-12)


def test_without_copy_what_cannot_be_written_to_is_left_alone(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    fitted = ExpYJ(copy=False).fit(mapped)
    np.testing.assert_array_equal(fitted.transform(mapped), ExpYJ().fit_transform(X))
    np.testing.assert_array_equal(mapped, X)


def test_float32_saturates_at_its_own_largest_number() -> None:
    X = np.array([[10.0], [10.0], [10.0], [10 - 1e-4]])
    fitted = ExpYJ().fit(X)
    far = np.array([[10.006]])
    assert 1e39 < fitted.transform(far)[0, 0] < 1e300
    with pytest.warns(UserWarning, match="beyond the range of float32"):
        Z = fitted.transform(far.astype(np.float32))
    assert Z[0, 0] == np.finfo(np.float32).max
