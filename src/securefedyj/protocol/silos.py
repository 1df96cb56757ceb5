"""A silo's rows, as the program of its party reads them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import Encoding
from securefedyj.numerics.passes import OnRows, Source
from securefedyj.numerics.streamed import StreamedSilo, default_cache_bytes, silo_of
from securefedyj.numerics.sums import Silo, Sums
from securefedyj.numerics.wide import Limbs
from securefedyj.protocol.agreement import Agreement
from securefedyj.tables.source import as_source

Table = Array | Source


class TimedSilo:
    """A silo that says how long its sums take: the protocol itself reads no clock.

    Attributes
    ----------
    prepared
        Seconds that the rows took before they could be asked for sums.
    seconds
        Those of the sums since then.
    """

    def __init__(self, silo: Silo, prepared: float = 0.0) -> None:
        self._silo = silo
        self.prepared, self.seconds = prepared, 0.0

    @property
    def count(self) -> Integers:
        return self._silo.count

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        with self._timed():
            return self._silo.phi_sum(features, limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        with self._timed():
            return self._silo.sums(feature, lmbda, encoding, limbs)

    def ranks(self, feature: Index, points: Array) -> Integers:
        with self._timed():
            return self._silo.ranks(feature, points)

    def release(self) -> None:
        """Free what memory the rows take, where they can be read again."""
        if isinstance(self._silo, StreamedSilo):
            self._silo.release()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start


def timed_silo(
    agreement: Agreement,
    table: Table | None,
    cache_bytes: int | None = None,
    on_rows: OnRows | None = None,
) -> TimedSilo | None:
    """A silo's rows, checked and arranged; None for a party without data.

    Arranged rows are kept up to `cache_bytes`, by default a quarter of the machine's memory.
    """
    if table is None:
        return None
    start = time.perf_counter()
    room = default_cache_bytes() if cache_bytes is None else cache_bytes
    source = as_source(table)
    asked = agreement.asked
    names = [agreement.features[j] for j in asked.column.tolist()]
    alike = asked.column.tolist() == list(range(len(agreement.features)))
    columns = None if alike else asked.column
    silo = silo_of(source, asked.domain, names, room, on_rows, columns)
    return TimedSilo(silo, time.perf_counter() - start)
