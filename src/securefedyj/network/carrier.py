"""What carries a party's bytes to its peers: the hub, or a framework that connects the sites.

A carrier is trusted with nothing. Within what it carries there is TLS from end to end between each
two parties (`tls.Channel`): it sees who is there, and how many bytes go from whom to whom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from securefedyj.errors import CodedError


class LinkLost(CodedError):
    """The connection is of no use any more; a new one may be."""


class Unwelcome(LinkLost):
    """Who carries and we do not know each other: trying again is no use."""


@dataclass(frozen=True)
class Present:
    """A peer is there. Each time that it comes, it has another connection."""

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
    """One connection, as long as it lasts: streams of bytes to and from the peers that are there.

    A piece arrives whole, once, and after all that the same connection has sent before; or the
    connection is lost. Whatever a carrier does instead, TLS finds out.

    Attributes
    ----------
    heard
        When anything has last come, by the clock of the event loop.
    on_left
        Is called when a peer has left, before its last words are received.
    """

    on_left: Callable[[Left], None]

    @property
    def heard(self) -> float: ...

    def send(self, peer: str, connection: int, data: bytes) -> None:
        """Send the next piece to a peer's connection, without waiting."""

    async def receive(self, timeout: float) -> Arrival | None:
        """What comes next; None if nothing does within so many seconds. Raises LinkLost."""

    def sign_of_life(self) -> None:
        """Show that we are there, and see that something comes if the other end is there."""

    async def close(self, timeout: float) -> None:
        """Send what is waiting, within so many seconds, and leave."""


class Dialer(Protocol):
    """Connects, again and again if need be."""

    async def connect(self) -> Carrier:
        """A new connection. Raises LinkLost if it fails this time, JoinError if for good."""

    def progress(self) -> None:
        """The last connection was of use."""
