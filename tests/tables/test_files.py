"""Tables: numbers are read and written exactly, and errors name the place."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from securefedyj.tables.cells import MISSING, TableError
from securefedyj.tables.files import read_table, write_table
from securefedyj.tables.source import column_names
from tests.refusals import refused

FORMATS = ["t.csv", "t.csv.gz", "t.parquet"]
AWKWARD = np.array([[0.1, -0.0], [np.nan, 1e-308], [1e308, 5e-324], [1 / 3, np.nan]])


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


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_may_stand_for_missing_values(name, tmp_path):
    write_table(tmp_path / name, ["a"], [[1], [-999], [3]])
    values = read_table(tmp_path / name, missing=(*MISSING, "-999"))
    np.testing.assert_array_equal(values[:, 0], [1, np.nan, 3])


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("t.csv", b"", "SFY-TAB-015"),
        ("t.csv", b"a,b\n1\n", "SFY-TAB-007"),
        ("t.csv", b"a\n\xff\n", "SFY-TAB-100"),
        ("t.csv", b'a\n"1\n', "SFY-TAB-006"),
        ("t.csv.gz", b"a\n1\n", "SFY-TAB-004"),
        ("t.csv.gz", gzip.compress(b"a\n1\n" * 99, mtime=0)[:-9], "SFY-TAB-004"),
        ("t.parquet", b"a\n1\n", "SFY-TAB-036"),
        ("t.ods", b"", "SFY-TAB-034"),
    ],
)
def test_file_that_is_no_table_is_named_with_the_reason(name, content, code, tmp_path):
    (tmp_path / name).write_bytes(content)
    with refused(code, TableError, naming=name):
        read_table(tmp_path / name)


def test_infinite_values_are_an_error_that_says_where(tmp_path):
    pd.DataFrame({"a": [1.0, -np.inf]}).to_parquet(tmp_path / "t.parquet")
    with refused("SFY-TAB-100", naming=("'a'", "row 2", "-inf")):
        read_table(tmp_path / "t.parquet")
