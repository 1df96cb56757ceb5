"""Findings: all that is wrong with a table is reported at once, with what may be meant."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from securefedyj.cli.check import KINDS
from securefedyj.numerics import passes
from securefedyj.tables import files
from securefedyj.tables.files import check_table, read_table
from securefedyj.tables.silo_table import summarize
from securefedyj.tables.source import ArraySource
from tests.refusals import refused
from tests.tables.csv_text import csv_of


def test_missing_columns_are_named_with_similar_ones(tmp_path):
    path = csv_of(tmp_path, "Age ,bmi,sodium\n1,2,3\n")
    with refused("SFY-TAB-027") as error:
        read_table(path, ["age", "sodum", "zzz", "bmi"])
    assert "'age': there is no such column (perhaps 'Age '?)" in str(error.value)
    assert "'sodum': there is no such column (perhaps 'sodium'?)" in str(error.value)
    assert "'zzz': there is no such column" in str(error.value)
    assert "'bmi'" not in str(error.value)


def test_duplicate_column_is_refused_only_if_it_is_used(tmp_path):
    path = csv_of(tmp_path, "a,a,b\n1,2,3\n")
    with refused("SFY-TAB-027", naming="'a'"):
        read_table(path, ["a"])
    assert read_table(path, ["b"]).tolist() == [[3]]
    with refused("SFY-TAB-026", naming="'b'"):
        read_table(path, ["b", "b"])


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_check_finds_what_would_stop_a_run(name, tmp_path):
    many = [float(k) for k in range(20)]
    columns = {
        "fine": many * 2,
        "wide": [-5.0, 300.0, 400.0, 1.0] + many[4:] * 2 + many[:4],
        "gaps": [None] * 20 + many,
        "empty": [None] * 40,
        "same": [7.0] * 39 + [None],
        "coarse": (many[:19] * 3)[:40],
        "text": ["x", *map(str, range(38)), "y"],
    }
    frame = pd.DataFrame(columns)
    if name == "t.csv":
        frame.to_csv(tmp_path / name, index=False)
    else:
        frame.to_parquet(tmp_path / name)
    checked = check_table(tmp_path / name, [*columns, "wyde"], 0, [100] * 8)
    found = checked.findings
    kinds = {(finding.feature, finding.kind): finding for finding in found}
    assert set(kinds) == {
        ("wyde", "missing column"),
        ("wide", "out of bounds"),
        ("text", "no number"),
        ("gaps", "missing values"),
        ("same", "missing values"),
        ("same", "constant"),
        ("coarse", "few distinct values"),
        ("empty", "all missing"),
    }
    assert [finding.stops for finding in found] == [True] * 3 + [False] * (len(found) - 3)
    assert kinds["wyde", "missing column"].text.endswith("(perhaps 'wide'?)")
    assert kinds["wide", "out of bounds"].count == 3
    assert "1 below and 2 above" in kinds["wide", "out of bounds"].text
    coarse = kinds["coarse", "few distinct values"]
    assert coarse.count == 19
    assert "it has only 19 distinct values here" in coarse.text
    assert (
        "Leave the column out, agree on fewer result_bits, or on more silos"
        in KINDS[coarse.kind][1]
    )
    assert kinds["gaps", "missing values"].share == 0.5
    assert json.loads(json.dumps([asdict(finding) for finding in found]))


def test_check_of_a_right_table_finds_nothing(tmp_path):
    path = csv_of(tmp_path, "a,b\n" + "".join(f"{k / 2},x\n" for k in range(20)))
    assert check_table(path, ["a"], [0], [10]).findings == []
    (finding,) = check_table(csv_of(tmp_path, "a\n"), ["a"], 0, 1).findings
    assert finding.kind == "no rows"


def test_bad_cells_of_a_folder_are_named_with_their_file(tmp_path):
    csv_of(tmp_path, "a,b\n1,2\n", "1.csv")
    csv_of(tmp_path, "a,b\n1,x\n", "2.csv")
    checked = check_table(tmp_path, ["a", "b"], 0, 10)
    assert checked.rows == 2
    assert checked.findings[0].feature == "b"
    assert "2.csv, line 2: 'x' is not a finite number" in checked.findings[0].text


def test_the_first_value_outside_is_named_by_its_line_or_its_row(tmp_path, monkeypatch):
    """Cells of several lines and empty lines are not counted as rows."""
    text = 'note,a,b\n"two\nlines",1,\n\nx,,2\nx,-1,3\nx,-2,-4\n'
    (tmp_path / "t.csv").write_text(text)

    def said(path: Path) -> list[str]:
        found = check_table(path, ["a", "b"], 0, 10).findings
        return [finding.text for finding in found if finding.kind == "out of bounds"]

    line = 1 + text[: text.index("x,-1")].count("\n")
    assert line == 6
    assert (
        "2 below and 0 above the agreed bounds 0 to 10, first in line 6; "
        in said(tmp_path / "t.csv")[0]
    )
    assert ", first in line 7; " in said(tmp_path / "t.csv")[1]
    pd.read_csv(tmp_path / "t.csv").to_parquet(tmp_path / "t.parquet")
    assert ", first in row 3; " in said(tmp_path / "t.parquet")[0]
    monkeypatch.setattr(files, "_MOST_CELLS_AGAIN", 3 * 3)
    assert ", first in line 6; " in said(tmp_path / "t.csv")[0]
    assert ", first in row 4; " in said(tmp_path / "t.csv")[1]  # too far to be read again


def test_the_first_row_outside_is_counted_over_blocks(monkeypatch):
    monkeypatch.setattr(passes, "_FEWEST_ROWS", 1)
    values = np.zeros((10, 1))
    values[[6, 8]] = 99.0
    for rows in range(1, 11):
        monkeypatch.setattr(passes, "BLOCK_VALUES", rows)
        _, (column,) = summarize(ArraySource(values), np.array([0.0]), np.array([1.0]))
        assert (column.rows, column.first_outside, column.above) == (10, 7, 2)
