"""`securefedyj.join`: what the command does, for a script or a notebook."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import warnings
from collections.abc import Callable, Collection, Coroutine
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from securefedyj.joining.part import Part, Rows, Say
from securefedyj.joining.run import Cancelled, Run
from securefedyj.network.carrier import Dialer
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import read_certificate, read_identity
from securefedyj.network.session.peers import TIMEOUT, WAIT
from securefedyj.network.session.progress import Progress
from securefedyj.parameters import Parameters
from securefedyj.tables.dialect import Dialect

if TYPE_CHECKING:
    from securefedyj.estimators import FrozenYJ  # scikit-learn takes a while to import

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_EVERY = 0.1  # seconds, at whether we are asked to leave


async def join_async(
    consortium: Consortium | Path | str,
    *,
    key: Path | str,
    certificate: Path | str,
    output: Path | str,
    data: Any = None,
    missing: Collection[str] = (),
    dialect: Dialect | None = None,
    cache_mb: int | None = None,
    own_minimum: int = 0,
    ledger: Path | str | None = None,
    timeout: float = TIMEOUT,
    wait: float = WAIT,
    report: bool = True,
    proxy: str | None = None,
    say: Say | None = None,
    progress: Callable[[Progress], None] | None = None,
    rows: Rows | None = None,
    cancelled: Callable[[], bool] | None = None,
    dialer: Dialer | None = None,
) -> FrozenYJ:
    """Take part in a run, as the command `securefedyj join` does.

    `join` returns when all is done; `join_async` is the same as a coroutine. The files of the run
    are written to a folder. Who is interrupted, in whatever way, goes on with the same call.
    Functions that are given here may be called from other threads.

    Parameters
    ----------
    consortium : path-like or Consortium
        The agreed file.
    key, certificate : path-like
        Of this party; others on the machine must not be able to read the key.
    output : path-like
        A folder for parameters.json, transcript.jsonl, cost.json, provenance.json and report.html.
    data : array-like, frame, table or path, optional
        The rows of a silo: whatever `ExpYJ` fits. Columns with names are found by them, those of
        an array are in the agreed order. They must not change while the run is under way. A
        helper has none.
    missing : collection of str
        Further cells that stand for a missing value, such as ``["?", "-999"]``.
    dialect : Dialect, optional
        How CSV files are written, and which columns have other names here.
    cache_mb : int, optional
        Memory that may keep rows between passes; a quarter of the machine's by default.
    own_minimum : int
        A feature of which this silo has fewer values counts as missing here.
    ledger : path-like, optional
        The silo's own list of runs; ~/.securefedyj/ledger.jsonl by default.
    timeout, wait : float
        Seconds of silence after which a party counts as lost, and seconds to wait for parties to
        come, to come back, or to compute.
    report : bool
        Whether to write report.html, which takes a second or more.
    proxy : str, optional
        The URL of an HTTP proxy on the way to the hub; by default as the environment says.
    say : callable, optional
        Gets one sentence for the user at a time. Without it, what a silo should know of the risks
        of a run is a `UserWarning`, and all else is not said.
    progress : callable, optional
        Gets a `Progress` after each opening.
    rows : callable, optional
        Gets "read" or "summed", the number of rows so far, and the number of all or None.
    cancelled : callable, optional
        Is asked several times a second; True ends our part as Ctrl-C does, and raises `Cancelled`.
    dialer : Dialer, optional
        What connects us to the others in place of the hub.

    Returns
    -------
    fitted : FrozenYJ
        The parameters, as a transformer: what ``load(output / "parameters.json")`` returns.

    Raises
    ------
    ValueError, OSError
        In one sentence, why there is no result; the same as the command's, so it names options of
        the command: ``--own-minimum`` is `own_minimum`. Of them, JoinError is about other parties,
        TableError about the table.
    Cancelled
        If `cancelled` said so. The others are told, and wait.
    """
    agreed = consortium if isinstance(consortium, Consortium) else Consortium.read(Path(consortium))
    part = Part(
        agreed,
        agreed.party_with(read_certificate(Path(certificate))),
        read_identity(Path(key), Path(certificate)),
        Path(output),
        data=data,
        missing=missing,
        dialect=dialect,
        cache_mb=cache_mb,
        own_minimum=own_minimum,
        ledger=None if ledger is None else Path(ledger),
        timeout=timeout,
        wait=wait,
        report=report,
        proxy=proxy,
        dialer=dialer,
        say=say or _ignore,
        warn=say or warnings.warn,
        progress=progress or _ignore,
        rows=rows or _ignore,
    )
    run = Run(part)
    try:
        transcript = await _unless(cancelled or _never, run.take_part())
    except asyncio.CancelledError:
        part.say(run.on_leaving("call"))
        raise
    if transcript is None:
        raise Cancelled(run.on_leaving("call"))
    if run.no_report:
        part.warn(run.no_report)
    return Parameters.of(transcript).estimator()


async def _unless(cancelled: Callable[[], bool], work: Coroutine[Any, Any, T]) -> T | None:
    """What the work gives; None if it was to be cancelled. It always ends, and before us."""
    task, watch = asyncio.create_task(work), asyncio.create_task(_until(cancelled))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel()
        if not task.done():
            task.cancel()  # once: a second time it would not even take leave
            await asyncio.wait({task})
    if watch.done() and not watch.cancelled():
        watch.result()
    return None if task.cancelled() else task.result()


async def _until(cancelled: Callable[[], bool]) -> None:
    while not cancelled():
        await asyncio.sleep(_LOOK_EVERY)


def _never() -> bool:
    return False


def _ignore(*_: object) -> None:
    pass


def _blocking(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The same as a function that returns when it is done, also where an event loop runs."""

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
    """Run in an event loop of its own; a notebook has one already, which waits meanwhile."""
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
        # A thread that was interrupted once in `join` cannot be joined again. And a signal need not
        # end a wait: it depends on how libraries have left its handler.
        while not ended.wait(_LOOK_EVERY):
            pass
    except BaseException:  # a KeyboardInterrupt: the others are told
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has just ended
            loop.call_soon_threadsafe(task.cancel)
        ended.wait()
        raise
    return task.result()


join = _blocking(join_async)
