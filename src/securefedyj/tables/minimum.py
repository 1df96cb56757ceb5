"""A silo's own minimum: a feature of which it has few values counts as missing at this silo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from securefedyj.numerics.arrays import Array, Index
from securefedyj.numerics.passes import RemoteSource, Source
from securefedyj.tables.census import Census, Sample, SiloTable


def few_values(census: Census, minimum: int) -> Index:
    """The features of which there are fewer values; not those without any."""
    return np.flatnonzero((census.count > 0) & (census.count < minimum))


def missing_everywhere(census: Census) -> Index:
    """The features without values in this table."""
    return np.flatnonzero(census.count == 0)


def without(own: SiloTable, features: Index) -> SiloTable:
    """The table with these features missing."""
    if not len(features):
        return own
    rows, count, sample = own.census.rows, own.census.count.copy(), own.census.sample.values.copy()
    count[features], sample[:, features] = 0, np.nan
    census = Census(rows, count, Sample(own.census.sample.stride, sample))
    if isinstance(own.source, RemoteSource):
        return SiloTable(own.source.without(features.tolist()), census)
    return SiloTable(_Without(own.source, features), census)


class _Without:
    """A source of which some columns are never read."""

    names: Sequence[str] = ()

    def __init__(self, source: Source, features: Index) -> None:
        self._source, self._missing = source, set(features.tolist())
        self.names = source.names

    @property
    def rows(self) -> int | None:
        return self._source.rows

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        there = [k for k, j in enumerate(columns) if j not in self._missing]
        # A column that is not wanted still says how many rows there are.
        own = [columns[k] for k in there] or [columns[0]]
        for block in self._source.blocks(own):
            whole = np.full((len(block), len(columns)), np.nan, order="F")
            whole[:, there] = block[:, : len(there)]
            yield whole
