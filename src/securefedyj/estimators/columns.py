"""The columns of an estimator: rows are checked against them, and messages name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from securefedyj.errors import InputError, code_of
from securefedyj.numerics.arrays import Array, unmasked
from securefedyj.numerics.passes import Source
from securefedyj.tables.cells import BadCellsError, TableError
from securefedyj.tables.source import as_array, as_source, is_table

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
