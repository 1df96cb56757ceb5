"""The fit of data that is split over silos: what all such estimators share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, Self

import numpy as np

from securefedyj.engines.registry import facts_of
from securefedyj.errors import InputError, code_of
from securefedyj.estimators.columns import (
    ColumnReader,
    FeatureTransformer,
    check_positive_integer,
    choice_of_columns,
)
from securefedyj.numerics.arrays import Array, Index
from securefedyj.numerics.encoding import DEFAULT_BOUND
from securefedyj.protocol.agreement import MOST_BITS, Agreement, bounds_of
from securefedyj.protocol.methods import Methods
from securefedyj.protocol.silos import Table
from securefedyj.protocol.simulation import simulate
from securefedyj.tables.cells import first_few
from securefedyj.tables.source import as_source, is_table


class Column(NamedTuple):
    """What a run is asked about one column."""

    methods: Methods
    bounds: tuple[float, float] | None = None
    """The agreed ones; None for the default."""
    resolution: str = ""
    digits: int = 0
    rounded: bool = False

    def domain(self) -> tuple[float, float]:
        """The agreed bounds, or those by default."""
        lower = 1 / DEFAULT_BOUND if "box-cox" in self.methods else -DEFAULT_BOUND
        return self.bounds or (lower, DEFAULT_BOUND)


@dataclass(kw_only=True, eq=False, repr=False)
class SecureEstimator(ColumnReader):
    """An estimator that is fitted to the rows of silos, in one run of the protocol."""

    engine: str = "replicated"
    verified: bool = False
    minimum_values: int = 0
    cache_bytes: int | None = None
    submitted: bool = False

    # Parameters of some; the others have no use for them.
    max_steps = 40
    levels_per_exchange = 4
    result_bits = MOST_BITS

    @abstractmethod
    def _columns(self) -> dict[int, Column]:
        """What the run is asked, by the places of the columns in the table."""

    @abstractmethod
    def _together(self) -> Iterable[tuple[SecureTransformer, Sequence[int]]]:
        """Who learns from the run, and the places of their columns in the table."""

    def fit(self, silos: Sequence[Any], y: object = None) -> Self:
        """Fit to the rows of all silos.

        Parameters
        ----------
        silos : sequence of array-like of shape (n_rows_k, n_features), table, or None
            The rows of each silo, with the same columns in the same order. A table is the path
            of a CSV or Parquet file or of a folder of them, a polars LazyFrame or a PyArrow
            table; it is read in blocks, as often as there are exchanges, and its columns are
            found by their names; `securefedyj.tables.source.as_source` chooses some. The rows of
            a table of Dask stay with its workers. None is a party that computes but has
            no data, such as a coordinator.
        y : None
            Ignored.

        Returns
        -------
        self : estimator
        """
        self._numbers, facts = None, facts_of(self.engine)
        for name in ("max_steps", "levels_per_exchange", "result_bits"):
            check_positive_integer(name, getattr(self, name))
        tables = self._validated_silos(silos)
        asked = self._columns()
        names, used = self._feature_names(), sorted(asked)
        columns = [asked[j] for j in used]
        features, methods = tuple(names[j] for j in used), tuple(own.methods for own in columns)
        parties = tuple(f"silo {k + 1}" for k in range(len(tables)))
        agreement = Agreement(
            features=features,
            domain=bounds_of([own.domain() for own in columns], features, methods),
            methods=methods,
            resolution=tuple(own.resolution for own in columns),
            digits=tuple(own.digits for own in columns),
            rounded=tuple(own.rounded for own in columns),
            submitted=bool(self.submitted),
            parties=parties,
            committee=facts.committee_of(parties),
            engine=self.engine,
            max_steps=int(self.max_steps),
            levels_per_exchange=int(self.levels_per_exchange),
            result_bits=int(self.result_bits),
            minimum_values=self.minimum_values,
            helpers=tuple(
                name for name, table in zip(parties, tables, strict=True) if table is None
            ),
            verified=bool(self.verified or self.submitted),
        )
        agreement.check()
        if len(used) < len(names):
            tables = [_chosen(table, used) for table in tables]
        with choice_of_columns():
            transcript, cost = simulate(agreement, tables, self.cache_bytes)
        self.transcript_, self.cost_ = transcript, cost
        lower, upper = agreement.domain.lower, agreement.domain.upper
        for estimator, places in self._together():
            some = np.searchsorted(used, places)
            estimator.transcript_, estimator.cost_ = transcript, cost
            estimator._agreed = (lower[some], upper[some])
            estimator._learn(some)
        return self

    def _validated_silos(self, silos: Sequence[Any]) -> list[Table | None]:
        """The tables of all silos; their columns must be the same."""
        if hasattr(silos, "shape") or is_table(silos):
            raise InputError(
                "SFY-FIT-010",
                "fit takes a list with one table per silo, e.g. fit([X_1, X_2, X_3]); "
                "for pooled data use ExpYJ",
            )
        silos = list(silos)
        with_data = [k for k, silo in enumerate(silos) if silo is not None]
        if not with_data:
            raise InputError("SFY-FIT-011", "at least one silo must have data")
        tables: list[Table | None] = [None] * len(silos)
        for k in with_data:
            try:
                first = k == with_data[0]
                tables[k] = self._validated_table(silos[k], first, ensure_min_samples=0)
            except ValueError as error:
                raise InputError(code_of(error, "SFY-FIT-013"), f"silo {k + 1}: {error}") from error
        if all(_is_empty(table) for table in tables):
            raise InputError(
                "SFY-FIT-012", "Found 0 sample(s) over all silos: at least one must have rows"
            )
        return tables

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # `fit` takes a list of them
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class SecureTransformer(SecureEstimator, FeatureTransformer):
    """One that transforms each feature on its own."""

    bounds: Sequence[float] | Sequence[Sequence[float]] | None = None
    copy: bool = True
    resolution: Any = None
    digits: Any = None
    round: Any = False

    @abstractmethod
    def _methods(self) -> Methods:
        """The methods of each feature; raises InputError for a wrong parameter."""

    @abstractmethod
    def _learn(self, features: Index) -> None:
        """Take what the run has found about these features of its agreement, and warn."""

    def _together(self) -> Iterable[tuple[SecureTransformer, Sequence[int]]]:
        return [(self, range(self.n_features_in_))]

    def _columns(self) -> dict[int, Column]:
        names, methods = tuple(self._feature_names()), self._methods()
        bounds: list[Any] = [None] * len(names)
        if self.bounds is not None:
            agreed = bounds_of(self.bounds, names, (methods,) * len(names))
            bounds = list(zip(agreed.lower.tolist(), agreed.upper.tolist(), strict=True))
        resolution, digits, rounded = (
            self._of_each(name) for name in ("resolution", "digits", "round")
        )
        return {
            j: Column(methods, bounds[j], _as_resolution(resolution[j]), digits[j] or 0, rounded[j])
            for j in range(len(names))
        }

    def _of_each(self, name: str) -> list[Any]:
        """A parameter that may be one value for all features."""
        value, size = getattr(self, name), self.n_features_in_
        each = [value] * size if value is None or np.ndim(value) == 0 else list(value)
        if len(each) != size:
            raise InputError(
                "SFY-FIT-018",
                f"{name} must be None, one value or {size} of them, one per feature; got "
                f"{len(each)}",
            )
        return each

    def _quantiles_of(self, quantiles: Sequence[str], features: Index) -> Array:
        """Quantiles of these features, NaN where one was refused; called by `_learn`."""
        known, names = self.transcript_.quantiles(), self._feature_names()
        found = [[known[j][q] for j in features.tolist()] for q in quantiles]
        refused = [
            f"quantile {q} of {name}: {one.refused}"
            for q, row in zip(quantiles, found, strict=True)
            for name, one in zip(names, row, strict=True)
            if one.refused
        ]
        if refused:
            # past this, _learn and fit
            warnings.warn(f"Refused: {first_few(refused, '; ')}.", UserWarning, stacklevel=4)
        return np.array([[one.value for one in row] for row in found])


def _is_empty(table: Table | None) -> bool:
    """Whether a silo is known to have no rows, without reading them."""
    return table is None or (len(table) if isinstance(table, np.ndarray) else table.rows) == 0


def _chosen(table: Table | None, columns: list[int]) -> Table | None:
    """Some columns of a silo's rows."""
    if table is None or isinstance(table, np.ndarray):
        return None if table is None else table[:, columns]
    return as_source(table, [table.names[j] for j in columns])


def _as_resolution(value: Any) -> str:
    """A resolution as an agreement has it, such as "0.25"; what is none is refused there."""
    if value is None:
        return ""
    try:
        return f"{Decimal(str(value)).normalize():f}"
    except InvalidOperation:
        return str(value)
