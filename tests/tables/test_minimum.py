"""A silo's own minimum."""

from __future__ import annotations

import numpy as np

from securefedyj.tables.minimum import missing_everywhere, without_few

nan = np.nan
TABLE = np.array([[1.0, 2.0, nan, nan], [1.0, nan, nan, 3.0], [1.0, nan, nan, 4.0]])


def test_features_with_too_few_values_are_missing_and_the_others_as_they_were():
    table, few = without_few(TABLE, 3)
    assert few.tolist() == [1, 3]  # not the one that had no values anyway
    np.testing.assert_array_equal(table[:, 0], TABLE[:, 0])
    assert np.isnan(table[:, 1:]).all()
    assert not np.isnan(TABLE[:, 1]).all()
    assert missing_everywhere(table).tolist() == [1, 2, 3]


def test_as_many_as_the_minimum_are_enough():
    table, few = without_few(TABLE, 2)
    assert few.tolist() == [1]
    np.testing.assert_array_equal(table[:, 3], TABLE[:, 3])
    for minimum in (0, 1):
        assert without_few(TABLE, minimum)[1].tolist() == []


def test_table_without_rows_has_no_values_of_anything():
    assert missing_everywhere(np.empty((0, 2))).tolist() == [0, 1]
    assert without_few(np.empty((0, 2)), 5)[1].tolist() == []
