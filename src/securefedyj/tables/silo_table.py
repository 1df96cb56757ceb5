"""A silo's table as a run takes it, and what one pass over it shows: counts, and a sample.

The pass also loads the rows if they fit into memory: then no other pass reads them again.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.passes import OnRows, RemoteSource, Source, over_blocks, read
from securefedyj.tables.base import FilledSource, HeldSource

_SAMPLE_VALUES, _SAMPLE_ROWS = 1 << 22, 1 << 14
"""A sample has at most this number of values, or of rows where columns are many."""


@dataclass(frozen=True)
class Sample:
    """About one of `stride` rows of a table, spread evenly; all rows of a small table."""

    stride: int
    parts: list[Array]

    @classmethod
    def of(cls, block: Array) -> Sample:
        return cls(1, [block.copy()]).thinned()

    def __add__(self, other: Sample) -> Sample:
        stride = max(self.stride, other.stride)
        thin = [(part, stride // one.stride) for one in (self, other) for part in one.parts]
        return Sample(stride, [part[::k].copy() if k > 1 else part for part, k in thin]).thinned()

    def thinned(self) -> Sample:
        stride, parts = self.stride, self.parts
        most = max(_SAMPLE_ROWS, _SAMPLE_VALUES // max(parts[0].shape[1], 1))
        while sum(map(len, parts)) > most:
            stride, parts = 2 * stride, [np.concatenate(parts)[::2].copy()]
        return Sample(stride, parts)

    @property
    def values(self) -> Array:
        return np.concatenate(self.parts)


@dataclass(frozen=True)
class Census:
    """The number of rows, the number of values in each column, and a sample."""

    rows: int
    count: Integers
    sample: Sample

    @classmethod
    def of(cls, block: Array) -> Census:
        count = len(block) - np.count_nonzero(np.isnan(block), axis=0)
        return cls(len(block), count, Sample.of(block))

    @classmethod
    def counted(cls, block: Array) -> Census:
        """With an empty sample."""
        count = len(block) - np.count_nonzero(np.isnan(block), axis=0)
        return cls(len(block), count, Sample.of(block[:0]))

    def __add__(self, other: Census) -> Census:
        count = self.count + other.count
        return Census(self.rows + other.rows, count, self.sample + other.sample)


class SiloTable(NamedTuple):
    """A silo's table, and what is known about it."""

    source: Source
    census: Census

    @property
    def drawn(self) -> Array | None:
        """The rows that plots show; None if the rows are remote."""
        return None if isinstance(self.source, RemoteSource) else self.census.sample.values


def load_or_stream(source: Source, most_bytes: int, on_rows: OnRows | None = None) -> SiloTable:
    """A table in memory if it takes at most `most_bytes` there; otherwise as it is."""
    every, width = range(len(source.names)), 8 * len(source.names)
    census = Census.of(np.empty((0, len(source.names))))
    if isinstance(source, RemoteSource):  # a sample would bring rows here
        return SiloTable(source, over_blocks(source, every, Census.counted, operator.add) or census)
    held: list[Array] | None = [] if (source.rows or 0) * width <= most_bytes else None
    for block in read(source, every, on_rows):
        census += Census.of(block)
        if held is not None:
            held.append(block)
            if census.rows * width > most_bytes:
                held = None
    return SiloTable(source if held is None else HeldSource(held, source.names), census)


def few_values(census: Census, minimum: int) -> Index:
    """The features with fewer values than the minimum, but for those without any."""
    return np.flatnonzero((census.count > 0) & (census.count < minimum))


def missing_everywhere(census: Census) -> Index:
    """The features without values in this table."""
    return np.flatnonzero(census.count == 0)


def without(table: SiloTable, features: Index) -> SiloTable:
    """The table with these features missing."""
    if not len(features):
        return table
    (source, census), ignored = table, features.tolist()
    count, sample = census.count.copy(), census.sample.values.copy()
    count[features], sample[:, features] = 0, np.nan
    census = Census(census.rows, count, Sample(census.sample.stride, [sample]))
    if isinstance(source, RemoteSource):
        return SiloTable(source.without(ignored), census)
    missing = dict.fromkeys((source.names[j] for j in ignored), np.nan)
    return SiloTable(FilledSource(source, source.names, missing), census)
