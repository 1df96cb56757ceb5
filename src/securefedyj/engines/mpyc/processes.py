"""One process per party, on this machine.

A child is a fresh interpreter (spawned, never forked): it gets its own arguments and nothing of
anybody else's. It runs one coroutine, reports the result or the error through its pipe, and
stays until the caller hangs up, so that nobody closes a connection that a slower party still
needs. Whatever happens, no process outlives the call, nor the caller.
"""

import asyncio
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Coroutine, Mapping
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn, TypeAlias, TypeVar

from securefedyj.errors import PartyStopped

R = TypeVar("R")

Main: TypeAlias = Callable[..., Coroutine[Any, Any, R]]

# How long a child that was hung up on may take to leave before it is killed.
_GRACE = 2.0
_EXIT = 60.0  # seconds that one that has ended may take until its exit code is there


def run(
    main: Main[R],
    arguments: Mapping[str, tuple[Any, ...]],
    *,
    timeout: float | None = None,
    started: Callable[[], None] = lambda: None,
) -> dict[str, R]:
    """Run `main(*arguments[name])` in a process for each name; return the results by name.

    Parameters
    ----------
    main
        A coroutine function that can be pickled: one at the top of a module. If the module is the
        script itself, that needs the usual `if __name__ == "__main__"`.
    arguments
        What each party gets. It is pickled to that party's process alone.
    timeout
        Seconds after which `TimeoutError` is raised.
    started
        Called when all processes have been started and have their arguments.

    Raises
    ------
    Exception
        The error of the party that failed first by itself, with its traceback as a note. That
        others stopped on its account (`PartyStopped`) is not news.
    """
    context = multiprocessing.get_context("spawn")
    children: dict[Connection, tuple[str, BaseProcess]] = {}
    try:
        for name, own in arguments.items():
            here, there = context.Pipe()
            children[here] = name, _spawned(context, (there, name, main, own))
            there.close()  # or the child's death would go unnoticed
        started()
        return _collected(children, timeout)
    finally:
        _dismiss(children)


def _spawned(context: SpawnContext, arguments: tuple[Any, ...]) -> BaseProcess:
    """Start a child; let it import the caller's script only if the arguments refer to it.

    By default a spawned process runs the script again up to its `if __name__ == "__main__"`, which
    the script of somebody who just calls us need not have.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        child = context.Process(target=_child_main, args=arguments, daemon=True)
        child.start()
    except (pickle.PicklingError, AttributeError):  # something is defined in the script
        sys.modules["__main__"] = script
        child = context.Process(target=_child_main, args=arguments, daemon=True)
        child.start()
    finally:
        sys.modules["__main__"] = script
    return child


def _collected(
    children: Mapping[Connection, tuple[str, BaseProcess]], timeout: float | None
) -> dict[str, Any]:
    """Wait for all reports, or for the first error that is a party's own."""
    deadline = None if timeout is None else time.monotonic() + timeout
    results: dict[str, Any] = {}
    stopped: list[PartyStopped] = []
    pending = dict(children)
    while pending:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = wait(list(pending), left)
        if not ready:
            late = ", ".join(name for name, _ in pending.values())
            raise TimeoutError(f"Not done after {timeout:g} seconds: {late}. Nobody has a result.")
        for connection in [one for one in pending if one in ready]:
            name, child = pending.pop(connection)
            result, error = _received(connection, name, child)
            if isinstance(error, PartyStopped):
                stopped.append(error)  # whoever stopped reports, too, or has died
            elif error is not None:
                raise error
            results[name] = result
    if stopped:
        raise stopped[0]
    return {name: results[name] for name, _ in children.values()}


def _received(
    connection: Connection, name: str, child: BaseProcess
) -> tuple[Any, Exception | None]:
    """Return a child's result or error; its death is an error."""
    try:
        result, error = connection.recv()
    except (EOFError, ConnectionError):
        child.join(_EXIT)
        return None, RuntimeError(
            f"The process of party {name} ended without a result (exit code {child.exitcode})."
        )
    return result, error


def _dismiss(children: Mapping[Connection, tuple[str, BaseProcess]]) -> None:
    """Hang up on all children, and see them out."""
    for connection in children:
        connection.close()
    deadline = time.monotonic() + _GRACE
    for _, child in children.values():
        child.join(max(0.0, deadline - time.monotonic()))
        if child.exitcode is None:
            child.kill()
            child.join()
        child.close()


def _child_main(
    connection: Connection, name: str, main: Main[Any], own: tuple[Any, ...]
) -> NoReturn:
    """Run and report, in the child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides, and hangs up
    threading.Thread(target=_leave_with_caller, args=(connection,), daemon=True).start()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(_report(connection, name, main, own))
    # A library may stop the loop, as MPyC does on errors; and after the report, too, messages
    # must still go out.
    while not task.cancelled():
        loop.run_forever()
    os._exit(1)


def _leave_with_caller(connection: Connection) -> None:
    try:
        connection.recv()
    except (EOFError, OSError):
        os._exit(0)


async def _report(connection: Connection, name: str, main: Main[Any], own: tuple[Any, ...]) -> None:
    try:
        report = pickle.dumps((await main(*own), None))
    except Exception as error:
        report = pickle.dumps((None, _portable(error, name)))
    connection.send_bytes(report)


def _portable(error: Exception, name: str) -> Exception:
    """Return the error if it survives pickling, or else one that says the same."""
    trace = "".join(traceback.format_exception(error))
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))
    except Exception:
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    copy.add_note(f"(at party {name})\n{trace}")
    return copy
