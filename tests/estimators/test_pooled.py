"""ExpYJ as its users see it: the contract of scikit-learn, and what it adds to PowerTransformer."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

from securefedyj import ExpYJ, load, save
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.search import Limits, recover_path
from securefedyj.pooled.solvers import LAMBDA_LIMIT
from securefedyj.tables.cells import TableError
from securefedyj.tables.source import as_source
from tests import oracle
from tests.datasets import NAMES, WRONG_IN_SCIKIT_LEARN, features, table
from tests.refusals import refused

MAX = float(np.finfo(np.float64).max)
CLOSE = np.array([[10.0], [10.0], [10.0], [10 - 1e-4]])


def example(seed: int = 0, n: int = 50) -> Array:
    """A positive, a negative and a mixed feature."""
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.lognormal(size=n), -rng.gamma(3, size=n), rng.standard_t(4, size=n)]
    )


# --- what is fitted -----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["newton", "expsearch"])
@pytest.mark.parametrize("dataset", NAMES)
def test_fit_of_the_108_features(dataset: str, solver: str) -> None:
    fitted = ExpYJ(solver=solver, max_steps=100).fit(table(dataset))
    chosen = features(dataset)
    columns = [feature.column for feature in chosen]
    for attribute, key in (("lambdas_", "lmbda"), ("mean_", "mean"), ("var_", "var")):
        expected = [getattr(feature, key) for feature in chosen]
        np.testing.assert_allclose(getattr(fitted, attribute)[columns], expected, rtol=1e-12)
    assert not fitted.at_bound_.any()
    assert fitted.n_samples_seen_.tolist() == [len(table(dataset))] * table(dataset).shape[1]


@pytest.mark.parametrize("dataset", NAMES)
def test_forty_steps_halve_the_error_as_often_as_the_paper_says(dataset: str) -> None:
    """After k + 2 steps lambda is known to lie between 2^(k-1) and 2^k, and 38 - k are left."""
    fitted = ExpYJ(solver="expsearch", max_steps=40).fit(table(dataset))
    for feature in features(dataset):
        k = max(0, int(np.ceil(np.log2(abs(feature.lmbda)))))
        error = abs(fitted.lambdas_[feature.column] - feature.lmbda)
        # A sign so close to the optimum that the score is lost in rounding may be either.
        assert error <= 2.0 ** (max(k - 1, 0) - 1 - (38 - k)) + 1e-13 * abs(feature.lmbda)


@pytest.mark.parametrize("dataset", NAMES)
@pytest.mark.parametrize("standardize", [True, False])
def test_transform_agrees_with_power_transformer(dataset: str, standardize: bool) -> None:
    """Where scikit-learn finds lambda; it compares values of a flat maximum, hence the 1e-6."""
    wrong = [column for column, *_ in WRONG_IN_SCIKIT_LEARN] if dataset == "digits" else []
    X = np.delete(table(dataset), wrong, axis=1)
    ours = ExpYJ(standardize=standardize).fit(X)
    theirs = PowerTransformer(standardize=standardize).fit(X)
    np.testing.assert_allclose(theirs.transform(X), ours.transform(X), rtol=1e-6, atol=1e-6)


def test_close_values_are_standardized_although_their_images_overflow() -> None:
    fitted = ExpYJ().fit(CLOSE)
    assert fitted.lambdas_[0] == pytest.approx(float(oracle.optimum(CLOSE[:, 0])), rel=1e-12)
    assert fitted.mean_[0] == np.inf
    Z = fitted.transform(CLOSE)
    np.testing.assert_allclose(Z[:, 0], [3**-0.5] * 3 + [-(3**0.5)], rtol=1e-9)
    np.testing.assert_array_equal(fitted.inverse_transform(Z), CLOSE)


def test_log_likelihood_is_that_of_the_oracle() -> None:
    X, other = example(), example(seed=1)
    fitted = ExpYJ().fit(X)
    for data in (X, other):
        expected = [
            float(oracle.log_likelihood(column, lmbda))
            for column, lmbda in zip(data.T, fitted.lambdas_, strict=True)
        ]
        np.testing.assert_allclose(fitted.log_likelihood(data), expected, rtol=1e-13)


def test_log_likelihood_of_constant_and_empty_features() -> None:
    X = np.column_stack([np.full(4, 5.0), np.full(4, np.nan), [1.0, 2.0, 3.0, 5.0]])
    values = ExpYJ().fit(X).log_likelihood(X)
    assert values[0] == np.inf
    assert np.isnan(values[1])
    assert np.isfinite(values[2])


def test_log_likelihood_is_highest_at_the_fit() -> None:
    X = example()
    fitted = ExpYJ().fit(X)
    best = fitted.log_likelihood(X)
    for step in (-1e-3, 1e-3):
        moved = clone(fitted).fit(X)
        moved.lambdas_ = fitted.lambdas_ + step
        assert np.all(moved.log_likelihood(X) < best)


def test_path_of_expsearch_follows_from_lambda() -> None:
    X = table("wine")
    for max_steps in (10, 40, 100):
        fitted = ExpYJ(solver="expsearch", max_steps=max_steps).fit(X)
        assert len(fitted.path_) <= max_steps
        limits = Limits(-LAMBDA_LIMIT, LAMBDA_LIMIT)
        recovered = recover_path(fitted.lambdas_, len(fitted.path_), limits, fitted.at_bound_)
        np.testing.assert_array_equal(fitted.path_, recovered.points)


def test_path_of_newton_ends_a_last_step_from_lambda() -> None:
    X = np.column_stack([example(), np.full(50, 3.0)])
    fitted = ExpYJ().fit(X)
    assert fitted.path_.shape[1] == 4
    assert np.all(np.isnan(fitted.path_[:, 3]))
    for j in range(3):
        visited = fitted.path_[~np.isnan(fitted.path_[:, j]), j]
        assert visited[-1] == pytest.approx(fitted.lambdas_[j], rel=1e-5)
        assert np.all(np.isnan(fitted.path_[len(visited) :, j]))


def test_optimum_out_of_range_is_flagged() -> None:
    X = np.array([[1e-300, 1.0], [1e-300, 2.0], [1e-300, 3.0], [2e-300, 5.0]])
    fitted = ExpYJ().fit(X)
    assert fitted.at_bound_.tolist() == [True, False]
    assert fitted.lambdas_[0] == pytest.approx(-1e300, rel=1e-15)


# --- data as they come --------------------------------------------------------------------------


def test_missing_values_are_ignored_in_fit_and_kept_in_transform() -> None:
    X = example()
    rng = np.random.default_rng(3)
    holes = rng.random(X.shape) < 0.3
    with_holes = np.where(holes, np.nan, X)
    fitted = ExpYJ().fit(with_holes)
    Z = fitted.transform(with_holes)
    np.testing.assert_array_equal(np.isnan(Z), holes)
    np.testing.assert_array_equal(np.isnan(fitted.inverse_transform(Z)), holes)
    assert fitted.n_samples_seen_.tolist() == np.sum(~holes, axis=0).tolist()
    for j in range(3):
        present = X[~holes[:, j], j][:, None]
        alone = ExpYJ().fit(present)
        assert fitted.lambdas_[j] == pytest.approx(alone.lambdas_[0], rel=1e-12)
        np.testing.assert_allclose(Z[~holes[:, j], j], alone.transform(present)[:, 0], atol=1e-8)


@pytest.mark.parametrize("standardize", [True, False])
def test_constant_features_are_treated_as_scikit_learn_does(standardize: bool) -> None:
    X = np.column_stack([np.full(5, 3.0), np.full(5, -2.0), np.zeros(5), np.arange(5.0)])
    new = X + 1.5
    ours = ExpYJ(standardize=standardize).fit(X)
    theirs = PowerTransformer(standardize=standardize).fit(X)
    assert ours.lambdas_[:3].tolist() == theirs.lambdas_[:3].tolist() == [1, 1, 1]
    assert ours.mean_[:3] == pytest.approx([3, -2, 0])
    assert ours.var_[:3].tolist() == [0, 0, 0]
    for data in (X, new):
        np.testing.assert_allclose(
            ours.transform(data)[:, :3], theirs.transform(data)[:, :3], rtol=1e-14, atol=1e-14
        )
    if standardize:
        assert np.all(ours.transform(X)[:, :3] == 0)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(new)), new, rtol=1e-12)


def test_a_constant_feature_stays_one_when_values_are_missing() -> None:
    """Other than in scikit-learn, where the lambda of this one is 81.9."""
    X = np.array([[3.0], [np.nan], [3.0]])
    fitted = ExpYJ().fit(X)
    assert fitted.lambdas_.tolist() == [1]
    np.testing.assert_array_equal(fitted.transform(X), [[0], [np.nan], [0]])


def test_a_feature_without_values_stays_without() -> None:
    X = np.column_stack([np.full(4, np.nan), [1.0, 2.0, 3.0, 7.0]])
    fitted = ExpYJ().fit(X)
    assert fitted.lambdas_[0] == 1
    assert fitted.n_samples_seen_.tolist() == [0, 4]
    Z = fitted.transform(X)
    assert np.all(np.isnan(Z[:, 0]))
    assert np.all(np.isfinite(Z[:, 1]))


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X.tolist(),
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: pd.DataFrame(X),
        lambda X: X.astype(object),
    ],
    ids=["list", "Fortran", "strided", "DataFrame", "object"],
)
def test_same_numbers_same_bits(convert: Any) -> None:
    X = example()
    expected, fitted = ExpYJ().fit(X), ExpYJ().fit(convert(X))
    np.testing.assert_array_equal(fitted.lambdas_, expected.lambdas_)
    np.testing.assert_array_equal(fitted.transform(convert(X)), expected.transform(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, bool])
def test_other_numbers_are_computed_with_as_float64(dtype: type) -> None:
    """And what is transformed is float64 again, but for float32, which stays."""
    X = np.abs(example() * 10).astype(dtype)
    X[0] = 0
    fitted, expected = ExpYJ().fit(X), ExpYJ().fit(X.astype(np.float64))
    np.testing.assert_array_equal(fitted.lambdas_, expected.lambdas_)
    Z, kept = fitted.transform(X), np.float32 if dtype is np.float32 else np.float64
    assert Z.dtype == kept
    np.testing.assert_array_equal(Z, expected.transform(X.astype(np.float64)).astype(kept))
    assert fitted.inverse_transform(Z).dtype == kept


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_input_is_left_alone(order: Any) -> None:
    X = np.array(example(), order=order)
    X[3, 1] = np.nan
    before = X.copy()
    for solver in ("newton", "expsearch"):
        fitted = ExpYJ(solver=solver).fit(X)
        Z = fitted.transform(X)
        kept = Z.copy()
        fitted.inverse_transform(Z)
        np.testing.assert_array_equal(Z, kept)
    np.testing.assert_array_equal(X, before)
    X.flags.writeable = False
    ExpYJ().fit(X).transform(X)


def test_pandas_in_and_out() -> None:
    X = pd.DataFrame(example(), columns=["a", "b", "c"], index=range(100, 150))
    fitted = ExpYJ().fit(X)
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    assert fitted.get_feature_names_out().tolist() == ["a", "b", "c"]
    assert isinstance(fitted.transform(X), np.ndarray)
    out = fitted.set_output(transform="pandas").transform(X)
    assert isinstance(out, pd.DataFrame)
    assert out.columns.tolist() == ["a", "b", "c"]
    assert out.index.tolist() == X.index.tolist()
    np.testing.assert_array_equal(out.to_numpy(), ExpYJ().fit_transform(X.to_numpy()))


def test_polars_in_and_out() -> None:
    X = pl.DataFrame(dict(zip("abc", example().T, strict=True)))
    fitted = ExpYJ().set_output(transform="polars").fit(X)
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    out = fitted.transform(X)
    assert isinstance(out, pl.DataFrame)
    assert out.columns == ["a", "b", "c"]
    np.testing.assert_array_equal(out.to_numpy(), ExpYJ().fit_transform(example()))


def test_names_of_features_without_names() -> None:
    assert ExpYJ().fit(example()).get_feature_names_out().tolist() == ["x0", "x1", "x2"]


# --- what is refused, and how it is said --------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        ([[1.0], [np.inf]], ValueError, "infinity"),
        ([[1.0], [-np.inf]], ValueError, "infinity"),
        ([["a"], ["b"]], ValueError, "could not convert string to float"),
        (np.empty((0, 2)), ValueError, r"0 sample\(s\).*minimum of 2 is required"),
        (np.empty((3, 0)), ValueError, r"0 feature\(s\).*minimum of 1 is required"),
        ([[1.0, 2.0]], ValueError, r"1 sample\(s\).*minimum of 2 is required"),
        ([1.0, 2.0, 3.0], ValueError, "Expected 2D array, got 1D array"),
        (np.array([[1.0], [1j]]), ValueError, "Complex data not supported"),
        (sparse.csr_array(np.eye(3)), TypeError, "Sparse data was passed"),
    ],
)
def test_data_that_cannot_be_fitted(X: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        ExpYJ().fit(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((2, 2)), "X has 2 features, but ExpYJ is expecting 3 features as input"),
        (np.ones((2, 4)), "X has 4 features, but ExpYJ is expecting 3 features as input"),
        (np.full((2, 3), np.inf), "infinity"),
        ([["a", "b", "c"]], "could not convert string to float"),
    ],
)
@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_data_that_cannot_be_transformed(method: str, X: Any, message: str) -> None:
    fitted = ExpYJ().fit(example())
    with pytest.raises(ValueError, match=message):
        getattr(fitted, method)(X)


def test_other_names_are_refused() -> None:
    X = pd.DataFrame(example(), columns=["a", "b", "c"])
    fitted = ExpYJ().fit(X)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(X.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(X[["b", "a", "c"]])


@pytest.mark.parametrize("method", ["transform", "inverse_transform", "log_likelihood"])
def test_fit_comes_first(method: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(ExpYJ(), method)(example())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        ExpYJ().to_sklearn()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "brent"}, "solver must be one of 'newton', 'expsearch', got 'brent'"),
        ({"solver": None}, "solver must be one of 'newton', 'expsearch', got None"),
        ({"max_steps": 0}, "max_steps must be a positive integer, got 0"),
        ({"max_steps": -3}, "max_steps must be a positive integer, got -3"),
        ({"max_steps": 1.5}, "max_steps must be a positive integer, got 1.5"),
        ({"max_steps": True}, "max_steps must be a positive integer, got True"),
        ({"max_steps": "40"}, "max_steps must be a positive integer, got '40'"),
    ],
)
def test_parameters_that_make_no_sense(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExpYJ(**parameters).fit(example())


def test_number_of_steps_may_be_of_any_integer_type() -> None:
    steps: Any = np.int32(7)
    fitted = ExpYJ(solver="expsearch", max_steps=steps).fit(example())
    assert len(fitted.path_) == 7


# --- beyond the range of float64 ----------------------------------------------------------------


def test_values_beyond_float64_saturate_with_a_warning() -> None:
    X = pd.DataFrame({"fine": [1.0, 2.0, 3.0, 7.0], "close": CLOSE[:, 0]})
    fitted = ExpYJ(standardize=False).fit(X)
    with pytest.warns(UserWarning, match=r"feature close are beyond .*Use standardize=True"):
        Z = fitted.transform(X)
    assert np.all(Z[:, 1] == MAX)
    assert np.all(np.isfinite(Z[:, 0]))


def test_far_values_saturate_with_a_warning() -> None:
    fitted = ExpYJ().fit(CLOSE)
    with pytest.warns(UserWarning, match="feature 0 are beyond .*extremely far from the data"):
        Z = fitted.transform([[11.0], [1e9], [10.0]])
    assert Z[0, 0] == Z[1, 0] == MAX
    assert np.isfinite(Z[2, 0])


@pytest.mark.parametrize("standardize", [True, False])
def test_values_beyond_the_bound_have_no_original(standardize: bool) -> None:
    """Of a positive feature with lambda = -1.2, Psi is bounded by 1/1.2 = 0.83."""
    X = pd.DataFrame(example(), columns=["a", "b", "c"])
    fitted = ExpYJ(standardize=standardize).fit(X)
    assert fitted.lambdas_[0] < 0
    bound = -1 / fitted.lambdas_[0]
    if standardize:
        bound = (bound - fitted.mean_[0]) / np.sqrt(fitted.var_[0])
    Z = np.zeros((2, 3))
    Z[:, 0] = bound * 0.999, bound * 1.001
    with pytest.warns(UserWarning, match="values in column a have no original.*bound"):
        back = fitted.inverse_transform(Z)
    assert np.isfinite(back[0]).all()
    assert np.isnan(back[1, 0])
    assert np.isfinite(back[1, 1:]).all()


def test_the_data_of_the_fit_come_back_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    for dataset in ("iris", "wine", "breast_cancer"):
        X = table(dataset)
        for standardize in (True, False):
            fitted = ExpYJ(standardize=standardize).fit(X)
            np.testing.assert_allclose(
                fitted.inverse_transform(fitted.transform(X)), X, rtol=1e-12, atol=1e-12
            )
    assert not recwarn.list


# --- as a PowerTransformer ----------------------------------------------------------------------


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("dataset", NAMES)
def test_to_sklearn_transforms_alike(dataset: str, standardize: bool) -> None:
    X = table(dataset)
    fitted = ExpYJ(standardize=standardize).fit(X)
    theirs = fitted.to_sklearn()
    assert isinstance(theirs, PowerTransformer)
    assert theirs.standardize is standardize
    np.testing.assert_allclose(theirs.transform(X), fitted.transform(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(theirs.lambdas_, fitted.lambdas_)


def test_to_sklearn_has_what_a_fit_by_scikit_learn_has() -> None:
    """Attribute for attribute, also after pickling, with names and with missing values."""
    X = pd.DataFrame(example(), columns=["a", "b", "c"])
    X.iloc[2, 1] = np.nan
    ours, theirs = ExpYJ().fit(X).to_sklearn(), PowerTransformer().fit(X)
    assert vars(ours).keys() == vars(theirs).keys()
    assert vars(ours._scaler).keys() == vars(theirs._scaler).keys()
    assert ours.get_params() == theirs.get_params()
    np.testing.assert_allclose(ours._scaler.mean_, theirs._scaler.mean_, rtol=1e-6)
    np.testing.assert_allclose(ours._scaler.scale_, theirs._scaler.scale_, rtol=1e-6)
    assert ours.get_feature_names_out().tolist() == ["a", "b", "c"]
    out = pickle.loads(pickle.dumps(ours)).set_output(transform="pandas").transform(X)
    assert out.columns.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(out, theirs.transform(X), atol=1e-6)
    np.testing.assert_allclose(ours.inverse_transform(out.to_numpy()), X, rtol=1e-12)


def test_to_sklearn_of_constant_features() -> None:
    X = np.column_stack([np.full(5, 3.0), np.arange(5.0)])
    fitted = ExpYJ().fit(X)
    np.testing.assert_allclose(fitted.to_sklearn().transform(X), fitted.transform(X), atol=1e-15)


@pytest.mark.parametrize(
    "column",
    [
        CLOSE[:, 0],
        -CLOSE[:, 0],
        [10.0, 10, 10, 10 + 1e-4],
        [1e6 - 2**-16, 1e6, 1e6, 1e6 + 2**-16],
        [1e300, 1.1e300, 2e300, 5e300],
    ],
    ids=["overflow", "negative overflow", "underflow", "cancellation", "huge"],
)
def test_to_sklearn_refuses_what_float64_cannot_hold(column: Any) -> None:
    X = pd.DataFrame({"fine": [1.0, 2.0, 3.0, 7.0], "hard": column})
    fitted = ExpYJ().fit(X)
    with pytest.raises(ValueError, match="feature hard cannot be handed to scikit-learn"):
        fitted.to_sklearn()
    np.testing.assert_allclose(fitted.transform(X).std(axis=0), 1, rtol=1e-9)


@pytest.mark.parametrize("sign", [-1, 1])
def test_to_sklearn_without_standardization_refuses_what_becomes_infinite(sign: int) -> None:
    X = pd.DataFrame({"hard": sign * (10 + np.array([-1e-4, 0, 0, 0])), "fine": [1.0, 2, 3, 7]})
    fitted = ExpYJ(standardize=False).fit(X)
    with pytest.warns(UserWarning, match="feature hard are beyond the range"):
        fitted.transform(X)
    with pytest.raises(ValueError, match=r"feature hard .* the transformed values"):
        fitted.to_sklearn()
    with pytest.warns(UserWarning, match=r"feature hard .* left out"):
        theirs = fitted.to_sklearn(on_error="drop")
    np.testing.assert_array_equal(theirs.lambdas_, fitted.lambdas_[1:])


def test_to_sklearn_without_standardization_needs_no_variance() -> None:
    """That of such values is beyond float64, and they themselves are not."""
    X = np.array([[-1e307, 1e200], [2e307, -2e200], [5e306, 1e199], [-9e306, 3e200]])
    fitted = ExpYJ(standardize=False).fit(X)
    assert np.isinf(fitted.var_).all()
    Z = fitted.to_sklearn().transform(X)
    np.testing.assert_allclose(Z, fitted.transform(X), rtol=1e-10)


HARD = pd.DataFrame({"hard": CLOSE[:, 0], "fine": [1.0, 2.0, 3.0, 7.0], "low": -CLOSE[:, 0]})


def test_to_sklearn_leaves_out_what_float64_cannot_hold() -> None:
    fitted = ExpYJ().fit(HARD)
    with pytest.warns(UserWarning, match="features hard, low cannot .* left out") as caught:
        theirs = fitted.to_sklearn(on_error="drop")
    assert caught[0].filename == __file__
    assert theirs.feature_names_in_.tolist() == ["fine"]
    Z = theirs.transform(HARD[["fine"]])
    np.testing.assert_allclose(Z, fitted.transform(HARD)[:, [1]], rtol=1e-12)
    with pytest.raises(ValueError, match="feature 0 cannot be handed to scikit-learn"):
        ExpYJ().fit(CLOSE).to_sklearn(on_error="drop")


def test_to_sklearn_lets_pass_what_float64_cannot_hold() -> None:
    fitted = ExpYJ().fit(HARD)
    with pytest.warns(UserWarning, match="features hard, low cannot .* passed on unchanged"):
        theirs = fitted.to_sklearn(on_error="identity")
    Z = theirs.transform(HARD)
    np.testing.assert_allclose(Z[:, [0, 2]], HARD[["hard", "low"]], rtol=1e-15)
    np.testing.assert_allclose(Z[:, 1], fitted.transform(HARD)[:, 1], rtol=1e-12)
    np.testing.assert_allclose(theirs.inverse_transform(Z), HARD, rtol=1e-12)


@pytest.mark.parametrize("on_error", ["drop", "identity"])
def test_to_sklearn_does_not_warn_without_need(on_error: Any) -> None:
    fitted = ExpYJ().fit(example())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = fitted.to_sklearn(on_error=on_error)
    np.testing.assert_array_equal(theirs.lambdas_, fitted.lambdas_)


def test_to_sklearn_knows_three_ways() -> None:
    ways: Any = "ignore"
    with pytest.raises(ValueError, match="on_error must be one of 'raise', 'drop', 'identity'"):
        ExpYJ().fit(example()).to_sklearn(on_error=ways)


# --- among other estimators ---------------------------------------------------------------------


def test_pickle_and_joblib_keep_every_bit(tmp_path: Path) -> None:
    X = np.column_stack([example(n=4), CLOSE])
    fitted = ExpYJ().fit(X)
    joblib.dump(fitted, tmp_path / "fitted.joblib")
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "fitted.joblib")):
        np.testing.assert_array_equal(copy.transform(X), fitted.transform(X))
        np.testing.assert_array_equal(copy.lambdas_, fitted.lambdas_)


def test_clone_keeps_parameters_and_forgets_the_fit() -> None:
    fitted = ExpYJ(standardize=False, solver="expsearch", max_steps=12).fit(example())
    copy = clone(fitted)
    expected = {"standardize": False, "solver": "expsearch", "max_steps": 12}
    assert copy.get_params() == expected | {"method": "yeo-johnson", "copy": True}
    assert not hasattr(copy, "lambdas_")


def test_fitting_again_forgets_the_fit_before() -> None:
    fitted = ExpYJ().fit(pd.DataFrame(example(), columns=["a", "b", "c"]))
    fitted.fit(example(seed=1)[:, :2])
    expected = ExpYJ().fit(example(seed=1)[:, :2])
    assert fitted.n_features_in_ == 2
    assert not hasattr(fitted, "feature_names_in_")
    np.testing.assert_array_equal(fitted.lambdas_, expected.lambdas_)


def test_pipeline_and_grid_search() -> None:
    X, y = table("iris"), np.repeat([0, 1, 2], 50)
    pipeline = make_pipeline(ExpYJ(), LogisticRegression(max_iter=2000))
    search = GridSearchCV(pipeline, {"expyj__standardize": [True, False]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    tried = [parameters["expyj__standardize"] for parameters in search.cv_results_["params"]]
    assert tried == [True, False]
    chosen = search.best_estimator_.named_steps["expyj"]
    np.testing.assert_array_equal(chosen.lambdas_, ExpYJ().fit(X).lambdas_)


@pytest.mark.parametrize("solver", ["newton", "expsearch"])
def test_memory_of_a_fit_is_one_copy_of_the_input(solver: str) -> None:
    """And little more: the promise is 64 MB, which is for tables larger than this one."""
    X = np.random.default_rng(0).lognormal(size=(200_000, 8))
    tracemalloc.start()
    try:
        ExpYJ(solver=solver, max_steps=5).fit(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= X.nbytes + 16e6


def test_columns_of_a_file_are_chosen_by_name_and_found_again(tmp_path):
    path = tmp_path / "t.csv"
    frame = pd.DataFrame({"pid": list("xyzuvw"), "b": np.arange(6.0) ** 2, "a": np.arange(6.0)})
    frame.to_csv(path, index=False)
    with pytest.raises(TableError, match=r"column 'pid', 6 cells .* fit\(as_source\(table, \['age"):
        ExpYJ().fit(path)
    fitted = ExpYJ().fit(as_source(path, ["a", "b"]))
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    expected = ExpYJ().fit(frame[["a", "b"]])
    np.testing.assert_array_equal(fitted.lambdas_, expected.lambdas_)
    np.testing.assert_array_equal(fitted.transform(path), expected.transform(frame[["a", "b"]]))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_columns_of_a_frame_that_hold_no_numbers_are_named(kind: Any) -> None:
    days = pd.date_range("2026-01-01", periods=3).to_pydatetime()
    columns = {"age": [50.0, 60.0, 70.0], "seen": list(days), "ward": ["a", "b", "c"]}
    for wrong, right in (("seen", "age"), ("ward", "age")):
        with refused("SFY-TAB-100", naming=f"column {wrong!r}"):
            ExpYJ().fit(kind({name: columns[name] for name in (right, wrong)}))
    with refused("SFY-FIT-032"):
        ExpYJ().fit(np.array(columns["seen"], dtype="datetime64[s]")[:, None])


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
def test_what_was_fitted_to_pooled_data_is_saved_and_loaded(
    method: str, standardize: bool, tmp_path: Path
) -> None:
    X = pd.DataFrame(table("wine")[:, :3], columns=list("abc")).assign(same=3.0, empty=np.nan)
    X = X.drop(columns="empty") if method == "box-cox" else X
    fitted = ExpYJ(method, standardize=standardize)
    with pytest.raises(NotFittedError):
        save(fitted, tmp_path / "parameters.json")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Z = fitted.fit(X).transform(X)
    assert [str(one.message)[:6] for one in caught] == ["empty:"] * ("empty" in X)
    save(fitted, tmp_path / "parameters.json")
    loaded = load(tmp_path / "parameters.json")
    np.testing.assert_array_equal(loaded.transform(X[X.columns[::-1]]), Z)
    np.testing.assert_array_equal(loaded.inverse_transform(Z), fitted.inverse_transform(Z))
    assert "a, b" in repr(loaded)
    assert ", file of 20" in repr(loaded)


def test_a_fit_whose_moments_float64_cannot_hold_is_not_saved(tmp_path: Path) -> None:
    with refused("SFY-PAR-013", naming="0"):
        save(ExpYJ().fit(CLOSE), tmp_path / "parameters.json")
