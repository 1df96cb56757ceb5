"""One consortium at the hub: who of it is there, and what the others are told about that."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from securefedyj.errors import CodedError
from securefedyj.network.consortium import Consortium
from securefedyj.network.frames import Frame, Type
from securefedyj.network.outbox import Outbox

QUEUE = 1 << 18  # bytes that wait for one connection
TELL_EVERY = 10.0  # seconds between two notices about the same party


class Refused(CodedError):
    """A connection that may not stay; the sentence is told to it and logged."""


@dataclass
class Traffic:
    """Frames of one direction, and the bytes of their bodies."""

    frames: int = 0
    bytes: int = 0

    def count(self, frame: Frame) -> None:
        self.frames += 1
        self.bytes += len(frame.body)


@dataclass
class Tally:
    """What a party has sent and got since the hub serves its consortium."""

    received: Traffic = field(default_factory=Traffic)
    sent: Traffic = field(default_factory=Traffic)
    active: float | None = None
    """When it last sent something for a peer, in seconds since 1970."""


@dataclass
class Connection:
    """A party that is there."""

    room: Room
    name: str
    number: int
    outbox: Outbox = field(default_factory=lambda: Outbox(QUEUE))
    received: Traffic = field(default_factory=Traffic)
    sent: Traffic = field(default_factory=Traffic)
    since: float = field(default_factory=time.time)

    def count_received(self, frame: Frame) -> None:
        tally = self.room.tallies[self.name]
        self.received.count(frame)
        tally.received.count(frame)
        if frame.type == Type.DATA:
            tally.active = time.time()

    def count_sent(self, frame: Frame) -> None:
        self.sent.count(frame)
        self.room.tallies[self.name].sent.count(frame)


class _Told(NamedTuple):
    sentence: str
    at: float


class Room:
    """One consortium, and who of it is there."""

    def __init__(self, consortium: Consortium) -> None:
        self.consortium = consortium
        self.present: dict[str, Connection] = {}
        self.tallies = {party.name: Tally() for party in consortium.parties}
        self._refusals: dict[str, _Told] = {}  # the last one of each party that is not there
        self._over = ""  # why, as soon as it is

    async def enter(self, name: str, number: int) -> Connection:
        """Let a party in; an earlier connection of it must go."""
        connection = Connection(self, name, number)
        previous = self.present.pop(name, None)
        if previous is not None:
            await _end(previous, f"Another process has joined as {name}; this one must stop.")
            await self._tell(previous, Type.LEFT)
        if self._over:
            raise Refused("SFY-HUB-004", self._over)
        await connection.outbox.put_notice(Frame(Type.WELCOME, name, connection.number))
        for other in self.present.values():
            await connection.outbox.put_notice(Frame(Type.PRESENT, other.name, other.number))
        self._refusals.pop(name, None)
        for refusal in self._refusals.values():
            await connection.outbox.put_notice(_notice(refusal.sentence))
        self.present[name] = connection
        await self._tell(connection, Type.PRESENT)
        return connection

    async def leave(self, connection: Connection) -> None:
        await connection.outbox.close()
        if self.present.get(connection.name) is connection:
            del self.present[connection.name]
            await self._tell(connection, Type.LEFT)

    async def tell_of_refusal(self, name: str, why: str) -> None:
        """Tell those who are there, and those who come, why they may wait for a party in vain.

        These are words and no more: nobody is bound to believe the hub. There is one notice about
        a party at a time, and not often, so that whoever is refused cannot flood the others.
        """
        if name in self.present or name not in self.tallies:
            return
        now = asyncio.get_running_loop().time()
        sentence = f"{why} ({time.strftime('%H:%M:%S', time.gmtime())} UTC)"
        earlier = self._refusals.get(name)
        if earlier is not None and now - earlier.at < TELL_EVERY:
            return
        self._refusals[name] = _Told(sentence, now)
        await self.tell_all(sentence)

    async def tell_all(self, sentence: str) -> None:
        for connection in list(self.present.values()):
            await connection.outbox.put_notice(_notice(sentence))

    async def end(self, sentence: str) -> None:
        """The hub serves this consortium no more: all must go."""
        self._over = sentence
        present, self.present = self.present, {}
        for connection in present.values():
            await _end(connection, sentence)

    async def _tell(self, about: Connection, kind: Type) -> None:
        for name, other in list(self.present.items()):
            if name != about.name:
                await other.outbox.put_notice(Frame(kind, about.name, about.number))


def _notice(sentence: str) -> Frame:
    return Frame(Type.NOTICE, body=sentence.encode())


async def _end(connection: Connection, sentence: str) -> None:
    await connection.outbox.put_notice(Frame(Type.REFUSED, body=sentence.encode()))
    await connection.outbox.close()
