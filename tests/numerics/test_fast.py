"""When compiled loops are used, what happens where they cannot be, and threads."""

from __future__ import annotations

import os
import sys
import threading
import types
import warnings

import numpy as np
import pytest

from securefedyj.numerics import fast
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.fast import THREADS_VARIABLE, VARIABLE, Loops, in_threads, threads
from securefedyj.numerics.matrices import Matrices
from securefedyj.numerics.sums import ArraySilo


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """A module of loops, whose check can be made to fail."""
    made = types.SimpleNamespace(check=lambda: None)
    monkeypatch.setitem(sys.modules, "some_loops", made)
    monkeypatch.setattr(fast, "find_spec", lambda name: made)
    monkeypatch.delenv(VARIABLE, raising=False)
    return made


def test_loops_are_loaded_when_numpy_has_had_as_much_to_do(module, monkeypatch):
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    loops = Loops("some_loops")
    assert [loops.after(0.3) for _ in range(3)] == [None] * 3
    assert loops.after(0.3) is module
    assert loops.after(0.0) is module


def test_more_loops_are_loaded_sooner(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", types.ModuleType("numba"))
    loops = Loops("some_loops")
    assert [loops.after(0.03) for _ in range(3)] == [None] * 3
    assert loops.after(0.03) is module


def test_the_environment_decides_first(module, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    loops = Loops("some_loops")
    assert loops.after(0.0) is module
    monkeypatch.setenv(VARIABLE, "0")
    assert loops.after(100.0) is None


def test_loops_that_fail_are_replaced_by_numpy_with_one_warning(module):
    def fail() -> None:
        raise OSError("No space left on device.")

    module.check = fail
    loops = Loops("some_loops")
    with pytest.warns(UserWarning, match=r"cannot be used: No space left.*NumPy takes their place"):
        assert loops.after(2.0) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loops.after(2.0) is None


def test_nobody_is_warned_who_has_not_asked_for_numba(module, monkeypatch):
    monkeypatch.setattr(fast, "find_spec", lambda name: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Loops("some_loops").after(2.0) is None


def test_a_silo_takes_the_loops_or_numpy_and_float64_from_any_table(monkeypatch):
    """Narrower numbers are widened before anything is computed of them."""
    fused = pytest.importorskip("securefedyj.numerics.fused")
    X = np.random.default_rng(1).lognormal(size=(50, 2)).astype(np.float32)
    domain, feature, lmbda = Domain.from_bounds(None, 2), np.arange(2), np.array([0.3, -1.0])
    encoding = choose_encoding(domain, np.full(2, 50), lmbda)
    found = []
    for wanted, kind in (("0", Matrices), ("1", fused.Blocks)):
        monkeypatch.setenv(VARIABLE, wanted)
        for table in (X, X.astype(np.float64), X.astype(np.float64).tolist()):
            silo = ArraySilo(table, domain, ["a", "b"])
            assert isinstance(silo._values, kind)
            assert silo.nbytes >= 8 * X.size
            found.append(silo.sums(feature, lmbda, encoding, 8))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


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
