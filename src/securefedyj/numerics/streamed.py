"""A silo's exact sums over rows that need not fit into memory.

The sums of a table are those of its blocks, added up: integers, so that blocks of any size give
the same bits. Each call of `sums` is one pass over the columns that it asks for; the next block is
read and prepared while one is summed. Prepared blocks are kept as far as memory allows.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import reduce
from pathlib import Path

import numpy as np

from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers, each
from securefedyj.numerics.encoding import Domain, Encoding
from securefedyj.numerics.passes import OnRows, RemoteSource, Source, ahead, check_rows, read
from securefedyj.numerics.sums import ArraySilo, Silo, Sums, refuse_outside, values_outside
from securefedyj.numerics.wide import Limbs

PHI_LIMBS = 2

_SHARE = 4
_UNKNOWN = 1 << 30  # where the system does not say what it has
# What a container may use, in the two versions of control groups.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def silo_of(
    source: Source,
    domain: Domain,
    names: list[str],
    cache_bytes: int,
    on_rows: OnRows | None = None,
    columns: Index | None = None,
) -> Silo:
    """A silo's data as the protocol asks for it, wherever the rows are; see `StreamedSilo`."""
    if isinstance(source, RemoteSource):
        return source.silo(domain, names, columns)
    return StreamedSilo(source, domain, names, cache_bytes, on_rows, columns)


class StreamedSilo:
    """The values of one silo, read in passes.

    Parameters
    ----------
    source : Source
        The rows of the silo, its features in the order of the domain.
    domain, names, columns
        As of `ArraySilo`.
    cache_bytes : int
        Prepared blocks are kept up to this size; the others are made again in each pass.
    on_rows : callable, optional
        Called with the number of rows of a pass that were read.
    """

    def __init__(
        self,
        source: Source,
        domain: Domain,
        names: list[str],
        cache_bytes: int,
        on_rows: OnRows | None = None,
        columns: Index | None = None,
    ) -> None:
        self._source, self._domain, self._names, self._on_rows = source, domain, names, on_rows
        self._kept: list[ArraySilo] = []
        self._rows_kept = self.rows = 0
        every = np.arange(len(names))
        self._columns = every if columns is None else columns
        self.count: Integers = np.zeros(len(names), dtype=np.int64)
        self._phi = wide.zeros(PHI_LIMBS, len(names))
        outside = np.zeros(len(names), dtype=np.int64)
        room = cache_bytes
        for block in read(source, np.unique(self._columns).tolist(), on_rows):
            own = block if columns is None else block[:, columns]
            outside += values_outside(own, domain)
            if outside.any():
                continue  # to the end, to say how many there are
            silo = ArraySilo(block, domain, names, columns)
            self.count += silo.count
            self._phi = wide.add(self._phi, silo.phi_sum(every, PHI_LIMBS))
            room -= silo.nbytes
            if room >= 0 and self._rows_kept == self.rows:
                self._kept.append(silo)
                self._rows_kept += len(block)
            self.rows += len(block)
        refuse_outside(outside, domain, names)

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        return wide.resize(self._phi[:, features], limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        zero = Sums(*[wide.zeros(limbs, len(feature))] * 4)
        parts = (own.sums(some, lmbda, encoding, limbs) for own, some in self._silos(feature))
        return reduce(added, parts, zero)

    def ranks(self, feature: Index, points: Array) -> Integers:
        counts = np.zeros(points.shape, dtype=np.int64)
        for own, some in self._silos(feature):
            counts += own.ranks(some, points)
        return counts

    def release(self) -> None:
        """Free the memory of the rows that were kept; should they be wanted, they are read."""
        self._kept, self._rows_kept = [], 0

    def _silos(self, features: Index) -> Iterator[tuple[ArraySilo, Index]]:
        """Silos that together have all rows, with the places of the features in each."""
        yield from ((silo, features) for silo in self._kept)
        if self._rows_kept == self.rows:
            return
        wanted, place = np.unique(features, return_inverse=True)
        with closing(ahead(self._prepared(wanted))) as silos:
            yield from ((silo, place) for silo in silos)

    def _prepared(self, features: Index) -> Generator[ArraySilo, None, None]:
        """Silos of blocks of some features, without the rows that were kept."""
        domain, names = self._domain.take(features), [self._names[j] for j in features]
        columns, place = np.unique(self._columns[features], return_inverse=True)
        seen = 0
        for block in read(self._source, columns.tolist(), self._on_rows):
            first = max(0, self._rows_kept - seen)
            seen += len(block)
            if first < len(block):
                yield ArraySilo(block[first:], domain, names, place)
        check_rows(self.rows, seen)


def added(one: Sums, other: Sums) -> Sums:
    """The sums over the rows of both."""
    return each(wide.add, one, other)


def default_cache_bytes() -> int:
    """A quarter of the memory of this machine, or of what this process may use of it."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN
    for path in _LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            memory = min(memory, int(text))
    return memory // _SHARE
