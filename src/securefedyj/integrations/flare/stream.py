"""Packets between two parties, and the stream of pieces that each makes of them.

The bus may lose, repeat and reorder packets. A packet says from which connection of the sender to
which one of the receiver it goes, where its piece stands in the stream between the two, and how
much of the other direction has arrived. None of it is trusted: within the streams there is TLS.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum

from securefedyj.errors import ProtocolError

MAX_BODY = 1 << 20
"""Bytes of a piece; FLARE's server holds a message whole."""

_HEAD = struct.Struct("!BBQQQQ")
_VERSION = 1
RESEND = 1.0  # seconds without an answer, at least; doubled each time
_MOST_DOUBLINGS = 3
_MOST_AHEAD = 64  # pieces that are kept beyond a gap


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

    # To the peer.

    def piece(self, body: bytes, now: float) -> Packet:
        """The packet of the next piece."""
        packet = self._packet(PacketKind.DATA, body)
        self._next += 1
        self._sent.append(_Sent(packet, now))
        return packet

    def hello(self) -> Packet:
        return self._packet(PacketKind.HELLO)

    def bye(self) -> Packet:
        return self._packet(PacketKind.BYE)

    def due(self, now: float) -> Packet | None:
        """A packet to send again, or as an answer, if there is one."""
        if self._sent:
            # Only the first: the answer says whether those after it have arrived.
            first = self._sent[0]
            if now - first.moment > self._patience * 2 ** min(first.again, _MOST_DOUBLINGS):
                first.moment, first.again = now, first.again + 1
                self._owes_answer = False
                return replace(first.packet, received=self._received)
        return self.hello() if self._owes_answer else None

    def _packet(self, kind: PacketKind, body: bytes = b"") -> Packet:
        self._owes_answer = False
        return Packet(kind, self.own, self.peers, self._next, self._received, body)

    # From the peer.

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
