"""The values of a silo, arranged in rows that sums can be taken over.

A row holds at most 2048 values of one feature and one sign, as L = log(1+|x|), ascending. Rows of
similar length are padded to the same length and stacked into matrices, so that one NumPy call
serves many of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.elementary import log1p
from securefedyj.numerics.encoding import Domain

# Values in a row: as many as their products of digits leave room for (see `sums`).
ROW = 2048
# Values that are worked on at once: enough to outweigh the calls, and no more memory.
BLOCK = 30720


class OutOfBounds(InputError):
    """A value outside the bounds that were agreed for its feature."""


class SideRows(NamedTuple):
    """Rows of one sign, each with its pair of a feature and some lambda."""

    pair: Index
    feature: Index
    matrix: Index  # which matrix holds the row
    position: Index  # of the row in that matrix
    ordinal: Integers  # counts the rows of one feature and sign


class Selection(NamedTuple):
    """The rows of chosen features, one for each pair of a feature and some lambda."""

    feature: Index  # of the pairs
    positive: SideRows
    negative: SideRows


class Rows:
    """All rows of a table, stacked into matrices by length."""

    def __init__(self, X: Array) -> None:
        rows = sorted(_rows_of(X), key=lambda row: len(row.L))
        self.matrices = list(_stacked([row.L for row in rows]))
        self._feature: Index = np.array([row.feature for row in rows], dtype=np.intp)
        self._sign: Integers = np.array([row.sign for row in rows], dtype=np.int64)
        self._ordinal: Integers = np.array([row.ordinal for row in rows], dtype=np.int64)
        heights = [len(matrix) for matrix in self.matrices]
        self._matrix: Index = np.repeat(np.arange(len(heights)), heights)
        self._position: Index = np.concatenate([np.arange(height) for height in [*heights, 0]])
        # The rows of feature j are order[first[j]:first[j + 1]].
        self._order: Index = np.argsort(self._feature, kind="stable")
        self._first: Index = np.searchsorted(self._feature[self._order], np.arange(X.shape[1] + 1))

    @property
    def nbytes(self) -> int:
        """Bytes of memory, of the matrices."""
        return sum(matrix.nbytes for matrix in self.matrices)

    def __iter__(self) -> Iterator[tuple[Index, Integers, Array]]:
        """Matrix by matrix: the feature and the sign of each row, and the rows."""
        for k, matrix in enumerate(self.matrices):
            here = self._matrix == k
            yield self._feature[here], self._sign[here], matrix

    def select(self, feature: Index) -> Selection:
        """The rows of the features, which may be named several times, in any order."""
        count = self._first[feature + 1] - self._first[feature]
        pair = np.repeat(np.arange(len(feature)), count)
        row = self._order[
            np.arange(len(pair)) + np.repeat(self._first[feature] - np.cumsum(count) + count, count)
        ]
        sides = []
        for sign in (+1, -1):
            of_side = self._sign[row] == sign
            rows, pairs = row[of_side], pair[of_side]
            sides.append(
                SideRows(
                    pairs,
                    feature[pairs],
                    self._matrix[rows],
                    self._position[rows],
                    self._ordinal[rows],
                )
            )
        return Selection(feature.copy(), *sides)


class _Row(NamedTuple):
    feature: int
    sign: int
    ordinal: int
    L: Array  # log(1+|x|), ascending


def _rows_of(X: Array) -> Iterator[_Row]:
    columns = max(1, BLOCK // max(len(X), 1))
    for left in range(0, X.shape[1], columns):
        x = np.ascontiguousarray(X[:, left : left + columns].T)
        L = log1p(np.abs(x))
        ordered = np.sort(np.where(x < 0, -L, L), axis=1)  # missing values come last
        negative, positive = np.count_nonzero(x < 0, axis=1), np.count_nonzero(x >= 0, axis=1)
        counts = zip(ordered, negative.tolist(), positive.tolist(), strict=True)
        for j, (values, below, above) in enumerate(counts, start=left):
            sides = {+1: values[below : below + above], -1: -values[:below][::-1]}
            for sign, side in sides.items():
                for ordinal, first in enumerate(range(0, len(side), ROW)):
                    yield _Row(j, sign, ordinal, side[first : first + ROW])


def _stacked(rows: list[Array]) -> Iterator[Array]:
    """Matrices of rows that come sorted by length; shorter rows are padded with zeros.

    The zeros go to the front, where a row is smallest. They count as values with x = 0, whose y,
    d and phi are 0.
    """
    first = 0
    while first < len(rows):
        longest = len(rows[first]) * 9 // 8
        last = first
        while last < len(rows) and len(rows[last]) <= longest:
            last += 1
        members = rows[first:last]
        matrix = np.zeros((len(members), len(members[-1])))
        for padded, row in zip(matrix, members, strict=True):
            padded[len(padded) - len(row) :] = row
        yield matrix
        first = last


def check_bounds(X: Array, domain: Domain, names: list[str]) -> None:
    """Raise `OutOfBounds` for the first feature with a value outside its bounds."""
    refuse_outside(values_outside(X, domain), domain, names)


def values_outside(X: Array, domain: Domain) -> Integers:
    """How many values of each feature are outside its bounds."""
    outside = (domain.lower > X) | (domain.upper < X) | np.isinf(X)
    count: Integers = np.count_nonzero(outside, axis=0)
    return count


def refuse_outside(count: Integers, domain: Domain, names: list[str]) -> None:
    """Raise `OutOfBounds` for the first feature that has such values."""
    if count.any():
        j = int(np.flatnonzero(count)[0])
        raise OutOfBounds(
            "SFY-NUM-009",
            f"feature {names[j]!r} has {int(count[j])} value(s) outside its agreed "
            f"bounds [{domain.lower[j]:g}, {domain.upper[j]:g}]. Nothing was sent. Correct the "
            "values, or agree on wider bounds with all silos.",
        )
