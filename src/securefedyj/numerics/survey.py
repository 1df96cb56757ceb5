"""What a fit has to know of a table before it begins: extremes, counts and samples."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.blocks import Table
from securefedyj.numerics.fast import Loops, in_threads, threads

LOOPS = Loops("securefedyj.numerics.compiled.pooled")

# What NumPy takes for one value.
_SECONDS = 10e-9
# Numbers that are looked at at once: they stay in the cache.
_AT_ONCE = 1 << 15
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
    step = max(1, _AT_ONCE // table.n_features)
    for chunk in table.chunks():
        rows += chunk.shape[1]
        for first in range(0, chunk.shape[1], step):
            found = found.joined(_of_part(chunk[:, first : first + step]))
    return rows, found


def _of_part(values: Array) -> Survey:
    lowest, highest = np.min(values, axis=1), np.max(values, axis=1)  # NaN where one is missing
    found = Survey(
        np.full(len(values), values.shape[1]),
        np.zeros(len(values), dtype=np.int64),
        lowest,
        np.full(len(values), -np.inf),
        lowest.copy(),
        highest,
    )
    other = np.flatnonzero(~(lowest >= 0))
    if len(other):
        for column, numbers in zip(found, _of_any(values[other]), strict=True):
            column[other] = numbers
    return found


def _of_any(values: Array) -> Survey:
    """The survey of features with missing values or with negative ones."""
    # First of the values < 0, then of the others:
    counts = np.empty((len(values), 2), dtype=np.int64)
    lowest, highest = np.empty((2, len(values), 2))
    if loops := LOOPS.after(_SECONDS * values.size):
        loops.survey(values, counts, lowest, highest)
    else:
        by_numpy(values, counts, lowest, highest)
    return Survey(
        np.sum(counts, axis=1),
        counts[:, 0],
        np.min(lowest, axis=1),
        highest[:, 0],
        lowest[:, 1],
        np.max(highest, axis=1),
    )


def by_numpy(values: Array, counts: Integers, lowest: Array, highest: Array) -> None:
    """What the compiled loop does."""
    for k, chosen in enumerate((values < 0, values >= 0)):
        counts[:, k] = np.count_nonzero(chosen, axis=1)
        lowest[:, k] = np.min(np.where(chosen, values, np.inf), axis=1)
        highest[:, k] = np.max(np.where(chosen, values, -np.inf), axis=1)


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
