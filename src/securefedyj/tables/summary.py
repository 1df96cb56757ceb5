"""What the columns of a table hold, in one pass and a bounded amount of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from math import inf, nan

import numpy as np

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import Source, read

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
    sample, rows = _Sample(len(columns)), 0
    for block in read(source, range(len(columns))):
        rows += len(block)
        sample.add(block)
        for column, values in zip(columns, block.T, strict=True):
            column.add(values)
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
            exact=sample.stride == 1,
        )
        for column, median in zip(columns, sample.medians(), strict=True)
    ]


@dataclass
class _Column:
    lower: float
    upper: float
    missing: int = 0
    least: float = inf
    greatest: float = -inf
    below: int = 0
    above: int = 0
    distinct: set[float] = field(default_factory=set)

    def add(self, values: Array) -> None:
        missing = np.isnan(values)
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
        # Most columns have many distinct values, and a few rows show that.
        for first in range(0, len(values), MOST_DISTINCT):
            if len(self.distinct) >= MOST_DISTINCT:
                return
            self.distinct.update(values[first : first + MOST_DISTINCT].tolist())


class _Sample:
    """Every so many-th row of each block; all rows of a table that has few."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._most = max(_SAMPLE_ROWS, _SAMPLE_VALUES // max(columns, 1))
        self._parts: list[Array] = []
        self.stride = 1

    def add(self, block: Array) -> None:
        self._parts.append(block[:: self.stride].copy())
        while sum(map(len, self._parts)) > self._most:
            self.stride *= 2
            self._parts = [part[::2].copy() for part in self._parts]

    def medians(self) -> Iterator[float]:
        rows = np.concatenate([np.empty((0, self._columns)), *self._parts])
        return map(_median, rows.T)


def _median(column: Array) -> float:
    present = column[~np.isnan(column)]
    return float(np.median(present)) if len(present) else nan
