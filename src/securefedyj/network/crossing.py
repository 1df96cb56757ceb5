"""What it takes to send a message from one party to another, in addition to the line.

Two parties and a hub are run in this process, as they are, and the processor's time is taken: to
encrypt, send, pass on, receive and decrypt. A plan is made from it.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from securefedyj.network import local
from securefedyj.network.carrier import Data, LinkLost, Present
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.hub import HubServer
from securefedyj.network.identity import Identity
from securefedyj.network.session.channels import Channels
from securefedyj.network.session.events import ChannelStands, Event, RecordArrived
from securefedyj.network.transport.link import Link, connect
from securefedyj.party.messages import SESSION_BYTES, VERSION, Kind, Message

_PATIENCE = 10.0
_MESSAGES = 100
_LARGE = 4 << 20
_FEATURES = 1000  # with fewer, no record may be that large


class Crossing(NamedTuple):
    """Seconds that sender, hub and receiver compute, one after the other."""

    per_message: float
    per_byte: float


def measure() -> Crossing:
    """Send some messages from a party to another and back."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> Crossing:
    features = [Feature(str(j), 0.0, 1.0) for j in range(_FEATURES)]
    tables = dict.fromkeys(("a", "b", "c"), np.zeros((1, _FEATURES)))
    consortium = local.prepare(folder, tables, features)
    hub = HubServer([consortium], _identity(folder, "hub"), lambda event, **fields: None)
    agreed = consortium.agreed_hub()
    await hub.start(agreed.host, agreed.port)
    try:
        a, b = [await _connected(folder, consortium, *names) for names in ("ab", "ba")]
        await asyncio.gather(a.hear(ChannelStands), b.hear(ChannelStands))
        small = min([await _seconds(a, b, 100, _MESSAGES) for _ in range(3)])
        large = min([await _seconds(a, b, _LARGE, 1) for _ in range(3)])
        await asyncio.gather(a.link.close(1.0), b.link.close(1.0))
    finally:
        await hub.stop()
    return Crossing(small, (large - small) / _LARGE)


async def _seconds(a: _End, b: _End, size: int, messages: int) -> float:
    """For one message one way."""
    start = time.process_time()
    for _ in range(messages):
        for sender, receiver in ((a, b), (b, a)):
            sender.say(size)
            await receiver.hear(RecordArrived)
    return (time.process_time() - start) / (2 * messages)


def _identity(folder: Path, name: str) -> Identity:
    return Identity(folder / f"{name}.key", folder / f"{name}.pem")


async def _connected(folder: Path, consortium: Consortium, name: str, peer: str) -> _End:
    identity = _identity(folder, name)
    link = await connect(consortium, name, identity, _PATIENCE)
    await link.receive_frame(_PATIENCE)  # the hub's welcome
    channels = Channels(consortium, name, identity)
    channels.use(link)
    return _End(name, peer, link, channels)


@dataclass
class _End:
    """A party that only sends zeros."""

    name: str
    peer: str
    link: Link
    channels: Channels

    def say(self, size: int) -> None:
        zeros, session = bytes(size), bytes(SESSION_BYTES)
        message = Message(VERSION, session, self.name, self.peer, 0, Kind.INPUT, zeros)
        self.channels.send(self.peer, message)

    async def hear(self, kind: type[Event]) -> None:
        """Wait for an event, and change to a thread as a party does to compute."""
        came: list[Event] = []
        while not any(isinstance(event, kind) for event in came):
            match await self.link.receive(_PATIENCE):
                case Present(peer, connection) if peer == self.peer:
                    self.channels.open(peer, connection)
                case Data(peer, _, data):
                    came = list(self.channels.receive(peer, data))
                case None:
                    raise LinkLost(
                        "SFY-NET-001", "A hub on this machine did not pass on a message in time."
                    )
        await asyncio.to_thread(bool)
