"""What all estimators share: columns, by number and name, and what is done to each of them."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from securefedyj.errors import InputError, code_of
from securefedyj.numerics.arrays import Array, unmasked
from securefedyj.numerics.passes import Source
from securefedyj.tables.cells import DATES, BadCellsError, TableError, first_few
from securefedyj.tables.source import as_array, as_source, has_column_names, is_table

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


def _refuse_dates(X: Any) -> None:
    """NumPy counts dates as numbers."""
    kinds = X.dtypes if hasattr(X, "dtypes") else [getattr(X, "dtype", None)]
    if any(
        getattr(kind, "kind", "") in ("m", "M") or getattr(kind, "is_temporal", bool)()
        for kind in kinds
    ):
        _refuse_columns(X)
        raise InputError("SFY-FIT-032", f"X holds dates or times; {DATES}.")


def _refuse_columns(X: Any) -> None:
    """Refuse the columns of a frame that do not hold numbers, by their names."""
    if has_column_names(X):
        as_array(as_source(X))


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
    _agreed: tuple[Array, Array] | None = None
    """The agreed lower and upper bounds of the values of the fit, if there were any."""
    _numbers: list[int] | None = None
    """The places of the columns in the table, if these are not all of it."""

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
        _refuse_dates(X)
        try:
            validated: Array = validate_data(self, unmasked(X), reset=reset, **checks)
        except (TypeError, ValueError):
            _refuse_columns(X)
            raise
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
        """The names of all features, or their numbers if they have none."""
        numbers = self._numbers or range(self.n_features_in_)
        return [str(name) for name in getattr(self, "feature_names_in_", numbers)]

    def _listed(self, chosen: Any) -> str:
        """The chosen features for a message, the first few by name."""
        names = np.array(self._feature_names(), dtype=object)[chosen]
        return first_few(names, most=_MOST_LISTED)

    def _named(self, chosen: Any, noun: str = "feature") -> str:
        """The same as part of a sentence."""
        return f"{noun}{'s' if np.count_nonzero(chosen) > 1 else ''} {self._listed(chosen)}"

    def _warn_not_converged(
        self, chosen: NDArray[np.bool_], words: str, kind: type[Warning] = ConvergenceWarning
    ) -> None:
        """Warn of features whose result is not certain; called by a method that `fit` calls."""
        if chosen.any():
            # past this, its caller and fit
            warnings.warn(f"{self._listed(chosen)}: {words}.", kind, stacklevel=4)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class FeatureTransformer(OneToOneFeatureMixin, TransformerMixin, ColumnReader):
    """An estimator that transforms each feature on its own.

    One that can undo that has `_inverse(z, j)`: the values of feature j that are transformed to z.
    """

    copy: bool = True

    @abstractmethod
    def _map(self, x: Array, j: int) -> Array:
        """Values of feature j, transformed."""

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
        return self._transformed(self._validated(X))

    @available_if(lambda estimator: hasattr(estimator, "_inverse"))  # type: ignore[untyped-decorator]
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
            no value has this transform: for lambda < 0 or lambda > 2 the Yeo-Johnson transformation
            is bounded on one side.
        """
        check_is_fitted(self)
        data: Array = check_array(unmasked(X), dtype=KEPT_TYPES, ensure_all_finite="allow-nan")
        self._check_width("SFY-FIT-002", data.shape[1])
        known = ~np.isnan(data)
        original = _by_columns(self._inverse, data, self.copy)
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

    def _transformed(self, data: Array) -> Array:
        """Rows that were validated, transformed; called by `transform`."""
        self._check_values(data)
        self._warn_outside(data)
        Z = _by_columns(self._map, data, self.copy)
        self._saturate(Z)
        return Z

    def _check_values(self, data: Array) -> None:
        """Refuse values that have no transform."""

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
                stacklevel=5,  # past this, _transformed, transform, and scikit-learn's wrapper
            )

    def _saturate(self, Z: Array) -> None:
        beyond = np.isinf(Z)
        if beyond.any():
            largest = np.finfo(Z.dtype).max
            np.clip(Z, -largest, largest, out=Z)
            warnings.warn(
                f"Transformed values of {self._named(np.any(beyond, axis=0))} are beyond the range "
                f"of {Z.dtype} and were replaced by its largest value. {self._why_beyond()}",
                UserWarning,
                stacklevel=5,  # past this, _transformed, transform, and scikit-learn's wrapper
            )

    def _why_beyond(self) -> str:
        return "They are extremely far from the data of the fit."

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [np.dtype(kept).name for kept in KEPT_TYPES]
        return tags


def check_choice(code: str, name: str, value: object, choices: Collection[str]) -> None:
    """Refuse a parameter that is none of its choices."""
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise InputError(code, f"{name} must be one of {listed}, got {value!r}")


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
