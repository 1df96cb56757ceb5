"""A stream of pieces to and from one connection of a peer, made whole from packets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from securefedyj.integrations.flare.packets import Kind, Packet

RESEND = 1.0  # seconds without an answer, at least; twice as many each time
_MOST_DOUBLINGS = 3
_MOST_AHEAD = 64  # pieces that are kept beyond a gap


@dataclass
class _Sent:
    """A piece that may not have arrived."""

    packet: Packet
    moment: float
    again: int = 0


class Stream:
    """Numbers what goes out and keeps it until it has arrived; orders what comes in.

    Parameters
    ----------
    own, peers
        The connections at both ends.

    Attributes
    ----------
    held
        Bytes of pieces that have come before one that is missing.
    """

    def __init__(self, own: int, peers: int) -> None:
        self.own, self.peers = own, peers
        self._next = self._received = 0
        self._sent: deque[_Sent] = deque()
        self._patience = RESEND
        self._ahead: dict[int, bytes] = {}
        self.held = 0
        self._owes_answer = False

    @property
    def arrived(self) -> bool:
        """Whether the peer has all that we have sent."""
        return not self._sent

    # To the peer.

    def piece(self, body: bytes, now: float) -> Packet:
        """The packet of the next piece."""
        packet = self._packet(Kind.DATA, body)
        self._next += 1
        self._sent.append(_Sent(packet, now))
        return packet

    def hello(self) -> Packet:
        return self._packet(Kind.HELLO)

    def bye(self) -> Packet:
        return self._packet(Kind.BYE)

    def due(self, now: float) -> Packet | None:
        """What is to be sent again, or as an answer, if anything is."""
        if self._sent:
            # The first alone: the answer tells whether those after it have arrived.
            first = self._sent[0]
            if now - first.moment > self._patience * 2 ** min(first.again, _MOST_DOUBLINGS):
                first.moment, first.again = now, first.again + 1
                self._owes_answer = False
                return replace(first.packet, received=self._received)
        return self.hello() if self._owes_answer else None

    def _packet(self, kind: Kind, body: bytes = b"") -> Packet:
        self._owes_answer = False
        return Packet(kind, self.own, self.peers, self._next, self._received, body)

    # From the peer.

    def take(self, packet: Packet, now: float, *, room: bool, room_ahead: bool) -> Iterator[bytes]:
        """Pieces in their order; what comes when there is no room has to come again.

        Parameters
        ----------
        room, room_ahead
            For the next piece, and for those that have come before it.
        """
        while self._sent and self._sent[0].packet.number < packet.received:
            first = self._sent.popleft()
            if not first.again:
                self._patience = max(RESEND, 2 * (now - first.moment))
        if packet.kind is not Kind.DATA:
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
