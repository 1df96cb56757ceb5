"""Formats other than CSV and Parquet: the same rows give the same bits, the same cells errors."""

from __future__ import annotations

import bz2
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest
from pyarrow import csv, feather

from securefedyj.tables.cells import MISSING
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import check_table, described, draft, read_table, write_table
from securefedyj.tables.formats import FORMATS
from securefedyj.tables.source import column_names
from securefedyj.tables.transforming import transform_table
from tests.refusals import refused

NAMES = ["age", "Größe (m)"]
X = np.array([[0.1, 1 / 3], [np.nan, 1e-308], [1e300, -2.5], [12345678901234500, np.nan]])


def workbook(path: Path, *rows: Any, change: Callable[[Any], None] = lambda sheet: None) -> Path:
    book = openpyxl.Workbook()
    book.active.title = "Labor"
    for row in rows:
        book.active.append(row)
    change(book.active)
    book.save(path)
    return path


def write(path: Path) -> Path:
    frame = pd.DataFrame(X, columns=NAMES)
    match path.suffix:
        case ".xlsx" | ".xlsm":
            cells = [[None if x != x else x for x in row] for row in X.tolist()]
            workbook(path, NAMES, *cells)
        case ".feather" | ".arrow":
            feather.write_feather(frame, path)
        case ".dta":
            pyreadstat.write_dta(frame.set_axis(["age", "height"], axis=1), path)
        case ".sav" | ".zsav":
            pyreadstat.write_sav(frame.set_axis(["age", "height"], axis=1), path)
        case ".tsv" | ".txt":
            table = pa.table([pa.array(column, from_pandas=True) for column in X.T], NAMES)
            csv.write_csv(table, path, csv.WriteOptions(delimiter="\t"))
        case _:
            write_table(path, NAMES, X)
    return path


EXACT = [ending for ending in FORMATS if ending not in (".sas7bdat", ".xpt", ".por")]


@pytest.mark.parametrize("ending", EXACT)
def test_all_formats_give_the_same_bits_and_copies_of_them(ending, tmp_path):
    path = write(tmp_path / f"t{ending}")
    assert read_table(path).tobytes() == X.tobytes()
    names = column_names(path)
    assert read_table(path, names[::-1]).tobytes() == X[:, ::-1].tobytes()
    masked = read_table(path, names, (*MISSING, "0.1"))
    assert np.isnan(masked[0, 0])
    copy = tmp_path / f"copy{FORMATS[ending].copies}"
    done = transform_table(path, copy, names[:1], lambda x: -x)
    assert (done.rows, done.passed_through) == (4, 1)
    assert column_names(copy) == names
    assert read_table(copy).tobytes() == (X * [-1, 1]).tobytes()
    assert described(path) != ""
    assert [one.name for one in draft(path).features] == names[1:]  # age is too large


@pytest.mark.parametrize("ending", [".xpt", ".por"])
def test_older_formats_of_sas_and_spss_are_read(ending, tmp_path):
    frame, path = pd.DataFrame({"AGE": [1.5, None], "SEX": ["f", "m"]}), tmp_path / f"t{ending}"
    (pyreadstat.write_xport if ending == ".xpt" else pyreadstat.write_por)(frame, path)
    np.testing.assert_array_equal(read_table(path, ["AGE"])[:, 0], [1.5, np.nan])
    with refused("SFY-TAB-100", naming=("SEX", str(path))):
        read_table(path)


def test_large_files_of_stata_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("securefedyj.tables.statistics._ROWS_AT_ONCE", 2)
    path = write(tmp_path / "t.dta")
    assert read_table(path).tobytes() == X.tobytes()


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
def test_compressed_text_may_be_damaged_or_of_several_parts(ending, tmp_path):
    one, other = tmp_path / f"one.csv{ending}", tmp_path / f"other.csv{ending}"
    write_table(one, ["a"], np.ones((5000, 1)))
    written = one.read_bytes()
    write_table(one, ["a"], np.ones((5000, 1)))
    assert one.read_bytes() == written
    other.write_bytes(written[:-9])
    with refused("SFY-TAB-004", naming=str(other)):
        read_table(other)
    other.write_bytes(b"a\n1\n")
    with refused("SFY-TAB-004", naming=str(other)):
        read_table(other)
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / f"none.csv{ending}")
    if ending == ".bz2":  # as parallel compressors write them
        one.write_bytes(bz2.compress(b"a\n1\n") + bz2.compress(b"2\n"))
        assert read_table(one).tolist() == [[1], [2]]


@pytest.mark.parametrize("kind", [".parquet", ".feather", ".xlsx"])
def test_a_wrong_ending_is_seen_through_by_the_first_bytes(kind, tmp_path):
    other = ".parquet" if FORMATS[kind].copies == ".csv" else ".csv"
    for wrong in ("t.csv", "t.dat", "t.parquet"):
        path = write(tmp_path / f"t{kind}").rename(tmp_path / wrong)
        assert read_table(path).tobytes() == X.tobytes()
        with refused("SFY-TAB-041", naming=FORMATS[kind].copies):
            transform_table(path, tmp_path / f"copy{other}", ["age"], np.negative)


def test_other_files_are_refused_with_what_to_do(tmp_path):
    for name, content, code in (
        ("t.rds", b"RDX3", "SFY-TAB-034"),
        ("t.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "SFY-TAB-016"),
        ("t.xlsx", b"a,b\n", "SFY-TAB-047"),
        ("t.csv", b"PK\x03\x04 an archive", "SFY-TAB-047"),
        ("t.feather", b"a,b\n", "SFY-TAB-044"),
        ("t.dta", b"a,b\n", "SFY-TAB-052"),
        ("t.csv.gz", b"PAR1", "SFY-TAB-036"),
        ("t.csv", b"\x1f\x8b cut", "SFY-TAB-004"),
    ):
        (tmp_path / name).write_bytes(content)
        with refused(code, naming=name):
            read_table(tmp_path / name)
    for url in ("https://example.org/t.csv", "s3://bucket/t.parquet"):
        with refused("SFY-TAB-050"):
            read_table(url)
    with pytest.raises(FileNotFoundError):
        read_table("C:/t.csv")


def test_a_note_in_a_folder_of_tables_is_not_one(tmp_path):
    write(tmp_path / "a.csv")
    (tmp_path / "README.txt").write_text("Read me.")
    assert read_table(tmp_path).tobytes() == X.tobytes()


def test_a_folder_of_workbooks_becomes_one_of_csv(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a.xlsx", "a.xlsm"):
        write(tmp_path / "in" / name)
    transform_table(tmp_path / "in", tmp_path / "out", ["age"], np.negative)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "a.xlsm.csv",
        "a.xlsx.csv",
    ]
    assert read_table(tmp_path / "out").tobytes() == (np.vstack([X, X]) * [-1, 1]).tobytes()


def test_cells_of_excel_are_judged_as_those_of_csv(tmp_path):
    rows = [
        ["id", "value\n(mmol/l)", "as text", "when"],
        ["A\n1", 1.5, "2,5", datetime(2024, 1, 3)],
        [],
        ["A2", -999, " 3 ", date(2024, 1, 3)],
        ["A3", None, "NA", time(3, 4)],
    ]
    path, dialect = workbook(tmp_path / "t.xlsx", *rows), Dialect(decimal=",")
    names, missing = ["value\n(mmol/l)", "as text"], (*MISSING, "-999")
    values = read_table(path, names, missing, dialect)
    np.testing.assert_array_equal(values, [[1.5, 2.5], [np.nan, 3], [np.nan, np.nan]])
    with refused("SFY-TAB-100", naming=("sheet 'Labor'", "'as text'", "row 2", "--decimal ,")):
        read_table(path, names)
    with refused("SFY-TAB-100", naming=("'when'", "row 2", "2024-01-03")):
        read_table(path, ["when"])
    found = check_table(path, names[:1], 0, 10).findings
    assert "first in row 4" in found[0].text
    transform_table(path, tmp_path / "t.csv", names, np.negative, missing, dialect)
    assert (tmp_path / "t.csv").read_text() == (
        'id;"value\n(mmol/l)";as text;when\n"A\n1";-1,5;-2,5;2024-01-03\n'
        "A2;;-3;2024-01-03\nA3;;;03:04:00\n"
    )


@pytest.mark.parametrize("cell", ["=1+1", "#DIV/0!", "<0.5", True])
def test_cells_of_excel_without_a_number_are_refused(cell, tmp_path):
    path = workbook(tmp_path / "t.xlsx", ["a", "b"], [1, 2], [cell, 3])
    with refused("SFY-TAB-100", naming=("'a'", "row 3", str(cell).upper())):
        read_table(path)
    assert read_table(path, ["b"]).tolist() == [[2], [3]]


def test_sheets_are_chosen_and_merged_or_stray_cells_refused(tmp_path):
    path = tmp_path / "t.xlsx"

    def second(sheet):
        sheet.parent.create_sheet("Alt").append(["a"])

    workbook(path, ["a"], [1], change=second)
    with refused("SFY-TAB-048", naming=("'Labor'", "'Alt'", "--sheet")):
        read_table(path)
    with refused("SFY-TAB-048", naming=("'Neu'", "'Labor'")):
        read_table(path, dialect=Dialect(sheet="Neu"))
    assert read_table(path, dialect=Dialect(sheet="Labor")).tolist() == [[1]]
    workbook(path, ["a", None], [1, 2], change=lambda sheet: sheet.merge_cells("A1:B1"))
    with refused("SFY-TAB-046", naming=("'Labor'", "A1:B1")):
        read_table(path)
    workbook(path, ["Patients of 2024"], [], ["a", "b"], [1, 2])
    with refused("SFY-TAB-049", naming=("'Labor'", "row 3", "row 1")):
        read_table(path)


@pytest.mark.parametrize(("module", "name", "code"), [
    ("openpyxl", "t.xlsx", "SFY-TAB-045"), ("pyreadstat", "t.sav", "SFY-TAB-051"),
])  # fmt: skip
def test_without_its_extra_a_format_is_refused_with_the_remedy(
    module, name, code, tmp_path, monkeypatch
):
    path = write(tmp_path / name)
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with refused(code, naming="pip install"):
        read_table(path)
