"""A carrier over a bus that may lose, repeat and reorder packets, such as FLARE's messages.

Each party chooses a random number for its connection to each peer, and announces it. A peer is
connected once it shows that it knows our number; with a new number of its own it has a new
connection, and the earlier one is over. So neither late packets nor a third site that claims to be
the peer can end a connection. The server can, because it reads the numbers; but it could also drop
all packets. No message says that a peer was killed: the participant notices its silence, or it
connects again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from securefedyj.errors import ProtocolError
from securefedyj.integrations.flare.stream import MAX_BODY, Packet, PacketKind, Stream, decode
from securefedyj.network.carrier import Arrival, Data, Left, Present
from securefedyj.network.transport.link import MOST_WAITING

HELLO_EVERY = 1.0  # seconds, to peers that are not connected
_TICK = 0.1  # seconds
_MOST_OVER = 100  # past connections that are remembered
_MOST_ARRIVALS = 4096  # waiting to be received; further packets must be sent again


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
        self._greeted = 0.0
        bus.listen(self._take)
        self._greet()
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
            self._post(peer, stream.hello())

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
                self._post(peer, stream.bye())

    def _post(self, peer: str, packet: Packet) -> None:
        self._bus.post(peer, packet.encode())

    def _greet(self) -> None:
        """Announce ourselves to peers that are not connected yet."""
        self._greeted = _now()
        for peer in self._own:
            if peer not in self._streams:
                self._introduce(peer, 0)

    def _introduce(self, peer: str, target: int) -> None:
        self._post(peer, Packet(PacketKind.HELLO, self._own[peer], target, 0, 0))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            now = _now()
            for peer, stream in self._streams.items():
                if (packet := stream.due(now)) is not None:
                    self._post(peer, packet)
            if now - self._greeted > HELLO_EVERY:
                self._greet()

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
        pieces = stream.take(
            packet,
            _now(),
            room=self._waiting < MOST_WAITING,
            room_ahead=self._waiting + held < MOST_WAITING,
        )
        for piece in pieces:
            self._waiting += len(piece)
            self._inbox.put_nowait(Data(peer, stream.peers, piece))

    def _arrive(self, peer: str, connection: int) -> Stream:
        if peer in self._streams:
            self._leave(peer)
        self._streams[peer] = stream = Stream(self._own[peer], connection)
        self._inbox.put_nowait(Present(peer, connection))
        self._post(peer, stream.hello())  # it may not know yet that we are connected
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
