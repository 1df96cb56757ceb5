"""CSV with other numbers in it: what is not a number of a feature stays, to the last byte."""

from __future__ import annotations

import csv
import gzip
import io
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from securefedyj.tables import csv_files
from securefedyj.tables.cells import MISSING
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import read_table
from securefedyj.tables.rewriting import FastPathFailed, cells_of, texts_of
from securefedyj.tables.transforming import transform_table
from tests.refusals import refused

GERMAN = (
    "Nr;Größe;Notiz;x\r\n"
    '007;-1,5;"a; ""b""";2\r\n'
    "\r\n"
    ' 08 ;;NA;1e-7\r\n"";3;"zwei\r\nZeilen";\r\n01.02.2003;0,1;\'’€;1e+20\r\n'
)


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of a few rows, so that there are several."""
    monkeypatch.setattr(csv_files, "PIECE", 32)
    monkeypatch.setattr(csv_files, "_LINES_IN_PIECE", 2)
    monkeypatch.setattr(csv_files, "_BLOCK_ROWS", 2)


@pytest.fixture
def careful_only(monkeypatch):
    """As if Arrow took nothing."""

    def stumble(*_: object) -> None:
        raise FastPathFailed

    monkeypatch.setattr(csv_files.CsvFile, "over_pieces", stumble)


def transformed(tmp_path, content: bytes, features, function=lambda X: X, **options) -> bytes:
    (tmp_path / "t.csv").write_bytes(content)
    transform_table(
        tmp_path / "t.csv", tmp_path / "out.csv", features, function, force=True, **options
    )
    return (tmp_path / "out.csv").read_bytes()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_where_numbers_stay_every_byte_does(encoding, end, tmp_path, small_pieces):
    marked = "\ufeff" if encoding.startswith("utf-16") else ""
    for text in (GERMAN, "sep=;\r\n" + GERMAN, GERMAN.removesuffix("\r\n")):
        content = (marked + text.replace("\r\n", end)).encode(encoding)
        dialect = Dialect(decimal=",", encoding=encoding)
        assert transformed(tmp_path, content, ["x", "Größe"], dialect=dialect) == content


@pytest.mark.usefixtures("small_pieces", "careful_only")
def test_cell_by_cell_quotes_stand_where_they_are_needed(tmp_path):
    content = GERMAN.encode("utf-16")
    got = transformed(tmp_path, content, ["x", "Größe"], dialect=Dialect(decimal=","))
    assert got.decode("utf-16") == GERMAN.replace("\r\n\r\n", "\r\n").replace('"";3', ";3")
    content = b'a,"b\n""",c\n1,"x\ry","""z"\n2,"3,4",\n'
    assert transformed(tmp_path, content, ["a"]) == content


def test_numbers_are_written_in_the_dialect_and_missing_ones_as_empty_cells(tmp_path):
    content = b'id;b;a\r\n1;"1.234,5";NA\r\n2;-999;7\r\n'
    dialect = Dialect(decimal=",", thousands=".")
    got = transformed(
        tmp_path,
        content,
        ["a", "b"],
        lambda X: X * [2, 10] + 0.25,
        dialect=dialect,
        missing=(*MISSING, "-999"),
    )
    assert got == b"id;b;a\r\n1;12345,25;\r\n2;;14,25\r\n"


@pytest.mark.parametrize("delimiter", [",", "-", "+"])
def test_numbers_with_the_separator_in_them_are_quoted(delimiter, tmp_path):
    dialect = Dialect(delimiter=delimiter, decimal=",")
    content = f'a{delimiter}b\n"-1,5"{delimiter}x\n{delimiter}y\n'.encode()
    got = transformed(tmp_path, content, ["a"], lambda X: X * 1e22, dialect=dialect)
    assert got == f'a{delimiter}b\n"-1,5e+22"{delimiter}x\n{delimiter}y\n'.encode()
    values = read_table(tmp_path / "out.csv", ["a"], dialect=dialect)
    np.testing.assert_array_equal(values[:, 0], [-1.5e22, np.nan])


@pytest.mark.parametrize("careful", [False, True])
def test_missing_value_in_the_only_column_stays_a_row(careful, tmp_path, request):
    if careful:
        request.getfixturevalue("careful_only")
    assert transformed(tmp_path, b"a\n1\nNA\n3\n", ["a"]) == b'a\n1\n""\n3\n'
    np.testing.assert_array_equal(read_table(tmp_path / "out.csv")[:, 0], [1, np.nan, 3])


def test_bytes_that_are_not_utf_8_stay_in_columns_that_are_passed_on(tmp_path, request):
    content = "a,note\n1,Größe\n2,x\n".encode("cp1252")
    assert transformed(tmp_path, content, ["a"]) == content
    request.getfixturevalue("careful_only")
    assert transformed(tmp_path, content, ["a"]) == content


def test_rows_before_the_fast_path_fails_are_written_and_counted_once(tmp_path, small_pieces):
    rows = [f"{i},{i % 7},n{i}\n" for i in range(40)]
    rows[25] = "25,nA,n25\n"  # which Arrow does not know
    content = ("a,b,c\n" + "".join(rows)).encode()
    assert transformed(tmp_path, content, ["b"]) == content.replace(b"nA", b"")
    found = transform_table(
        tmp_path / "t.csv", tmp_path / "u.csv", ["b"], np.negative, bounds=(0, 5), outside="keep"
    )
    assert (found.rows, found.outside["b"].above) == (40, 5)
    with refused("SFY-TAB-001", naming="'b' (5 above 5)"):
        transform_table(tmp_path / "t.csv", tmp_path / "v.csv", ["b"], np.negative, bounds=(0, 5))


def test_rows_of_separators_that_are_spaces_are_rows(tmp_path, small_pieces):
    content = b"a\tb\n" + b"1\t2\n" * 20 + b"\t\n" * 40
    assert transformed(tmp_path, content, ["a"]) == content
    assert read_table(tmp_path / "out.csv").shape == (60, 2)


def test_columns_may_have_other_names_and_keep_them(tmp_path):
    dialect = Dialect(rename={"Alter": "age"})
    got = transformed(tmp_path, b"Alter,b\n1,x\n", ["age"], lambda X: X + 1, dialect=dialect)
    assert got == b"Alter,b\n2,x\n"


def test_a_table_without_rows_stays_one(tmp_path):
    for content in (b"a,b\n", b"a,b", b"a,b\n\n\n"):
        assert transformed(tmp_path, content, ["b"]).rstrip(b"\n") == b"a,b"


def test_packed_files_may_become_plain_ones_and_back(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a;b\n1;x\n"))
    for source, target in (("t.csv.gz", "u.csv"), ("u.csv", "v.csv.gz"), ("u.csv", "w.csv.gz")):
        transform_table(tmp_path / source, tmp_path / target, ["a"], lambda X: X + 1)
    assert (tmp_path / "u.csv").read_bytes() == b"a;b\n2;x\n"
    assert gzip.decompress((tmp_path / "v.csv.gz").read_bytes()) == b"a;b\n3;x\n"
    assert (tmp_path / "v.csv.gz").read_bytes() == (tmp_path / "w.csv.gz").read_bytes()


def test_bad_cells_are_all_listed_and_nothing_is_left(tmp_path):
    with refused("SFY-TAB-100", naming="'x' (line 3), 'y' (line 4)"):
        transformed(tmp_path, b"a\n1\nx\ny\n", ["a"])
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
@example(5e-324)
@example(1.7976931348623157e308)
@example(1e23)
def test_numbers_read_back_exactly_from_the_shortest_text(value):
    (text,) = texts_of(np.array([value]), ".").to_pylist()
    assert struct.pack("d", float(text)) == struct.pack("d", value)
    digits = [one.partition("e")[0].replace(".", "").strip("-0") for one in (text, repr(value))]
    assert digits[0] == digits[1]
    assert pa.scalar(text).cast(pa.float64()).as_py() == value


CELL = st.text(st.sampled_from('ab1 "\n\r,;\t’'), max_size=6)


@settings(deadline=None, max_examples=50)
@given(
    rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=6),
    delimiter=st.sampled_from(",;\t"),
    written=st.sampled_from(
        [("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]
    ),
)
def test_cells_are_found_where_the_csv_module_has_written_them(rows, delimiter, written):
    text, (end, quoting) = io.StringIO(newline=""), written
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    piece = text.getvalue().encode()
    starts, ends = cells_of(piece, delimiter, 3)
    found = [
        [piece[a:b].decode() for a, b in zip(*row, strict=True)]
        for row in zip(starts, ends, strict=True)
    ]
    plain = [
        [cell[1:-1].replace('""', '"') if cell[:1] == '"' else cell for cell in row]
        for row in found
    ]
    assert plain == [list(row) for row in rows]


@pytest.mark.parametrize(
    "piece", ['a"b,c"d\n', '"a"b,c\n', '""a,b\n', "a\n", "a,b,c\n", 'a, "b,c"\n', "a\nb,c,d\n"]
)
def test_what_another_reader_might_take_otherwise_is_left_to_the_careful_one(piece):
    with pytest.raises(FastPathFailed):
        cells_of(piece.encode(), ",", 2)
