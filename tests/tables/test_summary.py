"""Summaries: exact but for the median of many rows, whatever the blocks."""

from __future__ import annotations

import numpy as np
import pytest

from securefedyj.tables import silo_table
from securefedyj.tables.files import round_bounds
from securefedyj.tables.silo_table import MOST_DISTINCT, summarize
from securefedyj.tables.source import HeldSource


def columns(rows: int) -> np.ndarray:
    random = np.random.default_rng(2)
    values = np.column_stack([
        random.lognormal(size=rows),
        random.integers(0, 7, rows),
        np.full(rows, np.nan),
        np.where(random.random(rows) < 0.3, np.nan, random.standard_normal(rows)),
    ])  # fmt: skip
    return np.asfortranarray(values)


@pytest.mark.parametrize("pieces", [1, 7])
def test_what_columns_hold_does_not_depend_on_blocks(pieces):
    values = columns(3000)
    source = HeldSource(np.array_split(values, pieces), ["a", "b", "c", "d"])
    rows, found = summarize(source, np.full(4, 0.5), np.full(4, 2.0))
    assert rows == 3000
    assert [one.distinct for one in found] == [MOST_DISTINCT, 7, 0, MOST_DISTINCT]
    for one, column in zip(found, values.T, strict=True):
        present = column[~np.isnan(column)]
        assert one.exact
        assert one.missing == np.isnan(column).sum()
        assert (one.below, one.above) == ((present < 0.5).sum(), (present > 2).sum())
        if len(present):
            assert (one.least, one.greatest) == (present.min(), present.max())
            assert one.median == np.median(present)
        else:
            assert np.isnan([one.least, one.median, one.greatest]).all()


def test_median_of_many_rows_is_that_of_a_sample(monkeypatch):
    monkeypatch.setattr(silo_table, "_SAMPLE_ROWS", 500)
    monkeypatch.setattr(silo_table, "_SAMPLE_VALUES", 1)
    values = columns(20_000)
    source = HeldSource(np.array_split(values, 9), ["a", "b", "c", "d"])
    _, found = summarize(source, np.zeros(4), np.ones(4))
    assert not found[0].exact
    rank = np.mean(values[:, 0] < found[0].median)
    assert abs(rank - 0.5) < 0.1
    assert found[0].least == values[:, 0].min()


@pytest.mark.parametrize(
    ("least", "greatest", "bounds"),
    [
        (1.0, 5.0, (0, 10)),
        (1.0, 5.1, (0, 100)),
        (-0.2, 3.0, (-1, 10)),
        (-70.0, -60.0, (-1000, 0)),
        (0.0, 0.0, (0, 1)),
        (0.0, 4e-7, (0, 1e-6)),
        (-1e300, 0.0, (-1e301, 0)),
        (0.0, 5e-324, (0, 1e-323)),
    ],
)
def test_drafted_bounds_are_round_and_twice_as_far(least, greatest, bounds):
    assert round_bounds(least, greatest) == bounds
