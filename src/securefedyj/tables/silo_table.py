"""A silo's table as a run uses it, and its census: what one pass shows, in bounded memory.

`load_or_stream` counts values, draws a sample, and loads the rows if they fit into memory: then no
other pass reads them again. `summarize` also compares the values with the agreed bounds.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import nan
from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.passes import OnRows, RemoteSource, Source, over_blocks, read
from securefedyj.tables.source import HeldSource, lacking

MOST_DISTINCT = 1000
"""Distinct values are counted up to this number."""
SPREAD = (0.05, 0.25, 0.75, 0.95)
_SAMPLE_VALUES, _SAMPLE_ROWS = 1 << 22, 1 << 14
"""The maximum number of values in a sample, or of rows if there are many columns."""
_MOST_PLACES = 6


@dataclass
class Summary:
    """What a column contains; NaN if it has no values."""

    rows: int
    least: float
    greatest: float
    below: int = 0
    above: int = 0
    """Values outside the bounds."""
    first_outside: int | None = None
    """The number of the first row with such a value, from 1."""
    missing: int = 0
    distinct: int = 0
    """At most MOST_DISTINCT, which means that many or more."""
    median: float = nan
    exact: bool = True
    """Whether the median is that of all values, or of a sample."""
    spread: tuple[float, ...] = ()
    """The quantiles `SPREAD`, of the same values as the median."""
    places: int | None = None
    """How many decimals some values have at most, up to MOST_DISTINCT; None for many."""
    digits: int = 0
    """How many significant digits these have at most, if they have few decimals."""

    @classmethod
    def of(cls, column: Array, lower: float, upper: float) -> Summary:
        """What needs no other column and no sample, of some rows."""
        least, greatest = (f.reduce(column, initial=nan) for f in (np.fmin, np.fmax))
        found = cls(len(column), float(least), float(greatest))
        if least < lower or greatest > upper:
            below, above = column < lower, column > upper
            found.below, found.above = int(np.count_nonzero(below)), int(np.count_nonzero(above))
            found.first_outside = int(np.argmax(below | above)) + 1
        return found

    def __add__(self, other: Summary) -> Summary:
        first = self.first_outside
        if first is None and other.first_outside is not None:
            first = self.rows + other.first_outside
        return Summary(
            self.rows + other.rows,
            float(np.fmin(self.least, other.least)),
            float(np.fmax(self.greatest, other.greatest)),
            self.below + other.below,
            self.above + other.above,
            first,
        )

    @property
    def present(self) -> int:
        return self.rows - self.missing

    def to_json(self) -> dict[str, int | float | bool | None]:
        """With None instead of NaN, which JSON does not have."""
        drafts = ("spread", "places", "digits")
        values = {name: value for name, value in asdict(self).items() if name not in drafts}
        return {name: None if value != value else value for name, value in values.items()}


@dataclass(frozen=True, repr=False)  # it holds values
class Census:
    """The number of rows, the number of values in each column, and a sample of the rows.

    The sample has about one of `stride` rows, spread evenly; all rows of a small table. Where
    bounds are given, there are also summaries and distinct values of the columns.
    """

    rows: int
    count: Integers
    stride: int
    parts: list[Array]
    columns: Sequence[Summary] = ()
    distinct: Sequence[set[float]] = ()

    @classmethod
    def of(
        cls, block: Array, sampled: bool = True, bounds: Sequence[tuple[float, float]] = ()
    ) -> Census:
        """A census of some rows; its sample is empty unless `sampled`."""
        count = len(block) - np.count_nonzero(np.isnan(block), axis=0)
        sample = (block if sampled else block[:0]).copy()
        columns = [Summary.of(block[:, j], *pair) for j, pair in enumerate(bounds)]
        distinct = [_distinct(block[:, j]) for j in range(len(bounds))]
        return cls(len(block), count, 1, [sample], columns, distinct)._thinned()

    @property
    def sample(self) -> Array:
        return np.concatenate(self.parts)

    def __add__(self, other: Census) -> Census:
        stride = max(self.stride, other.stride)
        thin = [(part, stride // one.stride) for one in (self, other) for part in one.parts]
        parts = [part[::k].copy() if k > 1 else part for part, k in thin]
        count = self.count + other.count
        columns = [*map(operator.add, self.columns, other.columns)]
        distinct = [
            one if len(one) >= MOST_DISTINCT else one | more
            for one, more in zip(self.distinct, other.distinct, strict=True)
        ]
        rows = self.rows + other.rows
        return Census(rows, count, stride, parts, columns, distinct)._thinned()

    def _thinned(self) -> Census:
        stride, parts = self.stride, self.parts
        most = max(_SAMPLE_ROWS, _SAMPLE_VALUES // max(parts[0].shape[1], 1))
        while sum(map(len, parts)) > most:
            stride, parts = 2 * stride, [np.concatenate(parts)[::2].copy()]
        return replace(self, stride=stride, parts=parts)

    def summaries(self) -> tuple[int, list[Summary]]:
        """The number of rows, and the summaries, complete."""
        values = [column[~np.isnan(column)] for column in self.sample.T]
        return self.rows, [
            replace(
                summary,
                missing=self.rows - int(self.count[j]),
                distinct=min(len(self.distinct[j]), MOST_DISTINCT),
                median=float(np.median(values[j])) if len(values[j]) else nan,
                spread=tuple(np.quantile(values[j], SPREAD).tolist()) if len(values[j]) else (),
                exact=self.stride == 1,
                **_decimals(np.array(sorted(self.distinct[j]))),
            )
            for j, summary in enumerate(self.columns)
        ]


def summarize(source: Source, lower: Array, upper: Array) -> tuple[int, list[Summary]]:
    """The number of rows of a source, and its columns compared with the bounds of each."""
    bounds = list(zip(lower.tolist(), upper.tolist(), strict=True))
    seen = partial(Census.of, bounds=bounds)
    found = over_blocks(source, range(len(bounds)), seen, operator.add, Census.summaries)
    result: tuple[int, list[Summary]] = found or seen(np.empty((0, len(bounds)))).summaries()
    return result


def _decimals(values: Array) -> dict[str, int]:
    """How many decimals and significant digits values have, unless they have many."""
    for places in range(_MOST_PLACES + 1):
        if np.array_equal(np.round(values, places), values):
            texts = (f"{abs(value):.{places}f}".replace(".", "") for value in values.tolist())
            return {"places": places, "digits": max((len(t.strip("0")) for t in texts), default=0)}
    return {}


def _distinct(column: Array) -> set[float]:
    found: set[float] = set()
    # Most columns have many distinct values, and a few rows show that.
    for first in range(0, len(column), MOST_DISTINCT):
        part = column[first : first + MOST_DISTINCT]
        found.update(part[~np.isnan(part)].tolist())
        if len(found) >= MOST_DISTINCT:
            break
    return found


class SiloTable(NamedTuple):
    """A silo's table, and what is known about it."""

    source: Source
    census: Census

    @property
    def drawn(self) -> Array | None:
        """The rows that plots show; None if the rows are remote."""
        return None if isinstance(self.source, RemoteSource) else self.census.sample


def load_or_stream(source: Source, most_bytes: int, on_rows: OnRows | None = None) -> SiloTable:
    """A table in memory if it takes at most `most_bytes` there; otherwise as it is."""
    every, width = range(len(source.names)), 8 * len(source.names)
    census = Census.of(np.empty((0, len(source.names))))
    if isinstance(source, RemoteSource):  # a sample would bring rows here
        counted = partial(Census.of, sampled=False)
        return SiloTable(source, over_blocks(source, every, counted, operator.add) or census)
    held: list[Array] | None = [] if (source.rows or 0) * width <= most_bytes else None
    for block in read(source, every, on_rows):
        census += Census.of(block)
        if held is not None:
            held.append(block)
            if census.rows * width > most_bytes:
                held = None
    return SiloTable(source if held is None else HeldSource(held, source.names), census)


def few_values(census: Census, minimum: int) -> Index:
    """The features that have values, but fewer than the minimum."""
    return np.flatnonzero((census.count > 0) & (census.count < minimum))


def missing_everywhere(census: Census) -> Index:
    """The features without values in this table."""
    return np.flatnonzero(census.count == 0)


def without(table: SiloTable, features: Index) -> SiloTable:
    """The table with these features missing."""
    if not len(features):
        return table
    source, census = table
    count, sample = census.count.copy(), census.sample
    count[features], sample[:, features] = 0, nan
    census = replace(census, count=count, parts=[sample])
    return SiloTable(lacking(source, features.tolist()), census)
