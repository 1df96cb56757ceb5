"""Compiled loops where Numba is installed (extra `fast`): whether, when, and on how many cores.

Such a loop gives the bits that NumPy gives, so that nothing but time depends on what is decided
here. Numba takes about a second to load, and several more to compile a loop for the first time on a
machine; what it has compiled is kept in a cache. So a process loads it once NumPy has had about as
much to do as that.

SECUREFEDYJ_FAST
    0: never; 1: from the first value on; unset: once it pays.
SECUREFEDYJ_THREADS
    The most threads at once; unset: as many as the cores that this process may use.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from securefedyj.errors import InputError

VARIABLE = "SECUREFEDYJ_FAST"
THREADS_VARIABLE = "SECUREFEDYJ_THREADS"
# Seconds of NumPy's work after which loops are loaded: with Numba, or where it is there already.
_PAYS, _PAYS_MORE = 1.0, 0.1

# Of every compiled loop. No flag of `fastmath` is set: operations are neither contracted nor
# reordered. Threads of this process go on beside a loop.
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")


class Loops:
    """A module of compiled loops, loaded once it pays, and only if its bits are NumPy's.

    Parameters
    ----------
    module : str
        Its name. Importing it imports Numba. Its function `check()` runs every loop on a few values
        and raises an error unless the result has the bits that NumPy gives.
    """

    def __init__(self, module: str) -> None:
        self._name = module
        self._module: Any = None
        self._seconds = 0.0
        self._lock = threading.Lock()

    def after(self, seconds: float) -> Any:
        """The module, or None where NumPy is to do the work, which takes it about so long."""
        wanted = os.environ.get(VARIABLE, "")
        if wanted == "0":
            return None
        with self._lock:
            if self._module is None:
                self._seconds += seconds
                enough = _PAYS_MORE if "numba" in sys.modules else _PAYS
                if wanted == "1" or self._seconds >= enough:
                    self._module = _load(self._name)
        return self._module or None


def _load(name: str) -> Any:
    """The module; False if it cannot be used here."""
    if find_spec("numba") is None:
        return False
    try:
        module = import_module(name)
        module.check()
    except Exception as error:  # whatever it is, NumPy can do the work
        warnings.warn(
            f"The compiled loops of extra `fast` cannot be used: {error} NumPy takes their place, "
            f"with the same result. {VARIABLE}=0 does without them and without this warning.",
            stacklevel=2,
        )
        return False
    return module


def threads() -> int:
    """How many threads may work at once."""
    if wanted := os.environ.get(THREADS_VARIABLE):
        if not (wanted.isascii() and wanted.isdigit() and int(wanted)):
            raise InputError(
                "SFY-NUM-005", f"{THREADS_VARIABLE} must be a number from 1 on; it is {wanted!r}"
            )
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_threads(work: Callable[[_Piece], _Result], pieces: Iterable[_Piece]) -> list[_Result]:
    """The results of all pieces of the work, in order; the loops in them run at the same time."""
    todo = list(pieces)
    count = min(len(todo), threads())
    if count < 2:
        return [work(piece) for piece in todo]
    places: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(todo)):
        places.put(place)
    done: dict[int, _Result] = {}

    def take() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                place = places.get_nowait()
                done[place] = work(todo[place])

    others = [_helpers(count - 1).submit(take) for _ in range(count - 1)]
    try:
        take()  # this thread is there already
    finally:
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()
    return [done[place] for place in range(len(todo))]


_POOL: list[tuple[int, int, ThreadPoolExecutor]] = []
_POOL_LOCK = threading.Lock()


def _helpers(count: int) -> ThreadPoolExecutor:
    """At least so many threads, which stay: to start one takes as long as a small piece.

    They survive no fork: a child starts its own.
    """
    with _POOL_LOCK:
        if not _POOL or _POOL[0][0] != os.getpid() or _POOL[0][1] < count:
            _POOL[:] = [(os.getpid(), count, ThreadPoolExecutor(count, "securefedyj-loops"))]
        return _POOL[0][2]


if hasattr(os, "register_at_fork"):  # the lock may be held by another thread at that moment
    os.register_at_fork(after_in_child=lambda: globals().update(_POOL_LOCK=threading.Lock()))
