"""What carries a party's bytes to its peers: the hub, or a framework that connects the sites.

A carrier is not trusted: within what it carries, each two parties have TLS from end to end
(`tls.Channel`). It sees who is connected, and how many bytes go from whom to whom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from securefedyj.errors import CodedError


class LinkLost(CodedError):
    """The connection has failed; a new one may work."""


class Unwelcome(LinkLost):
    """The carrier and we do not accept each other: trying again does not help."""


@dataclass(frozen=True)
class Present:
    """A peer is connected; each time it connects, the connection has another number."""

    peer: str
    connection: int


@dataclass(frozen=True)
class Left:
    """A peer has left."""

    peer: str
    connection: int


@dataclass(frozen=True)
class Data:
    """The next piece of the stream from a peer's connection to ours."""

    peer: str
    connection: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Word:
    """A sentence for the user."""

    sentence: str


Arrival = Present | Left | Data | Word


class Carrier(Protocol):
    """One connection, while it lasts: streams of bytes to and from the connected peers.

    Each piece arrives whole, once and in the order in which it was sent, or the connection is lost.
    TLS detects any other behaviour.
    """

    on_left: Callable[[Left], None]
    """Called when a peer has left, before its last pieces are received."""

    @property
    def heard(self) -> float:
        """When anything was last received, by the clock of the event loop."""

    def send(self, peer: str, connection: int, data: bytes) -> None:
        """Send the next piece to a peer's connection, without waiting."""

    async def receive(self, timeout: float) -> Arrival | None:
        """What comes next; None if nothing does in `timeout` seconds. Raises LinkLost."""

    def sign_of_life(self) -> None:
        """Show that we are connected, and ask the other end for an answer."""

    async def close(self, timeout: float) -> None:
        """Send what is waiting, for at most `timeout` seconds, and leave."""


class Dialer(Protocol):
    """Connects, again and again if necessary."""

    async def connect(self) -> Carrier:
        """Connect. Raises LinkLost if that fails this time, JoinError if it will always fail."""

    def progress(self) -> None:
        """The last connection was useful."""
