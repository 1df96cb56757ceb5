"""What the estimators have in common, with the contract of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import PowerTransformer, StandardScaler
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from securefedyj.numerics import likelihood, yeojohnson
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import Source
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.tables.source import as_array, as_source, is_table

# Columns are transformed in blocks of this many numbers, which stay in the cache.
_BLOCK = 1 << 14

OUTSIDE = "lie outside the agreed bounds"
"""In the warning of `transform`, for who counts them otherwise."""


class YeoJohnsonTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """What a fitted Yeo-Johnson transformation can do, however it was fitted."""

    standardize: bool
    n_features_in_: int
    lambdas_: Array
    mean_: Array
    var_: Array
    at_bound_: NDArray[np.bool_]
    converged_: NDArray[np.bool_]
    n_samples_seen_: NDArray[np.int64]
    _standardization: Standardization
    _agreed: tuple[Array, Array] | None = None
    """Lower and upper bounds that values of a fit had to keep to, if any were agreed on."""

    def transform(self, X: ArrayLike) -> Array:
        """Apply the fitted transformation to every feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data; NaN is kept.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features)
            The transformed data. A value beyond the range of float64 is replaced by the
            largest float64 of its sign, with a warning that names the feature. Values outside
            the bounds that were agreed on are transformed as well, with a warning.
        """
        check_is_fitted(self)
        data = self._validated(X)
        self._warn_outside(data)

        def psi(x: Array, j: int) -> Array:
            if self.standardize:
                return yeojohnson.standardize(x, self.lambdas_[j], self._standardization_of(j))
            return yeojohnson.transform(x, self.lambdas_[j])

        Z = _by_columns(psi, data)
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
            The original data. NaN, with a warning, where no value is transformed to what was
            given: for lambda < 0 or lambda > 2 the transformation is bounded on one side.
        """
        check_is_fitted(self)
        data: Array = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
        if data.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {data.shape[1]} features, but {type(self).__name__} "
                f"is expecting {self.n_features_in_} features as input."
            )

        def psi_inverse(z: Array, j: int) -> Array:
            if self.standardize:
                return yeojohnson.unstandardize(z, self.lambdas_[j], self._standardization_of(j))
            return yeojohnson.inverse(z, self.lambdas_[j])

        original = _by_columns(psi_inverse, data)
        lost = ~np.isfinite(original) & ~np.isnan(data)
        if lost.any():
            warnings.warn(
                f"Some values of {self._names(np.any(lost, axis=0))} have no original: they lie at "
                "or beyond the bound of the fitted transformation. They become inf or NaN.",
                UserWarning,
                stacklevel=2,
            )
        return original

    def log_likelihood(self, X: ArrayLike) -> Array:
        """The log-likelihood of the fitted lambdas on X, one value per feature.

        This is the paper's equation 3: mean and variance are those of X itself. It is inf for
        a constant feature and NaN for one without values.
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

    def to_sklearn(self) -> PowerTransformer:
        """A fitted `sklearn.preprocessing.PowerTransformer` with the same parameters.

        Raises
        ------
        ValueError
            If mean or variance of a feature cannot be held by a float64, or if the variance
            is lost beside the mean, so that scikit-learn's arithmetic would return noise.
        """
        check_is_fitted(self)
        constant = self.var_ == 0
        width, scale = self._standardization.width, np.sqrt(self.var_)
        with np.errstate(over="ignore"):
            unfit = ~np.isfinite(self.mean_) | ~np.isfinite(self.var_)
            unfit |= ~constant & (scale < 1e-10 * np.abs(self.mean_))
            unfit |= constant & (width != 1 / (1 + np.abs(self._standardization.center)))
        if self.standardize and unfit.any():
            raise ValueError(
                f"{self._names(unfit)} cannot be handed to scikit-learn: at lambda = "
                f"{', '.join(f'{v:.6g}' for v in self.lambdas_[unfit][:5])} the mean and variance "
                "do not fit float64. Use this estimator's own transform, or drop the feature."
            )
        fitted = PowerTransformer(method="yeo-johnson", standardize=self.standardize)
        fitted.lambdas_ = self.lambdas_.copy()
        if self.standardize:
            scaler = StandardScaler(copy=False).set_output(transform="default")
            scaler.mean_, scaler.var_ = self.mean_.copy(), self.var_.copy()
            scaler.scale_ = np.where(constant, 1.0, scale)
            scaler.n_samples_seen_ = self.n_samples_seen_.copy()
            scaler.n_features_in_ = self.n_features_in_
            fitted._scaler = scaler
        fitted.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            fitted.feature_names_in_ = self.feature_names_in_.copy()
        return fitted

    def _set_parameters(
        self, lmbda: Array, standardization: Standardization, constant: NDArray[np.bool_]
    ) -> None:
        """Mean and variance follow from center and width; float64 may not be able to hold them."""
        center, width, _ = standardization
        u = np.where(center >= 0, lmbda, 2 - lmbda)
        self.lambdas_ = lmbda
        self._standardization = standardization
        self.mean_ = yeojohnson.transform(center, lmbda)
        with np.errstate(over="ignore", under="ignore"):
            scale = width * np.exp(u * np.log1p(np.abs(center)))
            self.var_ = np.where(constant, 0.0, scale * scale)

    def _standardization_of(self, j: int) -> Standardization:
        return Standardization(*(part[j] for part in self._standardization))

    def _warn_outside(self, data: Array) -> None:
        if self._agreed is None:
            return
        lower, upper = self._agreed
        outside = np.count_nonzero((data < lower) | (data > upper), axis=0)
        if outside.any():
            warnings.warn(
                f"Values of {self._names(outside > 0)} {OUTSIDE} ({outside.sum():,} in all). They "
                "are transformed all the same; no silo had such values in the fit.",
                UserWarning,
                stacklevel=4,  # past this, transform, and scikit-learn's wrapper of it
            )

    def _saturate(self, Z: Array) -> None:
        beyond = np.isinf(Z)
        if beyond.any():
            np.clip(Z, -np.finfo(np.float64).max, np.finfo(np.float64).max, out=Z)
            warnings.warn(
                f"Transformed values of {self._names(np.any(beyond, axis=0))} are beyond the range "
                "of float64 and were replaced by its largest value. "
                + (
                    "They are extremely far from the data of the fit."
                    if self.standardize
                    else "Use standardize=True, which stays in range on the data of the fit."
                ),
                UserWarning,
                stacklevel=4,  # past this, transform, and scikit-learn's wrapper of it
            )

    def _validated(self, X: ArrayLike, reset: bool = False, **checks: Any) -> Array:
        data = self._validated_table(X, reset, **checks)
        return data if isinstance(data, np.ndarray) else as_array(data)

    def _validated_table(self, X: ArrayLike, reset: bool = False, **checks: Any) -> Array | Source:
        """An array, or a source where X is a table that is read in passes."""
        if is_table(X):
            return self._validated_source(X, reset)
        data: Array = validate_data(
            self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset, **checks
        )
        return data

    def _validated_source(self, X: Any, reset: bool) -> Source:
        """The columns of X: all of them, or those of the fit, by their names if it has any."""
        known = None if reset else getattr(self, "feature_names_in_", None)
        source = as_source(X, known)
        if reset:
            self.n_features_in_ = len(source.names)
            self.feature_names_in_ = np.array(source.names, dtype=object)
        elif len(source.names) != self.n_features_in_:
            raise ValueError(
                f"X has {len(source.names)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return source

    def _names(self, chosen: Any) -> str:
        """The chosen features for a message, the first few by name."""
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[chosen]
        listed = ", ".join(str(name) for name in names[:5])
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return f"feature{'s' if len(names) > 1 else ''} {listed}{more}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def check_positive_integer(name: str, value: object) -> None:
    """Refuse a parameter that is anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


def _by_columns(function: Callable[[Array, int], Array], X: Array) -> Array:
    """Apply a function of (values, feature) to every column, in blocks that fit the cache."""
    out = np.empty_like(X, order="C")
    for j in range(X.shape[1]):
        for first in range(0, len(X), _BLOCK):
            rows = slice(first, first + _BLOCK)
            out[rows, j] = function(X[rows, j], j)
    return out


def warn_not_converged(names: Sequence[str], words: str) -> None:
    """Warn of features whose lambda is not certain, if there are any; for `fit` to call."""
    if not len(names):
        return
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    listed = ", ".join(str(name) for name in names[:5])
    warnings.warn(f"{listed}{more}: {words}.", ConvergenceWarning, stacklevel=4)
