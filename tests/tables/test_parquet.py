"""Parquet: a format that keeps types."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from securefedyj.tables.files import TableError, read_table


def test_infinite_values_are_an_error_that_says_where(tmp_path):
    pd.DataFrame({"a": [1.0, -np.inf]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(TableError, match="column 'a', row 2: -inf is not a finite number"):
        read_table(tmp_path / "t.parquet")
