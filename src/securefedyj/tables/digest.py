"""Keyed digests of a silo's rows: the same for the same data, and meaningless without the key.

They stay with the silo, and show whether a table is still the one that a run started with, and
whether a column was in an earlier run. The order of rows does not matter: a run sees sums over
rows, and a table that was exported again often has another order. So two tables have the same
digest exactly if they are the same multiset of rows. Each row becomes a number of 128 bits that
looks random, by AES in CBC-MAC under a key derived from the given one; the numbers are added up in
four columns of 32 bits, and the sums are hashed with BLAKE2b. Sums need no order and no memory, so
a pass over blocks suffices. Other rows have the same digest only if sums of 128 random bits are
equal by chance, or if someone with the key searches for them: a silo's note to itself need not
withstand that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import Source, over_blocks
from securefedyj.tables.source import as_source

_KEY_BYTES = _TABLE_BYTES = 32
_COLUMN_BYTES = 16
_ROWS = 1 << 13  # at a time, which stay in the cache
_MISSING = np.uint64(0x7FF8 << 48)
_Words = NDArray[np.uint64]


def rows_digest(table: Source | Array, names: Sequence[str], key: bytes) -> str:
    """Of a whole table and the names of its columns, in hexadecimal digits."""
    source = as_source(table)
    columns = range(len(source.names))
    if len(columns) != len(names):
        shape = source.rows, len(columns)
        raise InputError("SFY-TAB-024", f"{len(names)} names do not fit an array of shape {shape}")
    sums = over_blocks(source, columns, partial(_row_sums, key=_derived(key, b"row")), np.add)
    total = np.zeros(5, dtype=np.uint64) if sums is None else sums
    head = json.dumps([[int(total[-1]), len(names)], list(names)]).encode()
    return _hashed(total, head, key, b"table", _TABLE_BYTES)


def column_digests(table: Source | Array, names: Sequence[str], key: bytes) -> dict[str, str]:
    """Of each column by itself, without its name and its missing cells, in hexadecimal digits.

    A run sees only the values that are present, and a renamed column is the same column. A column
    without values has no digest.
    """
    source = as_source(table)
    columns = range(len(source.names))
    sums = over_blocks(source, columns, partial(_value_sums, key=_derived(key, b"value")), np.add)
    return {
        name: _hashed(total, b"", key, b"column", _COLUMN_BYTES)
        for name, total in zip(names, () if sums is None else sums, strict=sums is not None)
        if total[-1]
    }


def _row_sums(block: Array, key: bytes) -> _Words:
    """The numbers of all rows, added up in columns of 32 bits, and how many they are."""
    sums = np.zeros(5, dtype=np.uint64)
    for first in range(0, len(block), _ROWS):
        values = np.array(block[first : first + _ROWS], dtype="<f8")
        # There are two zeros, and many ways to be missing.
        values += 0.0  # -0 becomes 0
        words = values.view("<u8")
        words[np.isnan(values)] = _MISSING
        state = np.zeros((len(words), 2), dtype="<u8")
        for pair in range(0, words.shape[1], 2):
            some = words[:, pair : pair + 2]
            state[:, : some.shape[1]] ^= some
            state = _encrypted(state, key)
        # Sums of 32 bits in 64, which have room for 2^32 rows.
        sums[:4] += state.view("<u4").sum(axis=0, dtype=np.uint64)
        sums[4] += np.uint64(len(state))
    return sums


def _value_sums(block: Array, key: bytes) -> _Words:
    """The same for each column by itself, without its missing cells."""
    present = (column[~np.isnan(column)] for column in block.T)
    return np.array([_row_sums(values[:, np.newaxis], key) for values in present])


def _encrypted(state: _Words, key: bytes) -> _Words:
    """Each row of 128 bits by itself: the chain of CBC-MAC runs along a row of the table."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    out = np.empty((len(state) + 1, 2), dtype="<u8")  # the cipher needs room for one more
    if len(state):
        encryptor.update_into(state.data.cast("B"), out.data.cast("B"))
    return out[:-1]


def _hashed(sums: _Words, head: bytes, key: bytes, person: bytes, size: int) -> str:
    whole = hashlib.blake2b(key=key, digest_size=size, person=person)
    whole.update(len(head).to_bytes(8, "big") + head)
    whole.update(sums.astype("<u8").tobytes())
    return whole.hexdigest()


def _derived(key: bytes, person: bytes) -> bytes:
    """A key for rows, and another one for values."""
    return hashlib.blake2b(key=key, digest_size=_KEY_BYTES, person=person).digest()
