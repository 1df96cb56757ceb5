"""A silo's rows, as the program of its party reads them."""

from __future__ import annotations

import time

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.budget import default_cache_bytes
from securefedyj.numerics.passes import OnRows, Source
from securefedyj.numerics.silo import TimedSilo
from securefedyj.numerics.streamed import silo_of
from securefedyj.protocol.agreement import Agreement
from securefedyj.tables.source import as_source

Table = Array | Source


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
    silo = silo_of(source, agreement.domain, list(agreement.features), room, on_rows)
    return TimedSilo(silo, time.perf_counter() - start)
