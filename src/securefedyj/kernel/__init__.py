"""The native kernel: which of its loops this process uses, and on how many threads.

The loops are C, compiled when the package is built, once for each level: a set of instructions that
a processor may have. All levels give the same bits. Where the package was built without a compiler,
NumPy does the work: more slowly, with the same integers in every exact sum.

SECUREFEDYJ_KERNEL
    The level to use (`baseline`, `v3`, `v4` or `ifma` on x86-64), or `numpy`. Unset: the best
    that this processor has.
SECUREFEDYJ_THREADS
    The most threads at once. Unset: the number of cores that this process may use.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from securefedyj.errors import InputError

VARIABLE = "SECUREFEDYJ_KERNEL"
THREADS_VARIABLE = "SECUREFEDYJ_THREADS"
NUMPY = "numpy"

# With less work than this, in values, another thread does not pay.
_SHARE = 1 << 17
# Pieces of work for each thread, so that all threads end at about the same time.
_PIECES = 4
_MANY = 1 << 19

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")


# As in setup.py. The files are part of the package.
_FILES = sorted(Path(__file__).parent.glob("*.[ch]"))
_SOURCE = hashlib.sha256(b"".join(path.read_bytes() for path in _FILES)).hexdigest()


@cache
def _compiled() -> Any:
    """The extension module, or None where it was not built."""
    try:
        compiled = import_module("securefedyj._kernel")
    except ImportError:
        return None
    if getattr(compiled, "source", str)() != _SOURCE:
        raise InputError(
            "SFY-NUM-021",
            "The kernel was compiled from other files than this package has, and could compute "
            "other sums. Install the package again, for example by: pip install --editable .",
        )
    return compiled


def levels() -> tuple[str, ...]:
    """What `SECUREFEDYJ_KERNEL` may be here, the fastest last."""
    compiled = _compiled()
    return (NUMPY, *(compiled.levels() if compiled else ()))


def level() -> str:
    """The level that this process uses, or `numpy`."""
    return _chosen(_compiled(), os.environ.get(VARIABLE))[0]


class Loops:
    """The functions of the extension module at one level; `module.c` has them."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return partial(getattr(_compiled(), name), self._number)


@cache
def _chosen(compiled: Any, wanted: str | None) -> tuple[str, Loops | None]:
    """The level that the environment wants, and its loops."""
    there = levels()
    name = wanted or there[-1]
    if name not in there:
        raise InputError(
            "SFY-NUM-014",
            f"{VARIABLE} is {name!r}; on this machine it may be {', '.join(there)}.",
        )
    return name, None if name == NUMPY else Loops(there.index(name) - 1)


def loops() -> Loops | None:
    """The loops to use, or None where NumPy does the work."""
    return _chosen(_compiled(), os.environ.get(VARIABLE))[1]


def give_back(needed: int) -> None:
    """Give memory that is free back to the system, if many more bytes of it are needed."""
    if needed >= _MANY and (compiled := _compiled()):
        compiled.give_back()


def described() -> str:
    """A few words for people: what does the work here."""
    if _compiled() is None:
        return "no kernel, since there was no C compiler: NumPy does the work, slowly"
    return f"kernel: {level()}"


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


def shared_out(tasks: int, values: int, work: Callable[[int, int], object]) -> None:
    """Call work(first, last) for all tasks, in threads; `values` is their total size."""
    most = values // _SHARE
    parts = min(threads(), most) if most > 1 < tasks else 1
    if parts < 2:
        work(0, tasks)
        return
    cuts = {tasks * k // (_PIECES * parts) for k in range(_PIECES * parts + 1)}
    in_threads(lambda pair: work(*pair), pairwise(sorted(cuts)))


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
    """At least that many threads, which stay: to start one takes as long as a small piece.

    They do not survive a fork: a child starts its own.
    """
    with _POOL_LOCK:
        if not _POOL or _POOL[0][0] != os.getpid() or _POOL[0][1] < count:
            _POOL[:] = [(os.getpid(), count, ThreadPoolExecutor(count, "securefedyj-loops"))]
        return _POOL[0][2]


if hasattr(os, "register_at_fork"):  # the lock may be held by another thread at that moment
    os.register_at_fork(after_in_child=lambda: globals().update(_POOL_LOCK=threading.Lock()))
