"""Who has connected to the hub and has not said yet who it is.

Anybody can connect. Until TLS has ended nothing is known of a connection but its address, so there
are few of them at once, from one address and in all, each for some seconds; and as long as nothing
comes from it, a connection costs a socket and no buffers. A new one never waits for idle ones: the
oldest of the address with the most of them is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from securefedyj.network.transport import tls

GRACE = 5.0  # seconds for the first byte, for TLS and HELLO, and to take leave
GUESTS, GUESTS_OF_ADDRESS = 512, 256
"""Connections that have not said who they are, in all and from one address."""
TURNS, TURNS_OF_ADDRESS = 64, 16
"""Of these, how many have TLS under way, which takes about 0.3 MB."""
UNDISTURBED = 1.0  # seconds that a turn lasts at least, if others wait


class MadeRoom(Exception):
    """A connection that was closed for the sake of others."""


@dataclass(eq=False)
class Guest:
    """A connection that has not said who it is."""

    address: str
    task: asyncio.Task[object]
    waits: bool = False
    """For its turn."""
    turn: float | None = None
    """Since when TLS is under way."""
    sent_away: bool = field(default=False)

    def send_away(self) -> None:
        self.sent_away = True
        self.task.cancel()


class Lobby:
    """Lets guests wait, takes a few at once, and sends the oldest away where there are too many."""

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
            raise MadeRoom("too many connections have not said who they are") from None
        finally:
            self._guests.remove(guest)
            self._changed.set()

    async def turn(self, guest: Guest) -> None:
        """Wait until the guest may begin with TLS; who takes too long over it is sent away.

        Of those from one address the last comes first: the others have had the time to say more.
        """
        guest.waits = True
        while self._next_of(guest.address) is not guest or not self._may_begin(guest.address):
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UNDISTURBED / 4):
                    await self._changed.wait()
        guest.waits, guest.turn = False, asyncio.get_running_loop().time()
        # In the order of their turns, for those who look for the oldest.
        self._guests.remove(guest)
        self._guests.append(guest)
        self._changed.set()

    def _next_of(self, address: str) -> Guest:
        return next(one for one in reversed(self._guests) if one.waits and one.address == address)

    def _may_begin(self, address: str) -> bool:
        """Whether there is a turn to be had; if not, the longest may have to end."""
        under_way = [one for one in self._guests if one.turn is not None]
        full = _crowded(under_way, address, TURNS, TURNS_OF_ADDRESS)
        if full and not any(one.sent_away for one in full):
            since = full[0].turn
            now = asyncio.get_running_loop().time()
            if since is not None and since < now - UNDISTURBED:
                full[0].send_away()
        return not full


def _crowded(guests: Iterable[Guest], address: str, most: int, most_of_one: int) -> list[Guest]:
    """Those of whom one must go before another can come from that address; empty if none must."""
    by_address = Counter(guest.address for guest in guests)
    if by_address[address] >= most_of_one:
        crowd = address
    elif by_address.total() >= most:
        crowd = by_address.most_common(1)[0][0]
    else:
        return []
    return [guest for guest in guests if guest.address == crowd]


def block_of(address: str) -> str:
    """What one owner has: an address, or of IPv6 the 64 bits that a line gets as a whole."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


async def heard(line: socket.socket) -> None:
    """Wait for the first byte, without a buffer for it; an error if the line ends before."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(line, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(line)
    if not line.recv(1, socket.MSG_PEEK):
        raise EOFError("it left without a word")


async def secured(
    line: socket.socket, settings: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """TLS with a certificate of a party, or an error."""
    # asyncio sets this for sockets that it has made itself; a frame must not wait for others.
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
