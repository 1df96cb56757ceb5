"""`securefedyj.join` and `securefedyj.result`: the commands, for a script or a notebook."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import warnings
from collections.abc import Callable, Collection, Coroutine
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from securefedyj.joining.fetching import ResultRun
from securefedyj.joining.options import JoinOptions
from securefedyj.joining.own import OwnPart, RowsProgress, Say
from securefedyj.joining.run import Cancelled, JoinRun
from securefedyj.joining.submit import SubmitRun
from securefedyj.network.carrier import Dialer
from securefedyj.network.consortium import Consortium
from securefedyj.network.session.events import Progress
from securefedyj.parameters import Parameters
from securefedyj.tables.dialect import Dialect

if TYPE_CHECKING:
    from securefedyj.estimators import FrozenYJ  # scikit-learn takes a while to import

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_EVERY = 0.1  # seconds between two calls of `cancelled`


async def join_async(
    consortium: Consortium | Path | str,
    *,
    key: Path | str,
    certificate: Path | str,
    output: Path | str,
    data: Any = None,
    missing: Collection[str] = (),
    without: Collection[str] = (),
    dialect: Dialect | None = None,
    cache_mb: int | None = None,
    own_minimum: int = JoinOptions.own_minimum,
    ledger: Path | str | None = None,
    submissions: Path | str | None = None,
    timeout: float = JoinOptions.timeout,
    wait: float = JoinOptions.wait,
    report: bool = True,
    proxy: str | None = None,
    say: Say | None = None,
    progress: Callable[[Progress], None] | None = None,
    rows: RowsProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
    dialer: Dialer | None = None,
) -> FrozenYJ:
    """Take part in a run, as the command `securefedyj join` does.

    `join` returns at the end of the run; `join_async` is the same as a coroutine. The files of the
    run are written to a folder. To resume a run after any interruption, repeat the call. Callbacks
    may be called from other threads.

    Parameters
    ----------
    consortium : path-like or Consortium
        The agreed file.
    key, certificate : path-like
        Of this party; others on the machine must not be able to read the key.
    output : path-like
        A folder for parameters.json, transcript.jsonl, cost.json, provenance.json and report.html.
    data : array-like, frame, table or path, optional
        The rows of a silo: anything that `ExpYJ` fits. Named columns are found by name; the
        columns of an array are in the agreed order. The rows must not change during the run. A
        helper has no data.
    missing : collection of str
        More texts that stand for a missing value, such as ``["?", "-999"]``.
    without : collection of str
        Features to take part without, as if all their values were missing here.
    dialect : Dialect, optional
        How CSV files are written, and which columns have other names here.
    cache_mb : int, optional
        Memory for keeping rows between passes; by default a quarter of the machine's memory.
    own_minimum : int
        Ignore features with fewer local values.
    ledger : path-like, optional
        The silo's own list of runs; ~/.securefedyj/ledger.jsonl by default.
    submissions : path-like, optional
        A folder with submissions that a member did not receive through the hub's mailbox.
    timeout, wait : float
        Seconds of silence after which a party counts as lost, and maximum seconds to wait for
        parties to connect, reconnect or compute.
    report : bool
        Whether to write report.html, which takes a second or more.
    proxy : str, optional
        The URL of an HTTP proxy between this machine and the hub; by default as the environment
        says.
    say : callable, optional
        Receives each message for the user. Without it, warnings about the risks of a run become
        `UserWarning`, and other messages are dropped.
    progress : callable, optional
        Receives a `Progress` after each opening.
    rows : callable, optional
        Receives "read" or "summed", the number of rows so far, and the total or None.
    cancelled : callable, optional
        Called several times a second; when it returns True, the party leaves the run as after
        Ctrl-C, and `Cancelled` is raised.
    dialer : Dialer, optional
        Connects this party to the others instead of the hub.

    Returns
    -------
    fitted : FrozenYJ
        The parameters, as a transformer: the same as ``load(output / "parameters.json")``.

    Raises
    ------
    ValueError, OSError
        The reason why there is no result, with the message of the command: it calls `own_minimum`
        ``--own-minimum``. JoinError is about other parties, TableError about the table.
    Cancelled
        If `cancelled` returned True. The other parties are notified, and wait.
    """
    arguments = locals()
    run = JoinRun(
        JoinOptions.of({name: arguments[name] for name in JoinOptions.__annotations__}, dialect),
        dialer=dialer,
        say=say or _ignore,
        warn=say or warnings.warn,
        progress=progress or _ignore,
        rows=rows or _ignore,
    )
    return await _fitted(run, cancelled)


async def result_async(
    consortium: Consortium | Path | str,
    *,
    key: Path | str,
    certificate: Path | str,
    output: Path | str,
    files: Collection[Path | str] = (),
    data: Any = None,
    without: Collection[str] = (),
    missing: Collection[str] = (),
    dialect: Dialect | None = None,
    cache_mb: int | None = None,
    ledger: Path | str | None = None,
    timeout: float = JoinOptions.timeout,
    wait: float = JoinOptions.wait,
    report: bool = True,
    proxy: str | None = None,
    say: Say | None = None,
    rows: RowsProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> FrozenYJ:
    """Fetch the result of a submitted run, as the command `securefedyj result` does.

    `result` returns when the result is there; `result_async` is the same as a coroutine. At least
    two members must have signed it, and it must pass the audit.

    Parameters
    ----------
    files : collection of path-like, optional
        The members' files MEMBER.result, if they came by another way than the hub's mailbox.
    data : array-like, frame, table or path, optional
        The rows of a silo, for its report; nothing is sent.
    wait : float
        Seconds to wait for the members.

    The other parameters, the value and the errors are those of `join`.
    """
    arguments = locals()
    run = ResultRun(
        JoinOptions.of(
            {name: arguments.get(name) for name in JoinOptions.__annotations__}, dialect
        ),
        files=[Path(file) for file in files],
        say=say or _ignore,
        warn=say or warnings.warn,
        rows=rows or _ignore,
    )
    return await _fitted(run, cancelled)


async def _fitted(run: JoinRun | ResultRun, cancelled: Callable[[], bool] | None) -> FrozenYJ:
    transcript = await finished(run, run.take_part(), cancelled)
    if run.no_report:
        run.warn(run.no_report)
    return Parameters.of(transcript).estimator()


async def submit_async(
    consortium: Consortium | Path | str,
    *,
    key: Path | str,
    certificate: Path | str,
    data: Any = None,
    output: Path | str | None = None,
    missing: Collection[str] = (),
    dialect: Dialect | None = None,
    own_minimum: int = JoinOptions.own_minimum,
    ledger: Path | str | None = None,
    timeout: float = JoinOptions.timeout,
    wait: float = JoinOptions.wait,
    proxy: str | None = None,
    say: Say | None = None,
    rows: RowsProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Path:
    """Submit a silo's rows once, as the command `securefedyj submit` does.

    `submit` returns when the hub has the file; `submit_async` is the same as a coroutine. A second
    call for the same agreed file sends the same file again, whatever the rows are then.

    Parameters
    ----------
    output : path-like, optional
        The file to make, which is then sent to nobody: give it to all members. By default it is
        NAME.submission in the current folder, and the hub gets it if the agreed file has one.
    consortium, key, certificate, data, missing, dialect, own_minimum, ledger, timeout, wait, \
    proxy, say, rows, cancelled
        As for `join`.

    Returns
    -------
    path : Path
        The file, which is sealed for the members. Keep it until the result is here.

    Raises
    ------
    ValueError, OSError, Cancelled
        As `join`.
    """
    arguments = {**locals(), "output": output or Path()}
    run = SubmitRun(
        JoinOptions.of(
            {name: arguments.get(name) for name in JoinOptions.__annotations__}, dialect
        ),
        send=output is None,
        say=say or _ignore,
        warn=say or warnings.warn,
        rows=rows or _ignore,
    )
    return await finished(run, run.take_part(), cancelled)


async def finished(
    run: OwnPart, work: Coroutine[Any, Any, T], cancelled: Callable[[], bool] | None
) -> T:
    """The result of the work, unless the run is left early."""
    try:
        result = await _unless(cancelled, work)
    except asyncio.CancelledError:
        run.say(run.on_leaving("call"))
        raise
    if result is None:
        raise Cancelled(run.on_leaving("call"))
    return result


async def _unless(cancelled: Callable[[], bool] | None, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of the work, or None if it was cancelled. The work always ends before this."""
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_EVERY if cancelled else None))[0]:
            if cancelled and cancelled():
                break
    finally:
        if not task.done():
            task.cancel()  # once: a second time would cut off its last messages
            await asyncio.wait({task})
    return None if task.cancelled() else task.result()


def _ignore(*_: object) -> None:
    pass


def _blocking(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The same as a function that blocks, even where an event loop is running."""

    @wraps(call)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(call(*args, **kwargs))
        return _in_thread(call(*args, **kwargs))

    run.__name__ = run.__qualname__ = call.__name__.removesuffix("_async")
    return run


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run in another event loop, while that of a notebook waits."""
    loop, ended = asyncio.new_event_loop(), threading.Event()
    task = loop.create_task(work)

    def run_until_done() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(asyncio.wait({task}))
        finally:
            ended.set()

    threading.Thread(target=run_until_done, daemon=True).start()
    try:
        # A thread cannot be joined again after an interrupted `join`. And whether a signal ends a
        # wait depends on the handlers that libraries have installed.
        while not ended.wait(_LOOK_EVERY):
            pass
    except BaseException:  # a KeyboardInterrupt: the other parties are notified
        with contextlib.suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(task.cancel)
        ended.wait()
        raise
    return task.result()


join = _blocking(join_async)
result = _blocking(result_async)
submit = _blocking(submit_async)
