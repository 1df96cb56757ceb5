"""Quantiles are order statistics on the agreed grid, to the bit; ranks of too few are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from securefedyj.errors import InputError
from securefedyj.protocol.methods import as_quantile
from securefedyj.protocol.reveals import Final, Step
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import plain
from tests.protocol.methods import agreed

QUANTILES = ("0", "0.001", "0.07", "0.25", "0.333", "0.5", "0.6", "0.9", "0.999", "1")
# Bounds with a resolution, or with the grid of 2^24 steps.
GRIDS = [
    ((0.0, 120.0), "1"),
    ((0.1, 60.0), "0.01"),
    ((-2.5, 7.25), "0.125"),
    ((-1e6, 1e6), "0.5"),
    ((-1.0, 1.0), "1.5"),
    ((1e-3, 1e3), ""),
    ((-(2.0**40), 2.0**30), ""),
    ((5.0, 5.000001), ""),
]


def grid_point(value: float, lower: float, upper: float, resolution: str) -> float:
    """The smallest point of the grid that is not below a value, by exact arithmetic."""
    if resolution:
        first = Fraction(Decimal(repr(lower)))
        number = max(0, math.ceil((Fraction(value) - first) / Fraction(resolution)))
        # The value is a float64, and so are points: that next to a decimal number may be below it.
        near = (
            float(first + j * Fraction(resolution)) for j in range(max(0, number - 1), number + 2)
        )
        return next(point for point in near if point >= value)
    step = (upper - lower) / 2**24
    number = round((value - lower) / step)
    near = (min(lower + j * step, upper) for j in range(max(0, number - 2), number + 3))
    return next(point for point in near if point >= value)


def expected(values: Sequence[float], quantile: str) -> float:
    known = sorted(x for x in values if not math.isnan(x))
    return known[max(1, math.ceil(Fraction(quantile) * len(known))) - 1]


def random_column(rng: np.random.Generator, rows: int, bounds: tuple[float, float], step: str):
    """One of many kinds of values, half of the time on the grid."""
    lower, upper = bounds
    kind = rng.integers(6)
    x = lower + (upper - lower) * rng.random(rows)
    if kind == 1:  # ties
        x = rng.choice(x[: rng.integers(1, 4)], rows)
    elif kind == 2:  # at the bounds
        x = rng.choice([lower, upper, x[0]], rows)
    elif kind == 3:  # skewed
        x = lower + (upper - lower) * rng.random(rows) ** 12
    elif kind == 4:
        x = np.full(rows, rng.choice([lower, upper, x[0]]))
    if step and rng.random() < 0.5:
        first, resolution = Fraction(Decimal(repr(lower))), Fraction(step)
        numbers = [round((Fraction(v) - first) / resolution) for v in x.tolist()]
        x = np.array([float(first + j * resolution) for j in numbers])
    x = np.clip(x, lower, upper)
    x[rng.random(rows) < rng.choice([0.0, 0.1, 0.7])] = np.nan
    return x


def random_run(seed: int, features: int, engine: str = "clear", verified: bool = False):
    """A run of random tables; rows of some silos may be none."""
    rng = np.random.default_rng(seed)
    silos = int(rng.integers(3, 6))
    grids = [GRIDS[int(k)] for k in rng.integers(len(GRIDS), size=features)]
    rows = int(rng.choice([1, 2, 3, 10, 57]))
    X = np.array([random_column(rng, rows, *grid) for grid in grids]).T
    quantiles = [
        tuple(q for q in QUANTILES if rng.random() < 0.3) or ("0.5",) for _ in range(features)
    ]
    run = agreed(
        [{"quantiles": own} for own in quantiles],
        [bounds for bounds, _ in grids],
        silos,
        engine,
        tuple(step for _, step in grids),
        verified=verified,
        levels_per_exchange=int(rng.integers(1, 7)),
    )
    cuts = np.sort(rng.integers(rows + 1, size=silos - 1))
    return run, X, np.split(X, cuts)


def check(transcript: Transcript, X) -> None:
    run = transcript.agreement
    assert transcript.audit().findings == []
    for j, methods in enumerate(run.methods):
        bounds = float(run.domain.lower[j]), float(run.domain.upper[j])
        for q, (value, rank, refused) in transcript.quantiles()[j].items():
            known = int(np.count_nonzero(~np.isnan(X[:, j])))
            assert q in methods["quantiles"]
            assert rank == max(1, math.ceil(Fraction(q) * known))
            if not known:
                assert refused == "there are no values"
                continue
            wanted = grid_point(expected(X[:, j], q), *bounds, run.resolution[j])
            assert value == wanted, (j, q)


@pytest.mark.parametrize("seed", range(40))
def test_quantiles_are_order_statistics(seed):
    """2,000 features in 40 runs."""
    run, X, parts = random_run(seed, 50)
    transcript, _ = simulate(run, parts)
    check(transcript, X)


@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("seed", range(40, 44))
def test_quantiles_of_shared_values_are_order_statistics(seed, verified):
    run, X, parts = random_run(seed, 6, "replicated", verified)
    transcript, _ = simulate(run, parts)
    check(transcript, X)


def test_a_quantile_of_two_methods_is_asked_once():
    methods = {"robust": ("0.1", "0.5", "0.9"), "quantiles": ("0.5", "0.6")}
    run = agreed([methods], (0, 10), resolution=("1",))
    assert [q.quantile for q in run.asked.all] == ["0.1", "0.5", "0.9", "0.6"]
    transcript, _ = simulate(run, [np.arange(11.0)[:, None]] * 3)
    found = transcript.quantiles()[0]
    assert {q: one.value for q, one in found.items()} == {"0.1": 1, "0.5": 5, "0.6": 6, "0.9": 9}


@pytest.mark.parametrize("verified", [False, True])
def test_ranks_of_too_few_are_not_asked_for(verified):
    """With 100 values and a minimum of 20: not the rank 10, nor 95, nor 55 next to 50."""
    methods = {"quantiles": ("0.1", "0.2", "0.5", "0.55", "0.81", "0.82", "0.95")}
    run = agreed(
        [methods, {"standard": ()}], (0.0, 99.0), engine="replicated", resolution=("1", ""),
        minimum_values=20, verified=verified,
    )  # fmt: skip
    x = np.arange(100.0)
    transcript, _ = simulate(run, [np.c_[x[k::3], x[k::3]] for k in range(3)])
    assert transcript.audit().findings == []
    found = transcript.quantiles()[0]
    assert {q: one.value for q, one in found.items() if not one.refused} == {
        "0.2": 19, "0.5": 49, "0.81": 80,
    }  # fmt: skip
    assert {q: one.refused for q, one in found.items() if one.refused} == {
        "0.1": "its rank is 10 of 100: fewer than 20 values are at most as large",
        "0.55": "its rank is 55 of 100: closer than 20 to the rank of another quantile",
        "0.82": "its rank is 82 of 100: fewer than 20 values are at least as large",
        "0.95": "its rank is 95 of 100: fewer than 20 values are at least as large",
    }
    asked = {1, 2, 4}
    assert all(set(step.features.tolist()) <= asked for step in transcript.all(Step))
    assert Transcript.from_lines(transcript.to_lines()).to_text() == transcript.to_text()
    if verified:
        (final,) = (reveal for reveal in transcript.reveals if isinstance(reveal, Final))
        assert final.features.tolist() == list(range(8))


def test_a_run_in_which_all_ranks_are_refused_has_a_result():
    run = agreed([{"robust": ("0.25", "0.5", "0.75")}], (0, 9), minimum_values=5)
    transcript, _ = simulate(run, [np.ones((2, 1)), np.zeros((2, 1)), np.ones((1, 1))])
    assert [one.refused != "" for one in transcript.quantiles()[0].values()] == [True] * 3
    assert transcript.audit().findings == []
    assert len(transcript.reveals) == 1


def test_signs_are_those_of_a_bisection():
    run = agreed([{"quantiles": ("0.5",)}], (0, 7), resolution=("1",))
    transcript, _ = simulate(run, [np.array([[5.0]]), np.array([[6.0]]), np.array([[1.0]])])
    assert plain(transcript.all(Step)) == [
        ("Step", 0, [0], [3.0], [1]),
        ("Step", 1, [0], [5.0], [-1]),
        ("Step", 2, [0], [4.0], [1]),
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("0.250", "0.25"),
        ("1.0", "1"),
        (0, "0"),
        (Decimal("0.07"), "0.07"),
        (Fraction(1, 8), "0.125"),
    ],
)
def test_quantiles_have_one_form(given, text):
    assert as_quantile(given) == text


@pytest.mark.parametrize("given", ["1.1", "-0.5", "x", "nan", "1/3", Fraction(1, 3), "1e-20"])
def test_what_is_no_quantile_is_refused(given):
    with pytest.raises(InputError, match="not a quantile"):
        as_quantile(given)


def test_a_float_is_no_quantile():
    given: Any = 0.5
    with pytest.raises(TypeError, match="not float"):
        as_quantile(given)
