"""Both ways to read CSV: the careful one accepts all that the fast one does, and reads the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj.numerics.arrays import Array
from securefedyj.tables import csv_files
from securefedyj.tables.cells import MISSING, TableError
from securefedyj.tables.csv_files import CsvFile
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import read_table
from securefedyj.tables.rewriting import FastPathFailed
from tests.refusals import refused

ODD = [
    "1_000", " 1 ", "1e5", "1E+5", "0x10", "0x1p3", "１", "+5", "1.", ".5", ".", "e5", "1e", "5d3",
    "5f", "NaN", "nan", "nAn", "-nan", "+nan", "nan(1)", "inf", "-inf", "Infinity", "1e400",
    "1e-400", "-0", "", '"5"', '""', '" 5"', '"5" ', '5"', '"5"6', "--1", "-", "\t3", "3\x00",
    "\u00a05", "5\v", "1 2", "NA", " NA", "na", "Na", "nA", "n/a", "Null", "true", "-999",
    "-999.0", "-9.99e2", "1e5.0", "1,5", '"1,5"', '"1,234"', '"1,234.5"', '"12,34"', "1.234",
    '"1.234,5"', "1 234", "1'234", "?", '"a\nb"',
]  # fmt: skip
DIALECTS = [
    Dialect(),
    Dialect(delimiter=";", decimal=","),
    Dialect(delimiter=",", decimal=","),
    Dialect(thousands=","),
    Dialect(delimiter=";", decimal=",", thousands="."),
    Dialect(thousands=" "),
    Dialect(thousands="'"),
]
FURTHER = (*MISSING, "-999", "?")


def small_pieces(patch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows, so that there are several."""
    patch.setattr(csv_files, "PIECE", 32)
    patch.setattr(csv_files, "_LINES_IN_PIECE", 2)


def joined(blocks: Iterable[Array]) -> Array:
    return np.concatenate([np.empty((0, 1)), *blocks])


def both(path, dialect: Dialect, column: int = 0) -> tuple[Array | None, Array | None]:
    """What the fast reader and the careful one make of a column; None if they refuse it."""
    read: list[Array | None] = []
    csv_file = CsvFile(path, FURTHER, dialect)
    for blocks in (CsvFile.fast_blocks, CsvFile.careful_blocks):
        try:
            read.append(joined(blocks(csv_file, [column])))
        except (FastPathFailed, TableError):
            read.append(None)
    return read[0], read[1]


@pytest.mark.parametrize(
    "dialect", DIALECTS, ids=lambda dialect: dialect.decimal + dialect.thousands
)
def test_odd_cells_are_read_the_same_or_left_to_the_careful_reader(dialect, tmp_path):
    path, taken = tmp_path / "t.csv", 0
    sign = dialect.delimiter or ","
    for cell in ODD:
        path.write_bytes(f"a{sign}b\n{cell}{sign}x\n7{sign}y\n".encode())
        fast, careful = both(path, dialect)
        if fast is not None:
            assert careful is not None, cell
            assert fast.tobytes() == careful.tobytes(), cell
            taken += 1
    assert taken > 20


def test_ordinary_cells_are_read_by_the_fast_reader(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(
        b'\xef\xbb\xbfa,b\r\n1,x\r\n"2","y\r\nz"\r\n,\r\nNA,\r\nnan,\r\n-999,\r\n\r\n\r\n'
    )
    fast, careful = both(path, Dialect())
    assert fast is not None
    np.testing.assert_array_equal(fast[:, 0], [1, 2, np.nan, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(fast, careful)


def test_numbers_are_rounded_as_by_python(tmp_path):
    random = np.random.default_rng(4)
    texts = [
        f"{sign}{''.join(map(str, random.integers(0, 10, size)))}.{digits}e{power}"
        for sign, size, digits, power in zip(
            random.choice(["", "-"], 5000),
            random.integers(0, 20, 5000),
            random.integers(0, 10**18, 5000),
            random.integers(-345, 290, 5000),
            strict=True,
        )
    ]
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{text},\n" for text in texts))
    fast, _ = both(path, Dialect())
    assert fast is not None
    assert fast[:, 0].tolist() == list(map(float, texts))


def test_halfway_cases_are_rounded_to_even(tmp_path):
    lower = np.random.default_rng(5).standard_normal(500) * 10.0 ** np.arange(-250, 250)
    upper = np.nextafter(lower, np.inf)
    halves = [
        (Decimal(a) + Decimal(b)) / 2 for a, b in zip(lower.tolist(), upper.tolist(), strict=True)
    ]
    texts = [f"{half:e}" for half in halves]
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{text},\n" for text in texts))
    fast, _ = both(path, Dialect())
    assert fast is not None
    assert fast[:, 0].tolist() == list(map(float, texts))


def outcome(read: Callable[[], Array]) -> bytes | str:
    """What was read, or why it was refused."""
    try:
        return np.ascontiguousarray(read()).tobytes()
    except TableError as error:
        return str(error)


TEXTS = st.sampled_from(["", "x", 'say "so"', "a\nb", "a\r\nb", "1,5;2", "\t", "é", "NA", "5"])
CELLS = st.sampled_from(
    ["1", "2.5", "-3e-5", "", "NA", " na ", "+7", '"4"', "１", "inf", "1,5", "ab"]
)


@given(
    rows=st.lists(st.tuples(TEXTS, CELLS), max_size=30),
    sign=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    trailing=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_a_table_is_read_as_by_the_careful_reader_alone(
    tmp_path_factory, rows, sign, end, quoting, trailing
):
    path = tmp_path_factory.mktemp("rows") / "t.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=sign, lineterminator=end, quoting=quoting)
    writer.writerows([("note", "a"), *rows])
    path.write_bytes((text.getvalue() + end * trailing).encode())
    dialect = Dialect(delimiter=sign)
    csv_file = CsvFile(path, MISSING, dialect)
    with pytest.MonkeyPatch.context() as patch:
        small_pieces(patch)
        expected = outcome(lambda: joined(csv_file.careful_blocks([1])))
        assert outcome(lambda: read_table(path, ["a"], dialect=dialect)) == expected


def test_careful_reader_continues_where_the_fast_one_fails(tmp_path, monkeypatch):
    small_pieces(monkeypatch)
    cells = [str(k) for k in range(200)]
    cells[150] = " NA "
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{cell},x\n" for cell in cells))
    got = read_table(path, ["a"])[:, 0]
    assert np.isnan(got[150])
    assert np.delete(got, 150).tolist() == [k for k in range(200) if k != 150]
    path.write_text(path.read_text() + '7,"open\n8,y\n')
    with refused("SFY-TAB-006", naming="line 202"):
        read_table(path, ["a"])


def test_open_quote_is_found_although_no_column_of_ours_has_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,"x\n')
    with refused("SFY-TAB-006", naming="line 2"):
        read_table(path, ["a"])


def test_rows_are_counted_without_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,\xff\n,\n")
    (block,) = CsvFile(path, MISSING, Dialect()).fast_blocks([])
    assert block.shape == (2, 0)
