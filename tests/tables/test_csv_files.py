"""CSV: separators, quotes and byte order marks."""

from __future__ import annotations

from securefedyj.tables.files import column_names, read_table
from tests.tables.csv_text import csv_of


def test_other_separators_and_a_byte_order_mark_are_read(tmp_path):
    for delimiter in ",;\t":
        text = f'\ufeffa{delimiter}"b, c; d"\r\n1{delimiter}2\r\n\r\n3{delimiter}4\r\n'
        path = csv_of(tmp_path, text)
        assert column_names(path) == ["a", "b, c; d"]
        assert read_table(path).tolist() == [[1, 2], [3, 4]]
