"""The kernel: the same integers at every level and by NumPy; which level is used; threads."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj import SecureFedYJ, kernel
from securefedyj.errors import InputError
from securefedyj.kernel import THREADS_VARIABLE, VARIABLE, in_threads, threads
from securefedyj.numerics import reference, wide
from securefedyj.numerics.arrays import each
from securefedyj.numerics.elementary import log1p, log_ratio
from securefedyj.numerics.encoding import LINEAR, LOGARITHM, RANKED, RATIO, Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo, OutOfBounds
from tests.refusals import refused

pytestmark = pytest.mark.filterwarnings("error")

LEVELS = kernel.levels()
COMPILED = LEVELS[1:]

BOUNDS = [(-(2.0**20), 2.0**20), (-1e3, 1e3), (0.0, 30.0), (-1e-9, 1e-9), (-(2.0**100), 2.0**90),
          (-1.0, 1e9), (-(2.0**-40), 2.0**-41), (-5.0, -1.0)]  # fmt: skip


POSITIVE = [(1.0, 2.0**20), (1e-300, 1e300), (1e6, 1e6 + 1000), (5e-324, 1e-310), (3.0, 3.0001)]


class Case(NamedTuple):
    X: np.ndarray
    bounds: tuple[float, float]
    feature: np.ndarray
    lmbda: np.ndarray
    scale: int = LOGARITHM


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Ties, zeros, both signs, missing values, empty columns; lambdas of all kinds."""
    bounds = draw(st.sampled_from(BOUNDS))
    rows = draw(st.sampled_from([0, 1, 2, 7, 8, 9, 15, 100, 511, 512, 513, 1100]))
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
        float(np.ravel(limit)[0]) for limit in Domain.from_bounds(bounds, 1).limits()[:2]
    )
    near = st.sampled_from([-1.0, -1e-3, -1e-12, 0.0, 5e-324, 0.02, 1.0, 2.0, 2 + 1e-9, 2.6])
    anywhere = st.floats(lowest, highest)
    drawn = draw(st.lists(st.one_of(near, anywhere), min_size=1, max_size=6))
    lmbda = np.clip([*drawn, lowest, highest], lowest, highest)
    return Case(X, bounds, rng.integers(0, columns, len(lmbda)), lmbda)


@st.composite
def positive_cases(draw: st.DrawFn) -> Case:
    """Features for Box-Cox: close to the lower bound, and far from it."""
    bounds = draw(st.sampled_from(POSITIVE))
    rows, columns = draw(st.sampled_from([1, 7, 8, 9, 100, 513])), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    span, shape = np.log(bounds[1]) - np.log(bounds[0]), (rows, columns)
    decades = draw(st.sampled_from([0, 2, 16]))
    with np.errstate(over="ignore"):
        away = span * rng.random(shape) * 10 ** -rng.uniform(0, max(decades, 1e-9), shape)
        X = np.clip(np.exp(np.log(bounds[0]) + away), *bounds)
    X[rng.random(shape) < 0.1] = bounds[0]
    X[rng.random(shape) < 0.1] = np.nan
    limits = Domain.from_bounds(bounds, 1, [RATIO]).limits()[:2]
    lowest, highest = (float(np.ravel(limit)[0]) for limit in limits)
    drawn = draw(st.lists(st.floats(lowest, highest), min_size=1, max_size=4))
    lmbda = np.array([0.0, *drawn, lowest, highest])
    return Case(X, bounds, rng.integers(0, columns, len(lmbda)), lmbda, scale=RATIO)


def at(level: str) -> pytest.MonkeyPatch:
    """What undoes the choice of a level."""
    patch = pytest.MonkeyPatch()
    patch.setenv(VARIABLE, level)
    return patch


def sums_of(level: str, case: Case, limbs: int | None = None) -> list[np.ndarray]:
    patch = at(level)
    try:
        columns = case.X.shape[1]
        domain = Domain.from_bounds(case.bounds, columns, [case.scale] * columns)
        silo = ArraySilo(case.X, domain, [str(j) for j in range(case.X.shape[1])])
        of_pairs = domain.take(case.feature)
        encoding = choose_encoding(of_pairs, silo.count[case.feature] * 3, case.lmbda)
        limbs = limbs or int(encoding.limbs.max())
        sums = silo.sums(case.feature, case.lmbda, encoding, limbs)
        return [silo.count, silo.phi_sum(case.feature, limbs), *sums]
    finally:
        patch.undo()


def assert_same(case: Case, **options: Any) -> None:
    by_numpy = sums_of(kernel.NUMPY, case, **options)
    for level in COMPILED:
        for ours, numpys in zip(sums_of(level, case, **options), by_numpy, strict=True):
            np.testing.assert_array_equal(ours, numpys, err_msg=level)


@settings(max_examples=150)
@given(cases(), st.sampled_from([None, 1, 30]))
def test_sums_are_the_same_integers_at_every_level_and_by_numpy(case, limbs):
    """Also where the integers are cut to few limbs, or have many to spare."""
    assert_same(case, limbs=limbs)


@settings(max_examples=100)
@given(positive_cases())
def test_sums_for_box_cox_are_the_same_integers_at_every_level_and_by_numpy(case):
    assert_same(case)


@pytest.mark.parametrize("level", LEVELS)
def test_a_silo_keeps_the_logarithms_of_ratios(level, monkeypatch):
    """The bits are those of `log_ratio`; missing values are 0, other features as without it."""
    monkeypatch.setenv(VARIABLE, level)
    X = 10 ** np.random.default_rng(3).uniform(-300, 300, (100, 2))
    X[3], X[5, 0] = 1e-300, np.nan
    X[:, 1] = np.clip(X[:, 1], 1e-300, 1e9)
    bounds = [(1e-300, 1e300), (0, 1e9)]
    silo = ArraySilo(X, Domain.from_bounds(bounds, 2, [RATIO, LOGARITHM]), ["x", "y"])
    expected = np.nan_to_num(log_ratio(X[:, 0], np.array(1e-300))), log1p(X[:, 1])
    np.testing.assert_array_equal(silo._values[:, :100], expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [0, 1, 33, 1000])
def test_counts_of_values_up_to_points_are_right_at_every_level(level, rows, monkeypatch):
    """Two of the features are about one column, and share its values."""
    monkeypatch.setenv(VARIABLE, level)
    rng = np.random.default_rng(rows)
    X = np.clip(np.round(rng.normal(scale=3, size=(rows, 2))), -9, 9)
    X[rng.random(X.shape) < 0.2] = np.nan
    column = np.array([1, 0, 1, 0])
    scale = [RANKED, LINEAR, RANKED, RANKED]
    silo = ArraySilo(X, Domain.from_bounds((-9, 9), 4, scale), list("abcd"), column)
    feature = np.array([2, 0, 3])
    points = np.array([[-9.0, 0.0, 9.0], [-0.0, 2.5, 1e9]])
    expected = [np.count_nonzero(X[:, column[feature]] <= at, axis=0) for at in points]
    assert silo.ranks(feature, points).tolist() == np.array(expected).tolist()
    assert silo.count.tolist() == np.count_nonzero(~np.isnan(X), axis=0)[column].tolist()
    assert silo.nbytes < 4 * 8 * max(rows, 512) + 1000


@pytest.mark.parametrize("lmbda", [-9.0, -2.0, -0.2, 0.3, 1.0, 2.0, 9.0])
def test_equal_values_do_not_overflow(lmbda):
    """Blocks of the largest digits, and as many carries as there are values."""
    for x in (np.nextafter(2.0**20, 0), -1.9999999, 1 / 3, -(2.0**20)):
        case = Case(np.full((3000, 1), x), BOUNDS[0], np.zeros(1, int), np.array([lmbda]))
        assert_same(case)


@pytest.mark.parametrize("odd", [1, 3, 5, 2**51 + 1, 2**53 - 1])
def test_values_in_the_middle_of_two_digits_do_not_overflow(odd):
    """Half a unit of a digit leaves the largest rest for those below it."""
    x = odd * 2.0 ** -np.arange(odd.bit_length(), 190.0)
    case = Case(np.array([x, -x]), (-1.0, 1.0), np.arange(len(x)), np.zeros(len(x)), scale=LINEAR)
    assert_same(case)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(120_000, 2), (300, 400)], ids=["long", "wide"])
def test_threads_change_nothing(shape, order, monkeypatch):
    """Few pairs share their rows among threads, many are shared themselves."""
    rng = np.random.default_rng(3)
    X = np.asarray(rng.normal(size=shape) * 10 ** rng.uniform(-3, 3, shape), order=order)
    X[rng.random(shape) < 0.05] = np.nan
    feature = np.repeat(np.arange(shape[1]), 3)
    case = Case(X, (-1e5, 1e5), feature, np.resize([-1.5, 0.01, 0.8], len(feature)))
    monkeypatch.setenv(THREADS_VARIABLE, "1")
    alone = sums_of(LEVELS[-1], case)
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    for ours, others in zip(sums_of(LEVELS[-1], case), alone, strict=True):
        np.testing.assert_array_equal(ours, others)


def unaligned(values: np.ndarray) -> np.ndarray:
    """The same numbers as float64, at an odd address."""
    shifted = np.empty(values.size * 8 + 1, np.uint8)[1:].view(np.float64).reshape(values.shape)
    shifted[:] = values
    return shifted


def test_a_silo_takes_float64_from_any_table():
    """Narrower numbers are widened before anything is computed of them; memory may be anywhere."""
    X = np.random.default_rng(1).lognormal(size=(50, 2)).astype(np.float32)
    tables = (X, X.astype(np.float64), X.tolist(), np.asfortranarray(X), unaligned(X))
    feature, lmbda = np.arange(2), np.array([0.3, -1.0])
    for level in LEVELS:
        found = [sums_of(level, Case(np.asarray(X), (0, 1e6), feature, lmbda)) for X in tables]
        for other in found[1:]:
            for ours, first in zip(other, found[0], strict=True):
                np.testing.assert_array_equal(ours, first)


def test_a_silo_takes_bounds_from_another_process():
    """What is unpickled from a message on the network need not be aligned."""
    X, feature, lmbda = np.array([[1.0, 2.0], [3.0, 5.0]]), np.arange(2), np.array([0.3, -1.0])
    domain = Domain.from_bounds((0, 10), 2)
    shifted = each(unaligned, domain)
    encoding = choose_encoding(domain.take(feature), np.full(2, 2), lmbda)
    found = [
        ArraySilo(X, d, ["x", "y"]).sums(feature, lmbda, encoding, 4) for d in (domain, shifted)
    ]
    for ours, others in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, others)


@pytest.mark.parametrize("value", [100.125, -7.75, np.inf, -np.inf])
def test_a_value_outside_is_the_same_error(value):
    X = np.array([[1.0, 5.0], [2.0, value], [np.nan, np.nan]])
    domain = Domain.from_bounds([(0, 10), (-7.5, 100)], 2)
    messages = []
    for level in LEVELS:
        patch = at(level)
        with pytest.raises(OutOfBounds) as caught:
            ArraySilo(X, domain, ["age", "dose"])
        patch.undo()
        messages.append(str(caught.value))
    assert len(set(messages)) == 1
    assert "'dose' has 1 value(s)" in messages[0]


def test_operations_are_not_contracted():
    """A fused multiply-add would round once where the protocol rounds twice: the bits differ."""
    L = np.random.default_rng(5).uniform(0.4, 9.0, 4096)
    # Of each value alone, on a grid that is fine enough to show the last bit.
    case = Case(np.expm1(L)[None], (0.0, 1e4), np.arange(4096), np.full(4096, 0.7))
    assert_same(case)


@settings(max_examples=50)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_products_of_wide_integers_are_those_of_python(limbs, terms, seed):
    """Limbs that are all ones carry the furthest."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2**64, (2, limbs, terms, 7), np.uint64)
    a[rng.random(a.shape) < 0.3] = b[rng.random(b.shape) < 0.3] = np.uint64(2**64 - 1)
    few = b[:, 0].copy()
    few[limbs // 2 + 1 :] = 0
    modulus = 2 ** (64 * limbs)
    x, y = (np.array(wide.to_ints(v.reshape(limbs, -1)), object).reshape(terms, 7) for v in (a, b))
    expected = [value % modulus for value in (x * y).sum(axis=0)]
    of_few = [v * w % modulus for v, w in zip(x[0], wide.to_ints(few), strict=True)]
    for level in LEVELS:
        patch = at(level)
        product, scaled = wide.sum_of_products(a, b), wide.scale(a[:, 0], few)
        patch.undo()
        assert [value % modulus for value in wide.to_ints(product)] == expected
        assert [value % modulus for value in wide.to_ints(scaled)] == of_few


@pytest.mark.skipif(not COMPILED, reason="built without a compiler")
def test_silos_with_and_without_the_kernel_find_the_same_in_one_run(monkeypatch):
    rng = np.random.default_rng(8)
    parts = [rng.normal(2, 3, size=(n, 3)) for n in (40, 80, 33)]

    def transcript() -> list[Any]:
        return list(SecureFedYJ(engine="clear").fit(parts).transcript_.to_lines())

    expected = transcript()
    original, turns = ArraySilo.sums, iter(range(10**6))

    def sums(*arguments: Any) -> Any:
        """Each silo by another level."""
        monkeypatch.setenv(VARIABLE, LEVELS[next(turns) % len(LEVELS)])
        return original(*arguments)

    monkeypatch.setattr(ArraySilo, "sums", sums)
    assert transcript() == expected
    assert next(turns) > 6


@pytest.mark.skipif(not COMPILED, reason="built without a compiler")
def test_arrays_of_the_wrong_size_are_refused():
    """Nothing outside of an array is read or written, whatever is asked for."""
    loops = kernel.loops() or kernel.Loops(0)
    table, out, short = np.zeros((4, 512)), np.zeros((4, 1, 8), np.uint64), np.zeros(3)
    pairs = np.zeros((8, 88), np.uint8)
    for call in (
        partial(loops.transpose, table, 512, 0, 512, 5, np.zeros((512, 5)), 5),
        partial(loops.survey, table, 5, 512, np.zeros(10, np.int64), np.zeros(10), np.zeros(10)),
        partial(loops.sums, table, 512, 0, 1024, pairs, 0, 8, 1, out),
        partial(loops.sums, table, 512, 0, 512, pairs, 0, 9, 1, out),
        partial(loops.products, table, table, 1, 1, 1, 9, 0, 9, short),
        partial(loops.row_sums, table, 1, 512, np.full(4, 520), np.arange(4), np.zeros(16),
                np.zeros((4, 1, 11)), 0, 4),
        partial(loops.distances, table, 512, np.zeros(64, np.uint8), short, 1, 512,
                np.zeros(1, np.int64), 0, 1),
        partial(loops.arrange, table, 4, 600, *[short] * 4, table, 512, short, short),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="wrong size"):
            call()
    unaligned = np.zeros(8 * 2048 + 1, np.uint8)[1:].view(np.float64).reshape(4, 512)
    with pytest.raises(ValueError, match="not aligned"):
        loops.sums(unaligned, 512, 0, 512, pairs, 0, 8, 1, out)
    with pytest.raises(TypeError, match="number of arguments"):
        loops.sums(table)
    with pytest.raises((TypeError, BufferError)):
        loops.products(1.5, table, 1, 1, 1, 9, 0, 9, short)


def test_the_environment_chooses_the_level(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert kernel.level() == LEVELS[-1]
    for level in LEVELS:
        monkeypatch.setenv(VARIABLE, level)
        assert kernel.level() == level
        assert (kernel.loops() is None) == (level == kernel.NUMPY)
        assert (level if COMPILED else "no C compiler") in kernel.described()
    monkeypatch.setenv(VARIABLE, "v17")
    with pytest.raises(ValueError, match=f"{VARIABLE} is 'v17'") as caught:
        kernel.level()
    assert getattr(caught.value, "code", "") == "SFY-NUM-014"


def test_without_a_compiler_numpy_does_the_work_and_says_so(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(kernel, "_compiled", lambda: None)
    assert kernel.levels() == (kernel.NUMPY,)
    assert kernel.loops() is None
    assert "no C compiler" in kernel.described()
    X = np.random.default_rng(1).normal(size=(60, 2))
    assert SecureFedYJ(engine="clear").fit([X]).converged_.all()


@pytest.mark.skipif(not COMPILED, reason="there is no C compiler")
def test_a_kernel_of_other_source_files_is_refused(monkeypatch):
    monkeypatch.setattr(kernel, "_SOURCE", "another")
    kernel._compiled.cache_clear()
    try:
        with refused("SFY-NUM-021", InputError):
            kernel.level()
    finally:
        kernel._compiled.cache_clear()


def test_threads_are_those_of_the_process_or_fewer(monkeypatch):
    monkeypatch.delenv(THREADS_VARIABLE, raising=False)
    assert 1 <= threads() <= (os.cpu_count() or 1)
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    assert threads() == 3
    for wrong in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv(THREADS_VARIABLE, wrong)
        with pytest.raises(ValueError, match=f"{THREADS_VARIABLE} must be a number from 1 on"):
            threads()


def test_pieces_run_at_the_same_time_and_come_back_in_order(monkeypatch):
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    barrier = threading.Barrier(3, timeout=60)

    def work(piece: int) -> int:
        barrier.wait()
        return piece * piece

    assert in_threads(work, range(3)) == [0, 1, 4]
    assert in_threads(lambda piece: piece, []) == []


@pytest.mark.parametrize("tasks", [0, 1, 2, 5, 1000])
@pytest.mark.parametrize("values", [0, 1 << 14, 1 << 17, 1 << 30])
def test_work_is_shared_out_once(tasks, values, monkeypatch):
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    done: list[int] = []
    kernel.shared_out(tasks, values, lambda first, last: done.extend(range(first, last)))
    assert sorted(done) == list(range(tasks))


def test_an_error_in_any_thread_is_raised(monkeypatch):
    monkeypatch.setenv(THREADS_VARIABLE, "3")

    def work(piece):
        if piece == bad:
            raise ArithmeticError(piece)
        return piece

    for bad in range(5):
        with pytest.raises(ArithmeticError, match=str(bad)):
            in_threads(work, range(5))
    bad = -1
    assert in_threads(work, range(5)) == [0, 1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_has_threads_of_its_own(monkeypatch):
    """Those of its parent are not there."""
    monkeypatch.setenv(THREADS_VARIABLE, "2")
    expected = [0, 1, 4, 9]
    assert in_threads(lambda piece: piece**2, range(4)) == expected
    child = os.fork()
    if not child:
        done = in_threads(lambda piece: piece**2, range(4))
        os._exit(0 if done == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_phi_takes_two_digits_that_no_number_of_rows_overflows():
    assert reference.PHI_DIGIT == 26
    case = Case(np.full((5000, 1), 1e9), (-1.0, 1e9), np.zeros(1, int), np.zeros(1))
    assert_same(case)


def test_rows_beyond_what_the_kernel_sums_at_once_are_summed_in_parts(monkeypatch):
    x = np.random.default_rng(6).normal(size=(1000, 1))
    case = Case(x, (-10.0, 10.0), np.zeros(2, int), np.array([0.3, -4.0]))
    expected = sums_of(LEVELS[-1], case)
    monkeypatch.setattr("securefedyj.numerics.sums._MOST_ROWS", 96)
    for ours, others in zip(sums_of(LEVELS[-1], case), expected, strict=True):
        np.testing.assert_array_equal(ours, others)
