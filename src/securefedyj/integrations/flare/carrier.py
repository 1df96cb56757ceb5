"""A carrier over a bus that may lose, repeat and reorder packets, such as FLARE's messages.

Each party chooses a random number for its connection to each peer, and announces it. A peer is
connected once it shows that it knows our number; with a new number of its own it has a new
connection, and the earlier one is over. So neither late packets nor a third site that claims to be
the peer can end a connection. The server can, because it reads the numbers; but it could also drop
all packets. No message says that a peer was killed: the participant notices its silence, or it
connects again.

A packet says from which connection of the sender to which one of the receiver it goes, where its
piece stands in the stream between the two, and how much of the other direction has arrived. None of
it is trusted: within the streams there is TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Protocol

from securefedyj.errors import ProtocolError
from securefedyj.network.carrier import Arrival, Data, Left, Present
from securefedyj.network.transport.link import MOST_WAITING

MAX_BODY = 1 << 20
"""Bytes of a piece; FLARE's server holds a message whole."""

_HEAD = struct.Struct("!BBQQQQ")
_VERSION = 1
RESEND = 1.0  # seconds without an answer, at least; doubled each time
_MOST_DOUBLINGS = 3
_MOST_AHEAD = 64  # pieces that are kept beyond a gap
HELLO_EVERY = 1.0  # seconds, to peers that are not connected
_TICK = 0.1  # seconds
_MOST_OVER = 100  # past connections that are remembered
_MOST_ARRIVALS = 4096  # waiting to be received; further packets must be sent again


class PacketKind(IntEnum):
    """What a packet is for."""

    HELLO = 1  # we are connected, and have received `received` pieces
    DATA = 2
    BYE = 3  # we leave


@dataclass(frozen=True)
class Packet:
    """One packet."""

    kind: PacketKind
    source: int
    """The sender's connection; never 0."""
    target: int
    """The receiver's connection, as far as the sender knows; 0 if it does not."""
    number: int
    """Of this piece, or of the next one."""
    received: int
    """The number of pieces of the other direction that have arrived without a gap."""
    body: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        head = (_VERSION, self.kind, self.source, self.target, self.number, self.received)
        return _HEAD.pack(*head) + self.body


def decode(data: bytes) -> Packet:
    """Read a packet; raises ProtocolError for anything else."""
    if not _HEAD.size <= len(data) <= _HEAD.size + MAX_BODY:
        raise ProtocolError("SFY-FLARE-001", f"A packet has {len(data)} bytes.")
    version, kind, source, target, number, received = _HEAD.unpack_from(data)
    if version != _VERSION or kind not in set(PacketKind) or source == 0:
        raise ProtocolError("SFY-FLARE-002", "A packet is not of our form.")
    return Packet(PacketKind(kind), source, target, number, received, data[_HEAD.size :])


@dataclass
class _Sent:
    """A piece that may not have arrived."""

    packet: Packet
    moment: float
    again: int = 0


class Stream:
    """Numbers what goes out and keeps it until it has arrived; orders what comes in."""

    def __init__(self, own: int, peers: int) -> None:
        """Begin with the connections at both ends."""
        self.own, self.peers = own, peers
        self._next = self._received = 0
        self._sent: deque[_Sent] = deque()
        self._patience = RESEND
        self._ahead: dict[int, bytes] = {}
        self.held = 0  # bytes of pieces that arrived before a missing one
        self._owes_answer = False

    @property
    def arrived(self) -> bool:
        """Whether the peer has all that we have sent."""
        return not self._sent

    def packet(self, kind: PacketKind, body: bytes = b"") -> Packet:
        """A packet to the peer, which tells it how much has arrived here."""
        self._owes_answer = False
        return Packet(kind, self.own, self.peers, self._next, self._received, body)

    def piece(self, body: bytes, now: float) -> Packet:
        packet = self.packet(PacketKind.DATA, body)
        self._next += 1
        self._sent.append(_Sent(packet, now))
        return packet

    def due(self, now: float) -> Packet | None:
        """A packet to send again, or as an answer, if there is one."""
        if self._sent:
            # Only the first: the answer says whether those after it have arrived.
            first = self._sent[0]
            if now - first.moment > self._patience * 2 ** min(first.again, _MOST_DOUBLINGS):
                first.moment, first.again = now, first.again + 1
                self._owes_answer = False
                return replace(first.packet, received=self._received)
        return self.packet(PacketKind.HELLO) if self._owes_answer else None

    def take(self, packet: Packet, now: float, *, room: bool, room_ahead: bool) -> Iterator[bytes]:
        """Pieces in order; those that arrive when there is no room must be sent again.

        There may be room for the next piece alone, and none for those that arrive before it.
        """
        while self._sent and self._sent[0].packet.number < packet.received:
            first = self._sent.popleft()
            if not first.again:
                self._patience = max(RESEND, 2 * (now - first.moment))
        if packet.kind is not PacketKind.DATA:
            return
        self._owes_answer = True
        place = packet.number - self._received
        fits = room if place == 0 else room_ahead and 0 < place < _MOST_AHEAD
        if fits and packet.number not in self._ahead:
            self._ahead[packet.number] = packet.body
            self.held += len(packet.body)
        while self._received in self._ahead:
            piece = self._ahead.pop(self._received)
            self._received += 1
            self.held -= len(piece)
            yield piece


def _now() -> float:
    return asyncio.get_running_loop().time()


class Bus(Protocol):
    """Carries packets to other parties, without any guarantee."""

    def post(self, peer: str, packet: bytes) -> None:
        """Send a packet without waiting."""

    def listen(self, take: Callable[[str, bytes], None]) -> None:
        """Call this in the event loop for each packet, with the name that its sender claims."""


class PacketCarrier:
    """One party's connections to all its peers."""

    def __init__(self, bus: Bus, peers: Iterable[str]) -> None:
        self.on_left: Callable[[Left], None] = lambda left: None
        self._bus = bus
        self._own = {peer: secrets.randbits(63) + 1 for peer in peers}
        self._streams: dict[str, Stream] = {}
        self._over: deque[tuple[str, int]] = deque(maxlen=_MOST_OVER)
        self._inbox: asyncio.Queue[Arrival] = asyncio.Queue()
        self._waiting = 0  # bytes in the inbox
        bus.listen(self._take)
        self._ticking = asyncio.create_task(self._tick())

    @property
    def heard(self) -> float:
        """Now: no hub stands between us and the peers."""
        return _now()

    def send(self, peer: str, connection: int, data: bytes) -> None:
        stream = self._streams.get(peer)
        if stream is None or stream.peers != connection:
            return  # the connection is over, and `Left` was reported
        view = memoryview(data)
        for start in range(0, len(view), MAX_BODY):
            piece = bytes(view[start : start + MAX_BODY])
            self._post(peer, stream.piece(piece, _now()))

    def sign_of_life(self) -> None:
        for peer, stream in self._streams.items():
            self._post(peer, stream.packet(PacketKind.HELLO))

    async def receive(self, timeout: float) -> Arrival | None:
        try:
            async with asyncio.timeout(timeout):
                arrival = await self._inbox.get()
        except TimeoutError:
            return None
        if isinstance(arrival, Data):
            self._waiting -= len(arrival.data)
        return arrival

    async def close(self, timeout: float) -> None:
        """Leave once everything has arrived."""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while not all(stream.arrived for stream in self._streams.values()):
                        await asyncio.sleep(_TICK / 4)
        finally:
            self._bus.listen(lambda peer, data: None)
            self._ticking.cancel()
            for peer, stream in self._streams.items():
                self._post(peer, stream.packet(PacketKind.BYE))

    def _post(self, peer: str, packet: Packet) -> None:
        self._bus.post(peer, packet.encode())

    def _introduce(self, peer: str, target: int) -> None:
        self._post(peer, Packet(PacketKind.HELLO, self._own[peer], target, 0, 0))

    async def _tick(self) -> None:
        """Send again what may be lost, and introduce us to peers that are not connected yet."""
        greeted = -HELLO_EVERY
        while True:
            now = _now()
            for peer, stream in self._streams.items():
                if (packet := stream.due(now)) is not None:
                    self._post(peer, packet)
            if now - greeted > HELLO_EVERY:
                greeted = now
                for peer in self._own:
                    if peer not in self._streams:
                        self._introduce(peer, 0)
            await asyncio.sleep(_TICK)

    def _take(self, peer: str, data: bytes) -> None:
        try:
            packet = decode(data)
        except ProtocolError:
            return  # not one of our packets
        if peer not in self._own or (peer, packet.source) in self._over:
            return
        if packet.target != self._own[peer]:  # the peer does not know our present number
            if packet.kind is not PacketKind.BYE:
                self._introduce(peer, packet.source)
            return
        if self._inbox.qsize() >= _MOST_ARRIVALS:
            return
        stream = self._streams.get(peer)
        if stream is None or stream.peers != packet.source:
            if packet.kind is PacketKind.BYE:
                self._over.append((peer, packet.source))
                return
            stream = self._arrive(peer, packet.source)
        if packet.kind is PacketKind.BYE:
            self._leave(peer)
            return
        held = sum(one.held for one in self._streams.values())
        room, room_ahead = self._waiting < MOST_WAITING, self._waiting + held < MOST_WAITING
        for piece in stream.take(packet, _now(), room=room, room_ahead=room_ahead):
            self._waiting += len(piece)
            self._inbox.put_nowait(Data(peer, stream.peers, piece))

    def _arrive(self, peer: str, connection: int) -> Stream:
        if peer in self._streams:
            self._leave(peer)
        self._streams[peer] = stream = Stream(self._own[peer], connection)
        self._inbox.put_nowait(Present(peer, connection))
        self._post(
            peer, stream.packet(PacketKind.HELLO)
        )  # it may not know yet that we are connected
        return stream

    def _leave(self, peer: str) -> None:
        left = Left(peer, self._streams.pop(peer).peers)
        self._over.append((peer, left.connection))
        self._inbox.put_nowait(left)
        self.on_left(left)


class PacketDialer:
    """Opens connections over a bus, which cannot fail."""

    def __init__(self, bus: Bus, peers: Iterable[str]) -> None:
        self._bus, self._peers = bus, tuple(peers)

    async def connect(self) -> PacketCarrier:
        return PacketCarrier(self._bus, self._peers)

    def progress(self) -> None:
        """Has no effect: there is no waiting time to reset."""
