"""What a silo wants to know of its own table before a run, from one pass over it.

The pass also takes the rows into memory, if they fit there: then no other pass reads them again.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Integers
from securefedyj.numerics.passes import OnRows, RemoteSource, Source, over_blocks, read
from securefedyj.tables.memory import HeldSource

_SAMPLE_VALUES, _SAMPLE_ROWS = 1 << 22, 1 << 14
"""A sample has at most so many values, or rows where columns are many."""
_JOINED_AT_ONCE = 16


class Sample(NamedTuple):
    """Every so many-th row of a table; all of them if there are few."""

    stride: int
    values: Array

    def thinned(self, stride: int) -> Array:
        """With another stride, which is a multiple of its own."""
        return self.values[:: stride // self.stride]


@dataclass(frozen=True)
class Census:
    """How many rows there are, how many values in each column, and a sample."""

    rows: int
    count: Integers
    sample: Sample

    @classmethod
    def of(cls, block: Array) -> Census:
        count = len(block) - np.count_nonzero(np.isnan(block), axis=0)
        stride = 1
        while len(block) > _most_rows(block.shape[1]) * stride:
            stride *= 2
        return cls(len(block), count, Sample(stride, block[::stride].copy()))

    @classmethod
    def counted(cls, block: Array) -> Census:
        """Without a sample."""
        count = len(block) - np.count_nonzero(np.isnan(block), axis=0)
        return cls(len(block), count, Sample(1, block[:0].copy()))

    def __add__(self, other: Census) -> Census:
        return Census.joined([self, other])

    @classmethod
    def joined(cls, several: Sequence[Census]) -> Census:
        """Of the rows of all, in order."""
        stride = max(one.sample.stride for one in several)
        parts = [one.sample.thinned(stride) for one in several]
        count = np.sum([one.count for one in several], axis=0)
        while sum(map(len, parts)) > _most_rows(len(count)):
            stride *= 2
            parts = [part[::2] for part in parts]
        sample = Sample(stride, np.concatenate(parts))
        return cls(sum(one.rows for one in several), count, sample)


class SiloTable(NamedTuple):
    """A silo's table, and what is known of it."""

    source: Source
    census: Census

    @property
    def drawn(self) -> Array | None:
        """What plots are drawn from; rows that are elsewhere are not drawn."""
        return None if isinstance(self.source, RemoteSource) else self.census.sample.values


def _most_rows(columns: int) -> int:
    return max(_SAMPLE_ROWS, _SAMPLE_VALUES // max(columns, 1))


def load_or_stream(source: Source, most_bytes: int, on_rows: OnRows | None = None) -> SiloTable:
    """A table that needs no reading any more if it takes so many bytes at most; else as it is."""
    every, width = range(len(source.names)), 8 * len(source.names)
    nothing = Census.of(np.empty((0, len(source.names))))
    if isinstance(source, RemoteSource):  # a sample would bring rows here
        found = over_blocks(source, every, Census.counted, operator.add)
        return SiloTable(source, nothing if found is None else found)
    kept: list[Array] | None = [] if (source.rows or 0) * width <= most_bytes else None
    parts, rows = [nothing], 0
    for block in read(source, every, on_rows):
        parts.append(Census.of(block))
        if len(parts) > _JOINED_AT_ONCE:  # samples are copied when they are joined
            parts = [Census.joined(parts)]
        rows += len(block)
        if kept is not None:
            kept.append(block)
            if rows * width > most_bytes:
                kept = None
    own = source if kept is None else HeldSource(kept, source.names)
    return SiloTable(own, Census.joined(parts))
