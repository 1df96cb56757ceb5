"""How often each public point occurs, compared with plain loops over the rows."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest

from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.grid import points_of
from securefedyj.numerics.tally import Off, Tally, tally_of
from securefedyj.tables.source import ArraySource, HeldSource

BOUNDS = [(0.0, 10.0), (-5.0, 5.0), (0.0, 1.0)]
DOMAIN = Domain.from_bounds(BOUNDS, 3)
POINTS = [points_of(0.0, 10.0, "0.1", 0, "a"), points_of(-5.0, 5.0, "0.01", 2, "b"), np.empty(0)]


def nearest(points: np.ndarray, value: float) -> float:
    """The next point, and of two the lower one, by exact comparison."""
    from fractions import Fraction

    return min(points.tolist(), key=lambda p: (abs(Fraction(p) - Fraction(value)), p))


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(4)
    rows = np.column_stack(
        [rng.integers(0, 101, 300) / 10, rng.uniform(-5, 5, 300), rng.uniform(0, 1, 300)]
    )
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[:6, 1] = [-5.0, 5.0, 0.125, -0.125, 0.0, -0.0]
    return rows


def test_counts_are_those_of_a_loop(rows):
    tally = tally_of(ArraySource(rows), POINTS, DOMAIN)
    for j in (0, 1):
        values = rows[~np.isnan(rows[:, j]), j]
        expected = Counter(nearest(POINTS[j], value) for value in values.tolist())
        found = dict(zip(POINTS[j].tolist(), tally.counts[j].tolist(), strict=True))
        assert {point: count for point, count in found.items() if count} == expected
        far = [abs(nearest(POINTS[j], value) - value) for value in values.tolist()]
        assert tally.moved[j] == sum(one > 0 for one in far)
        assert tally.farthest[j] == max(far)
    assert len(tally.counts[2]) == 0
    assert tally.moved[0] == 0
    assert tally.first[0] is None
    assert tally.rows == 300


def test_counts_do_not_depend_on_blocks(rows):
    whole = tally_of(ArraySource(rows), POINTS, DOMAIN)
    parts = Tally.of(rows[:0], POINTS, DOMAIN)
    for first in range(0, 300, 7):
        parts += pickle.loads(pickle.dumps(Tally.of(rows[first : first + 7], POINTS, DOMAIN)))
    for one, other in zip(whole.counts, parts.counts, strict=True):
        np.testing.assert_array_equal(one, other)
    assert whole.first == parts.first
    np.testing.assert_array_equal(whole.farthest, parts.farthest)
    empty = tally_of(HeldSource([], ("a", "b", "c")), POINTS, DOMAIN)
    assert sum(counts.sum() for counts in empty.counts) == 0


def test_of_two_points_at_the_same_distance_the_lower_one_counts():
    points = [np.array([0.0, 0.5, 1.0])]
    domain = Domain.from_bounds([(0.0, 1.0)], 1)
    tally = Tally.of(np.array([[0.25], [0.75], [0.76]]), points, domain)
    assert tally.counts[0].tolist() == [1, 1, 1]
    assert tally.first[0] == Off(1, 0.25)
    assert "0.25" not in repr(tally)


def test_values_outside_the_bounds_are_not_counted():
    rows = np.array([[-0.1, 0, 0], [10.1, 0, 2.0], [np.inf, 0, 0], [np.nan, 0, 0], [10.0, 0, 0]])
    tally = Tally.of(rows, POINTS, DOMAIN)
    assert tally.outside.tolist() == [3, 0, 1]
    assert tally.counts[0].sum() == tally.counts[0][-1] == 1


def test_ends_beyond_the_last_point_count_as_that_point():
    """The upper bound need not be a point."""
    points = [points_of(0.0, 1.0, "0.3", 0, "a")]
    assert points[0][-1] == 0.9
    tally = Tally.of(np.array([[0.97]]), points, Domain.from_bounds([(0.0, 1.0)], 1))
    assert tally.counts[0].tolist() == [0, 0, 0, 1]
