"""The consortia that a hub serves: who is connected, and who may connect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.x509.oid import NameOID

from securefedyj.errors import CodedError, InputError
from securefedyj.network.consortium import Consortium
from securefedyj.network.consortium.file import REHEARSAL
from securefedyj.network.errors import upgrade
from securefedyj.network.hub.agreed_files import check_own
from securefedyj.network.identity import Identity, fingerprint, fingerprint_of_der, read_certificate
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import FrameQueue, FrameType, Hello, HubFrame
from securefedyj.party.messages import VERSION
from securefedyj.printable import shown
from securefedyj.strict import Malformed, convert, parse

if TYPE_CHECKING:
    from securefedyj.network.hub.mailbox import MailFolder

QUEUE = 1 << 18  # bytes that wait for one connection
TELL_EVERY = 10.0  # seconds between two notices about the same party
HELLO = 1 << 12  # bytes of the first frame


class HubRefusal(CodedError):
    """A connection that may not stay; the message is sent to it and logged."""


@dataclass
class Traffic:
    """Frames from and to a party, and the bytes of their bodies."""

    frames_received: int = 0
    bytes_received: int = 0
    frames_sent: int = 0
    bytes_sent: int = 0


@dataclass
class PartyStatus(Traffic):
    """A party since the hub serves its consortium; times are in seconds since 1970."""

    since: float | None = None
    """When it connected; None while it is not connected."""
    active: float | None = None
    """When it last sent data for a peer."""
    submitted: float | None = None
    """When the hub stored its submission."""

    @property
    def connected(self) -> int:
        return int(self.since is not None)


@dataclass
class Connection:
    """A connected party."""

    room: Room
    name: str
    number: int
    outbox: FrameQueue = field(default_factory=lambda: FrameQueue(QUEUE))
    traffic: Traffic = field(default_factory=Traffic)

    def notify(self, kind: FrameType, message: str = "") -> None:
        self.outbox.put_notice(HubFrame(kind, body=message.encode()))

    def end(self, kind: FrameType, message: str = "") -> None:
        """Send a last frame after those that wait."""
        self.notify(kind, message)
        self.outbox.close()

    def count_received(self, frame: HubFrame) -> None:
        for traffic in (self.traffic, self.room.status[self.name]):
            traffic.frames_received += 1
            traffic.bytes_received += len(frame.body)
        if frame.type == FrameType.DATA:
            self.room.status[self.name].active = time.time()

    def count_sent(self, frame: HubFrame) -> None:
        for traffic in (self.traffic, self.room.status[self.name]):
            traffic.frames_sent += 1
            traffic.bytes_sent += len(frame.body)


class Room:
    """One consortium, its parties, and the connections of those that are present."""

    def __init__(self, consortium: Consortium) -> None:
        self.consortium = consortium
        self.present: dict[str, Connection] = {}
        self.status = {party.name: PartyStatus() for party in consortium.parties}
        # The time and words of the last refusal of each party that is not connected.
        self._refusals: dict[str, tuple[float, str]] = {}
        self._over = ""  # the reason, once it is
        self.mail: MailFolder | None = None

    @property
    def complete(self) -> bool:
        """Whether all that a run needs are here: one may be under way."""
        return set(self.consortium.agreement().online) <= self.present.keys()

    def enter(self, name: str, number: int) -> Connection:
        """Let a party in; an earlier connection of it must go."""
        connection = Connection(self, name, number)
        previous = self.present.pop(name, None)
        if previous is not None:
            previous.end(
                FrameType.REFUSED, f"Another process has joined as {name}; this one must stop."
            )
            self._announce(FrameType.LEFT, previous)
        self.check_open()
        connection.outbox.put_notice(HubFrame(FrameType.WELCOME, name, number))
        for other in self.present.values():
            connection.outbox.put_notice(HubFrame(FrameType.PRESENT, other.name, other.number))
        self._refusals.pop(name, None)
        for _, message in self._refusals.values():
            connection.notify(FrameType.NOTICE, message)
        self._announce(FrameType.PRESENT, connection)
        self.present[name] = connection
        self.status[name].since = time.time()
        return connection

    def seen(self) -> Iterator[HubFrame]:
        """For a party that only looks: who is here, who was refused, and what time it is."""
        yield HubFrame(FrameType.WELCOME)
        for other in self.present.values():
            yield HubFrame(FrameType.PRESENT, other.name, other.number)
        for _, message in self._refusals.values():
            yield HubFrame(FrameType.NOTICE, body=message.encode())
        yield HubFrame(FrameType.PONG, body=str(time.time()).encode())

    def check_open(self) -> None:
        """Refuse to serve a consortium whose file is gone."""
        if self._over:
            raise HubRefusal("SFY-HUB-004", self._over)

    def leave(self, connection: Connection) -> None:
        connection.outbox.close()
        if self.present.get(connection.name) is connection:
            del self.present[connection.name]
            self.status[connection.name].since = None
            self._announce(FrameType.LEFT, connection)

    def tell_of_refusal(self, name: str, why: str) -> None:
        """Tell the parties, also those that connect later, why they may wait for one in vain.

        These are words only: no party has to believe the hub. There is one notice about a party at
        a time, and at most one per `TELL_EVERY`, so that a refused party cannot flood the others.
        """
        if name in self.present or name not in self.status:
            return
        now = asyncio.get_running_loop().time()
        if name in self._refusals and now - self._refusals[name][0] < TELL_EVERY:
            return
        message = f"{why} ({time.strftime('%H:%M:%S', time.gmtime())} UTC)"
        self._refusals[name] = now, message
        self.tell_all(message)

    def tell_all(self, message: str) -> None:
        for connection in self.present.values():
            connection.notify(FrameType.NOTICE, message)

    def end(self, reason: str) -> None:
        """Stop serving this consortium: all parties must go."""
        self._over = reason
        for connection in self.present.values():
            connection.end(FrameType.REFUSED, reason)
        self.present = {}

    def _announce(self, kind: FrameType, about: Connection) -> None:
        for other in self.present.values():
            other.outbox.put_notice(HubFrame(kind, about.name, about.number))


class Served:
    """The consortia of a hub by their names, and TLS for their parties.

    A party whose files were all removed may still pass TLS; the hub then tells it that it does not
    serve its consortium.
    """

    def __init__(self, consortia: Sequence[Consortium], identity: Identity) -> None:
        if len({consortium.name for consortium in consortia}) != len(consortia):
            raise InputError(
                "SFY-HUB-008", "Two of the files have the same consortium name; rename one."
            )
        own = fingerprint(read_certificate(identity.certificate))
        for consortium in consortia:
            check_own(consortium, own, identity.certificate)
        self.rooms: dict[str, Room] = {}
        self.tls = tls.context(identity, (), server_side=True, kind=tls.AlertingContext)
        self.update(consortia)

    def update(self, consortia: Sequence[Consortium]) -> tuple[list[Room], list[Room]]:
        """Serve these from now on; return the new rooms and those that have ended.

        Parties stay connected unless their file is gone or has another digest.
        """
        wanted = {consortium.name: consortium for consortium in consortia}
        for name, room in self.rooms.items():
            agreed = wanted.get(name.removesuffix(REHEARSAL))
            if room.consortium.rehearses and agreed is not None:
                wanted.setdefault(name, agreed.rehearsal())
        ended = []
        for name, room in list(self.rooms.items()):
            now = wanted.get(name)
            if now is not None and now.digest() == room.consortium.digest():
                room.consortium = now
                continue
            ended.append(self.rooms.pop(name))
            room.end(
                f"The hub no longer serves {name!r}: its operator has removed the file."
                if now is None
                else f"The hub now has another consortium.toml of {name!r}, whose digest begins "
                f"{now.digest()[:16]!r}: ask for it, and join with it."
            )
        new = [Room(wanted[name]) for name in wanted if name not in self.rooms]
        if pems := {party.certificate for room in new for party in room.consortium.parties}:
            self.tls.load_verify_locations(cadata=tls.joined(pems))
        self.rooms |= {room.consortium.name: room for room in new}
        return new, ended

    def identified(self, first: HubFrame, der: bytes) -> tuple[Room, Hello]:
        """Return the room of a party, and what it said; it must have the certificate of its name.

        Tells the others of the room if a party that they may wait for is refused.
        """
        try:
            if first.type != FrameType.HELLO:
                raise Malformed("another frame")
            hello = convert(parse(first.body, HELLO), Hello, "HELLO")
        except Malformed:
            raise HubRefusal(
                "SFY-HUB-011", "The first frame does not say which party this is."
            ) from None
        room, name = self._room(hello.consortium), hello.party
        if room is None:
            raise HubRefusal(
                "SFY-HUB-009",
                f"The hub does not serve a consortium named {shown(hello.consortium)}; ask its "
                "operator to start it with our consortium.toml.",
            )
        known = {party.name: party.fingerprint for party in room.consortium.parties}
        actual = fingerprint_of_der(der)
        if known.get(name) != actual:
            room.tell_of_refusal(
                name,
                f"A connection that claims to be {name} was refused: its certificate ({actual}) "
                "is not the one in the hub's file.",
            )
            raise HubRefusal(
                "SFY-HUB-010",
                f"The certificate ({actual}) is not the one of party {shown(name)} in the hub's "
                f"file of {hello.consortium!r}; it needs the same consortium.toml.",
            )
        check_same(room, hello)
        return room, hello

    def _room(self, name: str) -> Room | None:
        """The room of a consortium; that of a rehearsal opens when its first party comes."""
        agreed = self.rooms.get(name.removesuffix(REHEARSAL))
        if name not in self.rooms and agreed is not None and not agreed.consortium.rehearses:
            self.rooms[name] = Room(agreed.consortium.rehearsal())
        return self.rooms.get(name)

    def owner(self, der: bytes) -> str:
        """The parties that a certificate belongs to, in any of the files."""
        actual = fingerprint_of_der(der)
        return ", ".join(
            f"{party.name} of {room.consortium.name!r}"
            for room in self.rooms.values()
            for party in room.consortium.parties
            if party.fingerprint == actual
        )

    def tell_of_unknown(self, der: bytes) -> None:
        """Tell the parties that may wait for one whose certificate TLS has refused."""
        for room, name in self.waiting_for(der):
            room.tell_of_refusal(
                name,
                f"A connection with a certificate in the name of {name} was refused: none of the "
                f"hub's files has that certificate ({fingerprint_of_der(der)}).",
            )

    def waiting_for(self, der: bytes) -> list[tuple[Room, str]]:
        """The missing parties that have the name in an unknown certificate.

        Anybody can write that name; but a party that has made a new key has it, too.
        """
        try:
            subject = x509.load_der_x509_certificate(der).subject
            (name,) = (
                str(one.value) for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            )
        except Exception:  # of several kinds: a stranger may have sent anything
            return []
        return [
            (room, name)
            for room in self.rooms.values()
            if name in room.status and name not in room.present
        ]


def check_same(room: Room, hello: Hello) -> None:
    """Refuse early what the peers would refuse; they do not rely on the hub for it."""
    digest = room.consortium.digest()
    if hello.version != VERSION:
        code, message = (
            "SFY-HUB-006",
            upgrade(f"Party {hello.party}", hello.version, hello.release, "the hub"),
        )
    elif hello.digest not in ("", digest):
        code, message = (
            "SFY-HUB-007",
            "This party's consortium.toml is not the hub's: its digest begins "
            f"{shown(hello.digest[:16])}, the hub's {digest[:16]!r}. Use the same file everywhere "
            "(`securefedyj check` shows the digest), and give the hub the new one if it has the "
            "old one.",
        )
    else:
        return
    room.tell_of_refusal(hello.party, f"Party {hello.party} was refused. {message}")
    raise HubRefusal(code, message)
