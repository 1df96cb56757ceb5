"""Sums over blocks: the same bits for any blocks, any memory, any kind of number."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj.numerics import passes
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.passes import ChangedData, ahead, over_blocks, read
from securefedyj.numerics.streamed import StreamedSilo, silo_of
from securefedyj.numerics.sums import ArraySilo, OutOfBounds

NAMES = ["a", "b", "c"]
DOMAIN = Domain.from_bounds([(-5, 100), (0, 40), (-20, 0)], 3)


def table(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.normal(0, 1, rows), rng.lognormal(0, 1, rows), -rng.exponential(1, rows)]
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    return np.clip(X, DOMAIN.lower, DOMAIN.upper)


class Split:
    """A table in blocks of given sizes, which notes what is read of it."""

    names = NAMES
    rows = None

    def __init__(self, X: np.ndarray, cuts: Sequence[int] = ()) -> None:
        self.parts = np.split(X, np.clip(sorted(cuts), 0, len(X)))
        self.asked: list[list[int]] = []

    def blocks(self, columns: Sequence[int]) -> Iterator[np.ndarray]:
        self.asked.append(list(columns))
        for part in self.parts:
            yield part[:, list(columns)]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows, so that small tables have many."""
    monkeypatch.setattr(passes, "_FEWEST_ROWS", 16)
    monkeypatch.setattr(passes, "BLOCK_VALUES", 48)


def asked_of(silo, rows: int, features: Sequence[int] = (0, 1, 2, 1)):
    """Everything that the protocol asks a silo for."""
    feature = np.array(features)
    lmbda = np.linspace(-3.0, 4.0, len(feature))
    encoding = choose_encoding(DOMAIN.take(feature), np.full(len(feature), rows + 1), lmbda)
    limbs = int(encoding.limbs.max())
    sums = silo.sums(feature, lmbda, encoding, limbs)
    phi = silo.phi_sum(np.arange(3), limbs)
    return [part.tolist() for part in (*sums, phi, silo.count)]


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(0, 200),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    room=st.sampled_from([0, 2000, 10**9]),
)
def test_sums_do_not_depend_on_blocks_or_memory(rows, cuts, room):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "_FEWEST_ROWS", 16)
        patch.setattr(passes, "BLOCK_VALUES", 48)
        X = table(rows)
        streamed = StreamedSilo(Split(X, cuts), DOMAIN, NAMES, room)
        whole = ArraySilo(X, DOMAIN, NAMES)
        for features in ((0, 1, 2, 1), (2, 0), (1,)):
            assert asked_of(streamed, rows, features) == asked_of(whole, rows, features)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, ">f8", object])
def test_other_numbers_become_float64_first(dtype):
    X = np.nan_to_num(table(300)).astype(dtype)
    expected = asked_of(ArraySilo(X.astype(np.float64), DOMAIN, NAMES), 300)
    assert asked_of(silo_of(Split(X, [7, 200]), DOMAIN, NAMES, 0), 300) == expected


@pytest.mark.usefixtures("small_blocks")
def test_an_exchange_is_one_pass_over_open_features_and_none_where_memory_suffices():
    X = table(200)
    source = Split(X, [50])
    silo = StreamedSilo(source, DOMAIN, NAMES, 0)
    asked_of(silo, 200, (2, 0, 2, 0))
    asked_of(silo, 200, (1, 1))
    assert source.asked == [[0, 1, 2], [0, 2], [1]]
    kept = Split(X, [50])
    silo = StreamedSilo(kept, DOMAIN, NAMES, 10**9)
    asked_of(silo, 200)
    assert kept.asked == [[0, 1, 2]]


@pytest.mark.usefixtures("small_blocks")
def test_values_outside_are_counted_in_the_whole_table_before_they_are_refused():
    X = table(200)
    X[[3, 150, 199], 1] = 41.0
    with pytest.raises(OutOfBounds, match=r"feature 'b' has 3 value\(s\) outside .* \[0, 40\]"):
        StreamedSilo(Split(X, [20, 180]), DOMAIN, NAMES, 0)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("after", [150, 250])
def test_a_table_that_grows_or_shrinks_during_a_run_is_an_error(after):
    source = Split(table(200))
    silo = StreamedSilo(source, DOMAIN, NAMES, 0)
    source.parts = [table(after)]
    with pytest.raises(ChangedData, match=f"had 200 rows when the run began, and has {after} now"):
        asked_of(silo, 200)


@pytest.mark.usefixtures("small_blocks")
def test_passes_tell_how_far_they_are():
    told: list[tuple[int, int | None]] = []
    StreamedSilo(Split(table(70), [1, 2, 60]), DOMAIN, NAMES, 0, lambda *now: told.append(now))
    assert told[-1] == (70, None)
    assert len(told) > 3
    assert told == sorted(told)


@pytest.mark.usefixtures("small_blocks")
def test_blocks_are_neither_tiny_nor_large():
    X = table(300)
    sizes = [len(block) for block in read(Split(X, list(range(150))), [0, 1, 2])]
    assert sum(sizes) == 300
    assert all(8 <= size <= 24 for size in sizes[:-1])


def test_functions_of_blocks_add_up_and_nothing_has_no_sum():
    X = table(100)
    total = over_blocks(Split(X, [30]), [1], np.nansum, np.add)
    assert total == pytest.approx(np.nansum(X[:, 1]))
    assert over_blocks(Split(np.empty((0, 3))), [1], np.nansum, np.add) is None


def test_reading_ahead_ends_with_its_user_and_hands_errors_on():
    before = threading.active_count()
    ended = []

    def numbers(fail: bool):
        try:
            for k in range(1000):
                if fail and k == 3:
                    raise ZeroDivisionError
                yield k
        finally:
            ended.append(fail)

    taken = ahead(numbers(fail=False))
    assert [next(taken), next(taken)] == [0, 1]
    taken.close()
    with pytest.raises(ZeroDivisionError):
        list(ahead(numbers(fail=True)))
    assert ended == [False, True]
    assert threading.active_count() == before
