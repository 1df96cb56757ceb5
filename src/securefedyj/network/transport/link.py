"""A party's connection to the hub."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

from securefedyj.errors import ProtocolError, code_of
from securefedyj.network.carrier import Arrival, Data, Left, LinkLost, Present, Unwelcome, Word
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError
from securefedyj.network.identity import Identity, fingerprint
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import (
    MAX_BODY,
    Frame,
    FrameReader,
    FrameType,
    FrameWriter,
)
from securefedyj.network.transport.proxy import Proxy, on_inspection, proxy_to, through
from securefedyj.party.messages import VERSION
from securefedyj.printable import printable

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
        self._unanswered += frame.type == FrameType.PING
        self._outbox.append(frame)
        self._ready.set()

    def send_stream(self, name: str, connection: int, data: bytes) -> None:
        """Send a piece of the stream to a peer, in as many frames as it takes."""
        view = memoryview(data)
        for start in range(0, len(view), MAX_BODY):
            self.send(
                Frame(FrameType.DATA, name, connection, bytes(view[start : start + MAX_BODY]))
            )

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
        self.send(Frame(FrameType.PING))
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
        frames = FrameReader("the hub")
        try:
            while data := await self._reader.read(_READ):
                self.heard = asyncio.get_running_loop().time()
                for frame in frames.feed(data):
                    self._unanswered -= frame.type == FrameType.PONG
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
        numbered = FrameWriter()
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
    link.send(Frame(FrameType.HELLO, body=json.dumps(hello).encode()))
    return link


_LONGEST_PAUSE = 5.0  # seconds between two attempts to connect, give or take a half

MOST_WORDS = 50
"""Sentences of the hub that are shown, of one connection."""


class HubCarrier:
    """The hub as a carrier."""

    def __init__(self, link: Link) -> None:
        self.on_left: Callable[[Left], None] = lambda left: None
        self._link = link
        self._words = 0
        link.on_arrival = self._preview

    @property
    def heard(self) -> float:
        return self._link.heard

    def send(self, peer: str, connection: int, data: bytes) -> None:
        self._link.send_stream(peer, connection, data)

    def sign_of_life(self) -> None:
        self._link.send(Frame(FrameType.PING))

    async def receive(self, timeout: float) -> Arrival | None:
        frame = await self._link.receive(timeout)
        if frame is None:
            return None
        match frame.type:
            case FrameType.REFUSED:
                raise JoinError("SFY-NET-005", f"The hub refuses us: {sentence(frame.body)}")
            case FrameType.CLOSING:
                return self._word("The hub is about to stop.")
            case FrameType.NOTICE:
                return self._word(f"The hub says: {sentence(frame.body)}")
            case FrameType.PRESENT:
                return Present(frame.name, frame.connection)
            case FrameType.LEFT:
                return Left(frame.name, frame.connection)
            case FrameType.DATA:
                return Data(frame.name, frame.connection, frame.body)
        return None

    async def close(self, timeout: float) -> None:
        await self._link.close(timeout)

    def _word(self, words: str) -> Word | None:
        """What the hub says is shown as its words, and only so often."""
        self._words += 1
        return Word(words) if self._words <= MOST_WORDS else None

    def _preview(self, frame: Frame) -> None:
        if frame.type == FrameType.LEFT:
            self.on_left(Left(frame.name, frame.connection))


class HubDialer:
    """Connects to the hub again and again, more slowly each time.

    Parameters
    ----------
    consortium, name, identity
        Where the hub is, and who we are.
    timeout
        Seconds for the hub to answer.
    most_unwelcome
        After so many connections that the hub ends without a word, we are not welcome.
    proxy
        The URL of an HTTP proxy; if None, the environment says whether there is one.

    Attributes
    ----------
    proxy
        The one that leads to the hub, if any.
    """

    def __init__(
        self,
        consortium: Consortium,
        name: str,
        identity: Identity,
        timeout: float,
        most_unwelcome: int,
        proxy: str | None = None,
    ) -> None:
        self.proxy = proxy_to(consortium.agreed_hub(), proxy)
        self._consortium, self._name, self._identity = consortium, name, identity
        self._timeout, self._most_unwelcome = timeout, most_unwelcome
        self._attempts = self._unwelcome = 0

    def progress(self) -> None:
        """The connection was of use, so the next one need not wait."""
        self._attempts = 0

    async def connect(self) -> HubCarrier:
        """Connect, and hear the hub's first word. LinkLost if that fails this time."""
        if self._attempts:
            pause = min(0.1 * 2 ** min(self._attempts, 6), _LONGEST_PAUSE)
            await asyncio.sleep(pause * (0.5 + secrets.randbelow(8) / 8))
        self._attempts += 1
        timeout = min(self._timeout, 10.0)
        link = await connect(self._consortium, self._name, self._identity, timeout, self.proxy)
        try:
            await self._first_word(link)
        except BaseException:
            await link.close(0.5)
            raise
        return HubCarrier(link)

    async def _first_word(self, link: Link) -> None:
        try:
            frame = await link.receive(self._timeout)
        except LinkLost as error:
            self._count_unwelcome(error)
            raise
        if frame is None:
            raise LinkLost("SFY-NET-002", "The hub accepts connections and does not answer.")
        self._unwelcome = 0
        if frame.type == FrameType.REFUSED:
            raise JoinError("SFY-NET-003", f"The hub refuses us: {sentence(frame.body)}")

    def _count_unwelcome(self, error: LinkLost) -> None:
        """Who is refused by TLS may find the line cut before the reason arrives."""
        self._unwelcome += 1
        if self._unwelcome >= self._most_unwelcome:
            raise JoinError(
                "SFY-NET-004",
                f"{error} It did so {self._unwelcome} times before any welcome: it may not know "
                "our certificate. Compare its agreed file with ours (`securefedyj check`); its "
                "log says why.",
            )


def sentence(body: bytes) -> str:
    """Words of the hub for the user's terminal: one line, and nothing that controls it."""
    return printable(body[:4000].decode(errors="replace"), 1000)
