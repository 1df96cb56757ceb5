"""What it takes to send a message from one party to another, in addition to the line.

Two parties and a hub are run in this process, as they are, and the processor's time is taken: to
encrypt, send, pass on, receive and decrypt. A plan is made from it.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from securefedyj.network import local
from securefedyj.network.carrier import LinkLost
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.hub import HubServer
from securefedyj.network.identity import Identity
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import FrameType
from securefedyj.network.transport.link import Link, connect

_PATIENCE = 10.0
_MESSAGES = 100
_LARGE = 4 << 20


class Crossing(NamedTuple):
    """Seconds that sender, hub and receiver compute, one after the other."""

    per_message: float
    per_byte: float


def measure() -> Crossing:
    """Send some messages from a party to another and back."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> Crossing:
    tables = dict.fromkeys(("a", "b", "c"), np.zeros((1, 1)))
    consortium = local.prepare(folder, tables, [Feature("any", 0.0, 1.0)])
    hub = HubServer([consortium], _identity(folder, "hub"), lambda event, **fields: None)
    agreed = consortium.agreed_hub()
    await hub.start(agreed.host, agreed.port)
    a, b = _End(folder, consortium, "a", "b"), _End(folder, consortium, "b", "a")
    try:
        await a.connect()
        await b.connect()
        await asyncio.gather(a.shake_hands(), b.shake_hands())
        small = min([await _seconds(a, b, 100, _MESSAGES) for _ in range(3)])
        large = min([await _seconds(a, b, _LARGE, 1) for _ in range(3)])
    finally:
        await asyncio.gather(a.close(), b.close())
        await hub.stop()
    return Crossing(small, (large - small) / _LARGE)


async def _seconds(a: _End, b: _End, size: int, messages: int) -> float:
    """For one message one way."""
    start = time.process_time()
    for _ in range(messages):
        for sender, receiver in ((a, b), (b, a)):
            sender.say(size)
            await receiver.hear()
    return (time.process_time() - start) / (2 * messages)


def _identity(folder: Path, name: str) -> Identity:
    return Identity(folder / f"{name}.key", folder / f"{name}.pem")


class _End:
    """A party that only sends zeros."""

    def __init__(self, folder: Path, consortium: Consortium, name: str, peer: str) -> None:
        self._consortium, self._name, self._peer = consortium, name, peer
        self._identity, other = _identity(folder, name), consortium.party(peer)
        settings = tls.context(self._identity, [other.certificate], server_side=name < peer)
        self._channel = tls.Channel(peer, other.fingerprint, settings, server_side=name < peer)
        self._channel.most = tls.MAX_RECORD  # both ends are ours
        self._link: Link | None = None
        self._connection = 0

    async def connect(self) -> None:
        self._link = await connect(self._consortium, self._name, self._identity, _PATIENCE)

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close(1.0)

    async def shake_hands(self) -> None:
        while not self._channel.established:
            await self._receive()
            self._flush()

    def say(self, size: int) -> None:
        self._channel.send(tls.RawRecord(0, bytes(size)))
        self._flush()

    async def hear(self) -> None:
        """Wait for one message, and change to a thread as a party does to compute."""
        while not await self._receive():
            pass
        await asyncio.to_thread(bool)

    def _flush(self) -> None:
        if self._link is not None and self._connection:
            self._link.send_stream(self._peer, self._connection, self._channel.outgoing())

    async def _receive(self) -> list[tls.RawRecord]:
        assert self._link is not None
        frame = await self._link.receive(_PATIENCE)
        if frame is None:
            raise LinkLost(
                "SFY-NET-001", "A hub on this machine did not pass on a message in time."
            )
        if frame.type == FrameType.PRESENT and frame.name == self._peer:
            self._connection = frame.connection
            self._channel.begin()
        return list(self._channel.receive(frame.body)) if frame.type == FrameType.DATA else []
