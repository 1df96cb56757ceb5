"""The hub as a carrier, and how a party gets connected to it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from securefedyj.network.carrier import Arrival, Data, Left, LinkLost, Present, Word
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError
from securefedyj.network.frames import Frame, Type
from securefedyj.network.identity import Identity
from securefedyj.network.link import Link, connect
from securefedyj.network.proxy import proxy_to
from securefedyj.printable import printable

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
        self._link.send(Frame(Type.PING))

    async def receive(self, timeout: float) -> Arrival | None:
        frame = await self._link.receive(timeout)
        if frame is None:
            return None
        match frame.type:
            case Type.REFUSED:
                raise JoinError("SFY-NET-005", f"The hub refuses us: {sentence(frame.body)}")
            case Type.CLOSING:
                return self._word("The hub is about to stop.")
            case Type.NOTICE:
                return self._word(f"The hub says: {sentence(frame.body)}")
            case Type.PRESENT:
                return Present(frame.name, frame.connection)
            case Type.LEFT:
                return Left(frame.name, frame.connection)
            case Type.DATA:
                return Data(frame.name, frame.connection, frame.body)
        return None

    async def close(self, timeout: float) -> None:
        await self._link.close(timeout)

    def _word(self, words: str) -> Word | None:
        """What the hub says is shown as its words, and only so often."""
        self._words += 1
        return Word(words) if self._words <= MOST_WORDS else None

    def _preview(self, frame: Frame) -> None:
        if frame.type == Type.LEFT:
            self.on_left(Left(frame.name, frame.connection))


class Dialer:
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
        if frame.type == Type.REFUSED:
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
