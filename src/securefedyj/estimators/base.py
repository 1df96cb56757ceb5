"""What the estimators share, with the contract of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import PowerTransformer
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from securefedyj.errors import InputError, code_of
from securefedyj.estimators.export import OnError, onnx_model, power_transformer
from securefedyj.numerics import likelihood, yeojohnson
from securefedyj.numerics.arrays import Array, unmasked
from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.passes import Source
from securefedyj.numerics.pooled import PooledFit
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.protocol.result import Result
from securefedyj.tables.cells import BadCellsError, TableError
from securefedyj.tables.source import as_array, as_source, is_table

if TYPE_CHECKING:
    from securefedyj.estimators.display import PowerTransformDisplay

# Columns are transformed in blocks of this many numbers, which stay in the cache.
_BLOCK = 1 << 14

OUTSIDE = "lie outside the agreed bounds"
"""In the warning of `transform`, for callers that count such values themselves."""

KEPT_TYPES = (np.float64, np.float32)
"""What is transformed keeps these types; all else becomes the first."""
_MOST_LISTED = 5


@contextmanager
def choice_of_columns() -> Iterator[None]:
    """Where a column of a table holds no numbers, explain how to fit the others."""
    try:
        yield
    except BadCellsError as error:
        raise TableError(
            code_of(error, "SFY-FIT-003"),
            f"{error} To fit some of its columns only, or to say how it is written: "
            "fit(as_source(table, ['age', 'lactate'])), with as_source of "
            "securefedyj.tables.source, which takes `missing` and `dialect` as well.",
        ) from None


def _is_plain(X: Any, dtype: Any, ensure_min_samples: int = 1) -> TypeGuard[Array]:
    """Whether X is an array that scikit-learn's checks would return as it is.

    They begin with reading the metadata of all installed packages, to learn about frames, which
    takes longer than many a fit.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype != dtype:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(np.sum(X)))
    return finite and X.shape[0] >= ensure_min_samples and X.shape[1] > 0


class ColumnReader(BaseEstimator):
    """An estimator that knows its columns, by their number and, if they have any, their names."""

    n_features_in_: int

    def _validated(self, X: ArrayLike) -> Array:
        """The rows of X, of one of the types that are kept."""
        data = self._validated_table(X, dtype=KEPT_TYPES)
        return data if isinstance(data, np.ndarray) else as_array(data)

    def _validated_table(
        self, X: ArrayLike, reset: bool = False, dtype: Any = np.float64, **checks: Any
    ) -> Array | Source:
        """An array, or a source where X is a table that is read in passes."""
        if is_table(X):
            return self._validated_source(X, reset)
        if reset and _is_plain(X, dtype, **checks):
            self.n_features_in_ = X.shape[1]
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return X
        checks |= {"dtype": dtype, "ensure_all_finite": "allow-nan"}
        validated: Array = validate_data(self, unmasked(X), reset=reset, **checks)
        return validated

    def _validated_source(self, X: Any, reset: bool) -> Source:
        """The columns of X: all of them, or those of the fit, by their names if it has any."""
        known = None if reset else getattr(self, "feature_names_in_", None)
        source = as_source(X, known)
        if reset:
            self.n_features_in_ = len(source.names)
            self.feature_names_in_ = np.array(source.names, dtype=object)
        else:
            self._check_width("SFY-FIT-004", len(source.names))
        return source

    def _check_width(self, code: str, width: int) -> None:
        if width != self.n_features_in_:
            raise InputError(
                code,
                f"X has {width} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input.",
            )

    def _feature_names(self) -> list[str]:
        """The names of all features, or their places if they have none."""
        return [
            str(name) for name in getattr(self, "feature_names_in_", range(self.n_features_in_))
        ]

    def _listed(self, chosen: Any) -> str:
        """The chosen features for a message, the first few by name."""
        names = np.array(self._feature_names(), dtype=object)[chosen]
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        return ", ".join(names[:_MOST_LISTED]) + more

    def _named(self, chosen: Any, noun: str = "feature") -> str:
        """The same as part of a sentence."""
        return f"{noun}{'s' if np.count_nonzero(chosen) > 1 else ''} {self._listed(chosen)}"


class YeoJohnsonTransformer(OneToOneFeatureMixin, TransformerMixin, ColumnReader):
    """What every fitted Yeo-Johnson transformation can do."""

    standardize: bool
    copy: bool
    lambdas_: Array
    mean_: Array
    var_: Array
    at_bound_: NDArray[np.bool_]
    converged_: NDArray[np.bool_]
    n_samples_seen_: NDArray[np.int64]
    _standardization: Standardization
    _agreed: tuple[Array, Array] | None = None
    """The agreed lower and upper bounds of the values of the fit, if there were any."""

    def transform(self, X: ArrayLike) -> Array:
        """Apply the fitted transformation to every feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data; NaN is kept.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features)
            The transformed data: float32 if X is, else float64. A value beyond the range of that
            type is replaced by its largest number of the same sign, with a warning that names the
            feature. Values outside the bounds that were agreed on are transformed as well, with a
            warning. With `copy=False`, X itself where that is possible.
        """
        check_is_fitted(self)
        data = self._validated(X)
        self._warn_outside(data)
        Z = _by_columns(self._psi, data, self.copy)
        self._saturate(Z)
        return Z

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Undo `transform`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Transformed data; NaN is kept.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            The original data, of the type that `transform` would have. NaN, with a warning, where
            no value has this transform: for lambda < 0 or lambda > 2 the transformation is bounded
            on one side.
        """
        check_is_fitted(self)
        data: Array = check_array(unmasked(X), dtype=KEPT_TYPES, ensure_all_finite="allow-nan")
        self._check_width("SFY-FIT-002", data.shape[1])

        def psi_inverse(z: Array, j: int) -> Array:
            if self.standardize:
                return yeojohnson.unstandardize(z, self.lambdas_[j], self._standardization.take(j))
            return yeojohnson.inverse(z, self.lambdas_[j])

        known = ~np.isnan(data)
        original = _by_columns(psi_inverse, data, self.copy)
        lost = ~np.isfinite(original) & known
        if lost.any():
            # "Some values in column" is scikit-learn's, whose tests ask for it.
            warnings.warn(
                f"Some values in {self._named(np.any(lost, axis=0), 'column')} have no original in "
                f"{original.dtype}: they lie at, beyond or too close to the bound of the fitted "
                "transformation. They become inf or NaN.",
                UserWarning,
                stacklevel=2,
            )
        return original

    def log_likelihood(self, X: ArrayLike) -> Array:
        """The log-likelihood of the fitted lambdas on X: the paper's equation 3.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data; NaN is ignored.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_features,)
            With the mean and variance of X itself; inf for a constant feature, NaN for one without
            values.
        """
        check_is_fitted(self)
        data = self._validated(X)
        values = np.empty(self.n_features_in_)
        for j, x in enumerate(data.T):
            x = x[~np.isnan(x)]
            if len(x) == 0 or np.all(x == x[0]):
                values[j] = np.inf if len(x) else np.nan
            else:
                values[j] = likelihood.log_likelihood(x, self.lambdas_[j])
        return values

    def to_sklearn(self, on_error: OnError = "raise") -> PowerTransformer:
        """A fitted `sklearn.preprocessing.PowerTransformer` with the same parameters.

        scikit-learn cannot carry a feature whose mean or variance does not fit float64, or whose
        variance is lost next to the mean: its arithmetic would return noise. Without
        standardization, it cannot carry one whose transformed values may not fit float64.

        Parameters
        ----------
        on_error : {"raise", "drop", "identity"}, default="raise"
            What becomes of such a feature: an error that names it; or it is left out, so that
            the PowerTransformer expects the other columns only; or its values pass unchanged.
            The latter two come with a warning.

        Returns
        -------
        made : PowerTransformer
            It transforms as this estimator, up to rounding.

        Raises
        ------
        ValueError
            If there is such a feature, or with "drop" no other.
        """
        check_is_fitted(self)
        return power_transformer(self, on_error)

    def to_onnx(self) -> Any:
        """The fitted transformation as an ONNX model, which runs without Python.

        Input "X" and output "Z" are of float64, with any number of rows. NaN is kept. Values
        outside the agreed bounds are transformed without a warning: ONNX has none. Needs the
        extra `onnx`.

        Returns
        -------
        model : onnx.ModelProto
        """
        check_is_fitted(self)
        return onnx_model(self)

    def plot(self, X: ArrayLike, feature: int | str = 0) -> PowerTransformDisplay:
        """Draw a feature before and after the transformation; needs matplotlib.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data, as for `transform`.
        feature : int or str, default=0
            Which feature, by its place or its name.

        Returns
        -------
        display : PowerTransformDisplay
            With the figure in `figure_` and its four panels in `axes_`.
        """
        from securefedyj.estimators.display import PowerTransformDisplay

        return PowerTransformDisplay.from_estimator(self, X, feature=feature)

    def _set_fit(self, fit: Result | PooledFit, mean: Array, var: Array) -> None:
        self.lambdas_, self.mean_, self.var_ = fit.lmbda, mean, var
        self.at_bound_, self.converged_, self.n_samples_seen_ = fit.at_bound, fit.converged, fit.n
        self._standardization = fit.standardization

    def _set_result(self, result: Result, domain: Domain) -> None:
        """Take the result of a run, now or from a file."""
        self._set_fit(result, result.mean, result.var)
        self._agreed = (domain.lower, domain.upper)

    def _psi(self, x: Array, j: int) -> Array:
        """Values of feature j, transformed."""
        if self.standardize:
            return yeojohnson.standardize(x, self.lambdas_[j], self._standardization.take(j))
        return yeojohnson.transform(x, self.lambdas_[j])

    def _warn_not_converged(self, chosen: NDArray[np.bool_], words: str) -> None:
        """Warn of features whose lambda is not certain; called by `_warn` of a fit."""
        if chosen.any():
            # past this, _warn and fit
            warnings.warn(f"{self._listed(chosen)}: {words}.", ConvergenceWarning, stacklevel=4)

    def _warn_outside(self, data: Array) -> None:
        if self._agreed is None:
            return
        lower, upper = self._agreed
        outside = np.count_nonzero((data < lower) | (data > upper), axis=0)
        if outside.any():
            warnings.warn(
                f"Values of {self._named(outside > 0)} {OUTSIDE} ({outside.sum():,} in all). They "
                "are transformed; no silo had such values in the fit.",
                UserWarning,
                stacklevel=4,  # past this, transform, and scikit-learn's wrapper of it
            )

    def _saturate(self, Z: Array) -> None:
        beyond = np.isinf(Z)
        if beyond.any():
            largest = np.finfo(Z.dtype).max
            np.clip(Z, -largest, largest, out=Z)
            warnings.warn(
                f"Transformed values of {self._named(np.any(beyond, axis=0))} are beyond the range "
                f"of {Z.dtype} and were replaced by its largest value. "
                + (
                    "They are extremely far from the data of the fit."
                    if self.standardize
                    else "Use standardize=True, which stays in range on the data of the fit."
                ),
                UserWarning,
                stacklevel=4,  # past this, transform, and scikit-learn's wrapper of it
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = [np.dtype(kept).name for kept in KEPT_TYPES]
        return tags


def check_positive_integer(name: str, value: object) -> None:
    """Refuse a parameter that is anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError("SFY-FIT-001", f"{name} must be a positive integer, got {value!r}")


def _by_columns(function: Callable[[Array, int], Array], X: Array, copy: bool) -> Array:
    """Apply a function of (values, feature) to every column, in blocks that fit the cache."""
    out = np.empty_like(X, order="C") if copy or not X.flags.writeable else X
    for j in range(X.shape[1]):
        for first in range(0, len(X), _BLOCK):
            rows = slice(first, first + _BLOCK)
            with np.errstate(over="ignore"):  # what float32 cannot hold
                out[rows, j] = function(X[rows, j], j)
    return out
