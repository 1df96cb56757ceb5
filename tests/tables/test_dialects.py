"""Files as they come: each is read as a person would read it, or refused with what to do."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from securefedyj.errors import InputError
from securefedyj.tables.cells import TableError
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import check_table, described, read_table
from securefedyj.tables.source import column_names
from tests.refusals import refused

GERMAN = "Alter;Größe, cm;Laktat\r\n63;170,5;1,2\r\n;1650,25;10,286\r\n"
VALUES = [[63, 170.5, 1.2], [np.nan, 1650.25, 10.286]]


def table(folder: Path, content: bytes | str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def said(
    code: str, path: Path, dialect: Dialect | None = None, features: list[str] | None = None
) -> str:
    """The message of the error with this code."""
    with refused(code, TableError) as error:
        read_table(path, features, dialect=dialect)
    return str(error.value)


@pytest.mark.parametrize(
    ("encoding", "first", "told"),
    [
        ("utf-8", "", "UTF-8"),
        ("utf-8-sig", "", "UTF-8"),
        ("utf-8-sig", "sep=;\r\n", "UTF-8"),
        ("utf-16", "", "UTF-16"),
        ("utf-16", "sep=;\r\n", "UTF-16"),
        ("utf-32", "", "utf-32"),
    ],
)
def test_german_excel_is_read_with_a_decimal_comma(encoding, first, told, tmp_path):
    path = table(tmp_path, (first + GERMAN).encode(encoding))
    dialect = Dialect(decimal=",")
    np.testing.assert_array_equal(read_table(path, dialect=dialect), VALUES)
    assert column_names(path) == ["Alter", "Größe, cm", "Laktat"]
    assert described(path, dialect) == f"separated by semicolons, {told}, decimal comma"


def test_the_error_for_german_excel_names_the_options(tmp_path):
    words = said("SFY-TAB-100", table(tmp_path, GERMAN))
    assert "column 'Größe, cm', 2 cells are not finite numbers: '170,5' (line 2), " in words
    assert "'170,5' would be 170.5 with --decimal , (also in Laktat)." in words
    assert words.count("--decimal") == 1


def test_windows_1252_is_a_guess_that_the_error_names(tmp_path):
    path = table(tmp_path, GERMAN.encode("cp1252"))
    words = said("SFY-TAB-014", path, Dialect(decimal=","))
    assert "'Größe, cm'" in words
    assert "--encoding windows-1252" in words
    dialect = Dialect(decimal=",", encoding="windows-1252")
    np.testing.assert_array_equal(read_table(path, dialect=dialect), VALUES)
    assert described(path, dialect).startswith("separated by semicolons, Windows-1252")


def test_bytes_that_are_not_utf_8_matter_in_columns_that_are_read(tmp_path):
    content = "a,note\n1,Größe\n2,x\n"
    path = table(tmp_path, content.encode("cp1252"))
    assert read_table(path, ["a"])[:, 0].tolist() == [1, 2]
    path = table(tmp_path, "a\n5 µg\n".encode("cp1252"))
    words = said("SFY-TAB-100", path)
    assert "'5 µg'" in words
    assert "--encoding windows-1252" in words


def test_byte_order_mark_counts_more_than_an_option(tmp_path):
    path = table(tmp_path, GERMAN.encode("utf-16"))
    dialect = Dialect(decimal=",", encoding="windows-1252")
    np.testing.assert_array_equal(read_table(path, dialect=dialect), VALUES)


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf_16_without_a_mark_is_named(order, tmp_path):
    path = table(tmp_path, GERMAN.encode(f"utf-16-{order}"))
    assert f"--encoding utf-16-{order}" in said("SFY-TAB-017", path)
    dialect = Dialect(decimal=",", encoding=f"utf-16-{order}")
    np.testing.assert_array_equal(read_table(path, dialect=dialect), VALUES)


def test_text_that_breaks_off_is_not_of_its_encoding(tmp_path):
    path = table(tmp_path, GERMAN.encode("utf-16")[:-1])
    assert said("SFY-TAB-003", path, Dialect(decimal=","))
    path = table(tmp_path, b"a,b\n1,\x81\n")
    assert said("SFY-TAB-003", path, Dialect(encoding="cp1252"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_separators_line_ends_and_trailing_blank_lines_are_detected(sign, end, tmp_path):
    rows = [f"x{sign}y", f"1{sign}2", "", f'"3"{sign}', f"5{sign}6", "", ""]
    path = table(tmp_path, end.join(rows))
    np.testing.assert_array_equal(read_table(path), [[1, 2], [3, np.nan], [5, 6]])


def test_other_separators_and_a_byte_order_mark_are_read(tmp_path):
    for delimiter in ",;\t":
        text = f'\ufeffa{delimiter}"b, c; d"\r\n1{delimiter}2\r\n\r\n3{delimiter}4\r\n'
        path = table(tmp_path, text)
        assert column_names(path) == ["a", "b, c; d"]
        assert read_table(path).tolist() == [[1, 2], [3, 4]]


def test_another_separator_is_given(tmp_path):
    path = table(tmp_path, "x|y\n1|2\n")
    assert "--delimiter" in said("SFY-TAB-027", path, features=["x"])
    assert read_table(path, dialect=Dialect(delimiter="|")).tolist() == [[1, 2]]
    path = table(tmp_path, "x¦y\n1¦2\n")
    assert read_table(path, dialect=Dialect(delimiter="¦")).tolist() == [[1, 2]]
    path = table(tmp_path, "x\ty\n1\t2\n")
    assert read_table(path, dialect=Dialect(delimiter="tab")).tolist() == [[1, 2]]


def test_one_column_with_decimal_commas_is_not_two(tmp_path):
    path = table(tmp_path, "x\n1,5\n2,5\n")
    words = said("SFY-TAB-007", path)
    assert "line 2 has 2 cells, the header has 1" in words
    assert "--decimal ," in words
    assert read_table(path, dialect=Dialect(decimal=","))[:, 0].tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("thousands", "decimal", "cells"),
    [
        (",", ".", ['"1,234.5"', '"10,286"', "-7", '"-1,234,567"']),
        (".", ",", ["1.234,5", "10.286", "-7", "-1.234.567"]),
        (" ", ",", ["1 234,5", "10\u00a0286", "-7", "-1\u202f234\u202f567"]),
        ("'", ".", ["1'234.5", "10'286", "-7", "-1'234'567"]),
    ],
)
def test_grouped_digits_are_read_with_the_option(thousands, decimal, cells, tmp_path):
    path = table(tmp_path, "a;b\n" + "".join(f"{cell};NA\n" for cell in cells))
    dialect = Dialect(thousands=thousands, decimal=decimal)
    assert read_table(path, ["a"], dialect=dialect)[:, 0].tolist() == [1234.5, 10286, -7, -1234567]
    path = table(tmp_path, f"a;b\n12{thousands}34;1\n")
    assert said("SFY-TAB-100", path, dialect)


def test_duplicate_headers_matter_where_the_column_is_wanted(tmp_path):
    path = table(tmp_path, "a,b,a\n1,2,3\n")
    assert read_table(path, ["b"]).tolist() == [[2]]
    assert "'a'" in said("SFY-TAB-027", path, features=["a", "b"])


def test_archives_are_not_tables(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x", "y")
    assert said("SFY-TAB-047", table(tmp_path, packed.getvalue()))


def test_compressed_files_come_in_dialects_too(tmp_path):
    path = table(tmp_path, gzip.compress(GERMAN.encode("utf-16")), "t.csv.gz")
    np.testing.assert_array_equal(read_table(path, dialect=Dialect(decimal=",")), VALUES)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_columns_with_other_names_are_found(name, tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"Alter": [1.0, 2.0], "bmi": [3.0, 40.0]})
    path = tmp_path / name
    frame.to_csv(path, index=False) if name == "t.csv" else frame.to_parquet(path)
    dialect = Dialect(rename={"Alter": "age"})
    assert column_names(path, dialect) == ["age", "bmi"]
    assert read_table(path, ["bmi", "age"], dialect=dialect).tolist() == [[3, 1], [40, 2]]
    checked = check_table(path, ["age", "bmi"], 0, 10, dialect=dialect)
    assert [found.feature for found in checked.findings if found.stops] == ["bmi"]
    assert checked.columns["age"].greatest == 2
    words = said("SFY-TAB-027", path, Dialect(rename={"Altr": "age"}), ["age"])
    assert "'Altr': there is no such column (perhaps 'Alter'?)" in words


def test_bad_cells_of_a_renamed_column_have_its_agreed_name(tmp_path):
    path = table(tmp_path, "Alter,b\nx,1\n")
    checked = check_table(path, ["age", "b"], 0, 10, dialect=Dialect(rename={"Alter": "age"}))
    assert [(found.kind, found.feature) for found in checked.findings if found.stops] == [
        ("no number", "age")
    ]


@pytest.mark.parametrize(
    ("wrong", "code", "named"),
    [
        ({"delimiter": "::"}, "SFY-TAB-019", "'::'"),
        ({"delimiter": '"'}, "SFY-TAB-019", "'\"'"),
        ({"decimal": ";"}, "SFY-TAB-020", "';'"),
        ({"thousands": "."}, "SFY-TAB-021", "'.'"),
        ({"thousands": "_"}, "SFY-TAB-021", "'_'"),
        ({"encoding": "windows"}, "SFY-TAB-023", "'windows'"),
        ({"encoding": "rot13"}, "SFY-TAB-023", "'rot13'"),
        ({"rename": {"a": "c", "b": "c"}}, "SFY-TAB-022", "'c'"),
    ],
)
def test_dialects_that_cannot_be_are_refused(wrong, code, named):
    with refused(code, InputError, naming=named):
        Dialect(**wrong)
