"""Parquet: a format that keeps types."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from securefedyj.tables.files import TableError, read_table, transform_table


def test_parquet_keeps_the_types_of_other_columns(tmp_path):
    frame = pd.DataFrame({"id": [7, 8], "when": pd.to_datetime(["2020", "2021"]), "x": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    transform_table(tmp_path / "t.parquet", tmp_path / "t.parquet", ["x"], lambda X: X / 2)
    again = pd.read_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(again, frame.assign(x=[0.5, 1.0]))


def test_infinite_values_are_an_error_that_says_where(tmp_path):
    pd.DataFrame({"a": [1.0, -np.inf]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(TableError, match="column 'a', row 2: -inf is not a finite number"):
        read_table(tmp_path / "t.parquet")
