"""A party's connection to the hub, which carries its streams to the other parties."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from securefedyj import __version__
from securefedyj.errors import ProtocolError, code_of
from securefedyj.network.carrier import Arrival, Data, Left, LinkLost, Present, Unwelcome, Word
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError
from securefedyj.network.identity import Identity, fingerprint
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import (
    MAX_FRAME_BODY,
    FrameQueue,
    FrameReader,
    FrameType,
    FrameWriter,
    Hello,
    HubFrame,
)
from securefedyj.network.transport.proxy import Proxy, on_inspection, proxy_to, through
from securefedyj.party.messages import VERSION
from securefedyj.printable import printable

_READ = 1 << 18
_NEXT_ADDRESS = 0.3  # seconds until the hub's next address is tried as well: IPv6 may lead nowhere
# Frames, and their bytes, that wait to be received; beyond, the hub waits, and with it the senders.
# While we compute, peers may send what the protocol lets them send ahead: that must not hold up
# what they send to others.
_INBOX = 4096
MOST_WAITING = 1 << 26
MOST_WORDS = 50
"""Sentences of the hub that are shown, per connection."""
_LONGEST_PAUSE = 5.0  # seconds between two attempts to connect, give or take a half


class Link:
    """The hub as a carrier. Sending never waits, or two parties could wait for each other.

    What waits to be sent is what the protocol has computed and would have to hold anyway. At most
    `most` bytes, and one frame more, wait to be received.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int = MOST_WAITING
    ) -> None:
        self.heard = asyncio.get_running_loop().time()
        self.on_left: Callable[[Left], None] = lambda left: None
        self._reader, self._writer = reader, writer
        self._inbox, self._numbered = FrameQueue(most, _INBOX), FrameWriter()
        self._lost: LinkLost | None = None
        self._unanswered = self._words = 0  # pings, and sentences of the hub
        self._receiving = asyncio.create_task(self._receive())

    def post(self, frame: HubFrame) -> None:
        """Send a frame to the hub."""
        self._unanswered += frame.type == FrameType.PING
        if not self._writer.is_closing():  # otherwise the receiver says why
            self._writer.write(self._numbered.encode(frame))

    def send(self, peer: str, connection: int, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(view), MAX_FRAME_BODY):
            piece = bytes(view[start : start + MAX_FRAME_BODY])
            self.post(HubFrame(FrameType.DATA, peer, connection, piece))

    def sign_of_life(self) -> None:
        self.post(HubFrame(FrameType.PING))

    async def receive_frame(self, timeout: float) -> HubFrame | None:
        """Return the next frame, or None if there is none in time."""
        try:
            async with asyncio.timeout(timeout):
                frame = await self._inbox.get()
        except TimeoutError:
            return None
        if frame is None and self._lost is not None:
            raise self._lost
        return frame

    async def receive(self, timeout: float) -> Arrival | None:
        match await self.receive_frame(timeout):
            case HubFrame(FrameType.REFUSED, body=body):
                raise JoinError("SFY-NET-005", f"The hub refuses us: {sentence(body)}")
            case HubFrame(FrameType.CLOSING):
                return self._word("The hub is about to stop.")
            case HubFrame(FrameType.NOTICE, body=body):
                return self._word(f"The hub says: {sentence(body)}")
            case HubFrame(FrameType.PRESENT, name, connection):
                return Present(name, connection)
            case HubFrame(FrameType.LEFT, name, connection):
                return Left(name, connection)
            case HubFrame(FrameType.DATA, name, connection, body):
                return Data(name, connection, body)
        return None

    def _word(self, words: str) -> Word | None:
        """Show what the hub says, a limited number of times."""
        self._words += 1
        return Word(words) if self._words <= MOST_WORDS else None

    async def close(self, timeout: float) -> None:
        """Send what is waiting, wait up to `timeout` seconds until the hub has it, and close.

        Closing at once would not do: if unread data is left, TCP resets the connection, and what
        the hub has not read by then is lost. It answers a ping after everything before it.
        """
        self.sign_of_life()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._unanswered and await self._inbox.get() is not None:
                    pass
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            # Not wait_for: before Python 3.12 it can swallow a cancellation, such as when we are
            # stopped just as the hub is lost.
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        self._writer.transport.abort()  # what the hub does not take by now is dropped

    async def _keep(self, frame: HubFrame) -> None:
        """Let a frame wait to be received, once there is room for it."""
        self._unanswered -= frame.type == FrameType.PONG
        if frame.type == FrameType.LEFT:
            self.on_left(Left(frame.name, frame.connection))
        await self._inbox.put(frame)

    async def _receive(self) -> None:
        frames = FrameReader("the hub")
        try:
            while data := await self._reader.read(_READ):
                self.heard = asyncio.get_running_loop().time()
                for frame in frames.feed(data):
                    await self._keep(frame)
            frames.end()
            reason, refused = "it closed the connection", False
        except (OSError, ProtocolError) as error:
            reason, refused = tls.described(error), tls.is_refusal(error)
        self._lost = LinkLost("SFY-NET-017", f"The connection to the hub was lost: {reason}.")
        if refused:
            self._lost = Unwelcome(
                "SFY-NET-018",
                f"The hub refuses our certificate ({reason}). It has another consortium.toml, or "
                "has not read the current one: compare both files with `securefedyj check`; the "
                "hub's log says more.",
            )
        self._inbox.close()


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
    **purpose: bool,
) -> Link:
    """Connect to the hub, and identify ourselves; raises LinkLost if that fails.

    `purpose` is a field of `Hello` unless it is to meet others.
    """
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
            f"The server at {hub.address}{way} is not the hub named in consortium.toml: "
            f"{tls.described(error)}. {on_inspection(hub)}; if not, ask the hub's operator.",
        ) from None
    except OSError as error:
        reason = tls.described(error)
        if proxy is not None and isinstance(error, ssl.SSLError):
            reason = f"{reason}. {on_inspection(hub)}"
        raise LinkLost(
            "SFY-NET-014", f"Cannot connect to the hub at {hub.address}{way}: {reason}."
        ) from None
    try:
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        tls.check_fingerprint(der, fingerprint(hub.certificate), "The hub")
    except ProtocolError as error:
        writer.close()
        raise Unwelcome(code_of(error, "SFY-NET-016"), f"{error} {on_inspection(hub)}.") from None
    except ValueError:  # TLS broke right after the handshake; anybody on the way can cause that
        writer.close()
        raise LinkLost(
            "SFY-NET-015", f"Cannot connect to the hub at {hub.address}{way}: TLS broke."
        ) from None
    link = Link(reader, writer)
    hello = Hello(consortium.name, name, VERSION, consortium.digest(), release=__version__)
    body = json.dumps(msgspec.to_builtins(hello) | purpose).encode()
    link.post(HubFrame(FrameType.HELLO, body=body))
    return link


class HubDialer:
    """Connects to the hub again and again, more slowly each time.

    It gives up when the hub has closed `most_unwelcome` connections without an answer. The proxy is
    a URL; by default, the one in the environment, if any.
    """

    def __init__(
        self,
        consortium: Consortium,
        name: str,
        identity: Identity,
        timeout: float,
        most_unwelcome: int,
        proxy: str | None = None,
        **purpose: bool,
    ) -> None:
        self.proxy = proxy_to(consortium.agreed_hub(), proxy)
        self._connect = partial(
            connect, consortium, name, identity, min(timeout, 10.0), self.proxy, **purpose
        )
        self._timeout, self._most_unwelcome = timeout, most_unwelcome
        self._attempts = self._unwelcome = 0

    def progress(self) -> None:
        """The connection was of use, so the next one need not wait."""
        self._attempts = 0

    async def connect(self) -> Link:
        """Connect, and wait for the hub's first frame. LinkLost if that fails this time."""
        if self._attempts:
            pause = min(0.1 * 2 ** min(self._attempts, 6), _LONGEST_PAUSE)
            await asyncio.sleep(pause * (0.5 + secrets.randbelow(8) / 8))
        self._attempts += 1
        link = await self._connect()
        try:
            await self._first_frame(link)
        except BaseException:
            await link.close(0.5)
            raise
        return link

    async def _first_frame(self, link: Link) -> None:
        try:
            frame = await link.receive_frame(self._timeout)
        except LinkLost as error:
            # A client that TLS refuses may find the line closed before the reason arrives.
            self._unwelcome += 1
            if self._unwelcome < self._most_unwelcome:
                raise
            raise JoinError(
                "SFY-NET-004",
                f"{error} It disconnected {self._unwelcome} times before accepting us: it may not "
                "know our certificate. Compare its consortium.toml with ours (`securefedyj "
                "check`); its log says why.",
            ) from None
        if frame is None:
            raise LinkLost("SFY-NET-002", "The hub accepts connections but does not answer.")
        self._unwelcome = 0
        if frame.type == FrameType.REFUSED:
            raise JoinError("SFY-NET-003", f"The hub refuses us: {sentence(frame.body)}")


class Sight(NamedTuple):
    """What a party sees that only looks."""

    proxy: Proxy | None
    present: tuple[str, ...]
    words: tuple[str, ...]
    """Of the hub, about parties that it has refused."""
    ahead: float
    """Seconds that the hub's clock is ahead of ours."""


async def look(
    consortium: Consortium, name: str, identity: Identity, timeout: float, proxy: str | None
) -> Sight:
    """See who is at the hub, without being seen, and without replacing our connection if any."""
    dialer = HubDialer(consortium, name, identity, timeout, 1, proxy, look=True)
    link = await dialer.connect()
    present, words = list[str](), list[str]()
    try:
        while frame := await link.receive_frame(timeout):
            if frame.type == FrameType.PRESENT:
                present.append(frame.name)
            elif frame.type == FrameType.NOTICE:
                words.append(sentence(frame.body))
            elif frame.type == FrameType.PONG:
                ahead = float(frame.body) - time.time()
                return Sight(dialer.proxy, tuple(present), tuple(words[:MOST_WORDS]), ahead)
        raise LinkLost("SFY-NET-037", "The hub does not say who is there.")
    finally:
        await link.close(0.5)


def sentence(body: bytes) -> str:
    """What the hub says, on one line that cannot control the user's terminal."""
    return printable(body[:4000].decode(errors="replace"), 1000)
