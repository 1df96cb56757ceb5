"""A silo's own minimum."""

from __future__ import annotations

import numpy as np

from securefedyj.tables.silo_table import few_values, load_or_stream, missing_everywhere, without
from securefedyj.tables.source import ArraySource, as_array

nan = np.nan
TABLE = np.array([[1.0, 2.0, nan, nan], [1.0, nan, nan, 3.0], [1.0, nan, nan, 4.0]])


def few(table: np.ndarray, minimum: int) -> list[int]:
    return few_values(load_or_stream(ArraySource(table), 0).census, minimum).tolist()


def test_features_with_too_few_values_are_missing_and_the_others_as_they_were():
    assert few(TABLE, 3) == [1, 3]  # not the one that had no values anyway
    own = without(load_or_stream(ArraySource(TABLE), 0), np.array([1, 3]))
    table = as_array(own.source)
    np.testing.assert_array_equal(table[:, 0], TABLE[:, 0])
    assert np.isnan(table[:, 1:]).all()
    assert not np.isnan(TABLE[:, 1]).all()
    assert missing_everywhere(own.census).tolist() == [1, 2, 3]
    np.testing.assert_array_equal(own.census.sample, table)


def test_columns_that_count_as_missing_are_read_only_for_the_number_of_rows():
    own = without(load_or_stream(ArraySource(TABLE), 0), np.array([1, 3]))
    (block,) = own.source.blocks([3, 1])
    assert block.shape == (3, 2)
    assert np.isnan(block).all()
    (block,) = own.source.blocks([3, 0])
    np.testing.assert_array_equal(block, [[nan, 1.0]] * 3)


def test_the_minimum_itself_is_enough():
    assert few(TABLE, 2) == [1]
    for minimum in (0, 1):
        assert few(TABLE, minimum) == []


def test_table_without_rows_has_no_values_of_anything():
    census = load_or_stream(ArraySource(np.empty((0, 2))), 0).census
    assert missing_everywhere(census).tolist() == [0, 1]
    assert few_values(census, 5).tolist() == []
