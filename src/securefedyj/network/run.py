"""A run at one party: its state, its present session, and its outcome in the end."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from securefedyj.errors import PartyStopped, ProtocolError
from securefedyj.network.errors import JoinError
from securefedyj.network.events import Finished, Keep, Moment, Outcome, Output, Say, Send
from securefedyj.network.patience import Patience
from securefedyj.network.peers import Peer
from securefedyj.network.progress import Tally, exchanges_done, prefix
from securefedyj.network.records import RANDOM_BYTES, AnyRecord, Delivery, Done, Ready
from securefedyj.network.session import Session
from securefedyj.network.states import TRANSITIONS, Signal, State, successor
from securefedyj.party.machine import Party
from securefedyj.party.messages import Message
from securefedyj.protocol.program import TooFewValues
from securefedyj.protocol.transcript import Transcript


@dataclass(frozen=True)
class Terms:
    """What a run goes by.

    `new_party` makes the program of a session, given its id, that goes on from so many reveals.
    """

    peers: tuple[str, ...]
    hub: str
    """Its address, for sentences."""
    digest: str
    """Of the agreed file."""
    timeout: float
    wait: float
    most_faults: int
    new_party: Callable[[bytes, int], Party[Transcript]]
    fresh: Callable[[], str] = lambda: secrets.token_hex(RANDOM_BYTES)


class Run:
    """Moves along the table of states; `Sessions` tells it what has happened.

    Attributes
    ----------
    state, outcome
        Where the run is, and how it ended, as soon as that is known.
    peers
        Everybody else.
    patience
        Since when we wait.
    now
        The time of the present event.
    output
        What is to be done because of it.
    """

    def __init__(self, terms: Terms, transcript: Transcript, now: Moment) -> None:
        self.now = now
        self.output: list[Output] = []
        self.outcome: Outcome | None = None if transcript.result is None else transcript
        self.state = State.GATHERING if self.outcome is None else State.DONE
        self.peers = {name: Peer(name, now.steady) for name in terms.peers}
        self.patience = Patience(self.peers.values(), terms.timeout, terms.wait, now.steady)
        self._terms, self._transcript = terms, transcript
        self._own: Ready | None = None
        self._session: Session | None = None
        self._tally = Tally()

    # What is to be done.

    def move(self, signal: Signal) -> None:
        self.state = successor(TRANSITIONS, self.state, signal)

    def say(self, sentence: str) -> None:
        self.output.append(Say(sentence))

    def send(self, peer: Peer, record: AnyRecord) -> None:
        self.output.append(Send(peer.name, record))

    def tell_all(self, record: AnyRecord) -> None:
        for peer in self.peers.values():
            if peer.connected:
                self.send(peer, record)

    def _send_messages(self, messages: list[Message]) -> None:
        for message in messages:
            peer = self.peers[message.recipient]
            if peer.connected:
                self.send(peer, Delivery(message))

    # A session, from READY to its end.

    def advance(self) -> None:
        """Go as far as what we know allows."""
        before = None
        while self.state is not before:
            before = self.state
            self._step()

    def _step(self) -> None:
        peers = self.peers.values()
        match self.state:
            case State.GATHERING if self.outcome is not None:
                self.move(Signal.HAVE_RESULT)
            case State.GATHERING if all(peer.here for peer in peers):
                self._say_ready(Signal.ALL_HERE)
            case State.READY | State.BEGUN | State.LISTENING | State.DONE if self._all_done():
                self.finish(Signal.ALL_DONE)
            case State.DONE if all(peer.here for peer in peers) and any(p.ready for p in peers):
                self._say_ready(Signal.ASKED_AGAIN)
            case State.READY if all(peer.ready for peer in peers):
                self._say_begin()
            case State.BEGUN if self._all_begun():
                self._start()
            case State.LISTENING if self._session is not None and self._session.has_unread:
                self.move(Signal.MESSAGE_CAME)
                self.output.append(self._session.read_next(self.now.steady))

    def _say_ready(self, signal: Signal) -> None:
        self.move(signal)
        self._own = Ready(self._terms.fresh(), len(self._transcript.reveals))
        self.tell_all(self._own)

    def _say_begin(self) -> None:
        self.move(Signal.ALL_READY)
        readies = (self._own, *(peer.ready for peer in self.peers.values()))
        self._session = Session([ready for ready in readies if ready], self._transcript)
        self.tell_all(self._session.begin)

    def _all_begun(self) -> bool:
        """Whether everybody has begun the session that we have."""
        begun = {peer.begin.session if peer.begin else "" for peer in self.peers.values()}
        return self._session is not None and begun == {self._session.begin.session}

    def _start(self) -> None:
        session = self._session
        assert session is not None
        reveals = session.begin.reveals
        for peer in self.peers.values():
            if peer.begin != session.begin:
                raise JoinError(
                    f"Party {peer.name} has another record of what was revealed so far (up to "
                    f"reveal {reveals}); all parties must begin anew, with a new --output."
                )
            peer.start()
        self.move(Signal.ALL_BEGUN)
        self.patience.start()
        before = exchanges_done(prefix(self._transcript, reveals))
        after = f"; going on after exchange {before}." if reveals else "."
        self.say(f"All {1 + len(self.peers)} parties are there{after}")
        party = self._terms.new_party(session.id, reveals)
        self.output.append(session.start(party, self.now.steady))

    def deliver(self, message: Message) -> None:
        """Give a message to the session; outside of one, it belongs to an earlier one."""
        if self._session is not None:
            self._session.deliver(message)

    def computed(self, messages: list[Message]) -> None:
        """The program has computed as far as it could."""
        session = self._session
        assert session is not None
        assert session.party is not None
        self.patience.rest(self.now.steady)
        self._send_messages(session.computed(messages, self.now.steady))
        if session.party.done:
            self._end(session.party)
        else:
            self.move(Signal.COMPUTED)

    def revealed(self, transcript: Transcript) -> None:
        """An exchange is over."""
        self._transcript = transcript
        self.patience.progress()

    def _end(self, party: Party[Transcript]) -> None:
        """The program has ended: with the outcome, with another's, or with an error of its own."""
        self._close_session()
        error = party.error
        if isinstance(error, PartyStopped):
            self.move(Signal.STOPPED)  # who has left, and is awaited, becomes clear by itself
            return
        if error is None:
            self.outcome = self._transcript = party.result
            self.output.append(Keep(party.result, self._tally))
        elif isinstance(error, TooFewValues):
            self.outcome = error
        elif isinstance(error, ProtocolError | JoinError | OSError):
            raise JoinError(str(error)) from error
        else:
            # What an error of another library says may hold values: its name must do.
            raise JoinError(f"The computation failed here ({type(error).__name__}).") from error
        self.move(Signal.RETURNED)
        self.tell_all(Done())

    def interrupt(self, signal: Signal, reason: str) -> None:
        """End the session for everybody, if there is one."""
        session = self._close_session()
        if session is not None:
            self._send_messages(session.stop(reason))
        self.move(signal)

    def _close_session(self) -> Session | None:
        session, self._session = self._session, None
        if session is not None:
            session.count(self._tally, self.now.steady)
        return session

    # The end.

    def _all_done(self) -> bool:
        peers = self.peers.values()
        return self.outcome is not None and all(peer.has_result for peer in peers)

    def finish(self, signal: Signal) -> None:
        assert self.outcome is not None
        self.move(signal)
        self.output.append(Finished(self.outcome))

    @property
    def exchanges_done(self) -> int:
        return exchanges_done(self._transcript)

    @property
    def where(self) -> str:
        """In which exchange, as soon as there was one, also while a run begins anew."""
        done, running = self.exchanges_done, self.state in (State.COMPUTING, State.LISTENING)
        return f" in exchange {done + 1}" if done or running else ""
