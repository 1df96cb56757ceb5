"""The states of sessions and of peers, and all that may change them (docs/protocol.md, 12.4).

`sessions` derives signals from events and moves along these tables; a move that they do not have
raises `IllegalTransition`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeAlias, TypeVar

from securefedyj.network.carrier import Left, Present, Word
from securefedyj.network.errors import IllegalTransition
from securefedyj.network.session import events, records


class State(Enum):
    """Where the sessions of a party are."""

    GATHERING = auto()  # there is no session, and no result: not all peers are there
    READY = auto()  # all peers are there, and we have said READY
    SETTLING = auto()  # all have said READY; the last program takes what still came for it
    BEGUN = auto()  # all have said READY, and we have said BEGIN
    TAKING = auto()  # all have begun the session; we lack the end of what it starts from
    COMPUTING = auto()  # the session runs, and our program computes
    LISTENING = auto()  # the session runs, and our program waits for messages
    DONE = auto()  # nothing is left to open; some peer has not confirmed the same result
    KEPT = auto()  # all have the same result, and ours is written; some peer has not said KEPT
    OVER = auto()  # we leave with the result
    FAILED = auto()  # we leave without


class Signal(Enum):
    """What moves the sessions from one state to another."""

    ALL_HERE = auto()
    ON_ITS_WAY = auto()  # a message of the last session came after its end
    SETTLED = auto()
    ALL_READY = auto()
    ALL_BEGUN = auto()
    BEHIND = auto()  # all have begun, and two have more of the transcript than we do
    HANDED = auto()  # what we lacked of the transcript
    MESSAGE_CAME = auto()
    COMPUTED = auto()  # as far as the messages go
    RETURNED = auto()  # the program, with the outcome
    STOPPED = auto()  # a peer has ended the session
    READY_AGAIN = auto()  # a peer said READY again, which ends the session
    LOST = auto()  # a peer or the hub
    HAVE_RESULT = auto()  # from an earlier session
    ASKED_AGAIN = auto()  # by a peer without a result
    ALL_DONE = auto()  # with the same result
    ALL_KEPT = auto()
    UNCONFIRMED = auto()  # some peer has not said KEPT for as long as we wait
    GAVE_UP = auto()  # waiting for a session, or for the others' results
    ERROR = auto()


_FAILURES = {Signal.GAVE_UP: State.FAILED, Signal.ERROR: State.FAILED}
_INTERRUPTED = dict.fromkeys((Signal.READY_AGAIN, Signal.STOPPED, Signal.LOST), State.GATHERING)
# A party that has the result and helps a peer may learn that the peer has it as well.
_ENDINGS = {
    Signal.ALL_DONE: State.KEPT,
    Signal.ALL_KEPT: State.OVER,
    Signal.UNCONFIRMED: State.OVER,
}

TRANSITIONS: dict[State, dict[Signal, State]] = {
    State.GATHERING: {
        Signal.HAVE_RESULT: State.DONE,
        Signal.ALL_HERE: State.READY,
        Signal.LOST: State.GATHERING,
        **_FAILURES,
    },
    State.READY: {
        Signal.ON_ITS_WAY: State.SETTLING,
        Signal.ALL_READY: State.BEGUN,
        Signal.LOST: State.GATHERING,
        **_ENDINGS,
        **_FAILURES,
    },
    State.SETTLING: {
        Signal.SETTLED: State.READY,
        Signal.ERROR: State.FAILED,
    },
    State.BEGUN: {
        Signal.ALL_BEGUN: State.COMPUTING,
        Signal.BEHIND: State.TAKING,
        Signal.HAVE_RESULT: State.DONE,
        Signal.READY_AGAIN: State.READY,
        Signal.LOST: State.GATHERING,
        **_ENDINGS,
        **_FAILURES,
    },
    State.TAKING: {
        Signal.HANDED: State.COMPUTING,
        **_INTERRUPTED,
        **_FAILURES,
    },
    State.COMPUTING: {
        Signal.COMPUTED: State.LISTENING,
        Signal.RETURNED: State.DONE,
        Signal.ERROR: State.FAILED,
    },
    State.LISTENING: {
        Signal.MESSAGE_CAME: State.COMPUTING,
        **_INTERRUPTED,
        Signal.ERROR: State.FAILED,
    },
    State.DONE: {
        Signal.ASKED_AGAIN: State.READY,
        Signal.LOST: State.DONE,
        Signal.ALL_DONE: State.KEPT,
        **_FAILURES,
    },
    State.KEPT: {
        Signal.ASKED_AGAIN: State.READY,
        Signal.LOST: State.KEPT,
        Signal.ALL_KEPT: State.OVER,
        Signal.UNCONFIRMED: State.OVER,
        Signal.ERROR: State.FAILED,
    },
    State.OVER: {},
    State.FAILED: {},
}


# The driver waits for a computation to end before it reads on; these may come meanwhile. That a
# peer has left it reads again afterwards.
_Events: TypeAlias = frozenset[type[events.AnyEvent]]
PeerEvent: TypeAlias = events.AnyEvent | records.AnyRecord
_ALL: _Events = frozenset({*events.Event.__subclasses__(), Present, Left, Word})
_AT_ANY_TIME: _Events = frozenset({events.SignOfLifeDue, events.Stopping})
_OF_A_COMPUTATION: _Events = frozenset({events.OpeningKept, events.Computed})

LEGAL_EVENTS: dict[State, _Events] = {
    **dict.fromkeys(State, _ALL - _OF_A_COMPUTATION),
    State.SETTLING: _AT_ANY_TIME | _OF_A_COMPUTATION,
    State.COMPUTING: _AT_ANY_TIME | _OF_A_COMPUTATION | frozenset({Left}),
    State.OVER: _AT_ANY_TIME,
    State.FAILED: _AT_ANY_TIME,
}


class PeerState(Enum):
    """Where one peer is."""

    ABSENT = auto()
    PRESENT = auto()  # connected to the hub; the channel to it does not stand yet
    CONNECTED = auto()  # the channel stands, and we have greeted it
    GREETED = auto()  # it has greeted us, and we agree
    LEAVING = auto()  # it has said LEAVE


_SPEAKING = (events.Heard, records.Greeting, records.OtherVersion, events.RecordArrived)

PEER_TRANSITIONS: dict[PeerState, dict[type[PeerEvent], PeerState]] = {
    PeerState.ABSENT: {
        Present: PeerState.PRESENT,
    },
    PeerState.PRESENT: {
        events.Heard: PeerState.PRESENT,
        events.ChannelStands: PeerState.CONNECTED,
        Left: PeerState.ABSENT,
    },
    PeerState.CONNECTED: {
        events.Heard: PeerState.CONNECTED,
        records.Greeting: PeerState.GREETED,
        records.OtherVersion: PeerState.GREETED,
        Left: PeerState.ABSENT,
    },
    PeerState.GREETED: {
        **dict.fromkeys(_SPEAKING, PeerState.GREETED),
        records.Leave: PeerState.LEAVING,
        Left: PeerState.ABSENT,
    },
    PeerState.LEAVING: {
        **dict.fromkeys((*_SPEAKING, records.Leave), PeerState.LEAVING),
        Left: PeerState.ABSENT,
    },
}
"""By what happens, or the record that arrives; `RecordArrived` stands for all other records, and
`Left` for the loss of the channel, however it happens."""

S = TypeVar("S", bound=Enum)
G = TypeVar("G", Signal, type[PeerEvent])


def successor(table: Mapping[S, Mapping[G, S]], state: S, signal: G) -> S:
    """The state that a signal or an event leads to."""
    if signal not in table[state]:
        raise _illegal(signal.name if isinstance(signal, Signal) else signal.__name__, state)
    return table[state][signal]


def check_legal(state: State, event: events.AnyEvent) -> None:
    """Refuse an event that cannot happen in a state."""
    if type(event) not in LEGAL_EVENTS[state]:
        raise _illegal(type(event).__name__, state)


def _illegal(what: str, state: Enum) -> IllegalTransition:
    return IllegalTransition(f"{what} cannot happen in state {state.name}; please report this.")
