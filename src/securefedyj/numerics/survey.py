"""What a fit has to know of a table before it begins: extremes, counts and samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from securefedyj import kernel
from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.blocks import Table


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
    for chunk in table.chunks():
        rows += chunk.shape[1]
        found = found.joined(_of_chunk(chunk))
    return rows, found


def _of_chunk(values: Array) -> Survey:
    features, rows = values.shape
    # First of the values < 0, then of the others:
    counts = np.empty((features, 2), dtype=np.int64)
    lowest, highest = np.empty((2, features, 2))
    if loops := kernel.loops():
        values = np.ascontiguousarray(values)

        def work(first: int, last: int) -> None:
            some = slice(first, last)
            of_some = counts[some], lowest[some], highest[some]
            loops.survey(values[some], last - first, rows, *of_some)

        kernel.shared_out(features, values.size, work)
    else:
        for k, chosen in enumerate((values < 0, values >= 0)):
            counts[:, k] = np.count_nonzero(chosen, axis=1)
            lowest[:, k] = np.min(np.where(chosen, values, np.inf), axis=1)
            highest[:, k] = np.max(np.where(chosen, values, -np.inf), axis=1)
    return Survey(
        np.sum(counts, axis=1),
        counts[:, 0],
        np.min(lowest, axis=1),
        highest[:, 0],
        lowest[:, 1],
        np.max(highest, axis=1),
    )


def drawn(n: int, size: int) -> Index:
    """That many of n positions in order, drawn at random but always alike: no order is special."""
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(n).integers(n, size=size))
