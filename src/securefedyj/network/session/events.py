"""The terms of a run, what can happen to its sessions, what they ask for, and what they take."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from securefedyj.network.carrier import Left, Present, Word
from securefedyj.network.errors import JoinError
from securefedyj.network.session.memory import Outcome
from securefedyj.network.session.records import RANDOM_BYTES, AnyRecord
from securefedyj.party.machine import Party
from securefedyj.party.messages import Message
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.schedule import exchanges_done, most_exchanges
from securefedyj.protocol.transcript import Transcript


class Moment(NamedTuple):
    """A time by two clocks."""

    steady: float  # seconds of a clock that is never set, for durations
    wall: float  # seconds since 1970, which parties compare with each other


@dataclass(frozen=True)
class SessionTerms:
    """What does not change in a run."""

    name: str
    peers: tuple[str, ...]
    hub: str  # its address, for sentences
    digest: str  # of the agreed file
    timeout: float
    wait: float
    most_faults: int
    most_interruptions: int
    earlier: int
    """Earlier runs over the same columns that did not finish; they count as interruptions."""
    most_waiting: int  # bytes of one peer that may wait until they are read
    new_party: Callable[[bytes, int, bool], Party[Transcript]]
    """The program of a session: its id, the number of reveals to resume from, and whether it sends
    the parts of an opening that were computed before."""
    fresh: Callable[[], str] = lambda: secrets.token_hex(RANDOM_BYTES)


class Progress(NamedTuple):
    """How far a run is."""

    exchange: int
    exchanges_at_most: int
    features_unfinished: int
    rounds: int
    bytes_sent: int
    seconds: float  # since the session began
    seconds_left: float  # at most, by the exchanges so far


def progress_of(
    transcript: Transcript, before: int, party: Party[Transcript], seconds: float
) -> Progress:
    """How far a session is that began after `before` exchanges, these seconds ago."""
    done, most = exchanges_done(transcript), most_exchanges(transcript.agreement)
    unfinished = int(np.count_nonzero(transcript.unfinished()))
    left = seconds / max(done - before, 1) * (most - done) if unfinished else 0.0
    sent = sum(party.bytes_sent.values())
    return Progress(done, most, unfinished, party.rounds, sent, seconds, left)


@dataclass
class SessionCosts:
    """What all sessions of a run took at one party, interrupted ones included."""

    rounds: int = 0
    bytes_sent: Counter[str] = field(default_factory=Counter)
    bytes_received: int = 0
    seconds_computing: float = 0.0
    seconds_waiting: float = 0.0

    def cost(self, name: str, sums: float, prepared: float = 0.0) -> Cost:
        """The cost of a party whose silo took these seconds for its sums and to prepare its rows.

        The sums are part of what it computed; the preparation came before any session.
        """
        return Cost(
            self.rounds,
            {name: dict(self.bytes_sent)},
            prepared + sums,
            # A silo may have computed outside of any session, whose result was then handed over.
            max(0.0, self.seconds_computing - sums),
            self.seconds_waiting,
            {name: self.bytes_received},
        )


class Event(msgspec.Struct, frozen=True):
    """What happens. `Present`, `Left` and `Word` of a carrier are events, too (`AnyEvent`)."""


class HubReached(Event, frozen=True):
    """The hub has accepted us."""


class HubLost(Event, frozen=True):
    """The connection to the hub failed or broke."""

    reason: str


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

    failed: bool = False  # whether because of an error, and not because the user stops us


AnyEvent: TypeAlias = Event | Present | Left | Word


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
    """All parties have the same result, or know that there are too few values: write it."""

    transcript: Transcript
    costs: SessionCosts


class Reconnect(Output, frozen=True):
    """Disconnect from the hub and connect again, with new channels to all peers."""


class Finish(Output, frozen=True):
    """Leave, with the outcome or without a result."""

    outcome: Outcome | JoinError
