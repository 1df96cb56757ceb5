"""A pooled fit depends on the rows alone: not on how they come, nor on what sums them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from securefedyj import ExpYJ, kernel
from securefedyj.numerics import passes
from securefedyj.numerics.arrays import Array
from securefedyj.pooled import blocks
from securefedyj.pooled import fit as pooled
from securefedyj.pooled.fit import PooledFit, fit_pooled

pytestmark = pytest.mark.filterwarnings("error")

# A table of three pieces and a bit, the last of which is shorter.
ROWS = 2 * blocks.PIECE + 1000


class Blocks:
    """A source that yields an array in blocks of given sizes, over and over."""

    def __init__(self, X: Array, sizes: Sequence[int]) -> None:
        self._X, self._sizes = X, sizes
        self.read: list[list[int]] = []
        self.most_alive = 0

    @property
    def names(self) -> list[str]:
        return [f"x{j}" for j in range(self._X.shape[1])]

    @property
    def rows(self) -> None:
        return None

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        self.read.append(list(columns))
        alive: list[weakref.ref[Array]] = []
        first, k = 0, 0
        while first < len(self._X):
            last = first + self._sizes[k % len(self._sizes)]
            block = self._X[first:last][:, list(columns)].copy()
            alive = [*(ref for ref in alive if ref() is not None), weakref.ref(block)]
            self.most_alive = max(self.most_alive, len(alive))
            yield block
            first, k = last, k + 1


@cache
def table() -> Array:
    """Features of all kinds: missing values, constant, close to each other, rarely negative."""
    rng = np.random.default_rng(14)
    X = np.stack(
        [
            rng.lognormal(size=ROWS),
            rng.normal(size=ROWS),
            -rng.lognormal(size=ROWS),
            np.where(rng.random(ROWS) < 0.3, np.nan, rng.normal(1, 1, ROWS)),
            np.round(rng.normal(2000, 20, ROWS)),
            np.full(ROWS, 7.0),
            np.where(rng.random(ROWS) < 1e-3, -rng.lognormal(size=ROWS), rng.lognormal(size=ROWS)),
            rng.normal(size=ROWS) * 1e-9,
            np.where(rng.random(ROWS) < 0.5, 0.0, -rng.lognormal(size=ROWS)),
        ],
        axis=1,
    )
    X[:, 8][:9] = -0.0
    return X


def bits(fitted: PooledFit) -> bytes:
    columns = (*fitted.standardization, fitted.path, *fitted[:4], fitted.n)
    return b"".join(np.ascontiguousarray(column).tobytes() for column in columns)


def always_streamed(patch: pytest.MonkeyPatch) -> None:
    """Also a small source is read again for every pass, a piece at a time."""
    patch.setattr(pooled, "_held", lambda source: None)
    patch.setattr(blocks, "_AT_ONCE", 1)
    patch.setattr(pooled, "_MANY_ROWS", 5000)


@cache
def expected(solver: str) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooled, "_MANY_ROWS", 5000)
        return bits(fit_pooled(table(), solver, 12))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(sizes=st.lists(st.integers(1000, 3 * blocks.PIECE), min_size=1, max_size=4))
def test_the_sizes_of_blocks_do_not_matter(sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        always_streamed(patch)
        assert bits(fit_pooled(Blocks(table(), sizes), "newton", 1)) == expected("newton")


def test_blocks_of_one_row_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    always_streamed(monkeypatch)
    X = table()[: blocks.PIECE + 10, :2]
    whole = bits(fit_pooled(X, "newton", 1))
    assert bits(fit_pooled(Blocks(X, [1, 400]), "newton", 1)) == whole


def test_expsearch_reads_sources_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    always_streamed(monkeypatch)
    assert bits(fit_pooled(Blocks(table(), [5000]), "expsearch", 12)) == expected("expsearch")


def test_a_small_source_is_read_once() -> None:
    source = Blocks(table()[:100], [30])
    assert bits(fit_pooled(source, "newton", 1)) == bits(fit_pooled(table()[:100], "newton", 1))
    assert len(source.read) == 1


def test_only_columns_of_open_features_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    always_streamed(monkeypatch)
    source = Blocks(table(), [blocks.PIECE])
    fitted = fit_pooled(source, "newton", 1)
    everything, references, *passes = source.read
    assert everything == list(range(9))
    assert references == [j for j in range(9) if not fitted.constant[j]]
    visited = [np.flatnonzero(~np.isnan(lambdas)).tolist() for lambdas in fitted.path]
    assert passes == visited


def test_one_block_is_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a source and of what is made of it: memory does not grow with the rows."""
    always_streamed(monkeypatch)
    monkeypatch.setattr(passes, "BLOCK_VALUES", 1)
    source = Blocks(np.tile(table()[:, :4], (4, 1)), [blocks.PIECE])
    sizes = []
    original = blocks.Streamed.chunks

    def watched(self: blocks.Streamed) -> Iterator[Array]:
        for chunk in original(self):
            sizes.append(chunk.size)
            yield chunk

    monkeypatch.setattr(blocks.Streamed, "chunks", watched)
    gc.disable()
    try:
        fit_pooled(source, "newton", 1)
    finally:
        gc.enable()
    assert source.most_alive <= 4
    assert max(sizes) == 4 * blocks.PIECE


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("level", kernel.levels())
def test_all_levels_of_the_kernel_give_the_same_bits(
    level: str, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy differs by rounding, and as little as the fit promises."""
    monkeypatch.setenv(kernel.VARIABLE, kernel.levels()[-1])
    monkeypatch.setattr(pooled, "_MANY_ROWS", 5000)
    best = {solver: fit_pooled(table(), solver, 12) for solver in ("newton", "expsearch")}
    monkeypatch.setenv(kernel.VARIABLE, level)
    monkeypatch.setenv(kernel.THREADS_VARIABLE, threads)
    monkeypatch.setattr(kernel, "_SHARE", 1000)
    for solver, expected in best.items():
        fitted = fit_pooled(table(), solver, 12)
        if level == kernel.NUMPY:
            np.testing.assert_allclose(fitted.lmbda, expected.lmbda, rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(fitted.converged, expected.converged)
            for ours, others in zip(fitted.standardization, expected.standardization, strict=True):
                np.testing.assert_allclose(ours, others, rtol=1e-9, atol=1e-9)
        else:
            assert bits(fitted) == bits(expected)
    always_streamed(monkeypatch)
    whole = bits(fit_pooled(table(), "newton", 1))
    assert bits(fit_pooled(Blocks(table(), [3000]), "newton", 1)) == whole


def test_the_estimator_takes_a_source() -> None:
    X = table()[:500, :3]
    fitted = ExpYJ().fit(Blocks(X, [70]))
    np.testing.assert_array_equal(fitted.lambdas_, ExpYJ().fit(X).lambdas_)
    assert fitted.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert fitted.n_features_in_ == 3


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones((0, 2)), r"has 0 row\(s\); a fit needs 2"),
        (np.ones((1, 2)), r"has 1 row\(s\); a fit needs 2"),
        (np.array([[1.0], [np.inf]]), "contains infinity. Declare it missing"),
    ],
)
def test_a_source_that_cannot_be_fitted_is_refused(X: Array, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ExpYJ().fit(Blocks(X, [1]))
