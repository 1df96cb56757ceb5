"""What the columns of a table hold, in one pass and a bounded amount of memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan

import numpy as np

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.blocks import Source, read

MOST_DISTINCT = 1000
"""Distinct values are counted up to here."""
_SAMPLE_ROWS = 1 << 16
_SAMPLE_VALUES = 1 << 23
_SEED = 20


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


def summarize(source: Source, lower: Array, upper: Array) -> tuple[int, list[Summary]]:
    """The rows of a source, and what its columns hold, beside bounds of each."""
    columns = [_Column(low, high) for low, high in zip(lower, upper, strict=True)]
    sample, rows = _Sample(len(columns)), 0
    for block in read(source, range(len(columns))):
        rows += len(block)
        for column, values in zip(columns, block.T, strict=True):
            column.add(values)
        sample.add(block)
    medians = sample.medians()
    return rows, [
        column.summary(rows, median, sample.exact)
        for column, median in zip(columns, medians, strict=True)
    ]


@dataclass
class _Column:
    lower: float
    upper: float
    present: int = 0
    least: float = inf
    greatest: float = -inf
    below: int = 0
    above: int = 0
    distinct: set[float] = field(default_factory=set)

    def add(self, values: Array) -> None:
        least, greatest = np.fmin.reduce(values), np.fmax.reduce(values)
        if np.isnan(least):
            return
        self.present += len(values) - int(np.count_nonzero(np.isnan(values)))
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

    def summary(self, rows: int, median: float, exact: bool) -> Summary:
        return Summary(
            rows=rows,
            missing=rows - self.present,
            distinct=min(len(self.distinct), MOST_DISTINCT),
            least=self.least if self.present else nan,
            median=median,
            greatest=self.greatest if self.present else nan,
            below=self.below,
            above=self.above,
            exact=exact,
        )


class _Sample:
    """Rows drawn at random, each as likely as any other: those with the least random numbers."""

    def __init__(self, columns: int) -> None:
        self._most = max(1, min(_SAMPLE_ROWS, _SAMPLE_VALUES // max(columns, 1)))
        self._random = np.random.default_rng(_SEED)
        self._keys = np.empty(0)
        self._rows = np.empty((0, columns))
        self.exact = True

    def add(self, block: Array) -> None:
        keys = self._random.random(len(block))
        if len(self._keys) == self._most:
            near = keys < self._keys.max()
            keys, block = keys[near], block[near]
            self.exact = False
        keys = np.concatenate([self._keys, keys])
        rows = np.concatenate([self._rows, block])
        if len(keys) > self._most:
            least = np.argpartition(keys, self._most)[: self._most]
            keys, rows = keys[least], rows[least]
            self.exact = False
        self._keys, self._rows = keys, rows

    def medians(self) -> list[float]:
        return [_median(column) for column in self._rows.T]


def _median(column: Array) -> float:
    present = column[~np.isnan(column)]
    return float(np.median(present)) if len(present) else nan
