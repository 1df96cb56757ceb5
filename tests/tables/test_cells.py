"""Cells: what is a number, what is missing, and what is refused where."""

from __future__ import annotations

import numpy as np
import pytest

from securefedyj.tables.files import TableError, read_table
from tests.tables.csv_text import csv_of


def test_missing_cells_are_known_in_any_case_and_with_spaces(tmp_path):
    path = csv_of(tmp_path, 'a\n1\n na \nNaN\nNULL\nn/a\n""\n2\n')
    np.testing.assert_array_equal(
        read_table(path)[:, 0], [1, np.nan, np.nan, np.nan, np.nan, np.nan, 2]
    )


def test_text_is_an_error_that_says_where(tmp_path):
    path = csv_of(tmp_path, 'name,a\n"two\nlines",1\nx,12 mmol\n')
    with pytest.raises(TableError, match=r"t\.csv: column 'a', line 4: '12 mmol' is not a finite"):
        read_table(path, ["a"])


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999", "1_000", "0x10", "1 000", "?"])
def test_cells_that_python_would_read_otherwise_are_refused(cell, tmp_path):
    with pytest.raises(TableError, match="is not a finite number"):
        read_table(csv_of(tmp_path, f"a\n{cell}\n"))


def test_decimal_comma_is_explained(tmp_path):
    reason = "'3,14' is not a finite number; the decimal point must be"
    with pytest.raises(TableError, match=reason):
        read_table(csv_of(tmp_path, "a;b\n3,14;2\n"))
