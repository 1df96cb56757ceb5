"""A party's connection to the hub."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

from securefedyj.errors import ProtocolError, code_of
from securefedyj.network import tls
from securefedyj.network.carrier import LinkLost, Unwelcome
from securefedyj.network.consortium import Consortium
from securefedyj.network.frames import MAX_BODY, Frame, Reader, Type, Writer
from securefedyj.network.identity import Identity, fingerprint
from securefedyj.network.proxy import Proxy, on_inspection, through
from securefedyj.party.messages import VERSION

_READ = 1 << 18
_NEXT_ADDRESS = 0.3  # seconds until the hub's next address is tried beside: IPv6 may lead nowhere
# Frames, and bytes of them; then the hub waits, and with it whoever sends. While we compute, peers
# may send what the protocol lets them send ahead: that must not hold up what they say to others.
_INBOX = 4096
MOST_WAITING = 1 << 26


class Link:
    """Sends and receives frames. Sending never waits, or two parties could wait for each other.

    What waits to be sent is what the protocol has computed and would have to hold anyway.

    `on_arrival` is called with each frame as it comes, before its turn to be received. `most` is
    how many bytes may wait for that, and a frame more; who knows what a session sends sets it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard = asyncio.get_running_loop().time()
        self.on_arrival: Callable[[Frame], None] = lambda frame: None
        self.most = MOST_WAITING
        self._reader, self._writer = reader, writer
        self._waiting = 0
        self._room = asyncio.Event()
        self._inbox: asyncio.Queue[Frame | LinkLost] = asyncio.Queue(_INBOX)
        self._outbox: deque[Frame] = deque()
        self._ready = asyncio.Event()
        self._closing = False
        self._unanswered = 0  # pings
        self._tasks = [asyncio.create_task(self._receive()), asyncio.create_task(self._send())]

    def send(self, frame: Frame) -> None:
        self._unanswered += frame.type == Type.PING
        self._outbox.append(frame)
        self._ready.set()

    def send_stream(self, name: str, connection: int, data: bytes) -> None:
        """Send a piece of the stream to a peer, in as many frames as it takes."""
        view = memoryview(data)
        for start in range(0, len(view), MAX_BODY):
            self.send(Frame(Type.DATA, name, connection, bytes(view[start : start + MAX_BODY])))

    async def receive(self, timeout: float) -> Frame | None:
        """Return the next frame, or None if there is none in time."""
        try:
            async with asyncio.timeout(timeout):
                event = await self._next()
        except TimeoutError:
            return None
        if isinstance(event, LinkLost):
            raise event
        return event

    async def close(self, timeout: float) -> None:
        """Send what is waiting, see that the hub has taken it, within so many seconds, and close.

        Closing at once would not do: with something to read left over, TCP resets the connection,
        and what the hub has not read by then is lost. It answers a ping after all before it.
        """
        self.send(Frame(Type.PING))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._unanswered and not (self._tasks[0].done() and self._inbox.empty()):
                    await self._next()
        self._closing = True
        self._ready.set()
        await asyncio.wait({self._tasks[1]}, timeout=timeout)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            # Not wait_for: before Python 3.12 it can swallow a cancellation, such as when we are
            # stopped just as the hub is lost.
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()

    async def _keep(self, frame: Frame) -> None:
        """Let a frame wait to be received, as soon as there is room for it."""
        while self._waiting >= self.most:
            self._room.clear()
            await self._room.wait()
        self._waiting += len(frame.body)
        await self._inbox.put(frame)

    async def _next(self) -> Frame | LinkLost:
        event = await self._inbox.get()
        if isinstance(event, Frame):
            self._waiting -= len(event.body)
            self._room.set()
        return event

    async def _receive(self) -> None:
        frames = Reader("the hub")
        try:
            while data := await self._reader.read(_READ):
                self.heard = asyncio.get_running_loop().time()
                for frame in frames.feed(data):
                    self._unanswered -= frame.type == Type.PONG
                    self.on_arrival(frame)
                    await self._keep(frame)
            frames.end()
            reason = "it closed the connection"
        except (OSError, ProtocolError) as error:
            reason = tls.described(error)
            if tls.is_refusal(error):
                await self._inbox.put(
                    Unwelcome(
                        "SFY-NET-018",
                        f"The hub refuses our certificate ({reason}). It has another "
                        "consortium.toml, or has not read the present one: compare both files by "
                        "`securefedyj check`, the hub's log says more.",
                    )
                )
        await self._inbox.put(
            LinkLost("SFY-NET-017", f"The connection to the hub was lost: {reason}.")
        )

    async def _send(self) -> None:
        numbered = Writer()
        with contextlib.suppress(OSError):  # the receiver finds out, and says so
            while self._outbox or not self._closing:
                await self._ready.wait()
                self._ready.clear()
                while self._outbox:
                    if self._writer.is_closing():
                        return
                    self._writer.write(numbered.encode(self._outbox.popleft()))
                    await self._writer.drain()


def _trying() -> dict[str, Any]:
    """How to try several addresses of a hub; loops other than asyncio's own know no such way."""
    known = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)
    return {"happy_eyeballs_delay": _NEXT_ADDRESS} if known else {}


async def connect(
    consortium: Consortium,
    name: str,
    identity: Identity,
    timeout: float,
    proxy: Proxy | None = None,
) -> Link:
    """Connect to the hub and say who we are; raises LinkLost if that fails."""
    hub = consortium.agreed_hub()
    settings = tls.context(identity, [hub.certificate], server_side=False)
    way = "" if proxy is None else f" through the proxy at {proxy.address}"
    try:
        async with asyncio.timeout(timeout):
            if proxy is None:
                reader, writer = await asyncio.open_connection(
                    hub.host, hub.port, ssl=settings, **_trying()
                )
            else:
                reader, writer = await through(proxy, hub, settings)
    except TimeoutError:
        raise LinkLost("SFY-NET-012", f"The hub at {hub.address} does not answer{way}.") from None
    except ssl.SSLCertVerificationError as error:
        raise Unwelcome(
            "SFY-NET-013",
            f"Who answers at {hub.address}{way} is not the hub of the agreed file: "
            f"{tls.described(error)}. {on_inspection(hub)}; if none does, ask the hub's operator.",
        ) from None
    except OSError as error:
        reason = tls.described(error)
        if proxy is not None and isinstance(error, ssl.SSLError):
            reason = f"{reason}. {on_inspection(hub)}"
        raise LinkLost(
            "SFY-NET-014", f"The hub at {hub.address} cannot be reached{way}: {reason}."
        ) from None
    try:
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    except ValueError:  # it broke as soon as it stood, and anybody on the way can see to that
        writer.close()
        raise LinkLost(
            "SFY-NET-015", f"The hub at {hub.address} cannot be reached{way}: TLS broke."
        ) from None
    try:
        tls.check_fingerprint(der, fingerprint(hub.certificate), "The hub")
    except ProtocolError as error:
        writer.close()
        raise Unwelcome(code_of(error, "SFY-NET-016"), f"{error} {on_inspection(hub)}.") from None
    link = Link(reader, writer)
    hello = {"consortium": consortium.name, "party": name, "version": VERSION}
    hello["digest"] = consortium.digest()
    link.send(Frame(Type.HELLO, body=json.dumps(hello).encode()))
    return link
