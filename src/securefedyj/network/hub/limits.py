"""Limits on connections that have not identified themselves yet.

Anybody can connect. Until the TLS handshake is over the hub knows only the address, so it allows
few such connections at once, per address and in all, each for some seconds; and until a connection
sends something it costs a socket and no buffers. A new one never waits for idle ones: the hub
closes the oldest one of the address with the most of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from securefedyj.network.transport import tls
from securefedyj.network.transport.addresses import plain_address

GRACE = 5.0  # seconds for the first byte, for TLS and HELLO, and to close
GUESTS, GUESTS_OF_ADDRESS = 512, 256
"""The most unidentified connections, in all and from one address."""
TURNS, TURNS_OF_ADDRESS = 64, 16
"""The most of these with a TLS handshake under way, which takes about 0.3 MB."""
UNDISTURBED = 1.0  # seconds that a handshake may take while others wait


class MadeRoom(Exception):
    """The hub closes this connection to make room for others."""


@dataclass(eq=False)
class Guest:
    """A connection that has not identified itself."""

    address: str
    task: asyncio.Task[object]
    waits: bool = False
    """For its turn."""
    turn: float | None = None
    """When the TLS handshake began."""
    sent_away: bool = False

    def send_away(self) -> None:
        self.sent_away = True
        self.task.cancel()


class Lobby:
    """Lets guests wait, serves a few at once, and sends the oldest away when there are too many."""

    def __init__(self) -> None:
        self._guests: list[Guest] = []  # the oldest first
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._guests)

    @contextlib.asynccontextmanager
    async def enter(self, address: str) -> AsyncIterator[Guest]:
        """A guest until the block ends; raises MadeRoom if it must make room for others."""
        task = asyncio.current_task()
        assert task is not None
        guest = Guest(block_of(address), task)
        present = [one for one in self._guests if not one.sent_away]
        if full := _crowded(present, guest.address, GUESTS, GUESTS_OF_ADDRESS):
            min(full, key=lambda one: one.turn is not None).send_away()  # of equals the oldest
        self._guests.append(guest)
        try:
            yield guest
        except asyncio.CancelledError:
            if not guest.sent_away:
                raise
            task.uncancel()
            raise MadeRoom("too many unidentified connections") from None
        finally:
            self._guests.remove(guest)
            self._changed.set()

    async def turn(self, guest: Guest) -> None:
        """Wait until the guest may begin with TLS; a guest that takes too long is sent away.

        The newest guest of an address goes first: the others had the time to send more.
        """
        guest.waits = True
        while self._next_of(guest.address) is not guest or not self._may_begin(guest.address):
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UNDISTURBED / 4):
                    await self._changed.wait()
        guest.waits, guest.turn = False, asyncio.get_running_loop().time()
        # In the order of their turns: `_may_begin` looks for the oldest.
        self._guests.remove(guest)
        self._guests.append(guest)
        self._changed.set()

    def _next_of(self, address: str) -> Guest:
        return next(one for one in reversed(self._guests) if one.waits and one.address == address)

    def _may_begin(self, address: str) -> bool:
        """Whether there is a free turn; if not, the longest one may have to end."""
        under_way = [one for one in self._guests if one.turn is not None]
        full = _crowded(under_way, address, TURNS, TURNS_OF_ADDRESS)
        if full and not any(one.sent_away for one in full):
            latest = asyncio.get_running_loop().time() - UNDISTURBED
            if (full[0].turn or 0.0) < latest:
                full[0].send_away()
        return not full


def _crowded(guests: Iterable[Guest], address: str, most: int, most_of_one: int) -> list[Guest]:
    """The guests from whom one must go before that address can have another; may be empty."""
    by_address = Counter(guest.address for guest in guests)
    if by_address[address] >= most_of_one:
        crowd = address
    elif by_address.total() >= most:
        crowd = by_address.most_common(1)[0][0]
    else:
        return []
    return [guest for guest in guests if guest.address == crowd]


def block_of(address: str) -> str:
    """What one owner controls: an IPv4 address, or the /64 of an IPv6 address."""
    address = plain_address(address)
    try:
        network = ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False)
    except ValueError:
        return address
    return str(network)


async def heard(line: socket.socket) -> None:
    """Wait for the first byte, without a buffer for it; raises EOFError if there is none."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(line, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(line)
    if not line.recv(1, socket.MSG_PEEK):
        raise EOFError("it sent nothing")


async def secured(
    line: socket.socket, settings: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Make a TLS connection, if the client shows a certificate of a party."""
    # asyncio sets this only for sockets that it makes itself; a frame must not wait for others.
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    with line.dup() as spare:  # asyncio closes its own at once when TLS refuses
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, line, ssl=settings, ssl_handshake_timeout=GRACE
            )
        except ssl.SSLError as error:
            with contextlib.suppress(OSError):
                spare.send(tls.alert(error))
            raise
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
