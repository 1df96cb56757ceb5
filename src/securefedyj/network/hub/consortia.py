"""One consortium at the hub: who of it is there, and what the others are told about that."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

from securefedyj.errors import CodedError, InputError, code_of
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import Identity, fingerprint, fingerprint_of_der
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import Frame, FrameType
from securefedyj.party.messages import VERSION
from securefedyj.printable import shown
from securefedyj.strict import check_fields, parse

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
        if frame.type == FrameType.DATA:
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
            await self._tell(previous, FrameType.LEFT)
        if self._over:
            raise Refused("SFY-HUB-004", self._over)
        await connection.outbox.put_notice(Frame(FrameType.WELCOME, name, connection.number))
        for other in self.present.values():
            await connection.outbox.put_notice(Frame(FrameType.PRESENT, other.name, other.number))
        self._refusals.pop(name, None)
        for refusal in self._refusals.values():
            await connection.outbox.put_notice(_notice(refusal.sentence))
        self.present[name] = connection
        await self._tell(connection, FrameType.PRESENT)
        return connection

    async def leave(self, connection: Connection) -> None:
        await connection.outbox.close()
        if self.present.get(connection.name) is connection:
            del self.present[connection.name]
            await self._tell(connection, FrameType.LEFT)

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

    async def _tell(self, about: Connection, kind: FrameType) -> None:
        for name, other in list(self.present.items()):
            if name != about.name:
                await other.outbox.put_notice(Frame(kind, about.name, about.number))


def _notice(sentence: str) -> Frame:
    return Frame(FrameType.NOTICE, body=sentence.encode())


async def _end(connection: Connection, sentence: str) -> None:
    await connection.outbox.put_notice(Frame(FrameType.REFUSED, body=sentence.encode()))
    await connection.outbox.close()


HELLO = 1 << 12  # bytes of the first frame


class NotAsAgreed(Refused):
    """Who says that it is a party of a room, and is refused; the others of the room are told."""

    def __init__(self, code: str, sentence: str, room: Room, name: str, for_others: str) -> None:
        super().__init__(code, sentence)
        self.room, self.name, self.for_others = room, name, for_others


class Served:
    """The consortia of a hub, and TLS for their parties.

    Attributes
    ----------
    rooms
        By the names of the consortia.
    tls
        For all connections. Who has left all files may still pass it, and is told by a sentence
        that it is not known.
    """

    def __init__(self, consortia: Sequence[Consortium], identity: Identity) -> None:
        if len({consortium.name for consortium in consortia}) != len(consortia):
            raise InputError(
                "SFY-HUB-008", "Two of the files have the same consortium name; rename one."
            )
        own = fingerprint(identity.certificate.read_text(encoding="ascii"))
        for consortium in consortia:
            check_own(consortium, own, identity.certificate)
        self.rooms = {consortium.name: Room(consortium) for consortium in consortia}
        self.tls = tls.context(
            identity, _certificates(consortia), server_side=True, kind=tls.AlertingContext
        )

    async def update(self, consortia: Sequence[Consortium]) -> tuple[list[Room], list[Room]]:
        """Serve these from now on; return the rooms that are new and those that are over.

        Who is there stays there, unless its file is gone or was agreed upon anew.
        """
        wanted = {consortium.name: consortium for consortium in consortia}
        over = []
        for name, room in list(self.rooms.items()):
            now = wanted.get(name)
            if now is not None and now.digest() == room.consortium.digest():
                room.consortium = now
                continue
            over.append(self.rooms.pop(name))
            await room.end(
                f"The hub does not serve {name!r} any more: its operator has taken the file away."
                if now is None
                else f"The hub has another consortium.toml of {name!r} now, whose digest begins "
                f"{now.digest()[:16]!r}: ask for it, and join with it."
            )
        new = [Room(wanted[name]) for name in wanted if name not in self.rooms]
        if new:
            pems = _certificates(room.consortium for room in new)
            self.tls.load_verify_locations(cadata=tls.joined(pems))
        self.rooms |= {room.consortium.name: room for room in new}
        return new, over

    def identified(self, hello: Frame, der: bytes | None) -> tuple[Room, str]:
        """Who this is: the name it claims must be that of its certificate."""
        actual = "none" if der is None else fingerprint_of_der(der)
        try:
            said = parse(hello.body, HELLO)
            names = {key: said[key] for key in ("consortium", "party")}
            wanted, name = check_fields(names, dict.fromkeys(names, str), "it").values()
        except (ValueError, KeyError, TypeError):
            raise Refused(
                "SFY-HUB-011", "The first frame does not say which party this is."
            ) from None
        room = self.rooms.get(wanted)
        if hello.type != FrameType.HELLO or room is None:
            raise Refused(
                "SFY-HUB-009",
                f"The hub does not serve a consortium named {shown(wanted)}; ask its operator to "
                "start it with our consortium.toml.",
            )
        known = {party.name: party.fingerprint for party in room.consortium.parties}
        if known.get(name) != actual:
            raise NotAsAgreed(
                "SFY-HUB-010",
                f"The certificate ({actual}) is not the one of party {shown(name)} in the hub's "
                f"file of {wanted!r}; it needs the same consortium.toml.",
                room,
                name,
                f"Somebody who says that it is {name} was refused: its certificate ({actual}) is "
                "not the one in the hub's file.",
            )
        try:
            check_same(room.consortium, said)
        except Refused as error:
            raise NotAsAgreed(
                code_of(error, "SFY-HUB-012"),
                str(error),
                room,
                name,
                f"Party {name} was refused. {error}",
            ) from None
        return room, name

    def owner(self, der: bytes) -> str:
        """The parties that a certificate belongs to, in any of the files."""
        actual = fingerprint_of_der(der)
        return ", ".join(
            f"{party.name} of {room.consortium.name!r}"
            for room in self.rooms.values()
            for party in room.consortium.parties
            if party.fingerprint == actual
        )

    def waiting_for(self, der: bytes) -> list[tuple[Room, str]]:
        """Who may be meant by an unknown certificate: its subject is not to be trusted, but known.

        A party that has made its key anew has the name of a party that is missing.
        """
        name = _subject(der)
        return [
            (room, name)
            for room in self.rooms.values()
            if name in room.tallies and name not in room.present
        ]


def check_own(consortium: Consortium, own: str, where: Path) -> None:
    """Refuse a file that names another hub than the one whose certificate is there."""
    if fingerprint(consortium.agreed_hub().certificate) != own:
        raise InputError(
            "SFY-HUB-005",
            f"{where} is not the hub's certificate in the file of {consortium.name!r}: no party "
            "would accept this hub.",
        )


def check_same(consortium: Consortium, said: dict[str, Any]) -> None:
    """Say early what the peers would find out; they do not rely on the hub for it."""
    version, digest = said.get("version", VERSION), str(said.get("digest", consortium.digest()))
    if version != VERSION:
        raise Refused(
            "SFY-HUB-006",
            f"This party speaks protocol version {shown(version)}, the hub speaks version "
            f"{VERSION}; install the same release everywhere.",
        )
    if digest != consortium.digest():
        raise Refused(
            "SFY-HUB-007",
            "This party's consortium.toml is not the hub's: its digest begins "
            f"{shown(digest[:16])}, the hub's {consortium.digest()[:16]!r}. Use the same file "
            "everywhere (`securefedyj check` shows the digest), and give the hub the new one if it "
            "has the old one.",
        )


def _certificates(consortia: Iterable[Consortium]) -> set[str]:
    return {party.certificate for one in consortia for party in one.parties}


def _subject(der: bytes) -> str:
    """The common name in a certificate of anybody; empty if there is none to be read."""
    try:
        names = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(
            NameOID.COMMON_NAME
        )
        return str(names[0].value) if names else ""
    except Exception:  # of several kinds: it is what a stranger sends
        return ""


_OVERHEAD = 128  # bytes that a frame takes besides its body
_MOST_NOTICES = 1024


class Outbox:
    """Frames that wait for one connection: so many bytes, and a frame more.

    Notices, such as who is there, never wait for room, so that a slow party cannot hold up the
    news of others.
    """

    def __init__(self, limit: int) -> None:
        self.bytes = 0
        self._limit = limit
        self._most_frames = limit // _OVERHEAD + _MOST_NOTICES
        self._frames: deque[Frame] = deque()
        self._changed = asyncio.Condition()
        self._closed = False

    async def put(self, frame: Frame) -> None:
        """Wait for room, then add; nothing is added to a closed box."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or self.bytes < self._limit)
            self._append(frame)

    async def put_notice(self, frame: Frame) -> None:
        """Add without waiting for room; a box that nobody empties is closed."""
        async with self._changed:
            if len(self._frames) >= self._most_frames:
                self._closed = True
            self._append(frame)

    def _append(self, frame: Frame) -> None:
        if not self._closed:
            self._frames.append(frame)
            self.bytes += _OVERHEAD + len(frame.body)
        self._changed.notify_all()

    async def close(self) -> None:
        """Take no more; what is in there may still be taken."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def frames(self) -> AsyncIterator[Frame]:
        """All frames in order, until the box is closed and empty."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._closed or bool(self._frames))
                if not self._frames:
                    return
                frame = self._frames.popleft()
                self.bytes -= _OVERHEAD + len(frame.body)
                self._changed.notify_all()
            yield frame
