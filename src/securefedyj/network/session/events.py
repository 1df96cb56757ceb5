"""The terms of a run, what can happen to its sessions, and what they ask for in return."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from securefedyj.network.errors import JoinError
from securefedyj.network.session.progress import SessionCosts
from securefedyj.network.session.records import RANDOM_BYTES, AnyRecord
from securefedyj.party.machine import Party
from securefedyj.party.messages import Message
from securefedyj.protocol.schedule import TooFewValues
from securefedyj.protocol.transcript import Transcript

Outcome: TypeAlias = Transcript | TooFewValues
"""What all parties of a run end with."""


class Moment(NamedTuple):
    """A time by two clocks."""

    steady: float
    """Seconds of a clock that is never set, for durations."""
    wall: float
    """Seconds since 1970, which parties compare with each other."""


@dataclass(frozen=True)
class SessionTerms:
    """What does not change in a run."""

    name: str
    peers: tuple[str, ...]
    hub: str
    """Its address, for sentences."""
    digest: str
    """Of the agreed file."""
    timeout: float
    wait: float
    most_faults: int
    most_interruptions: int
    earlier: int
    """Earlier runs over the same columns that did not finish; they count as interruptions."""
    most_waiting: int
    """Bytes of one peer that may wait until they are read."""
    new_party: Callable[[bytes, int, bool], Party[Transcript]]
    """The program of a session: its id, the number of reveals to resume from, and whether it sends
    the parts of an opening that were computed before."""
    fresh: Callable[[], str] = lambda: secrets.token_hex(RANDOM_BYTES)


class Event(msgspec.Struct, frozen=True):
    """What happens."""


class HubReached(Event, frozen=True):
    """The hub has accepted us."""


class HubLost(Event, frozen=True):
    """The connection to the hub failed or broke."""

    reason: str


class HubSpoke(Event, frozen=True):
    """The hub has a message for the user, such as whom it has refused; nothing follows from it."""

    words: str


class PeerArrived(Event, frozen=True):
    """A peer is connected to the hub; a channel to it is about to be opened."""

    peer: str


class PeerLeft(Event, frozen=True):
    """A peer has left. In a computation the user learns it at once, and it happens again later."""

    peer: str


class ChannelStands(Event, frozen=True):
    """The TLS handshake with a peer is over: both are who they should be."""

    peer: str


class ChannelBroke(Event, frozen=True):
    """What came on the channel of a peer cannot be used."""

    peer: str
    reason: str


class Heard(Event, frozen=True):
    """Bytes came from a peer, if only a piece of a record."""

    peer: str


class RecordArrived(Event, frozen=True):
    """A record came from a peer."""

    peer: str
    record: AnyRecord


class OpeningKept(Event, frozen=True):
    """The computation has opened something, and it is in the journal."""


class Computed(Event, frozen=True):
    """The computation that was asked for is over, and has these messages for the peers."""

    messages: list[Message]


class TimePassed(Event, frozen=True):
    """Time to check who is silent, and how long we have waited."""

    hub_heard: float | None = None
    """When the hub was last heard, by the steady clock, if there is a connection to it."""


class SignOfLifeDue(Event, frozen=True):
    """Time to show the peers that we are there."""


class Stopping(Event, frozen=True):
    """We are about to leave, with a result or without."""

    failed: bool = False
    """Whether because of an error, and not because the user stops us."""


class Output(msgspec.Struct, frozen=True):
    """What to do; several are done in order."""


class Say(Output, frozen=True):
    """Show the user a sentence."""

    sentence: str


class Send(Output, frozen=True):
    """Send a record to a peer, whose channel stands."""

    peer: str
    record: AnyRecord


class Compute(Output, frozen=True):
    """Call the step, which may take minutes; then comes `Computed` with what it returns."""

    step: Callable[..., list[Message]]
    arguments: tuple[Message, ...] = ()


class Keep(Output, frozen=True):
    """All parties have the same result: write it."""

    transcript: Transcript
    costs: SessionCosts


class Reconnect(Output, frozen=True):
    """Disconnect from the hub and connect again, with new channels to all peers."""


class Finish(Output, frozen=True):
    """Leave, with the outcome or without a result."""

    outcome: Outcome | JoinError
