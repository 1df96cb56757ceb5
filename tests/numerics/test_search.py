"""The search for lambda: steps of the paper, speculation, and the path seen from its end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj.numerics.search import (
    UNLIMITED,
    Bracket,
    Limits,
    Speculation,
    at_bound,
    exp_update,
    finished,
    recover_path,
    speculate,
)

INF = np.inf

edges = st.one_of(
    st.sampled_from([5e-324, 0.5, 1.0, 2.0, 3.0, 1e300]),
    st.floats(5e-324, 1e300),
    st.floats(5e-324, 10),
)
limits_ = st.builds(lambda low, high: Limits(-low, high), edges, edges)
signs_ = st.sampled_from([-1, +1])


class Walk(NamedTuple):
    """What a search of one feature went through, until it was finished or out of steps."""

    points: list[float]
    signs: list[int]
    end: Bracket


def search(signs: Sequence[int], limits: Limits = UNLIMITED) -> Walk:
    """A search by single steps, as long as it moves."""
    bracket, points, used = Bracket.start(1), [], []
    for sign in signs:
        if finished(bracket)[0]:
            break
        points.append(float(bracket.value[0]))
        used.append(sign)
        bracket = exp_update(bracket, sign, limits)
    return Walk(points, used, bracket)


def noise(seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """A sign for every number, with no order in it, always the same for the same number."""

    def sign(point: float) -> int:
        digest = hashlib.blake2b(f"{seed} {point!r}".encode(), digest_size=1).digest()
        return 1 if digest[0] % 2 else -1

    return np.vectorize(lambda point: sign(float(point)), otypes=[np.int8])


def threshold(value: float) -> Callable[[np.ndarray], np.ndarray]:
    """The signs of a likelihood with its maximum at the value."""
    return lambda points: np.where(points < value, 1, -1).astype(np.int8)


def walk_down(
    speculation: Speculation, signs: np.ndarray, limits: Limits
) -> tuple[Bracket, np.ndarray, np.ndarray]:
    """Walk by the signs at all points: where it ends, points and signs on the path."""
    feature = np.arange(speculation.points.shape[1])
    node = np.zeros(len(feature), dtype=np.intp)
    visited, deltas = [], []
    for _ in range(speculation.levels):
        bracket = Bracket(*(part[node, feature] for part in speculation.tree))
        delta = signs[node, feature]
        visited.append(bracket.value)
        deltas.append(delta)
        node = speculation.child(node, delta)
    return exp_update(bracket, delta, limits), np.array(visited), np.array(deltas)


oracles = st.one_of(
    st.builds(noise, st.integers(0, 2**32)),
    st.builds(threshold, st.floats(-1e300, 1e300)),
    st.builds(threshold, st.floats(-5, 5)),
)


@pytest.mark.parametrize(
    ("signs", "points"),
    [
        # Algorithm 2 by hand: double until the sign turns, then bisect.
        ([+1, +1, +1, -1, +1, -1, -1], [0, 1, 2, 4, 3, 3.5, 3.25, 3.125]),
        ([-1, -1, -1, +1, +1, -1], [0, -1, -2, -4, -3, -2.5, -2.75]),
        ([+1, -1, -1, -1], [0, 1, 0.5, 0.25, 0.125]),
        ([-1, +1, +1, +1], [0, -1, -0.5, -0.25, -0.125]),
    ],
)
def test_steps_are_those_of_the_paper(signs: list[int], points: list[float]) -> None:
    walk = search(signs)
    assert [*walk.points, float(walk.end.value[0])] == points


def test_a_step_sets_the_bound_that_the_sign_tells() -> None:
    up = exp_update(Bracket(np.array([3.0]), np.array([2.0]), np.array([4.0])), +1)
    down = exp_update(Bracket(np.array([3.0]), np.array([2.0]), np.array([4.0])), -1)
    assert [float(part[0]) for part in up] == [3.5, 3.0, 4.0]
    assert [float(part[0]) for part in down] == [2.5, 2.0, 3.0]


def test_features_are_searched_independently() -> None:
    bracket = Bracket(
        np.array([0.0, 4.0, -2.0, 3.0]),
        np.array([-INF, 2.0, -INF, 2.0]),
        np.array([INF, INF, -1.0, 4.0]),
    )
    step = exp_update(bracket, [+1, +1, -1, -1])
    np.testing.assert_array_equal(step.value, [1.0, 8.0, -4.0, 2.5])
    np.testing.assert_array_equal(step.lower, [0.0, 4.0, -INF, 2.0])
    np.testing.assert_array_equal(step.upper, [INF, INF, -2.0, 3.0])


@pytest.mark.parametrize(
    ("limits", "sign", "points"),
    [
        (Limits(-INF, 3.0), +1, [0, 1, 2, 3]),
        (Limits(-5.0, INF), -1, [0, -1, -2, -4, -5]),
        (Limits(-0.25, 0.5), +1, [0, 0.5]),
        (Limits(-0.25, 0.5), -1, [0, -0.25]),
        (Limits(0.0, 1.0), -1, [0]),
    ],
)
def test_a_search_that_would_leave_the_range_ends_at_its_edge(
    limits: Limits, sign: int, points: list[float]
) -> None:
    walk = search([sign] * 20, limits)
    assert walk.points == points
    assert finished(walk.end)[0]
    assert at_bound(walk.end, limits)[0]
    again = exp_update(walk.end, sign, limits)
    assert again.value[0] == walk.end.value[0]


def test_reaching_the_edge_is_not_yet_beyond_it() -> None:
    limits = Limits(-INF, 3.0)
    arrived = search([+1, +1, +1], limits).end
    assert arrived.value[0] == 3.0
    assert not finished(arrived)[0]
    assert not at_bound(arrived, limits)[0]
    turned = exp_update(arrived, -1, limits)
    assert turned.value[0] == 2.5
    assert not at_bound(turned, limits)[0]


def test_a_search_that_returns_to_the_edge_from_below_is_not_beyond_it() -> None:
    limits = Limits(-INF, 3.0)
    walk = search([+1, +1, +1, -1] + [+1] * 60, limits)
    assert finished(walk.end)[0]
    assert walk.end.value[0] == 3.0
    assert not at_bound(walk.end, limits)[0]


@settings(max_examples=50)
@given(value=st.floats(-1e300, 1e300))
def test_the_floor_of_float64_is_found(value: float) -> None:
    """A maximum between two neighbouring numbers is found exactly: it is the upper of the two."""
    bracket = Bracket.start(1)
    for _ in range(2200):
        if finished(bracket)[0]:
            break
        bracket = exp_update(bracket, threshold(value)(bracket.value))
    assert finished(bracket)[0]
    assert bracket.value[0] == value


@pytest.mark.parametrize("lower", [1.0, -1.0, 0.0])
def test_the_floor_is_found_beside_a_search_that_has_not_turned(lower: float) -> None:
    """Whatever is searched with it: all others have their bounds, or one has none yet."""
    upper = float(np.nextafter(lower, INF))
    alone = Bracket(np.array([upper]), np.array([lower]), np.array([upper]))
    among = Bracket(np.array([upper, 8.0]), np.array([lower, 4.0]), np.array([upper, INF]))
    for delta in (-1, +1):
        expected = exp_update(alone, delta)
        step = exp_update(among, [delta, +1])
        assert [float(part[0]) for part in step] == [float(part[0]) for part in expected]
        assert step.value[0] == upper
        assert step.value[1] == 16.0


@given(
    oracles=st.lists(oracles, min_size=1, max_size=4),
    levels=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    limits=limits_,
)
def test_speculation_walks_as_single_steps_do(
    oracles: list[Callable[[np.ndarray], np.ndarray]], levels: list[int], limits: Limits
) -> None:
    def ask(points: np.ndarray) -> np.ndarray:
        columns = [oracle(points[..., j]) for j, oracle in enumerate(oracles)]
        return np.stack(columns, axis=-1)

    single = speculative = Bracket.start(len(oracles))
    for m in levels:
        speculation = speculate(speculative, m, limits)
        assert speculation.points.shape == (2**m - 1, len(oracles))
        speculative, points, signs = walk_down(speculation, ask(speculation.points), limits)
        for point, sign in zip(points, signs, strict=True):
            np.testing.assert_array_equal(point, single.value)
            np.testing.assert_array_equal(sign, ask(single.value))
            single = exp_update(single, sign, limits)
        assert len(points) == m
        for a, b in zip(speculative, single, strict=True):
            np.testing.assert_array_equal(a, b)


@given(oracle=oracles, limits=limits_, m=st.integers(1, 6))
def test_speculation_beyond_the_end_of_a_search_stays_there(
    oracle: Callable[[np.ndarray], np.ndarray], limits: Limits, m: int
) -> None:
    bracket = Bracket.start(1)
    while not finished(bracket)[0]:
        bracket = exp_update(bracket, oracle(bracket.value), limits)
    speculation = speculate(bracket, m, limits)
    end, points, _ = walk_down(speculation, oracle(speculation.points), limits)
    assert np.all(points == bracket.value)
    assert end.value == bracket.value
    assert at_bound(end, limits) == at_bound(bracket, limits)


def test_some_features_walk_as_they_do_among_all() -> None:
    """Brackets, limits and speculation of chosen features, each with its own range."""
    bracket = search_all([0.3, -7.0, 2.5, 100.0], steps=3)
    limits = Limits(-3.0, np.array([1.0, 2.0, 3.0, 4.0]))
    chosen = np.array([3, 1])
    whole = speculate(bracket, 3, limits)
    part = speculate(bracket.take(chosen), 3, limits.take(chosen))
    for taken in (whole.take(chosen), part):
        np.testing.assert_array_equal(taken.points, whole.points[:, chosen])
        signs = threshold(1.5)(taken.points)
        end, *_ = walk_down(taken, signs, limits.take(chosen))
        expected, *_ = walk_down(whole, threshold(1.5)(whole.points), limits)
        for a, b in zip(end, expected.take(chosen), strict=True):
            np.testing.assert_array_equal(a, b)
    target = search_all([0.3, -7.0, 2.5, 100.0], steps=3)
    target.put(chosen, end)
    np.testing.assert_array_equal(target.value[chosen], end.value)
    np.testing.assert_array_equal(target.value[[0, 2]], bracket.value[[0, 2]])


def search_all(values: Sequence[float], steps: int) -> Bracket:
    """A search of several features at once, for the given maxima."""
    bracket = Bracket.start(len(values))
    for _ in range(steps):
        bracket = exp_update(bracket, np.where(bracket.value < values, 1, -1))
    return bracket


def test_speculation_on_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="levels must be at least 1, got 0"):
        speculate(Bracket.start(1), 0)


def assert_recovered(walk: Walk, max_steps: int, limits: Limits) -> None:
    end = walk.end
    path = recover_path(end.value, max_steps, limits, at_bound(end, limits))
    assert path.points.shape == path.signs.shape == (max_steps, 1)
    steps = len(walk.points)
    np.testing.assert_array_equal(path.points[:steps, 0], walk.points)
    np.testing.assert_array_equal(path.signs[:steps, 0], walk.signs)
    assert np.all(np.isnan(path.points[steps:]))
    assert np.all(path.signs[steps:] == 0)


@given(signs=st.lists(signs_, min_size=1, max_size=120), limits=limits_)
def test_any_path_is_recovered_from_its_end(signs: list[int], limits: Limits) -> None:
    """Every point of a search lies on the side of its end that its own sign tells.

    This is so for any signs, also those that no concave likelihood would give: what
    follows a +1 lies above the point and what follows a -1 does not.
    """
    assert_recovered(search(signs, limits), len(signs), limits)


@settings(max_examples=40)
@given(
    head=st.lists(signs_, max_size=8),
    tail=st.lists(signs_, min_size=1, max_size=3),
    limits=limits_,
)
def test_any_path_is_recovered_beyond_the_floor_of_float64(
    head: list[int], tail: list[int], limits: Limits
) -> None:
    """2200 steps are more than float64 can tell apart, also from 1e300 back to zero."""
    walk = search((head + tail * 2200)[:2200], limits)
    assert finished(walk.end)[0]
    assert_recovered(walk, len(walk.points) + 3, limits)


@given(oracle=oracles, limits=limits_, max_steps=st.integers(1, 80))
def test_the_path_of_any_sign_oracle_is_recovered(
    oracle: Callable[[np.ndarray], np.ndarray], limits: Limits, max_steps: int
) -> None:
    signs, bracket = [], Bracket.start(1)
    for _ in range(max_steps):
        signs.append(int(oracle(bracket.value)[0]))
        bracket = exp_update(bracket, signs[-1], limits)
    assert_recovered(search(signs, limits), max_steps, limits)


@pytest.mark.parametrize("sign", [-1, +1])
def test_the_flag_tells_an_end_beyond_the_edge_from_one_at_it(sign: int) -> None:
    limits = Limits(-3.0, 3.0)
    beyond = search([sign] * 100, limits)
    back = search([sign, sign, sign, -sign] + [sign] * 100, limits)
    assert at_bound(beyond.end, limits)[0]
    assert not at_bound(back.end, limits)[0]
    assert_recovered(beyond, 100, limits)
    assert_recovered(back, 100, limits)


def test_features_are_recovered_independently() -> None:
    limits = Limits(-3.0, 3.0)
    walks = [search(signs, limits) for signs in ([+1] * 9, [-1, +1] * 5, [+1, -1, -1] * 3)]
    ends = np.array([walk.end.value[0] for walk in walks])
    flags = np.array([at_bound(walk.end, limits)[0] for walk in walks])
    assert flags.tolist() == [True, False, False]
    path = recover_path(ends, 9, limits, flags)
    for j, walk in enumerate(walks):
        steps = min(9, len(walk.points))
        np.testing.assert_array_equal(path.points[:steps, j], walk.points[:steps])
        np.testing.assert_array_equal(path.signs[:steps, j], walk.signs[:steps])
