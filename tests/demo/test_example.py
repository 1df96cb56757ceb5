"""The example tables."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer

from securefedyj.cli.main import main
from securefedyj.tables.files import read_table
from tests.cli.messages import one_sentence


def test_example_silos_hold_the_rows_of_the_data(tmp_path, capsys):
    assert main(["example", "--silos", "4", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(" rows\n") == 4
    tables = [read_table(path) for path in tmp_path.glob("*/patients.csv")]
    rows = np.concatenate(tables)
    expected = load_breast_cancer().data
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(expected, axis=0))
    assert main(["example", "--silos", "1", "--output", str(tmp_path)]) == 1
    assert one_sentence(capsys.readouterr().err)
