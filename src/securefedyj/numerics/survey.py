"""What a fit has to know of a table before it begins: extremes, counts and samples."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.blocks import Table
from securefedyj.numerics.fast import Loops, in_threads, threads

LOOPS = Loops("securefedyj.numerics.pooled_loops")

# What NumPy takes for one value.
_SECONDS = 2e-9
# With fewer values than this, another thread would not pay.
_SHARE = 1 << 16


class Survey(NamedTuple):
    """Counts and extremes of each feature; of those without a value they are infinite."""

    n: Integers  # values that are not missing
    negative: Integers  # values < 0
    lowest: Array
    highest_negative: Array  # of the values < 0
    lowest_other: Array  # of the values >= 0
    highest: Array

    @classmethod
    def start(cls, n_features: int) -> Survey:
        """Of no rows yet."""
        zero, low, high = (np.full(n_features, value) for value in (np.int64(0), -np.inf, np.inf))
        return cls(zero, zero, high, low, high, low)

    def joined(self, other: Survey) -> Survey:
        """Of the rows of both."""
        return Survey(
            self.n + other.n,
            self.negative + other.negative,
            np.minimum(self.lowest, other.lowest),
            np.maximum(self.highest_negative, other.highest_negative),
            np.minimum(self.lowest_other, other.lowest_other),
            np.maximum(self.highest, other.highest),
        )

    def take(self, features: Index) -> Survey:
        """The survey of some of the features."""
        columns: list[Any] = [column[features] for column in self]
        return Survey(*columns)

    @property
    def varies(self) -> Bools:
        """Which features have two distinct values."""
        return self.lowest < self.highest


def survey(table: Table) -> tuple[int, Survey]:
    """The number of rows, and the survey of all features."""
    rows, found = 0, Survey.start(table.n_features)
    for chunk in table.chunks(np.arange(table.n_features)):
        rows += chunk.shape[1]
        found = found.joined(_of_chunk(chunk))
    return rows, found


def _of_chunk(chunk: Array) -> Survey:
    loops = LOOPS.after(_SECONDS * chunk.size)
    if loops:
        columns = in_threads(loops.survey, chunk)
        return Survey(*(np.array(column) for column in zip(*columns, strict=True)))
    lowest, highest = np.min(chunk, axis=1), np.max(chunk, axis=1)  # NaN where one is missing
    found = Survey(
        np.full(len(chunk), chunk.shape[1]),
        np.zeros(len(chunk), dtype=np.int64),
        lowest,
        np.full(len(chunk), -np.inf),
        lowest.copy(),
        highest,
    )
    other = np.flatnonzero(~(lowest >= 0))
    if len(other):
        for column, values in zip(found, _of_any(chunk[other]), strict=True):
            column[other] = values
    return found


def _of_any(values: Array) -> Survey:
    """The survey of features with missing values or with negative ones."""
    below, above = values < 0, values >= 0
    negative, others = (np.count_nonzero(chosen, axis=1) for chosen in (below, above))
    left, right = np.where(below, values, -np.inf), np.where(above, values, np.inf)
    highest_negative, lowest_other = np.max(left, axis=1), np.min(right, axis=1)
    lowest = np.fmin.reduce(values, axis=1, initial=np.inf)
    highest = np.fmax.reduce(values, axis=1, initial=-np.inf)
    return Survey(negative + others, negative, lowest, highest_negative, lowest_other, highest)


def shared_out(n: int, values: int, work: Callable[[int, int], object]) -> None:
    """Do work(first, last) on all of n tasks, with so many values in all, on all cores."""
    parts = min(n, threads(), -(-values // _SHARE))
    bounds = np.linspace(0, n, parts + 1).astype(int).tolist()
    in_threads(lambda pair: work(*pair), pairwise(bounds))


def drawn(n: int, size: int) -> Index:
    """So many of n positions in order, drawn at random but always alike: no order is special."""
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(n).integers(n, size=size))
