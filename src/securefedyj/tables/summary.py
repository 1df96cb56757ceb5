"""What the columns of a table contain, in one pass and a bounded amount of memory."""

from __future__ import annotations

import operator
from dataclasses import asdict, dataclass
from functools import partial
from math import nan

import numpy as np

from securefedyj.numerics.arrays import Array, Integers
from securefedyj.numerics.passes import Source, over_blocks
from securefedyj.tables.silo_table import Census

MOST_DISTINCT = 1000
"""Distinct values are counted up to this number."""


@dataclass
class Summary:
    """What a column contains; NaN if it has no values."""

    rows: int = 0
    missing: int = 0
    distinct: int = 0
    """At most MOST_DISTINCT, which means that many or more."""
    least: float = nan
    median: float = nan
    greatest: float = nan
    below: int = 0
    above: int = 0
    """Values outside the bounds."""
    first_outside: int | None = None
    """The number of the first row with such a value, from 1."""
    exact: bool = True
    """Whether the median is that of all values, or of a sample."""

    @property
    def present(self) -> int:
        return self.rows - self.missing

    def to_json(self) -> dict[str, int | float | bool | None]:
        """With None instead of NaN, which JSON does not have."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


def summarize(source: Source, lower: Array, upper: Array) -> tuple[int, list[Summary]]:
    """The number of rows of a source, and its columns compared with the bounds of each."""
    seen = partial(_Seen.of, lower=lower, upper=upper)
    found = over_blocks(source, range(len(lower)), seen, operator.add, _Seen.summaries)
    result: tuple[int, list[Summary]] = found or seen(np.empty((0, len(lower)))).summaries()
    return result


@dataclass
class _Seen:
    """What the columns of some rows contain; arrays have one entry per column."""

    census: Census
    least: Array
    greatest: Array
    below: Integers
    above: Integers
    first: Integers
    """The first row with a value outside, from 1; 0 if there is none."""
    distinct: list[set[float]]

    @classmethod
    def of(cls, block: Array, lower: Array, upper: Array) -> _Seen:
        least = np.fmin.reduce(block, axis=0, initial=nan)
        greatest = np.fmax.reduce(block, axis=0, initial=nan)
        below, above, first = np.zeros((3, len(lower)), dtype=np.int64)
        for j in np.flatnonzero((least < lower) | (greatest > upper)):
            small, large = block[:, j] < lower[j], block[:, j] > upper[j]
            below[j], above[j] = np.count_nonzero(small), np.count_nonzero(large)
            first[j] = np.argmax(small | large) + 1
        distinct = [_distinct(column) for column in block.T]
        return cls(Census.of(block), least, greatest, below, above, first, distinct)

    def __add__(self, other: _Seen) -> _Seen:
        later = np.where(other.first > 0, self.census.rows + other.first, 0)
        return _Seen(
            self.census + other.census,
            np.fmin(self.least, other.least),
            np.fmax(self.greatest, other.greatest),
            self.below + other.below,
            self.above + other.above,
            np.where(self.first > 0, self.first, later),
            [
                one if len(one) >= MOST_DISTINCT else one | more
                for one, more in zip(self.distinct, other.distinct, strict=True)
            ],
        )

    def summaries(self) -> tuple[int, list[Summary]]:
        rows, sample = self.census.rows, self.census.sample
        medians = [_median(column) for column in sample.values.T]
        return rows, [
            Summary(
                rows=rows,
                missing=rows - int(self.census.count[j]),
                distinct=min(len(self.distinct[j]), MOST_DISTINCT),
                least=float(self.least[j]),
                median=median,
                greatest=float(self.greatest[j]),
                below=int(self.below[j]),
                above=int(self.above[j]),
                first_outside=int(self.first[j]) or None,
                exact=sample.stride == 1,
            )
            for j, median in enumerate(medians)
        ]


def _distinct(column: Array) -> set[float]:
    found: set[float] = set()
    # Most columns have many distinct values, and a few rows show that.
    for first in range(0, len(column), MOST_DISTINCT):
        part = column[first : first + MOST_DISTINCT]
        found.update(part[~np.isnan(part)].tolist())
        if len(found) >= MOST_DISTINCT:
            break
    return found


def _median(column: Array) -> float:
    present = column[~np.isnan(column)]
    return float(np.median(present)) if len(present) else nan
