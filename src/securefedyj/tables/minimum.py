"""A silo's own minimum: a feature of which it has few values counts as missing at this silo."""

from __future__ import annotations

import numpy as np

from securefedyj.numerics.arrays import Array, Index


def without_few(table: Array, minimum: int) -> tuple[Array, Index]:
    """The table with such features missing, and which they are; those without values are not."""
    count = np.count_nonzero(~np.isnan(table), axis=0)
    few = np.flatnonzero((count > 0) & (count < minimum))
    if len(few):
        table = table.copy()
        table[:, few] = np.nan
    return table, few


def missing_everywhere(table: Array) -> Index:
    """The features without values in this table."""
    return np.flatnonzero(np.isnan(table).all(axis=0))
