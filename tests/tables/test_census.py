"""One pass over a table: how much there is of it, a sample, and the rows if they fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefedyj.tables import silo_table
from securefedyj.tables.silo_table import Census, load_or_stream
from securefedyj.tables.source import ArraySource, HeldSource, as_array

X = np.random.default_rng(0).normal(size=(100, 2))
X[::3, 1] = np.nan


def test_rows_that_fit_are_held_and_others_are_left_where_they_are():
    source = ArraySource(X)
    held = load_or_stream(source, X.nbytes)
    assert isinstance(held.source, HeldSource)
    np.testing.assert_array_equal(as_array(held.source), X)
    left = load_or_stream(source, X.nbytes - 1)
    assert left.source is source
    for own in (held, left):
        assert own.census.rows == 100
        assert own.census.count.tolist() == [100, 66]
        np.testing.assert_array_equal(own.census.sample, X)


class Unknown:
    """A source that does not know how many rows it has."""

    names, rows = ("a", "b"), None

    def blocks(self, columns):
        yield X[:, list(columns)]


def test_rows_that_turn_out_not_to_fit_are_let_go():
    source = Unknown()
    assert load_or_stream(source, X.nbytes - 1).source is source
    assert isinstance(load_or_stream(source, X.nbytes).source, HeldSource)


@given(cuts=st.lists(st.integers(0, 100), max_size=5))
def test_sample_of_many_rows_is_spread_over_all_of_them(cuts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(silo_table, "_SAMPLE_ROWS", 20)
        patch.setattr(silo_table, "_SAMPLE_VALUES", 1)
        numbered = np.arange(200.0).reshape(100, 2)
        total = Census.of(numbered[:0])
        for part in np.split(numbered, sorted(cuts)):
            total += Census.of(part)
    assert total.rows == 100
    sample = total.sample
    assert 10 <= len(sample) <= 20
    assert set(map(tuple, sample)) <= set(map(tuple, numbered))
    assert np.all(np.diff(sample[:, 0]) > 0)
    assert np.max(np.diff(sample[:, 0], prepend=0, append=200)) <= 32
