"""A hub and parties in one event loop (`clock.run`), over real sockets and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj import SecureFedYJ
from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.hub import HubServer
from securefedyj.network.identity import Identity
from securefedyj.network.session import participant as network
from securefedyj.protocol.silos import timed_silo
from securefedyj.protocol.transcript import Transcript
from securefedyj.tables.digest import rows_digest
from tests.network.clock import until

BOUNDS = (0.0, 1000.0)
ROWS = np.random.default_rng(5).lognormal(size=(60, 2))
THREE: dict[str, Any] = {"ana": ROWS[:20], "bob": ROWS[20:35], "cem": ROWS[35:]}
# Two silos outside of the committee, and a coordinator without data in it.
FIVE: dict[str, Any] = {
    "ana": ROWS[:10], "bob": ROWS[10:35], "coordinator": None, "dua": ROWS[35:50], "eva": ROWS[50:],
}  # fmt: skip
# How long parties wait, by the clock of `clock.run`: for what comes, and for what does not.
LONG: dict[str, Any] = {"timeout": 20.0, "wait": 60.0}
SHORT: dict[str, Any] = {"timeout": 5.0, "wait": 10.0}
COMMITTEE = {3: ("ana", "bob", "cem"), 5: ("coordinator", "ana", "dua")}


FEATURES = [Feature(name, *BOUNDS) for name in ("lactate", "age")]


def prepare(
    folder: Path,
    tables: Mapping[str, Any] = THREE,
    features: Sequence[Feature] = FEATURES,
    **options: Any,
) -> Consortium:
    options = {
        "minimum_values": 10,
        "max_steps": 12,
        "levels_per_exchange": 2,
        "result_bits": 44,
        "max_interruptions": 20,
        **options,
    }
    return local.prepare(folder, tables, features, committee=COMMITTEE[len(tables)], **options)


def by_way_of(consortium: Consortium, port: int) -> Consortium:
    """The same consortium, with a hub that is reached by another port of this machine."""
    hub = dataclasses.replace(consortium.agreed_hub(), address=f"127.0.0.1:{port}")
    return dataclasses.replace(consortium, hub=hub)


@functools.lru_cache
def pooled(max_steps: int) -> SecureFedYJ:
    """The same rows in one process."""
    return SecureFedYJ(bounds=BOUNDS, max_steps=max_steps).fit([ROWS[:20], ROWS[20:40], ROWS[40:]])


def assert_same_bits(transcript: Transcript, max_steps: int = 12) -> None:
    expected, result = pooled(max_steps), transcript.result
    assert result is not None
    np.testing.assert_array_equal(result.lmbda, expected.lambdas_)
    np.testing.assert_array_equal(result.mean, expected.mean_)
    np.testing.assert_array_equal(result.var, expected.var_)
    assert transcript.audit().passed


class Cable:
    """From one party to the hub; it can go dead in one direction or both, or be cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._carries = {"to the hub": asyncio.Event(), "from the hub": asyncio.Event()}
        for direction in self._carries.values():
            direction.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._listener)

    def deaden(self, *directions: str) -> None:
        """Carry nothing more, and let nobody notice but by the silence."""
        for direction in directions or self._carries:
            self._carries[direction].clear()

    def hang_up(self) -> None:
        """End all connections at once."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def cut(self) -> None:
        """The same, and accept no more."""
        if self._server is None:
            self._listener.close()
        else:
            self._server.close()
        self.hang_up()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        self._writers.add(back)
        await asyncio.gather(
            self._pump(reader, back, self._carries["to the hub"]),
            self._pump(there, writer, self._carries["from the hub"]),
        )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, carries: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await carries.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


class Loopback:
    """Parties and a hub that may come and go; each party has a cable of its own to the hub."""

    def __init__(self, folder: Path, consortium: Consortium, tables: dict[str, Any]) -> None:
        self.folder, self.consortium, self.tables = folder, consortium, tables
        self.lines: list[str] = []  # the hub's log
        self.said: dict[str, list[str]] = {name: [] for name in tables}
        self.progress: dict[str, list[network.Progress]] = {name: [] for name in tables}
        self.results: dict[str, Transcript] = {}  # as soon as they are there
        self.tasks: dict[str, asyncio.Task[Transcript]] = {}
        self.cables: dict[str, Cable] = {}
        self.hub: HubServer | None = None
        self.mailbox: Path | None = None

    def identity(self, name: str) -> Identity:
        return Identity(self.folder / f"{name}.key", self.folder / f"{name}.pem")

    async def start_hub(self) -> None:
        def log(event: str, **fields: object) -> None:
            self.lines.append(f"{event} {fields}")

        self.hub = HubServer([self.consortium], self.identity("hub"), log, self.mailbox)
        await self.hub.start(self.consortium.agreed_hub().host, self.consortium.agreed_hub().port)

    def start(
        self, name: str, consortium: Consortium | None = None, silo: Any = None, **options: Any
    ) -> None:
        """Let a party join; `progress` and `done` are called as well as noted here."""
        consortium = consortium or self.consortium
        if name in self.cables:
            self.cables[name].cut()  # of an earlier try
        self.cables[name] = cable = Cable(consortium.agreed_hub().port)
        if silo is None:
            silo = timed_silo(self.consortium.agreement(), self.tables[name])
        output = options.pop("output", self.folder / name)
        output.mkdir(exist_ok=True)
        progress, done = options.pop("progress", None), options.pop("done", None)
        table = self.tables[name]
        if table is not None:
            options.setdefault("rows", functools.partial(rows_digest, table, ["lactate", "age"]))

        def note_progress(now: network.Progress) -> None:
            if progress is not None:
                progress(now)
            self.progress[name].append(now)

        def note_result(transcript: Transcript, _: object) -> None:
            if done is not None:
                done()
            self.results[name] = transcript

        settings = network.Settings(
            by_way_of(consortium, cable.port),
            name,
            self.identity(name),
            output,
            **{**LONG, **options},
            say=self.said[name].append,
            progress=note_progress,
            done=note_result,
        )
        self.tasks[name] = asyncio.create_task(self._take_part(cable, settings, silo))

    async def _take_part(self, cable: Cable, settings: network.Settings, silo: Any) -> Transcript:
        await cable.start()
        return await network.participate(settings, silo)

    async def crash(self, name: str) -> None:
        """End a party as a power cut would: nothing more is sent."""
        self.cables[name].cut()
        self.tasks[name].cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self.tasks[name]

    async def crash_hub(self) -> None:
        """End the hub in the same way; the parties' cables stay, and lead nowhere."""
        assert self.hub is not None
        hub, self.hub = self.hub, None
        for cable in self.cables.values():
            cable.hang_up()
        await hub.stop()

    async def until_exchange(self, name: str, exchange: int) -> None:
        def reached() -> bool:
            made = any(progress.exchange >= exchange for progress in self.progress[name])
            return made or self.tasks[name].done()

        await until(reached)

    async def until_results(self, *names: str) -> None:
        await until(lambda: set(names) <= set(self.results))

    async def until_said(self, name: str, pattern: str) -> None:
        """Wait until a party has told its user a sentence that has this in it."""
        await until(lambda: any(re.search(pattern, said) for said in self.said[name]))

    async def outcomes(self, seconds: float | None = None) -> dict[str, Any]:
        """Of all parties, which must come within so many seconds of the loop's clock."""
        async with asyncio.timeout(seconds):
            done = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        return dict(zip(self.tasks, done, strict=True))

    async def __aenter__(self) -> Loopback:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        for cable in self.cables.values():
            cable.cut()
        if self.hub is not None:
            await self.hub.stop()
