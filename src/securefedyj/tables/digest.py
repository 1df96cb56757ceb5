"""Keyed digests of a silo's rows: the same for the same data, and mute without the key.

They stay with the silo, and tell it later whether a table is still the one that a run began with
(`rows_digest`), and whether a column was in an earlier run (`column_digests`).

The order of rows does not matter. A run sees sums over rows, which have none, and a table that was
exported again often has another. So two tables have the same digest exactly if they are the same
multiset of rows: each row is hashed by itself, the hashes are sorted, and all of them are hashed
together. Other rows with the same digest would be a collision of BLAKE2b.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from securefedyj.numerics.arrays import Array

_ROW_BYTES = _TABLE_BYTES = 32
_COLUMN_BYTES = 16


def rows_digest(table: Array, names: Sequence[str], key: bytes) -> str:
    """Of a whole table and the names of its columns, in hexadecimal digits."""
    values = _canonical(table)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ValueError(f"{len(names)} names do not fit an array of shape {values.shape}")
    rows = sorted(
        hashlib.blake2b(row.data, key=key, digest_size=_ROW_BYTES, person=b"row").digest()
        for row in values
    )
    head = json.dumps([list(values.shape), list(names)]).encode()
    whole = hashlib.blake2b(key=key, digest_size=_TABLE_BYTES, person=b"table")
    # All hashes of rows have the same length, so this is where they begin.
    whole.update(len(head).to_bytes(8, "big") + head)
    for row in rows:
        whole.update(row)
    return whole.hexdigest()


def column_digests(table: Array, names: Sequence[str], key: bytes) -> dict[str, str]:
    """Of each column by itself, without its name and its missing cells, in hexadecimal digits.

    A run sees nothing but the values that are there, and a column that was renamed is the same
    column. One without values has no digest.
    """
    digests = {}
    for name, column in zip(names, _canonical(table).T, strict=True):
        present = np.sort(column[~np.isnan(column)])
        if len(present):
            whole = hashlib.blake2b(key=key, digest_size=_COLUMN_BYTES, person=b"column")
            whole.update(present.data)
            digests[name] = whole.hexdigest()
    return digests


def _canonical(table: Array) -> Array:
    """One form of each number, little-endian: there are two zeros, and many ways to be missing."""
    values = np.array(table, dtype="<f8", order="C")
    values[values == 0] = 0.0
    values[np.isnan(values)] = np.nan
    return values
