"""docs/tables.md: its example is read as the page says."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.cli.options import add_reading, reading_of
from securefedyj.tables.cells import MISSING, Cells
from securefedyj.tables.files import read_table
from securefedyj.tables.source import column_names

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")


def options(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_reading(parser)
    return parser.parse_args(shlex.split(text))


def test_the_german_table_is_read_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = re.findall(r"^```\w+ (\S+)(?: (\S+))?\n(.*?)^```", PAGE, flags=re.M | re.S)
    assert [name for name, _, _ in files] == ["german.csv", "names.toml"]
    for name, encoding, content in files:
        Path(name).write_text(content, encoding=encoding or "utf-8")
    (command,) = re.findall(r"^    (--decimal .*)$", PAGE, flags=re.M)
    given = options(command)
    (shown,) = re.findall(r"^\| (age .*) \|\n\|[-|]*\n((?:\|.*\n)*)", PAGE, flags=re.M)
    names, rows = shown[0].split(" | "), shown[1].replace("missing", "nan").splitlines()
    expected = [[float(cell) for cell in row.strip("| ").split(" | ")] for row in rows]
    missing, dialect = reading_of(given)
    assert column_names("german.csv", dialect) == names
    values = read_table("german.csv", names, missing, dialect)
    np.testing.assert_array_equal(values, expected)


def test_the_options_of_the_page_are_there():
    for option in re.findall(r"^\| `(--.*?)` \|", PAGE, flags=re.M):
        if not option.startswith("--columns"):
            reading_of(options(option.replace("\\|", "|")))


def test_cells_are_taken_and_refused_as_the_page_says():
    (taken, refused) = re.findall(r"rounded: (.*?) with.*?Not: (.*?)\.\n", PAGE, flags=re.S)[0]
    cells = Cells(MISSING)
    assert all(cells.read(cell) is not None for cell in re.findall("`(.*?)`", taken))
    assert all(cells.read(cell) is None for cell in re.findall("`(.*?)`", refused))


def test_columns_are_chosen_in_python_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"P{k};{60 + k};{k},5\n" for k in range(9))
    Path("patients.csv").write_text(f"pid;age;lactate\n{rows}P9;?;\n")
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)
    found: dict[str, Any] = {}
    exec(code, found)
    assert found["yj"].feature_names_in_.tolist() == ["age", "lactate"]
    assert found["yj"].n_samples_seen_.tolist() == [9, 9]
