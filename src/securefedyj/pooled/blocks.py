"""Tables in pieces, and what a fit has to know of one before it begins.

The rows of a source are cut alike, whatever blocks they come in. A piece is PIECE rows of some
features, in order; only the last one of a table is shorter. Sums are
taken over each piece and then added up in order, so that their bits depend on the rows alone: not
on whether these are held in memory, nor on the blocks that a file is read in.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from securefedyj import kernel
from securefedyj.numerics.arrays import Array, Bools, Index, Integers, each
from securefedyj.numerics.passes import Source, read

# A handful of arrays of this size stays in the cache of a core.
PIECE = 8192
# Rows are padded to a multiple of this: the lanes in which the kernel sums.
LANES = 8
# This many values are summed in lanes at a time, by the kernel.
SOME = 512
# Numbers that are handed on at once, in whole pieces.
_AT_ONCE = 1 << 21


class Table(Protocol):
    """The values of some features, as often as needed."""

    n_features: int

    def take(self, features: Index) -> Table:
        """Some of the features."""

    def chunks(self) -> Iterator[Array]:
        """All values, some pieces at a time: of shape (n_features, rows), where NaN is missing.

        All chunks but the last are whole pieces. One is done with when the next is asked for.
        """


class Held:
    """A table in memory."""

    def __init__(self, chunks: list[Array]) -> None:
        self._chunks = chunks
        self.n_features = len(chunks[0])

    @classmethod
    def copy_of(cls, X: Array, room: Array | None = None) -> Held:
        """The table of some columns of an array; it takes the beginning of a vector, if given."""
        rows, size = X.shape
        room = np.empty(X.size) if room is None else room
        whole = rows - rows % PIECE
        chunks = []
        for first, last in pairwise([*range(0, whole, _rows_at_once(size)), whole, rows]):
            if first < last:
                chunks.append(room[size * first : size * last].reshape(size, last - first))
                _copy(X[first:last], chunks[-1])
        return cls(chunks)

    def take(self, features: Index) -> Held:
        if len(features) == self.n_features:
            return self
        return Held([chunk[features] for chunk in self._chunks])

    def chunks(self) -> Iterator[Array]:
        return iter(self._chunks)


class Streamed:
    """Some columns of a source, held one chunk at a time."""

    def __init__(self, source: Source, columns: Index) -> None:
        self._source, self._columns = source, columns
        self.n_features = len(columns)

    def take(self, features: Index) -> Streamed:
        return Streamed(self._source, self._columns[features])

    def chunks(self) -> Iterator[Array]:
        size = _rows_at_once(self.n_features)
        chunk, filled = np.empty((self.n_features, size)), 0
        for block in read(self._source, self._columns.tolist()):
            done = 0
            while done < len(block):
                n = min(size - filled, len(block) - done)
                chunk[:, filled : filled + n] = block[done : done + n].T
                filled, done = filled + n, done + n
                if filled == size:
                    yield chunk
                    filled = 0
        if filled:
            yield chunk[:, :filled]


def _copy(X: Array, copied: Array) -> None:
    """Copy some rows of a table, those of each feature next to each other."""
    rows, features = X.shape
    stride, loops = X.strides[0] // 8, kernel.loops()
    if loops is None or not (X.flags.aligned and X.strides[1] == 8 and stride >= features):
        copied[:] = X.T
        return
    # From the first number of X to the last one, with what is between its rows.
    span = np.lib.stride_tricks.as_strided(X, ((rows - 1) * stride + features,), (8,))

    def work(first: int, last: int) -> None:
        start, some = PIECE * first, min(PIECE * last, rows) - PIECE * first
        loops.transpose(
            span[start * stride :], stride, 0, features, some, copied.ravel()[start:], rows
        )

    kernel.shared_out(-(-rows // PIECE), copied.size, work)


def _rows_at_once(n_features: int) -> int:
    return PIECE * max(1, _AT_ONCE // (PIECE * n_features))


class Survey(NamedTuple):
    """Counts and extremes of each feature; of those without a value they are infinite."""

    n: Integers  # values that are not missing
    negative: Integers  # values < 0
    lowest: Array
    highest_negative: Array  # of the values < 0
    lowest_other: Array  # of the values >= 0
    highest: Array

    def take(self, features: Index) -> Survey:
        return each(lambda column: column[features], self)

    @property
    def varies(self) -> Bools:
        """Which features have two distinct values."""
        return self.lowest < self.highest


def survey(table: Table) -> tuple[int, Survey]:
    """The number of rows, and the survey of all features."""
    # Of the values < 0, and of the others:
    count = np.zeros((table.n_features, 2), dtype=np.int64)
    low, high = np.full((2, table.n_features, 2), np.inf) * [[[1]], [[-1]]]
    rows = 0
    for chunk in table.chunks():
        rows += chunk.shape[1]
        counts, lowest, highest = _extremes(chunk)
        count += counts
        np.minimum(low, lowest, out=low)
        np.maximum(high, highest, out=high)
    n, lowest, highest = count.sum(axis=1), low.min(axis=1), high.max(axis=1)
    return rows, Survey(n, count[:, 0], lowest, high[:, 0], low[:, 1], highest)


def _extremes(values: Array) -> tuple[Integers, Array, Array]:
    """Counts, least and largest of the values < 0 and of the others, of each feature."""
    features, rows = values.shape
    counts = np.empty((features, 2), dtype=np.int64)
    lowest, highest = np.empty((2, features, 2))
    if loops := kernel.loops():
        values = np.require(values, requirements=["C", "A"])

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
    return counts, lowest, highest


def drawn(n: int, size: int) -> Index:
    """That many of n positions in order, drawn at random but always alike: no order is special."""
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(n).integers(n, size=size))
