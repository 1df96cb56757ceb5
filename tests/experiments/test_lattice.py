"""The lattice attack on a result: its parts, what it finds, and what less precision costs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.histogram import Attack
from experiments.lattice import attack, draw_counts, open_columns
from experiments.opening import DEFAULT, FULL, Precision, fit
from experiments.reduction import lll, nearest
from tests.datasets import NAMES, table

COARSE = Precision(3, 8)


def test_reduced_rows_span_the_same_lattice_and_are_short() -> None:
    weights = np.random.default_rng(1).integers(1, 2**30, size=12)
    rows = np.hstack([np.eye(12), weights[:, None].astype(float)])
    U = lll(rows)
    assert round(abs(np.linalg.det(U))) == 1
    # The bound of Lenstra, Lenstra and Lovasz, by the volume, for delta = 0.99.
    volume = np.sqrt(np.linalg.det(rows @ rows.T))
    assert np.linalg.norm(U[0] @ rows) <= (1 / 0.74) ** (11 / 4) * volume ** (1 / 12)


def test_nearest_points_are_those_of_a_full_search() -> None:
    generator = np.random.default_rng(2)
    rows = generator.integers(-4, 5, size=(4, 5)).astype(float)
    target = generator.normal(size=5) * 3
    every = np.array(list(itertools.product(range(-12, 13), repeat=4)))
    squares = np.sum((every @ rows - target) ** 2, axis=1)
    expected = every[squares <= 60]
    points = nearest(rows, target, 60.0, 10_000)
    assert not points.truncated
    assert np.all(np.diff(points.squares) >= 0)
    assert {tuple(p) for p in points.coefficients} == {tuple(p) for p in expected}
    assert len(expected) > 5


@pytest.mark.filterwarnings("ignore")  # so few steps find no lambda
def test_consistent_are_those_histograms_whose_runs_open_the_same() -> None:
    """All histograms of 10 rows over 5 values, so coarsely that some open the same."""
    every = [np.diff([-1, *bars, 14]) - 1 for bars in itertools.combinations(range(14), 4)]
    varying = [c for c in every if np.count_nonzero(c) > 1]
    columns = open_columns(varying, COARSE)
    groups: dict[object, list[int]] = {}
    for i, column in enumerate(columns):
        groups.setdefault((column.lmbda, column.S_y, column.V), []).append(i)
    shared = [group for group in groups.values() if len(group) > 1][:5]
    alone = [group for group in groups.values() if len(group) == 1][::100]
    assert shared
    assert alone
    for group in shared + alone:
        attacker = Attack(columns[group[0]])
        consistent = [i for i, c in enumerate(varying) if attacker.is_consistent(c)]
        assert consistent == group


def test_full_precision_tells_the_histogram_and_the_default_does_not() -> None:
    """13 values and 3,000 rows."""
    counts = [draw_counts(13, 3000, attempt) for attempt in range(5)]
    full = open_columns(counts, FULL)
    assert all(attack(*pair)["found"] for pair in zip(full, counts, strict=True))
    default = open_columns(counts, DEFAULT)
    for column, c in zip(default, counts, strict=True):
        outcome = attack(column, c)
        assert not outcome["found"]
        assert not outcome["listed"]
        assert outcome["candidates"] > 100  # others have the same result
        assert Attack(column).is_consistent(c)


def test_few_values_or_rows_are_found_at_the_default_too() -> None:
    counts = [draw_counts(5, 3000, 0), draw_counts(8, 3000, 0)]
    for column, c in zip(open_columns(counts, DEFAULT), counts, strict=True):
        assert attack(column, c)["found"]


def test_silo_finds_more_than_a_stranger() -> None:
    counts = [draw_counts(13, 1000, attempt) for attempt in range(3)]
    for column, c in zip(open_columns(counts, DEFAULT), counts, strict=True):
        assert not attack(column, c)["found"]
        assert attack(column, c, by_silo=True)["found"]


def test_estimate_of_how_many_have_the_result_agrees_with_their_list() -> None:
    counts = [draw_counts(13, 20_000, attempt) for attempt in range(3)]
    for column, c in zip(open_columns(counts, FULL), counts, strict=True):
        outcome = attack(column, c)
        assert outcome["listed"]
        assert np.log2(outcome["candidates"]) == pytest.approx(outcome["bits_left"], abs=1.5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dataset", NAMES)
def test_default_precision_costs_at_most_a_millionth_of_a_deviation(dataset: str) -> None:
    """With the default bounds."""
    X = table(dataset)
    bounds = [(-(2.0**20), 2.0**20)] * X.shape[1]
    full, default = (fit(X, bounds, precision).transform(X) for precision in (FULL, DEFAULT))
    assert 0 < np.max(np.abs(full - default)) <= 1e-6
