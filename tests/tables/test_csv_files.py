"""CSV: separators, quotes, and columns that are passed on as they are."""

from __future__ import annotations

import gzip

from securefedyj.tables import csv_files
from securefedyj.tables.files import column_names, read_table
from securefedyj.tables.transforming import transform_table
from tests.tables.csv_text import csv_of


def test_other_separators_and_a_byte_order_mark_are_read(tmp_path):
    for delimiter in ",;\t":
        text = f'\ufeffa{delimiter}"b, c; d"\r\n1{delimiter}2\r\n\r\n3{delimiter}4\r\n'
        path = csv_of(tmp_path, text)
        assert column_names(path) == ["a", "b, c; d"]
        assert read_table(path).tolist() == [[1, 2], [3, 4]]


def test_other_columns_and_missing_cells_pass_through_unchanged(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_ROWS", 2)
    text = 'id;x;note;x\n007;1;"a; ""b""";1e0\n008;NA;;x\n009;3;é;\n'
    path, out = csv_of(tmp_path, "y;" + text.replace("\n0", "\n2;0")), tmp_path / "out.csv.gz"
    done = transform_table(path, out, ["y"], lambda X: X + 0.5)
    assert done == (3, 1, 4)
    expected = "y;" + text.replace("\n0", "\n2.5;0")
    assert gzip.decompress(out.read_bytes()).decode() == expected
