"""What can happen to the sessions of a party, and what they ask to be done in return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from securefedyj.network.errors import JoinError
from securefedyj.network.session.progress import Tally
from securefedyj.network.session.records import AnyRecord
from securefedyj.party.messages import Message
from securefedyj.protocol.program import TooFewValues
from securefedyj.protocol.transcript import Transcript

Outcome = Transcript | TooFewValues
"""What all parties of a run end with."""


class Moment(NamedTuple):
    """A time by two clocks."""

    steady: float
    """Seconds of a clock that is never set: durations are measured by it."""
    wall: float
    """Seconds since 1970, which parties compare with each other."""


# What happens.


@dataclass(frozen=True)
class HubReached:
    """The hub has welcomed us."""


@dataclass(frozen=True)
class HubLost:
    """The hub cannot be reached, or no more."""

    reason: str


@dataclass(frozen=True)
class HubSpoke:
    """The hub has words for the user, such as whom it has refused; nothing follows from them."""

    words: str


@dataclass(frozen=True)
class PeerArrived:
    """The hub says that a peer is there; a channel to it is about to be opened."""

    peer: str


@dataclass(frozen=True)
class PeerDeparting:
    """The hub says that a peer has left, and its last words are still to be read."""

    peer: str


@dataclass(frozen=True)
class PeerLeft:
    """A peer has left, and all that it said before was read."""

    peer: str


@dataclass(frozen=True)
class ChannelStands:
    """The TLS handshake with a peer is over: both know that the other is who it should be."""

    peer: str


@dataclass(frozen=True)
class ChannelBroke:
    """What came on the channel of a peer cannot be used."""

    peer: str
    reason: str


@dataclass(frozen=True)
class Heard:
    """Something came from a peer, if only a piece of a record."""

    peer: str


@dataclass(frozen=True)
class RecordArrived:
    """A peer has said something."""

    peer: str
    record: AnyRecord


@dataclass(frozen=True)
class Revealed:
    """The computation has opened something, which has been kept."""


@dataclass(frozen=True)
class Computed:
    """The computation that was asked for is over, and has these messages for the peers."""

    messages: list[Message]


@dataclass(frozen=True)
class TimePassed:
    """Time to look who is silent, and how long we have waited."""

    hub_heard: float | None = None
    """When the hub was last heard, by the steady clock, if there is a connection to it."""


@dataclass(frozen=True)
class SignOfLifeDue:
    """Time to let the peers know that we are there."""


@dataclass(frozen=True)
class Stopping:
    """We are about to go, with a result or without."""

    failed: bool = False
    """Whether for an error, and not because the user says so."""


Event = (
    HubReached
    | HubLost
    | HubSpoke
    | PeerArrived
    | PeerDeparting
    | PeerLeft
    | ChannelStands
    | ChannelBroke
    | Heard
    | RecordArrived
    | Revealed
    | Computed
    | TimePassed
    | SignOfLifeDue
    | Stopping
)


# What is to be done, in this order.


@dataclass(frozen=True)
class Say:
    """Tell the user."""

    sentence: str


@dataclass(frozen=True)
class Send:
    """Send a record to a peer, whose channel stands."""

    peer: str
    record: AnyRecord


@dataclass(frozen=True)
class Compute:
    """Call the step, which may take minutes; then comes `Computed` with what it returns."""

    step: Callable[..., list[Message]]
    arguments: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Keep:
    """All parties have the same result: write it."""

    transcript: Transcript
    tally: Tally


@dataclass(frozen=True)
class Reconnect:
    """Leave the hub and come back, with fresh channels to everybody."""


@dataclass(frozen=True)
class Finished:
    """There is nothing more to do."""

    outcome: Outcome


@dataclass(frozen=True)
class Failed:
    """There will be no result here."""

    error: JoinError


Output = Say | Send | Compute | Keep | Reconnect | Finished | Failed
