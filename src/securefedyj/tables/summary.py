"""What the columns of a table hold, in one pass and a bounded amount of memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import inf, nan

import numpy as np

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import Source, read
from securefedyj.tables.census import Census

MOST_DISTINCT = 1000
"""Distinct values are counted up to here."""


@dataclass
class Summary:
    """What a column holds; NaN where there are no values."""

    rows: int = 0
    missing: int = 0
    distinct: int = 0
    """At most MOST_DISTINCT, which then means that many or more."""
    least: float = nan
    median: float = nan
    greatest: float = nan
    below: int = 0
    above: int = 0
    """Values outside the bounds."""
    exact: bool = True
    """Whether the median is of all values, or of a sample."""

    @property
    def present(self) -> int:
        return self.rows - self.missing

    def to_json(self) -> dict[str, int | float | bool | None]:
        """With None for what is not there: JSON has no NaN."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


def summarize(source: Source, lower: Array, upper: Array) -> tuple[int, list[Summary]]:
    """The rows of a source, and what its columns hold, beside bounds of each."""
    columns = [_Column(low, high) for low, high in zip(lower, upper, strict=True)]
    census = Census.of(np.empty((0, len(columns))))
    for block in read(source, range(len(columns))):
        census += Census.of(block)
        for column, values in zip(columns, block.T, strict=True):
            column.add(values)
    medians = map(_median, census.sample.values.T)
    return census.rows, [
        Summary(
            rows=census.rows,
            missing=census.rows - present,
            distinct=min(len(column.distinct), MOST_DISTINCT),
            least=column.least if present else nan,
            median=median,
            greatest=column.greatest if present else nan,
            below=column.below,
            above=column.above,
            exact=census.sample.stride == 1,
        )
        for column, median, present in zip(columns, medians, census.count.tolist(), strict=True)
    ]


@dataclass
class _Column:
    lower: float
    upper: float
    least: float = inf
    greatest: float = -inf
    below: int = 0
    above: int = 0
    distinct: set[float] = field(default_factory=set)

    def add(self, values: Array) -> None:
        least, greatest = np.fmin.reduce(values), np.fmax.reduce(values)
        if np.isnan(least):  # all of them are missing
            return
        self.least = min(self.least, float(least))
        self.greatest = max(self.greatest, float(greatest))
        if least < self.lower:
            self.below += int(np.count_nonzero(values < self.lower))
        if greatest > self.upper:
            self.above += int(np.count_nonzero(values > self.upper))
        # Most columns have many distinct values, and a few rows show that.
        for first in range(0, len(values), MOST_DISTINCT):
            if len(self.distinct) >= MOST_DISTINCT:
                return
            some = values[first : first + MOST_DISTINCT]
            self.distinct.update(some[~np.isnan(some)].tolist())


def _median(column: Array) -> float:
    present = column[~np.isnan(column)]
    return float(np.median(present)) if len(present) else nan
