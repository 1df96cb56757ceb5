"""Parquet: a format that keeps types."""

from __future__ import annotations

import numpy as np
import pandas as pd

from securefedyj.tables.files import read_table
from tests.refusals import refused


def test_infinite_values_are_an_error_that_says_where(tmp_path):
    pd.DataFrame({"a": [1.0, -np.inf]}).to_parquet(tmp_path / "t.parquet")
    with refused("SFY-TAB-100", naming=("'a'", "row 2", "-inf")):
        read_table(tmp_path / "t.parquet")
