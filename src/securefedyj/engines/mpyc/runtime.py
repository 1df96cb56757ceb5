"""Programs on the MPyC library, one process per party on this machine.

MPyC is one global runtime, configured by `sys.argv` when it is imported, with an event loop and
connections of its own. All of that stays inside the children. They talk over socket pairs made by
the caller: no port is opened, so there is none to be taken, guessed or reached from outside.

MPyC unpickles what these processes send each other, which does no harm where one caller has started
them all. On a network it does not (`child.py` beside this file).
"""

import asyncio
import importlib.metadata
import importlib.util
import logging
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Generic, TypeVar

from securefedyj.engines.mpyc import processes as subprocesses
from securefedyj.engines.mpyc.engine import OPTIONS, Mpyc, drive, refuse_pairs
from securefedyj.engines.mpyc.operations import Library
from securefedyj.errors import PartyStopped

R = TypeVar("R")


@dataclass(frozen=True)
class Finished(Generic[R]):
    """What came of a party's program.

    Attributes
    ----------
    result
        What the program returned.
    seconds
        From the moment all peers were connected to the program's end.
    bytes_sent
        Bytes sent to each peer, MPyC's headers included.
    """

    result: R
    seconds: float
    bytes_sent: Mapping[str, int]


def run(
    program: Callable[..., Coroutine[Any, Any, R]],
    inputs: Mapping[str, tuple[Any, ...]],
    *,
    timeout: float | None = None,
) -> dict[str, Finished[R]]:
    """Run `program(engine, *inputs[name])` at every party, with engine `mpyc`.

    Parameters
    ----------
    program
        A coroutine function at the top of a module, the same at all parties.
    inputs
        Each party's own arguments. They go to its process and nowhere else.
    timeout
        Seconds after which `TimeoutError` is raised.
    """
    wrapped = {name: (tuple(inputs), program, *own) for name, own in inputs.items()}
    return run_bare(_with_engine, wrapped, options=OPTIONS, timeout=timeout)


async def _with_engine(
    mpc: Any, names: Sequence[str], program: Callable[..., Coroutine[Any, Any, R]], *own: Any
) -> R:
    return await drive(program(Mpyc(Library(mpc), names), *own))


def run_bare(
    program: Callable[..., Coroutine[Any, Any, R]],
    inputs: Mapping[str, tuple[Any, ...]],
    *,
    options: Sequence[str] = (),
    timeout: float | None = None,
) -> dict[str, Finished[R]]:
    """Run `program(mpc, *inputs[name])` at every party, where mpc is MPyC's runtime itself.

    `options` are those of MPyC's command line; the other parameters are those of `run`.
    """
    refuse_pairs(len(inputs))
    check_installed()
    names = list(inputs)
    lines: dict[str, dict[str, socket.socket]] = {name: {} for name in names}
    for one, other in combinations(names, 2):
        lines[one][other], lines[other][one] = socket.socketpair()

    def hang_up() -> None:
        """Close the caller's ends, or a dead party's silence would not be an end of file."""
        for line in (line for own in lines.values() for line in own.values()):
            line.close()

    arguments = {
        name: (name, names, lines[name], tuple(options), program, own)
        for name, own in inputs.items()
    }
    try:
        return subprocesses.run(_run_party, arguments, timeout=timeout, started=hang_up)
    finally:
        hang_up()


def check_installed() -> None:
    """Raise unless MPyC is there, in a version of which it is known what it opens."""
    if importlib.util.find_spec("mpyc") is None:
        raise ImportError(
            "Engine 'mpyc' needs the MPyC library: pip install 'securefedyj[mpyc]'", name="mpyc"
        )
    version = importlib.metadata.version("mpyc")
    if version.split(".")[:2] != ["0", "11"]:
        raise ImportError(
            f"Engine 'mpyc' needs MPyC 0.11, and {version} is here: "
            "pip install 'securefedyj[mpyc]'",
            name="mpyc",
        )


async def _run_party(
    name: str,
    names: Sequence[str],
    lines: Mapping[str, socket.socket],
    options: Sequence[str],
    program: Callable[..., Coroutine[Any, Any, R]],
    own: tuple[Any, ...],
) -> Finished[R]:
    """Connect, run the program and count, in the child."""
    mpc = library(names.index(name), len(names), options)
    failure = _failure_of_a_task()
    await _or_fail(failure, _connected(mpc, names, lines, failure))
    begin = time.perf_counter()
    result = await _or_fail(failure, program(mpc, *own))
    seconds = time.perf_counter() - begin
    sent = {names[p.pid]: p.protocol.nbytes_sent for p in mpc.parties if p.pid != mpc.pid}
    return Finished(result, seconds, sent)


def library(index: int, parties: int, options: Sequence[str]) -> Any:
    """Import MPyC, which configures itself from the command line, with a command line for it."""
    if "mpyc.runtime" in sys.modules:
        raise ImportError(
            "MPyC was imported before it could be configured; do not import it at the top of the "
            "program's module or of the main module."
        )
    logging.disable(logging.INFO)
    arguments = sys.argv
    sys.argv = ["mpyc", f"-M{parties}", f"-I{index}", "--no-log", *options]
    try:
        from mpyc.runtime import mpc
    finally:
        sys.argv = arguments
    return mpc


def _failure_of_a_task() -> "asyncio.Future[None]":
    """Return a future that fails when any of MPyC's background tasks does."""
    loop = asyncio.get_running_loop()
    failure = loop.create_future()

    def note(_: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and not failure.done():
            failure.set_exception(error)

    loop.set_exception_handler(note)
    return failure


async def _or_fail(failure: "asyncio.Future[None]", work: Coroutine[Any, Any, R]) -> R:
    """Wait for the work, or for a failure, which may leave it waiting for ever."""
    task = asyncio.ensure_future(work)
    either: set[asyncio.Future[Any]] = {task, failure}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        failure.result()  # raises
    return task.result()


async def _connected(
    mpc: Any,
    names: Sequence[str],
    lines: Mapping[str, socket.socket],
    failure: "asyncio.Future[None]",
) -> None:
    """Do what `mpc.start()` does, over given sockets instead of ports."""
    from mpyc.asyncoro import MessageExchanger

    class Line(MessageExchanger):  # type: ignore[misc]  # untyped library
        def __init__(self, peer: str) -> None:
            index = names.index(peer)
            # Of each pair, the lower one introduces itself.
            super().__init__(mpc, index if mpc.pid < index else None)
            self.peer = peer

        def connection_lost(self, exc: Exception | None) -> None:
            if not failure.done():
                sentence = f"Party {self.peer} stopped; the reason is known there."
                failure.set_exception(PartyStopped(sentence))

    loop = asyncio.get_running_loop()
    complete = mpc.parties[mpc.pid].protocol = loop.create_future()
    for peer, line in lines.items():
        await loop.create_connection(partial(Line, peer), sock=line)
    await complete
