"""A hub as a process: signals, files that change, and the status page."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from securefedyj.network.consortium import Consortium
from securefedyj.network.hub.consortia import check_own
from securefedyj.network.hub.server import HubServer
from securefedyj.network.hub.status import StatusServer
from securefedyj.network.identity import Identity, fingerprint
from securefedyj.network.log import EventLog, log_line

LOOK_EVERY = 1.0  # seconds between two looks at folders
PATTERN = "*.toml"


async def serve(
    consortia: Sequence[Consortium],
    files: AgreedFiles,
    identity: Identity,
    listen: tuple[str, int],
    status: tuple[str, int] | None,
) -> None:
    """Run a hub until SIGINT or SIGTERM; at SIGHUP the files are read again."""
    hub = HubServer(consortia, identity, log_line)
    stopped, again = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, again.set)
    # Such as a connection that asyncio finds reset twice: log it, and serve the others.
    loop.set_exception_handler(
        lambda loop, found: log_line(
            "trouble", reason=f"{found['message']}: {type(found.get('exception')).__name__}"
        )
    )
    page = StatusServer(lambda: hub.served.rooms.values())
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


async def watch(files: AgreedFiles, hub: HubServer, again: asyncio.Event, log: EventLog) -> None:
    """Let the hub serve what the files contain, when asked to and when a folder has changed.

    A change counts when it has lasted from one look to the next: a file that is being copied is
    half there at first, and half of a list of parties is a list of parties.
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
                for trouble in troubles:
                    log("trouble", reason=trouble.sentence)
                hub.update(consortia)
            last = now
        except Exception as error:  # the hub keeps what it has
            log("trouble", reason=f"the files could not be read: {type(error).__name__}")


class Trouble(NamedTuple):
    """A file that cannot be served as it is, and why."""

    path: Path
    error: Exception

    @property
    def sentence(self) -> str:
        if isinstance(self.error, OSError):
            return f"{self.path}: {self.error.strerror}"
        return str(self.error)


class AgreedFiles:
    """Files of the hub with this identity; while one is broken, its last good version counts.

    A folder stands for all its files that end in .toml, except hidden ones.
    """

    def __init__(self, paths: Sequence[Path], identity: Identity) -> None:
        self._paths, self._identity = paths, identity
        self._own = fingerprint(identity.certificate.read_text(encoding="ascii"))
        self._folders = [path for path in paths if path.is_dir()]
        self._good: dict[Path, Consortium] = {}

    def read(self) -> tuple[list[Consortium], list[Trouble]]:
        """Return the consortia to serve now, and the files that cannot be served."""
        if gone := [path for path in self._folders if not path.is_dir()]:
            lost = OSError(errno.ENOENT, "the folder is gone; the hub still serves its files")
            return list(self._good.values()), [Trouble(path, lost) for path in gone]
        found: dict[Path, Consortium] = {}
        troubles = []
        for path in self._files():
            try:
                consortium = Consortium.read(path)
                check_own(consortium, self._own, self._identity.certificate)
                found[path] = consortium
            except (OSError, ValueError) as error:
                troubles.append(Trouble(path, error))
                if path in self._good and not isinstance(error, FileNotFoundError):
                    found[path] = self._good[path]
        served: dict[str, Path] = {}
        # Of two files with the same name, the one that was there first stays.
        for path in sorted(found, key=lambda path: path not in self._good):
            name = found[path].name
            if served.setdefault(name, path) != path:
                sentence = f"{path}: {served[name]} has the same consortium name, {name!r}."
                troubles.append(Trouble(path, ValueError(f"{sentence} Rename one.")))
        self._good = {path: found[path] for path in served.values()}
        return list(self._good.values()), troubles

    def state(self) -> tuple[object, ...]:
        """A value that changes when a file of a folder does."""
        return tuple(map(_state, self._files(watched=True)))

    def _files(self, *, watched: bool = False) -> list[Path]:
        files: list[Path] = []
        for path in self._paths:
            if path.is_dir():
                files += sorted(one for one in path.glob(PATTERN) if not one.name.startswith("."))
            elif not watched:
                files.append(path)
        return files


def _state(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return path
    return path, found.st_ino, found.st_size, found.st_mtime_ns
