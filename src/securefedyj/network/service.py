"""A hub as a process: signals, files that change, and the page about who is there."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from typing import Any

from securefedyj.network.agreed_files import AgreedFiles, Trouble
from securefedyj.network.consortium import Consortium
from securefedyj.network.hub import Hub
from securefedyj.network.identity import Identity
from securefedyj.network.log import Log, log_line
from securefedyj.network.status import Status

LOOK_EVERY = 1.0  # seconds between two looks at folders


async def serve(
    consortia: Sequence[Consortium],
    files: AgreedFiles,
    identity: Identity,
    listen: tuple[str, int],
    status: tuple[str, int] | None,
) -> None:
    """Run a hub until SIGINT or SIGTERM; at SIGHUP the files are read again."""
    hub = Hub(consortia, identity, log_line)
    stopped, again = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, again.set)
    # Such as a connection that asyncio finds reset twice: a line, and the others go on.
    loop.set_exception_handler(lambda loop, found: log_line("trouble", reason=_trouble(found)))
    page = Status(lambda: hub.served.rooms.values())
    await hub.start(*listen)
    try:
        if status is not None:
            log_line("status", host=status[0], port=await page.start(*status))
        watching = asyncio.create_task(watch(files, hub, again, log_line))
        await stopped.wait()
        watching.cancel()
    finally:
        await page.stop()
        await hub.stop()


async def watch(files: AgreedFiles, hub: Hub, again: asyncio.Event, log: Log) -> None:
    """Let the hub serve what the files say, when asked to, and when a folder has changed.

    A change counts when it has lasted from one look to the next: who copies a file writes half of
    it first, and half of a list of parties is a list of parties.
    """
    known = last = files.state()
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY):
                await again.wait()
        try:
            now = files.state()
            if again.is_set() or now == last != known:
                again.clear()
                known = now
                consortia, troubles = await asyncio.to_thread(files.read)
                log_troubles(troubles, log)
                await hub.update(consortia)
            last = now
        except Exception as error:  # the hub goes on with what it has
            log("trouble", reason=f"the files could not be read: {type(error).__name__}")


def log_troubles(troubles: Sequence[Trouble], log: Log) -> None:
    for trouble in troubles:
        log("trouble", reason=trouble.sentence)


def _trouble(found: dict[str, Any]) -> str:
    return f"{found['message']}: {type(found.get('exception')).__name__}"
