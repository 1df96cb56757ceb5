"""Digests of rows: the same for the same data, another for other data, mute without the key."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from securefedyj.numerics import passes
from securefedyj.tables import digest
from securefedyj.tables.digest import column_digests, rows_digest
from securefedyj.tables.files import read_table, write_table
from securefedyj.tables.source import HeldSource
from tests.refusals import refused

KEY = bytes(range(32))

NAMES = ("a", "b")
ROWS = np.array([[1.0, 2.0], [3.0, np.nan], [0.0, 5.0], [1.0, 2.0]])

tables = arrays(
    np.float64, st.tuples(st.integers(0, 6), st.just(2)), elements=st.sampled_from([0.0, 1.0, 2.0])
)


def test_other_exports_of_the_same_rows_have_the_same_digests(tmp_path):
    write_table(tmp_path / "t.csv", ("b", "other", "a"), ROWS[::-1][:, [1, 0, 0]])
    again = read_table(tmp_path / "t.csv", NAMES)
    odd = again.copy()
    odd[odd == 0] = -0.0
    odd[np.isnan(odd)] = np.frombuffer(struct.pack("<Q", 0x7FF8DEADBEEF0001), "<f8")[0]
    for table in (again, odd, np.asfortranarray(again), again.astype(">f8")):
        assert rows_digest(table, NAMES, KEY) == rows_digest(ROWS, NAMES, KEY)
        assert column_digests(table, NAMES, KEY) == column_digests(ROWS, NAMES, KEY)


@given(one=tables, other=tables)
def test_digests_are_equal_exactly_for_equal_rows_in_any_order(one, other):
    same = sorted(map(tuple, one)) == sorted(map(tuple, other))
    assert (rows_digest(one, NAMES, KEY) == rows_digest(other, NAMES, KEY)) == same
    for j in range(2):
        same = sorted(one[:, j]) == sorted(other[:, j])
        digests = [column_digests(t[:, [j]], "x", KEY).get("x") for t in (one, other)]
        assert (digests[0] == digests[1]) == same


@pytest.mark.parametrize(
    "other",
    [
        ROWS[:3],  # a row that was there twice
        np.vstack([ROWS, [[np.nan, np.nan]]]),
        np.where(ROWS == 5, np.nextafter(5.0, 6.0), ROWS),
        ROWS[:, ::-1],
        np.column_stack([ROWS[::-1, 0], ROWS[:, 1]]),  # the same columns, and other rows
    ],
)
def test_other_rows_have_another_digest(other):
    assert rows_digest(other, NAMES, KEY) != rows_digest(ROWS, NAMES, KEY)


def test_names_and_key_matter_to_rows():
    expected = rows_digest(ROWS, NAMES, KEY)
    assert rows_digest(ROWS, ("a", "c"), KEY) != expected
    assert rows_digest(ROWS, ("ab", ""), KEY) != expected
    assert rows_digest(ROWS, NAMES, bytes(32)) != expected
    with refused("SFY-TAB-024"):
        rows_digest(ROWS, ("a",), KEY)


def test_column_is_recognized_by_its_values_alone():
    digests = column_digests(ROWS, NAMES, KEY)
    assert column_digests(ROWS[:, ::-1], ("b", "new"), KEY) == {
        "b": digests["b"],
        "new": digests["a"],
    }
    without_gap = ROWS[[0, 2, 3]]
    assert column_digests(without_gap, NAMES, KEY)["b"] == digests["b"]
    assert column_digests(without_gap, NAMES, KEY)["a"] != digests["a"]
    assert column_digests(ROWS, NAMES, bytes(32))["a"] != digests["a"]
    assert column_digests(np.full((3, 2), np.nan), NAMES, KEY) == {}


def blake2b(content: bytes, size: int, person: bytes) -> bytes:
    return hashlib.blake2b(content, key=KEY, digest_size=size, person=person).digest()


def summed(inputs: list[bytes], key: bytes) -> bytes:
    """CBC-MACs with AES of all inputs, added up in four columns of 32 bits; how many there are."""
    columns = [0] * 4
    for content in inputs:
        encryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
        last = encryptor.update(content)[-16:]
        columns = [a + b for a, b in zip(columns, struct.unpack("<4I", last), strict=True)]
    return struct.pack("<5Q", *columns, len(inputs))


def test_digests_are_sums_of_aes_cbc_mac_under_blake2b():
    values = [struct.pack("<dd", value, 0.0) for value in (1.0, 3.0, 0.0, 1.0)]
    sums = summed(values, blake2b(b"", 32, b"value"))
    expected = blake2b(bytes(8) + sums, 16, b"column").hex()
    assert column_digests(ROWS, NAMES, KEY)["a"] == expected
    rows = [struct.pack("<4d", *row, 7.0, 0.0) for row in ((1.0, 2.0), (0.0, 5.0))]
    head = b'[[2, 3], ["a", "b", "c"]]'
    sums = summed(rows, blake2b(b"", 32, b"row"))
    expected = blake2b(len(head).to_bytes(8, "big") + head + sums, 32, b"table").hex()
    three = np.array([[1.0, 2.0, 7.0], [-0.0, 5.0, 7.0]])
    assert rows_digest(three, ("a", "b", "c"), KEY) == expected


def test_digests_do_not_depend_on_blocks(monkeypatch):
    monkeypatch.setattr(digest, "_ROWS", 7)
    monkeypatch.setattr(passes, "_FEWEST_ROWS", 5)
    monkeypatch.setattr(passes, "BLOCK_VALUES", 1)
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[::5, 1] = np.nan
    names = ("a", "b", "c")
    parts = HeldSource(np.split(X, [1, 20, 21, 50]), names)
    assert rows_digest(parts, names, KEY) == rows_digest(X, names, KEY)
    assert column_digests(parts, names, KEY) == column_digests(X, names, KEY)


def test_table_is_left_as_it_is():
    table = np.array([[-0.0, np.nan]])
    rows_digest(table, NAMES, KEY)
    column_digests(table, NAMES, KEY)
    assert np.signbit(table[0, 0])
