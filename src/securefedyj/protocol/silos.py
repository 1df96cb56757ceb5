"""A silo's rows, as the program of its party takes them."""

from __future__ import annotations

import time

import numpy as np

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.silo import TimedSilo
from securefedyj.numerics.sums import ArraySilo
from securefedyj.protocol.agreement import Agreement


def timed_silo(agreement: Agreement, table: Array | None) -> TimedSilo | None:
    """A silo's rows, checked and arranged; None for a party without data."""
    if table is None:
        return None
    start = time.perf_counter()
    silo = ArraySilo(np.asarray(table), agreement.domain, list(agreement.features))
    return TimedSilo(silo, time.perf_counter() - start)
