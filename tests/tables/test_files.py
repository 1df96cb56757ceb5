"""Tables: numbers go in and out exactly, and what is wrong is said where it is."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from securefedyj.tables import files as tables
from securefedyj.tables.files import (
    TableError,
    check_table,
    column_names,
    read_table,
    transform_table,
    write_table,
)

FORMATS = ["t.csv", "t.csv.gz", "t.parquet"]
AWKWARD = np.array([[0.1, -0.0], [np.nan, 1e-308], [1e308, 5e-324], [1 / 3, np.nan]])


def csv_of(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_read_back_exactly(name, tmp_path):
    write_table(tmp_path / name, ["a", 'b,"ü'], AWKWARD)
    assert column_names(tmp_path / name) == ["a", 'b,"ü']
    assert read_table(tmp_path / name).tobytes() == AWKWARD.tobytes()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", FORMATS)
def test_columns_come_in_the_order_asked_for(name, tmp_path):
    write_table(tmp_path / name, ["a", "b", "c"], [[1, 2, 3]])
    assert read_table(tmp_path / name, ["c", "a"]).tolist() == [[3, 1]]


def test_reads_what_pandas_writes(tmp_path):
    frame = pd.DataFrame({"a": [1.5, None, 3.0], "b": [1, 2, 3], "c": [True, False, True]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name, columns in (("t.csv", ["a", "b"]), ("t.parquet", ["a", "b", "c"])):
        got = read_table(tmp_path / name, columns)
        np.testing.assert_array_equal(got, frame[columns].to_numpy(dtype=float))


def test_missing_cells_are_known_in_any_case_and_with_spaces(tmp_path):
    path = csv_of(tmp_path, 'a\n1\n na \nNaN\nNULL\nn/a\n""\n2\n')
    np.testing.assert_array_equal(
        read_table(path)[:, 0], [1, np.nan, np.nan, np.nan, np.nan, np.nan, 2]
    )


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_may_stand_for_missing_values(name, tmp_path):
    write_table(tmp_path / name, ["a"], [[1], [-999], [3]])
    values = read_table(tmp_path / name, missing=(*tables.MISSING, "-999"))
    np.testing.assert_array_equal(values[:, 0], [1, np.nan, 3])
    out = tmp_path / f"out_{name}"
    missing = ("-999",)
    transform_table(tmp_path / name, out, ["a"], lambda X: 2 * X, missing)
    assert read_table(out)[:, 0].tolist() == [2, -999, 6]


def test_other_separators_and_a_byte_order_mark_are_read(tmp_path):
    for delimiter in ",;\t":
        text = f'\ufeffa{delimiter}"b, c; d"\r\n1{delimiter}2\r\n\r\n3{delimiter}4\r\n'
        path = csv_of(tmp_path, text)
        assert column_names(path) == ["a", "b, c; d"]
        assert read_table(path).tolist() == [[1, 2], [3, 4]]


def test_text_is_an_error_that_says_where(tmp_path):
    path = csv_of(tmp_path, 'name,a\n"two\nlines",1\nx,12 mmol\n')
    with pytest.raises(TableError, match=r"t\.csv: column 'a', line 4: '12 mmol' is no finite"):
        read_table(path, ["a"])


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999", "1_000", "0x10", "1 000", "?"])
def test_cells_that_python_would_read_otherwise_are_refused(cell, tmp_path):
    with pytest.raises(TableError, match="is no finite number"):
        read_table(csv_of(tmp_path, f"a\n{cell}\n"))


def test_decimal_comma_is_explained(tmp_path):
    with pytest.raises(TableError, match="'3,14' is no finite number; the decimal point must be"):
        read_table(csv_of(tmp_path, "a;b\n3,14;2\n"))


def test_missing_columns_are_named_with_similar_ones(tmp_path):
    path = csv_of(tmp_path, "Age ,bmi,sodium\n1,2,3\n")
    with pytest.raises(TableError) as error:
        read_table(path, ["age", "sodum", "zzz", "bmi"])
    assert "'age': there is no such column (perhaps 'Age '?)" in str(error.value)
    assert "'sodum': there is no such column (perhaps 'sodium'?)" in str(error.value)
    assert "'zzz': there is no such column" in str(error.value)
    assert "'bmi'" not in str(error.value)


def test_column_that_is_there_twice_is_refused_only_if_it_is_asked_for(tmp_path):
    path = csv_of(tmp_path, "a,a,b\n1,2,3\n")
    with pytest.raises(TableError, match="2 columns have this name"):
        read_table(path, ["a"])
    assert read_table(path, ["b"]).tolist() == [[3]]
    with pytest.raises(TableError, match="more than once"):
        read_table(path, ["b", "b"])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.csv", b"", "the first line must name the columns"),
        ("t.csv", b"a,b\n1\n", "line 2 has 1 cells, the header has 2"),
        ("t.csv", b"a\n\xff\n", "not UTF-8"),
        ("t.csv", b'a\n"1\n', "no CSV"),
        ("t.csv.gz", b"a\n1\n", "damaged"),
        ("t.csv.gz", gzip.compress(b"a\n1\n" * 99, mtime=0)[:-9], "damaged"),
        ("t.parquet", b"a\n1\n", "no Parquet file"),
        ("t.xlsx", b"", "must end in .csv"),
    ],
)
def test_file_that_is_no_table_is_named_with_the_reason(name, content, reason, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=reason) as error:
        read_table(tmp_path / name)
    assert name in str(error.value)


def test_parquet_without_pyarrow_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TableError, match=r'pip install "securefedyj\[tables\]"'):
        read_table(tmp_path / "t.parquet")
    write_table(tmp_path / "t.csv", ["a"], [[1]])
    assert read_table(tmp_path / "t.csv").tolist() == [[1]]


def test_other_columns_and_missing_cells_pass_through_unchanged(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK", 2)
    text = 'id;x;note;x\n007;1;"a; ""b""";1e0\n008;NA;;x\n009;3;é;\n'
    path, out = csv_of(tmp_path, "y;" + text.replace("\n0", "\n2;0")), tmp_path / "out.csv.gz"
    done = transform_table(path, out, ["y"], lambda X: X + 0.5)
    assert done == (3, 1, 4)
    expected = "y;" + text.replace("\n0", "\n2.5;0")
    assert gzip.decompress(out.read_bytes()).decode() == expected


def test_parquet_keeps_the_types_of_other_columns(tmp_path):
    frame = pd.DataFrame({"id": [7, 8], "when": pd.to_datetime(["2020", "2021"]), "x": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    transform_table(tmp_path / "t.parquet", tmp_path / "t.parquet", ["x"], lambda X: X / 2)
    again = pd.read_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(again, frame.assign(x=[0.5, 1.0]))


def test_error_in_the_middle_leaves_no_file(tmp_path):
    path = csv_of(tmp_path, "a\n1\nx\n")
    with pytest.raises(TableError, match="line 3"):
        transform_table(path, tmp_path / "out.csv", ["a"], lambda X: X)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(TableError, match="must have the format"):
        transform_table(path, tmp_path / "out.parquet", ["a"], lambda X: X)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_check_finds_what_would_stop_a_run(name, tmp_path):
    columns = {
        "fine": [1.0, 2.0, 3.0, 4.0],
        "wide": [-5.0, 2.0, 300.0, 400.0],
        "gaps": [1.0, None, None, 2.0],
        "empty": [None] * 4,
        "same": [7.0, 7.0, 7.0, None],
        "text": ["1", "x", "2", "y"],
    }
    frame = pd.DataFrame(columns)
    if name == "t.csv":
        frame.to_csv(tmp_path / name, index=False)
    else:
        frame.to_parquet(tmp_path / name)
    found = check_table(tmp_path / name, [*columns, "wyde"], 0, [100] * 7)
    kinds = {(finding.feature, finding.kind): finding for finding in found}
    assert set(kinds) == {
        ("wyde", "missing column"),
        ("wide", "out of bounds"),
        ("text", "no number"),
        ("gaps", "missing values"),
        ("same", "missing values"),
        ("same", "constant"),
        ("empty", "all missing"),
    }
    assert [finding.stops for finding in found] == [True] * 3 + [False] * 4
    assert kinds["wyde", "missing column"].text.endswith("(perhaps 'wide'?)")
    assert kinds["wide", "out of bounds"].count == 3
    assert "1 below and 2 above" in kinds["wide", "out of bounds"].text
    assert kinds["gaps", "missing values"].share == 0.5
    assert json.loads(json.dumps([finding.to_json() for finding in found]))


def test_check_of_a_right_table_finds_nothing(tmp_path):
    path = csv_of(tmp_path, "a,b\n1,x\n2,y\n")
    assert check_table(path, ["a"], [0], [10]) == []
    (finding,) = check_table(csv_of(tmp_path, "a\n"), ["a"], 0, 1)
    assert finding.kind == "no rows"
