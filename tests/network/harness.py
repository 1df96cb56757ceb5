"""A hub and parties in one event loop, over real sockets and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj import SecureFedYJ
from securefedyj.network import local
from securefedyj.network import participant as network
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.hub import Hub
from securefedyj.network.identity import Identity
from securefedyj.protocol.simulation import timed_silo
from securefedyj.protocol.transcript import Transcript

BOUNDS = (0.0, 1000.0)
ROWS = np.random.default_rng(5).lognormal(size=(60, 2))
THREE: dict[str, Any] = {"ana": ROWS[:20], "bob": ROWS[20:35], "cem": ROWS[35:]}
# Two silos outside of the committee, and a coordinator without data in it.
FIVE: dict[str, Any] = {
    "ana": ROWS[:10], "bob": ROWS[10:35], "coordinator": None, "dua": ROWS[35:50], "eva": ROWS[50:],
}  # fmt: skip
COMMITTEE = {3: ("ana", "bob", "cem"), 5: ("coordinator", "ana", "dua")}


def prepare(folder: Path, tables: Mapping[str, Any] = THREE, **numbers: int) -> Consortium:
    features = [Feature(name, *BOUNDS) for name in ("lactate", "age")]
    numbers = {"minimum_values": 10, "max_steps": 12, "levels_per_exchange": 2, **numbers}
    return local.prepare(folder, tables, features, committee=COMMITTEE[len(tables)], **numbers)


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


class Loopback:
    """Parties and a hub that may come and go."""

    def __init__(self, folder: Path, consortium: Consortium, tables: Mapping[str, Any]) -> None:
        self.folder, self.consortium, self.tables = folder, consortium, tables
        self.lines: list[str] = []  # the hub's log
        self.said: dict[str, list[str]] = {name: [] for name in tables}
        self.progress: dict[str, list[network.Progress]] = {name: [] for name in tables}
        self.tasks: dict[str, asyncio.Task[Transcript]] = {}
        self.participants: dict[str, Any] = {}
        self.hub: Hub | None = None

    def identity(self, name: str) -> Identity:
        return Identity(self.folder / f"{name}.key", self.folder / f"{name}.pem")

    async def start_hub(self) -> None:
        def log(event: str, **fields: object) -> None:
            self.lines.append(f"{event} {fields}")

        self.hub = Hub([self.consortium], self.identity("hub"), log)
        await self.hub.start(self.consortium.hub.host, self.consortium.hub.port)

    def start(self, name: str, consortium: Consortium | None = None, **options: Any) -> None:
        agreement = self.consortium.agreement()
        table = self.tables[name]
        silo = timed_silo(agreement, table)
        output = self.folder / name
        output.mkdir(exist_ok=True)
        settings = network.Settings(
            consortium or self.consortium,
            name,
            self.identity(name),
            output,
            **{"timeout": 5.0, "wait": 20.0, **options},
            say=self.said[name].append,
            progress=self.progress[name].append,
        )
        participant = self.participants[name] = network._Participant(settings, silo)
        self.tasks[name] = asyncio.create_task(self._live(participant))

    async def _live(self, participant: Any) -> Transcript:
        alive = asyncio.create_task(participant.keep_alive())
        try:
            return await participant.run()
        finally:
            alive.cancel()
            await participant.leave()

    async def crash(self, name: str) -> None:
        """End a party as a power cut would: nothing more is sent."""
        participant = self.participants[name]
        if participant._link is not None:
            participant._link._writer.transport.abort()
            participant._link = None
        self.tasks[name].cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self.tasks[name]

    async def crash_hub(self) -> None:
        assert self.hub is not None
        hub, self.hub = self.hub, None
        hub._listening.cancel()
        hub._listener.close()
        for task in list(hub._tasks):
            task.cancel()
        await asyncio.gather(*hub._tasks, return_exceptions=True)

    async def until_exchange(self, name: str, exchange: int) -> None:
        async with asyncio.timeout(20):
            while not any(p.exchange >= exchange for p in self.progress[name]):
                if self.tasks[name].done():
                    return
                await asyncio.sleep(0.002)

    async def outcomes(self, timeout: float = 30.0) -> dict[str, Any]:
        async with asyncio.timeout(timeout):
            done = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        return dict(zip(self.tasks, done, strict=True))

    async def __aenter__(self) -> Loopback:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        if self.hub is not None:
            await self.hub.stop()
