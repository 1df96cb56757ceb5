"""SecureColumnTransformer: several transformers of data that is split over silos, in one run."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from securefedyj.errors import InputError
from securefedyj.estimators.export import as_fitted
from securefedyj.estimators.secure import Column, SecureEstimator, SecureTransformer
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import Source
from securefedyj.protocol.agreement import MOST_BITS
from securefedyj.tables.source import as_source, has_column_names, is_table


@dataclass(kw_only=True, eq=False, repr=False)
class SecureColumnTransformer(OneToOneFeatureMixin, TransformerMixin, SecureEstimator):
    """Apply transformers to columns of data that is split over silos, all fitted in one run.

    As `sklearn.compose.ColumnTransformer`: the columns of the result are those of the first
    transformer, then those of the second, and so on; columns without a transformer are dropped. A
    column may have several transformers. They share their exchanges, so that a fit takes hardly
    more rounds than that of the slowest one alone.

    Parameters
    ----------
    transformers : list of (name, transformer, columns)
        A transformer is a `SecureFedYJ`, `SecureStandardScaler`, `SecureRobustScaler` or
        `SecureQuantiles`. Columns are a name, a list of names, a number, or a list or slice of
        numbers. If all are names, other columns may hold anything. What transformers have agreed
        on, such as `bounds` and `resolution`, holds for their columns; two of one column may not
        contradict each other.
    engine, max_steps, levels_per_exchange, result_bits, verified, minimum_values, cache_bytes
        As of `SecureFedYJ`, for the run. A transformer that sets one of them must set the same.
    submitted
        As of `SecureFedYJ`, for the run. A transformer that sets one of them must set the same.

    Attributes
    ----------
    transformers_ : list of (name, transformer, columns)
        The fitted transformers.
    named_transformers_ : dict
        The same by name.
    n_features_in_, feature_names_in_, transcript_, cost_
        As of `SecureFedYJ`. If all columns are given by name, these are the features.

    Examples
    --------
    >>> import numpy as np
    >>> from securefedyj import SecureColumnTransformer, SecureFedYJ, SecureStandardScaler
    >>> X = np.random.default_rng(0).lognormal(size=(90, 3))
    >>> both = SecureColumnTransformer(
    ...     [("normal", SecureFedYJ(), [0, 2]), ("scaled", SecureStandardScaler(), 1)]
    ... ).fit([X[:20], X[20:50], X[50:]])
    >>> both.get_feature_names_out()
    array(['normal__x0', 'normal__x2', 'scaled__x1'], dtype=object)
    >>> print(both.transform(X).std(axis=0).round(6))
    [1. 1. 1.]
    """

    transformers: Sequence[tuple[str, Any, Any]] = field(kw_only=False)
    max_steps: int = 40
    levels_per_exchange: int = 4
    result_bits: int = MOST_BITS

    @property
    def named_transformers_(self) -> dict[str, Any]:
        """The fitted transformers by name."""
        return {name: fitted for name, fitted, _ in self.transformers_}

    def transform(self, X: ArrayLike) -> Array:
        """Apply each transformer to its columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_transformed)
            What the transformers return, side by side.
        """
        check_is_fitted(self)
        data, parts = self._validated(X), []
        for _, fitted, _ in self.transformers_:  # a comprehension would hide who is warned
            parts.append(fitted._transformed(data[:, fitted._numbers]))
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Any:
        """The names of the columns of the result: transformer__feature.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the features, if the data of the fit had none.

        Returns
        -------
        names : ndarray of str
        """
        names = super().get_feature_names_out(input_features)
        listed = [
            f"{name}__{names[j]}" for name, fitted, _ in self.transformers_ for j in fitted._numbers
        ]
        return np.array(listed, dtype=object)

    def to_sklearn(self) -> ColumnTransformer:
        """A fitted `sklearn.compose.ColumnTransformer` of what the transformers' own return.

        Returns
        -------
        made : ColumnTransformer
            Its transformers are frozen: they stay as they are, also in a clone.
        """
        check_is_fitted(self)
        frozen = [
            (name, FrozenEstimator(fitted.to_sklearn()), fitted._numbers)
            for name, fitted, _ in self.transformers_
        ]
        made = ColumnTransformer(frozen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the row has no names
            made.fit(np.ones((1, self.n_features_in_)))  # learns where the columns are
        if hasattr(self, "feature_names_in_"):  # by which another fit finds them
            columns = [list(self.feature_names_in_[numbers]) for _, _, numbers in frozen]
            made.transformers = [(*own[:2], c) for own, c in zip(frozen, columns, strict=True)]
        return as_fitted(made, self)

    def _columns(self) -> dict[int, Column]:
        names = [name for name, _, _ in self.transformers]
        if len(set(names)) < len(names) or not names:
            raise InputError(
                "SFY-FIT-025", f"transformers must be a list with distinct names, got {names}"
            )
        asked = dict[int, Column]()
        self.transformers_ = list[tuple[str, Any, Any]]()
        for name, transformer, columns in self.transformers:
            self._check(name, transformer)
            own, places = clone(transformer), self._places_of(name, columns)
            as_fitted(own, self, places, _numbers=places)
            for place, wanted in zip(places, own._columns().values(), strict=True):
                asked[place] = _merged(asked.get(place), wanted, self._feature_names()[place])
            self.transformers_.append((name, own, columns))
        return asked

    def _check(self, name: str, transformer: Any) -> None:
        """Refuse what cannot be fitted in this run."""
        if not isinstance(transformer, SecureTransformer):
            raise InputError(
                "SFY-FIT-026",
                f"transformer {name!r} is {type(transformer).__name__}; it must be SecureFedYJ, "
                "SecureStandardScaler, SecureRobustScaler or SecureQuantiles",
            )
        default, chosen = type(transformer)().get_params(), transformer.get_params()
        for parameter, value in self.get_params(deep=False).items():
            own = chosen.get(parameter)
            if own != default.get(parameter) and own != value:
                raise InputError(
                    "SFY-FIT-027",
                    f"transformer {name!r} has {parameter}={own!r}, but the run of all has "
                    f"{value!r}: set it on SecureColumnTransformer",
                )

    def _places_of(self, name: str, columns: Any) -> list[int]:
        """The places of a transformer's columns in the table."""
        every = list(range(self.n_features_in_))
        names = list(getattr(self, "feature_names_in_", ()))
        places = []
        for column in every[columns] if isinstance(columns, slice) else _listed(columns):
            if isinstance(column, str) and column in names:
                places.append(names.index(column))
            elif type(column) is not bool and column in every:
                places.append(int(column))
            else:
                raise InputError(
                    "SFY-FIT-028",
                    f"transformer {name!r}: there is no column {column!r}; columns are names, if "
                    f"the table has them, or whole numbers from 0 to {len(every) - 1}",
                )
        if not places:
            raise InputError("SFY-FIT-030", f"transformer {name!r} has no columns")
        return places

    def _validated_table(
        self, X: Any, reset: bool = False, dtype: Any = np.float64, **checks: Any
    ) -> Array | Source:
        chosen: list[Any] = [
            column
            for _, _, columns in self.transformers
            for column in ([0] if isinstance(columns, slice) else _listed(columns))
        ]
        named = all(isinstance(column, str) for column in chosen)
        if named and (is_table(X) or has_column_names(X)):
            X = as_source(X, list(dict.fromkeys(chosen)))
        return super()._validated_table(X, reset, dtype, **checks)

    def _together(self) -> Iterable[tuple[SecureTransformer, Sequence[int]]]:
        return [(fitted, fitted._numbers) for _, fitted, _ in self.transformers_]


def _listed(columns: Any) -> Sequence[Any]:
    return [columns] if isinstance(columns, str) or np.ndim(columns) == 0 else columns


def _merged(one: Column | None, other: Column, name: str) -> Column:
    """What two transformers want of a column."""
    if one is None:
        return other
    for what in ("bounds", "resolution", "digits"):
        first, second = getattr(one, what), getattr(other, what)
        if first and second and first != second:
            raise InputError(
                "SFY-FIT-029",
                f"two transformers have different {what} for column {name!r}: {first} and {second}",
            )
    methods = dict(one.methods)
    for method, quantiles in other.methods.items():
        if methods.setdefault(method, quantiles) != quantiles:
            both = {*methods.get("quantiles", ()), *quantiles}
            methods["quantiles"] = tuple(sorted(both, key=Fraction))
    return Column(
        methods,
        one.bounds or other.bounds,
        one.resolution or other.resolution,
        one.digits or other.digits,
        one.rounded or other.rounded,
    )
