"""A run at one party: its state, its present session, and its outcome in the end."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

from securefedyj.errors import ProtocolError, Unverified, code_of
from securefedyj.network.errors import EndOfRun, JoinError, NotVerified, OwnTrouble
from securefedyj.network.session.claims import Claim, claim_of, first_opening, starting_point
from securefedyj.network.session.events import Compute, Finished, Keep, Moment
from securefedyj.network.session.handover import hand_on, handed
from securefedyj.network.session.interruptions import Interruptions
from securefedyj.network.session.memory import Drained, Memory
from securefedyj.network.session.outcome import Conclusion
from securefedyj.network.session.patience import Patience
from securefedyj.network.session.peers import Peer
from securefedyj.network.session.progress import Tally, exchanges_done, prefix
from securefedyj.network.session.records import (
    RANDOM_BYTES,
    Begin,
    Done,
    Kept,
    Ready,
)
from securefedyj.network.session.session import Session
from securefedyj.network.session.speaker import Speaker
from securefedyj.network.session.states import TRANSITIONS, Signal, State, successor
from securefedyj.numerics.passes import ChangedData
from securefedyj.party.machine import Party
from securefedyj.party.messages import Message
from securefedyj.protocol.program import TooFewValues
from securefedyj.protocol.transcript import Transcript


@dataclass(frozen=True)
class Terms:
    """What a run goes by.

    `new_party` makes the program of a session, given its id, that goes on from so many reveals;
    if told so, with the parts of an opening that were computed before.
    """

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
    fresh: Callable[[], str] = lambda: secrets.token_hex(RANDOM_BYTES)


class Run(Speaker):
    """Moves along the table of states; `Sessions` tells it what has happened.

    Attributes
    ----------
    state
        Where the run is.
    memory
        What was revealed, and what went wrong.
    conclusion
        How it ended, as soon as that is known.
    patience
        Since when we wait.
    now
        The time of the present event.
    """

    def __init__(self, terms: Terms, memory: Memory, now: Moment) -> None:
        super().__init__({name: Peer(name, now.steady) for name in terms.peers})
        self.now = now
        self.state = State.GATHERING
        self.memory = memory
        self.conclusion = Conclusion(memory, self.peers.values())
        self.patience = Patience(self.peers.values(), terms.timeout, terms.wait, now.steady)
        self._terms = terms
        self.interruptions = Interruptions(memory, terms.most_interruptions, terms.earlier)
        self._own: Ready | None = None
        self._session: Session | None = None
        self._start: Claim | None = None
        self._claims: dict[str, Claim] = {}  # what the peers say that they have
        self._former: Session | None = None  # which may still get what was on its way
        self._tally = Tally()

    def move(self, signal: Signal) -> None:
        self.state = successor(TRANSITIONS, self.state, signal)

    # A session, from READY to its end.

    def advance(self) -> None:
        """Go as far as what we know allows."""
        before = None
        while self.state is not before:
            before = self.state
            self._step()

    def _step(self) -> None:
        peers, ending = self.peers.values(), self.conclusion
        match self.state:
            case State.GATHERING if ending.outcome is not None:
                self.move(Signal.HAVE_RESULT)
            case State.GATHERING if all(peer.here for peer in peers):
                self._say_ready(Signal.ALL_HERE)
            case State.READY | State.BEGUN | State.DONE if ending.all_done:
                self._keep()
            case State.DONE if self.memory.confirmed:  # before a restart
                self.move(Signal.ALL_DONE)
            case State.READY | State.BEGUN | State.KEPT if ending.all_kept:
                self.finish(Signal.ALL_KEPT)
            case State.DONE | State.KEPT if _asked_again(peers):
                self._say_ready(Signal.ASKED_AGAIN)
            case State.READY if all(peer.ready for peer in peers):
                self._say_begin()
            case State.BEGUN if self._all_begun():
                self._begin()
            case State.TAKING if any(peer.handover for peer in peers):
                self._take_over()
            case State.LISTENING if self._session is not None and self._session.has_unread:
                self.move(Signal.MESSAGE_CAME)
                self.output.append(self._session.read_next(self.now.steady))

    def _say_ready(self, signal: Signal) -> None:
        self.move(signal)
        self._own = Ready(self._terms.fresh())
        self.tell_all(self._own)

    def _say_begin(self) -> None:
        """Say what we have; first all that was on its way to us must have been taken."""
        if self._former is not None and self._former.has_unread:
            self.move(Signal.ON_ITS_WAY)
            self.output.append(Compute(self._former.settle))
            return
        self._close_former()
        self.move(Signal.ALL_READY)
        readies = (self._own, *(peer.ready for peer in self.peers.values()))
        terms = self._terms
        self._session = Session(
            [ready for ready in readies if ready], terms.name, terms.peers, terms.most_waiting
        )
        self.tell_all(Begin(self._session.id.hex(), *claim_of(self.memory)))

    def _all_begun(self) -> bool:
        """Whether everybody has begun the session that we have."""
        begun = {peer.begin.session if peer.begin else "" for peer in self.peers.values()}
        return self._session is not None and begun == {self._session.id.hex()}

    def _begin(self) -> None:
        """Find out where the session goes on from, and hand it to those who lack the end of it."""
        session = self._session
        assert session is not None
        self._claims = claims = {
            peer.name: _claim(peer.begin) for peer in self.peers.values() if peer.begin is not None
        }
        self._start = start = starting_point(self.memory, claims)
        session.started = True
        for peer in self.peers.values():
            peer.start()
            lines = hand_on(self.memory, session.id.hex(), start, claims[peer.name].reveals)
            if lines is not None:
                self.send(peer, lines)
        known = len(self.memory.transcript.reveals)
        if known < start.reveals:
            self.move(Signal.BEHIND)
        elif known == start.reveals and self.conclusion.outcome is not None:
            self._session = None
            self.move(Signal.HAVE_RESULT)
        else:
            self._go_on(Signal.ALL_BEGUN)

    def _take_over(self) -> None:
        assert self._session is not None
        assert self._start is not None
        for peer in self.peers.values():
            handover, peer.handover = peer.handover, None
            if handover is None or peer.false or handover.session != self._session.id.hex():
                continue
            try:
                reveals = handed(self.memory, handover, self._start, peer.name)
            except JoinError as error:  # another has it, too: two said so
                self.say(str(error))
                peer.false = True
                continue
            self.memory.take(reveals)
            self._go_on(Signal.HANDED)
            return

    def _go_on(self, signal: Signal) -> None:
        """Start the program; or conclude, if nothing is left to open."""
        session, start = self._session, self._start
        assert session is not None
        assert start is not None
        for peer in self.peers.values():
            peer.handover = None
        self.patience.start()
        self.move(signal)
        if self.memory.finished and start.reveals == len(self.memory.transcript.reveals):
            self.say("Nothing is left to open; the result is compared with the others'.")
            self.output.append(Compute(self.conclusion.reach))
            return
        again, reopening = first_opening(self.memory, start, self._claims)
        before = exchanges_done(prefix(self.memory.transcript, start.reveals))
        after = f"; going on after exchange {before}." if start.reveals else "."
        self.say(f"All {1 + len(self.peers)} parties are there{after}")
        self.memory.begin(start.reveals, session.id.hex(), again=again, reopening=reopening)
        party = self._terms.new_party(session.id, start.reveals, reopening)
        self.output.append(session.start(party, self.now.steady))

    def deliver(self, message: Message) -> None:
        """Give a message to its session, which may be over; others belong to earlier ones."""
        for session in (self._session, self._former):
            if session is not None:
                session.deliver(message)

    def ends(self, stop: Message) -> bool:
        """Whether it ends a session that we have started; who has not waits for READY."""
        session = self._session
        return session is not None and session.started and session.id == stop.session

    def computed(self, messages: list[Message]) -> None:
        """The program has computed as far as it could."""
        self.patience.rest(self.now.steady)
        if self.state is State.SETTLING:
            assert self._former is not None
            _check_end(self._former.error)
            self.move(Signal.SETTLED)
            return
        session = self._session
        assert session is not None
        if session.party is not None:
            self.send_messages(session.computed(messages, self.now.steady))
            if not session.party.done:
                self.move(Signal.COMPUTED)
                return
            error = session.party.error
            session.close(self._tally, self.now.steady)
            _check_end(error)
            self.output.append(Compute(self.conclusion.reach))
            return
        self._session = None
        self.conclusion.check()
        self.move(Signal.RETURNED)
        self.tell_all(Done(self.conclusion.digest))

    # The end of a session before its time.

    def interrupt(self, signal: Signal, by: str) -> None:
        """End the session for everybody, if there is one; somebody has caused that.

        It is counted at once: who stops while it waits must not be blamed for it later, and who
        waits after too many would wait for nothing.
        """
        session, self._session = self._session, None
        self.move(signal)
        if session is not None:  # others may have started it before us
            self.send_messages(session.farewell(by, self.now.steady))
        if session is not None and session.started:
            self._close_former()
            self._former = session
            self.memory.draining = True
            self.say(self.interruptions.count(by, exchanges_done(self.memory.transcript) + 1))
        if self.state is State.READY and self._own is not None:
            self.tell_all(self._own)  # again: who had started has used it up

    def _close_former(self) -> None:
        if self._former is not None:
            self._former.close(self._tally, self.now.steady)
            self._former = None

    # The end.

    def _keep(self) -> None:
        self.move(Signal.ALL_DONE)
        self._session = None
        for peer in self.peers.values():
            peer.start()
        self.memory.confirm(self.conclusion.digest)
        if isinstance(self.conclusion.outcome, Transcript):
            self.output.append(Keep(self.conclusion.outcome, self._tally))
        self.patience.keep(self.now.steady)
        self.tell_all(Kept())

    def finish(self, signal: Signal) -> None:
        assert self.conclusion.outcome is not None
        self.move(signal)
        self.output.append(Finished(self.conclusion.outcome))

    @property
    def lacking(self) -> tuple[str, ...]:
        """The peers that our program waits for."""
        return self._session.lacking if self._session is not None else ()

    @property
    def where(self) -> str:
        """In which exchange, as soon as there was one, also while a run begins anew."""
        done = exchanges_done(self.memory.transcript)
        running = self.state in (State.COMPUTING, State.LISTENING)
        return f" in exchange {done + 1}" if done or running else ""


def _claim(begin: Begin) -> Claim:
    return Claim(
        begin.reveals,
        begin.digest,
        begin.finished,
        begin.sending,
        begin.repeated,
        begin.accepted,
        begin.computed,
    )


def _check_end(error: Exception | None) -> None:
    """Raise what has ended a program, if it has not come to its own end."""
    if error is None or isinstance(error, TooFewValues | Drained):
        return
    if isinstance(error, EndOfRun | OwnTrouble):
        raise error
    if isinstance(error, Unverified):
        raise NotVerified from error
    if isinstance(error, OSError | ChangedData):
        raise OwnTrouble(code_of(error, "SFY-JOIN-047"), str(error)) from error
    if isinstance(error, ProtocolError | JoinError):
        raise JoinError(code_of(error, "SFY-JOIN-048"), str(error)) from error
    # What an error of another library says may hold values: its name must do.
    raise JoinError(
        "SFY-JOIN-046", f"The computation failed here ({type(error).__name__})."
    ) from error


def _asked_again(peers: Collection[Peer]) -> bool:
    """Whether somebody wants another session, and all could take part."""
    return all(peer.here for peer in peers) and any(peer.ready for peer in peers)
