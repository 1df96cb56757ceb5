"""The compiled loops of extra `fast` have the bits of NumPy: in every sum, for every table."""

from __future__ import annotations

import os
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj.numerics import fast, residuals, wide
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.matrices import Matrices
from securefedyj.numerics.rows import OutOfBounds

numba = pytest.importorskip("numba")
fused = pytest.importorskip("securefedyj.numerics.fused")
compiled = pytest.importorskip("securefedyj.numerics.compiled.residuals")

BOUNDS = [(-(2.0**20), 2.0**20), (-1e3, 1e3), (0.0, 30.0), (-1e-9, 1e-9), (-(2.0**100), 2.0**90),
          (-1.0, 1e9), (-(2.0**-40), 2.0**-41)]  # fmt: skip


class Case(NamedTuple):
    X: np.ndarray
    bounds: tuple[float, float]
    feature: np.ndarray
    lmbda: np.ndarray


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Ties, zeros, both signs, missing values, empty columns; lambdas of all kinds."""
    bounds = draw(st.sampled_from(BOUNDS))
    rows = draw(st.sampled_from([0, 1, 2, 15, 16, 17, 100, 511, 513, 1100]))
    columns = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size, shape = max(-bounds[0], bounds[1]), (rows, columns)
    decades = draw(st.sampled_from([0, 2, 12, 100]))
    X = size * rng.uniform(-1, 1, shape) * 10 ** -rng.uniform(0, max(decades, 1e-9), shape)
    if draw(st.booleans()):
        X = np.abs(X)
    if draw(st.booleans()):
        X = rng.choice([0.0, -0.0, size / 3, -size / 7, 5e-324, -1e-300, *bounds], shape)
    X = np.clip(X, *bounds)
    X[rng.random(shape) < draw(st.sampled_from([0.0, 0.1, 1.0]))] = np.nan
    lowest, highest = (
        float(np.ravel(limit)[0]) for limit in Domain.from_bounds(bounds, 1).limits()
    )
    near = st.sampled_from([-1.0, -1e-3, -1e-12, 0.0, 5e-324, 0.02, 1.0, 2.0, 2 + 1e-9, 2.6])
    anywhere = st.floats(lowest, highest)
    drawn = draw(st.lists(st.one_of(near, anywhere), min_size=1, max_size=6))
    lmbda = np.clip(drawn, lowest, highest)
    return Case(X, bounds, rng.integers(0, columns, len(lmbda)), lmbda)


def sums_of(kind: Any, case: Case, limbs: int | None = None) -> list[np.ndarray]:
    domain = Domain.from_bounds(case.bounds, case.X.shape[1])
    silo = kind(case.X, domain, [str(j) for j in range(case.X.shape[1])])
    of_pairs = domain.take(case.feature)
    encoding = choose_encoding(of_pairs, silo.count[case.feature] * 3, case.lmbda)
    limbs = limbs or int(encoding.limbs.max())
    sums = silo.sums(case.feature, case.lmbda, encoding, limbs)
    return [silo.count, silo.phi_sum(case.feature, limbs), *sums]


def assert_same(case: Case, **options: Any) -> None:
    for ours, numpys in zip(
        sums_of(fused.Blocks, case, **options), sums_of(Matrices, case, **options), strict=True
    ):
        np.testing.assert_array_equal(ours, numpys)


@settings(max_examples=150)
@given(cases(), st.sampled_from([None, 1, 30]))
def test_sums_have_the_bits_of_numpys(case, limbs):
    """Also where the integers are cut to few limbs, or have many to spare."""
    assert_same(case, limbs=limbs)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(120_000, 2), (300, 400)], ids=["long", "wide"])
def test_threads_change_nothing(shape, order, monkeypatch):
    """Few pairs share their blocks among threads, many are shared themselves."""
    rng = np.random.default_rng(3)
    X = np.asarray(rng.normal(size=shape) * 10 ** rng.uniform(-3, 3, shape), order=order)
    X[rng.random(shape) < 0.05] = np.nan
    feature = np.repeat(np.arange(shape[1]), 3)
    case = Case(X, (-1e5, 1e5), feature, np.resize([-1.5, 0.01, 0.8], len(feature)))
    monkeypatch.setenv(fast.THREADS_VARIABLE, "1")
    alone = sums_of(fused.Blocks, case)
    monkeypatch.setenv(fast.THREADS_VARIABLE, "3")
    for ours, others in zip(sums_of(fused.Blocks, case), alone, strict=True):
        np.testing.assert_array_equal(ours, others)
    few = Case(X[:, :2], case.bounds, feature[:6], case.lmbda[:6])
    assert_same(few)


def test_equal_values_do_not_overflow():
    """A full block of the largest digits, and as many carries as there are values."""
    for x in (np.nextafter(2.0**20, 0), -1.9999999, 1 / 3):
        case = Case(np.full((5000, 1), x), (-(2.0**20), 2.0**20), np.zeros(5, int),
                    np.array([-9.0, -0.2, 0.3, 1.0, 9.0]))  # fmt: skip
        assert_same(case)


def residuals_of(loop: Any) -> np.ndarray:
    """y and d of many values by a loop, where they are neither near 1 nor near 0."""
    L = np.random.default_rng(5).uniform(0.4, 9.0, 4096)
    y, d, scratch = np.empty((3, 4096))
    loop(0.7, L, y, d, scratch)
    return np.array([y, d])


def test_operations_are_not_contracted():
    """A fused multiply-add would round once where the protocol rounds twice."""
    L = np.random.default_rng(5).uniform(0.4, 9.0, 4096)
    expected = residuals.general(np.array([0.7]), np.ones(1), L, *np.empty((4, 4096)))
    np.testing.assert_array_equal(residuals_of(compiled.general), expected)
    # The same would notice it, on a processor that can.
    options = {**fast.OPTIONS, "cache": False, "fastmath": {"contract"}}
    contracted = numba.njit(**options)(compiled.general.py_func)
    found = residuals_of(contracted)
    if "fmadd" in "".join(contracted.inspect_asm().values()):
        assert np.count_nonzero(found != expected) > 100


@pytest.mark.parametrize("value", [100.125, -7.75, np.inf, -np.inf])
def test_a_value_outside_is_the_same_error(value):
    X = np.array([[1.0, 5.0], [2.0, value], [np.nan, np.nan]])
    domain = Domain.from_bounds([(0, 10), (-7.5, 100)], 2)
    messages = []
    for kind in (fused.Blocks, Matrices):
        with pytest.raises(OutOfBounds) as caught:
            kind(X, domain, ["age", "dose"])
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "'dose' has 1 value(s)" in messages[0]


def test_loops_whose_bits_differ_are_not_used(monkeypatch):
    """As on a machine whose compiler contracts."""
    monkeypatch.setattr(fused, "write_sums", lambda *arguments: arguments[-1].fill(0))
    with pytest.raises(ArithmeticError, match="differ"):
        fused.check()


@settings(max_examples=50)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_products_of_wide_integers_are_numpys(limbs, terms, seed):
    """Limbs that are all ones carry the furthest."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2**64, (2, limbs, terms, 7), np.uint64)
    a[rng.random(a.shape) < 0.3] = b[rng.random(b.shape) < 0.3] = np.uint64(2**64 - 1)
    few = b[:, 0].copy()
    few[limbs // 2 + 1 :] = 0
    products = []
    for wanted in "01":
        with mock.patch.dict(os.environ, {fast.VARIABLE: wanted}):
            products.append([wide.sum_of_products(a, b), wide.scale(a[:, 0], few)])
    np.testing.assert_array_equal(products[1][0], products[0][0])
    np.testing.assert_array_equal(products[1][1], products[0][1])
