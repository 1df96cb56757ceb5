"""What the columns of a table hold, in one pass and a bounded amount of memory."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf, nan

import numpy as np

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import Source, over_blocks

MOST_DISTINCT = 1000
"""Distinct values are counted up to here."""
_SAMPLE_VALUES, _SAMPLE_ROWS = 1 << 20, 1 << 12
"""The median is that of a sample with at most so many values, or rows where columns are many."""


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
    first_outside: int | None = None
    """The number of the first row with such a value, from 1."""
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
    seen = partial(_Seen.of, lower=lower, upper=upper)
    found = over_blocks(source, range(len(lower)), seen, operator.add, _Seen.summaries)
    return seen(np.empty((0, len(lower)))).summaries() if found is None else found


@dataclass
class _Seen:
    """What was seen of some rows."""

    rows: int
    columns: list[_Column]
    sample: _Sample

    @classmethod
    def of(cls, block: Array, lower: Array, upper: Array) -> _Seen:
        columns = [_Column(low, high) for low, high in zip(lower, upper, strict=True)]
        for column, values in zip(columns, block.T, strict=True):
            column.add(values)
        return cls(len(block), columns, _Sample(1, [block.copy()]).thinned())

    def __add__(self, other: _Seen) -> _Seen:
        columns = [one + more for one, more in zip(self.columns, other.columns, strict=True)]
        return _Seen(self.rows + other.rows, columns, self.sample + other.sample)

    def summaries(self) -> tuple[int, list[Summary]]:
        rows = self.rows
        return rows, [
            Summary(
                rows=rows,
                missing=column.missing,
                distinct=min(len(column.distinct), MOST_DISTINCT),
                least=column.least if rows > column.missing else nan,
                median=median,
                greatest=column.greatest if rows > column.missing else nan,
                below=column.below,
                above=column.above,
                first_outside=column.first_outside,
                exact=self.sample.stride == 1,
            )
            for column, median in zip(self.columns, self.sample.medians(), strict=True)
        ]


@dataclass
class _Column:
    lower: float
    upper: float
    rows: int = 0
    missing: int = 0
    least: float = inf
    greatest: float = -inf
    below: int = 0
    above: int = 0
    first_outside: int | None = None
    distinct: set[float] = field(default_factory=set)

    def add(self, block: Array) -> None:
        missing, values, before = np.isnan(block), block, self.rows
        self.rows += len(block)
        if missing.any():
            self.missing += int(np.count_nonzero(missing))
            values = values[~missing]
        if not len(values):
            return
        least, greatest = float(values.min()), float(values.max())
        self.least, self.greatest = min(self.least, least), max(self.greatest, greatest)
        if least < self.lower:
            self.below += int(np.count_nonzero(values < self.lower))
        if greatest > self.upper:
            self.above += int(np.count_nonzero(values > self.upper))
        if self.first_outside is None and (least < self.lower or greatest > self.upper):
            outside = (block < self.lower) | (block > self.upper)
            self.first_outside = before + int(np.argmax(outside)) + 1
        # Most columns have many distinct values, and a few rows show that.
        for first in range(0, len(values), MOST_DISTINCT):
            if len(self.distinct) >= MOST_DISTINCT:
                return
            self.distinct.update(values[first : first + MOST_DISTINCT].tolist())

    def __add__(self, other: _Column) -> _Column:
        known, first = len(self.distinct) >= MOST_DISTINCT, self.first_outside
        if first is None and other.first_outside is not None:
            first = self.rows + other.first_outside
        return replace(
            self,
            rows=self.rows + other.rows,
            first_outside=first,
            missing=self.missing + other.missing,
            least=min(self.least, other.least),
            greatest=max(self.greatest, other.greatest),
            below=self.below + other.below,
            above=self.above + other.above,
            distinct=self.distinct if known else self.distinct | other.distinct,
        )


@dataclass
class _Sample:
    """Every so many-th row of each block; all rows of a table that has few."""

    stride: int
    parts: list[Array]

    def __add__(self, other: _Sample) -> _Sample:
        stride = max(self.stride, other.stride)
        parts = [part[:: stride // one.stride] for one in (self, other) for part in one.parts]
        return _Sample(stride, parts).thinned()

    def thinned(self) -> _Sample:
        """With few enough rows."""
        stride, parts = self.stride, self.parts
        most = max(_SAMPLE_ROWS, _SAMPLE_VALUES // max(parts[0].shape[1], 1))
        while sum(map(len, parts)) > most:
            stride, parts = 2 * stride, [part[::2].copy() for part in parts]
        return _Sample(stride, parts)

    def medians(self) -> Iterator[float]:
        return map(_median, np.concatenate(self.parts).T)


def _median(column: Array) -> float:
    present = column[~np.isnan(column)]
    return float(np.median(present)) if len(present) else nan
