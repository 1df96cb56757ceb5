"""A run at one party: its state, its present session, and its outcome in the end."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from securefedyj.errors import ProtocolError, Unverified, code_of
from securefedyj.network.errors import EndOfRun, JoinError, NotVerified, OwnTrouble
from securefedyj.network.session import events, resuming
from securefedyj.network.session.events import Moment, Output, SessionCosts, SessionTerms
from securefedyj.network.session.memory import (
    Drained,
    Memory,
    count_interruptions,
)
from securefedyj.network.session.peers import Conclusion, Patience, Peer
from securefedyj.network.session.records import AnyRecord, Begin, Done, Kept, Ready
from securefedyj.network.session.states import TRANSITIONS, Signal, State, successor
from securefedyj.numerics.passes import ChangedData
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES, VERSION, Kind, Message
from securefedyj.protocol.schedule import TooFewValues, exchanges_done
from securefedyj.protocol.transcript import Transcript


class Session:
    """One session: what all begin it with, its messages and its program.

    The end of a session is an interruption as soon as all have begun it and `start` is known.
    """

    def __init__(
        self, readies: Iterable[Ready], name: str, peers: Sequence[str], most_waiting: int
    ) -> None:
        # Random bytes of every party are in the id: nobody can make it that of an earlier session.
        text = "".join(sorted(ready.random for ready in readies))
        self.id = hashlib.sha256(text.encode()).digest()[:SESSION_BYTES]
        self.begun: dict[str, Begin] = {}  # what each party has, by its name; ours at first
        self.start: Begin | None = None  # where the session resumes
        self.party: Party[Transcript] | None = None  # the program, while it runs
        self._name, self._peers, self._most_waiting = name, peers, most_waiting
        self._unread: deque[Message] = deque()
        self._waiting: Counter[str] = Counter()  # bytes of each peer in there
        self._received = 0  # bytes
        self._computing = 0.0  # seconds
        self._started_at = self._asked = 0.0
        self._interrupted_at: float | None = None

    def deliver(self, message: Message) -> None:
        """Hold a message until the program can read it; drop those of other sessions."""
        if message.session != self.id:
            return
        self._waiting[message.sender] += message.size
        if self._waiting[message.sender] > self._most_waiting:
            raise ProtocolError(
                "SFY-JOIN-049",
                f"Party {message.sender} sent more than {self._most_waiting} bytes ahead of us.",
            )
        self._received += message.size
        self._unread.append(message)

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    def run(self, party: Party[Transcript], now: float) -> events.Compute:
        self.party = party
        self._started_at = self._asked = now
        return events.Compute(party.start)

    def read_next(self, now: float) -> events.Compute:
        """Let the program read the next message."""
        assert self.party is not None
        self._asked = now
        return events.Compute(self.party.receive, (self._next(),))

    def _next(self) -> Message:
        message = self._unread.popleft()
        self._waiting[message.sender] -= message.size
        return message

    def computed(self, messages: list[Message], now: float) -> list[Message]:
        """Note that the program has computed; return what to send to the peers."""
        assert self.party is not None
        self._computing += now - self._asked
        if isinstance(self.party.error, TooFewValues):  # every party finds that out by itself
            return [message for message in messages if message.kind != Kind.STOP]
        return messages

    def farewell(self, by: str, now: float) -> list[Message]:
        """Messages that end the session at the peers, and name the party that caused it."""
        self._interrupted_at = now  # the time from now until the next session is nobody's cost
        return [
            Message(VERSION, self.id, self._name, peer, 0, Kind.STOP, by.encode())
            for peer in self._peers
        ]

    def settle(self) -> list[Message]:
        """Let the program take what came before the session ended; nothing is sent."""
        while self._unread:
            message = self._next()
            if self.party is not None:  # otherwise it had not started
                self.party.receive(message)
        return []

    @property
    def error(self) -> Exception | None:
        """What has ended the program early."""
        return None if self.party is None else self.party.error

    @property
    def lacking(self) -> tuple[str, ...]:
        """The peers that the program waits for."""
        return () if self.party is None else self.party.waiting_for

    def close(self, costs: SessionCosts, now: float) -> None:
        """End the program, and add what the session took."""
        party, self.party = self.party, None
        if party is None:
            return
        if not party.done:
            party.stop(JoinError("SFY-JOIN-050", "The session is over."))
        ended_at = now if self._interrupted_at is None else self._interrupted_at
        costs.rounds += party.rounds
        costs.bytes_sent.update(party.bytes_sent)
        costs.bytes_received += self._received
        costs.seconds_computing += self._computing
        costs.seconds_waiting += ended_at - self._started_at - self._computing


def check_end(error: Exception | None) -> None:
    """Raise what has ended a program early, as an error for the user."""
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
    # The text of an error of another library may contain values: only its name is safe.
    raise JoinError(
        "SFY-JOIN-046", f"The computation failed here ({type(error).__name__})."
    ) from error


class PartyRun:
    """Moves along the table of states; `Sessions` adds what happens."""

    def __init__(self, terms: SessionTerms, memory: Memory, now: Moment) -> None:
        self.state = State.GATHERING
        self._terms, self._memory = terms, memory
        self._now = now  # the time of the present event
        self._output: list[Output] = []  # what to do because of it
        self._peers = {name: Peer(name, now.steady) for name in terms.peers}
        peers = self._peers.values()
        self._conclusion = Conclusion(memory, peers)
        self._patience = Patience(peers, terms.timeout, terms.wait, now.steady)
        self._interruptions()  # raises after too many
        self._own: Ready | None = None
        self._session: Session | None = None
        self._former: Session | None = None  # it may still get messages
        self._costs = SessionCosts()

    def _move(self, signal: Signal) -> None:
        self.state = successor(TRANSITIONS, self.state, signal)

    def _say(self, sentence: str) -> None:
        self._output.append(events.Say(sentence))

    def _tell_all(self, record: AnyRecord) -> None:
        for peer in self._peers.values():
            self._send(peer, record)

    def _send(self, peer: Peer, record: AnyRecord) -> None:
        if peer.connected:
            self._output.append(events.Send(peer.name, record))

    def _send_messages(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._send(self._peers[message.recipient], message)

    # A session, from READY to its end.

    def _advance(self) -> None:
        """Go as far as what we know allows."""
        before = None
        while self.state is not before:
            before = self.state
            self._step()

    def _step(self) -> None:
        peers, ending, session = self._peers.values(), self._conclusion, self._session
        here = all(peer.here for peer in peers)
        begun = {
            peer.name: peer.begin
            for peer in peers
            if peer.begin and session and peer.begin.session == session.id.hex()
        }
        match self.state:
            case State.GATHERING if ending.outcome is not None:
                self._move(Signal.HAVE_RESULT)
            case State.GATHERING if here:
                self._say_ready(Signal.ALL_HERE)
            case State.READY | State.BEGUN | State.DONE if ending.all_done:
                self._keep(ending.digest)
            case State.DONE if self._memory.confirmed:  # before a restart
                self._move(Signal.ALL_DONE)
            case State.READY | State.BEGUN | State.KEPT if ending.all_kept:
                self._finish(Signal.ALL_KEPT)
            case State.DONE | State.KEPT if any(peer.ready for peer in peers) and here:
                self._say_ready(Signal.ASKED_AGAIN)
            case State.READY if all(peer.ready for peer in peers):
                self._say_begin()
            case State.BEGUN if session is not None and len(begun) == len(peers):
                self._begin(session, begun)
            case State.TAKING if session is not None and session.start is not None:
                self._take_over(session, session.start)
            case State.LISTENING if session is not None and session.has_unread:
                self._move(Signal.MESSAGE_CAME)
                self._output.append(session.read_next(self._now.steady))

    def _say_ready(self, signal: Signal) -> None:
        self._move(signal)
        self._own = Ready(self._terms.fresh())
        self._tell_all(self._own)

    def _say_begin(self) -> None:
        """Say what we have, after all that came for the last session is taken."""
        if self._former is not None and self._former.has_unread:
            self._move(Signal.ON_ITS_WAY)
            self._output.append(events.Compute(self._former.settle))
            return
        self._close_former()
        self._move(Signal.ALL_READY)
        readies = (self._own, *(peer.ready for peer in self._peers.values()))
        terms = self._terms
        session = Session(filter(None, readies), terms.name, terms.peers, terms.most_waiting)
        session.begun[terms.name] = own = resuming.begin_of(self._memory, session.id.hex())
        self._session = session
        self._tell_all(own)

    def _begin(self, session: Session, theirs: dict[str, Begin]) -> None:
        """Find out where the session resumes, and hand over what a peer lacks of it."""
        own = session.begun[self._terms.name]
        session.begun |= theirs
        session.start = start = resuming.starting_point(self._memory, own, theirs)
        for peer in self._peers.values():
            peer.start()
            lacks = resuming.hand_over(self._memory, own.session, start, theirs[peer.name].reveals)
            if lacks is not None:
                self._send(peer, lacks)
        if own.reveals < start.reveals:
            self._move(Signal.BEHIND)
        elif own.reveals == start.reveals and self._conclusion.outcome is not None:
            self._session = None
            self._move(Signal.HAVE_RESULT)
        else:
            self._resume(Signal.ALL_BEGUN, session, start)

    def _take_over(self, session: Session, start: Begin) -> None:
        for peer in self._peers.values():
            handover, peer.handover = peer.handover, None
            if handover is None or peer.false or handover.session != session.id.hex():
                continue
            try:
                reveals = resuming.take_over(self._memory, handover, start, peer.name)
            except JoinError as error:  # another peer has it, too: two said so
                self._say(str(error))
                peer.false = True
                continue
            self._memory.take(reveals)
            self._resume(Signal.HANDED, session, start)
            return

    def _resume(self, signal: Signal, session: Session, start: Begin) -> None:
        """Start the program; or conclude, if nothing is left to open."""
        memory = self._memory
        for peer in self._peers.values():
            peer.handover = None
        self._patience.shown = ()  # a peer that is missing after this session is news
        self._move(signal)
        if memory.finished and start.reveals == len(memory.transcript.reveals):
            self._say("Nothing is left to open; comparing the result with the other parties.")
            self._output.append(events.Compute(self._conclusion.reach))
            return
        again, reopening = resuming.first_opening(memory, start, session.begun)
        before = exchanges_done(memory.known(start.reveals))
        after = f"; resuming after exchange {before}." if start.reveals else "."
        self._say(f"All {1 + len(self._peers)} parties are there{after}")
        memory.begin(start.reveals, session.id.hex(), again=again, reopening=reopening)
        party = self._terms.new_party(session.id, start.reveals, reopening)
        self._output.append(session.run(party, self._now.steady))

    def _computed(self, messages: list[Message]) -> None:
        """The program has computed as far as it could."""
        self._patience.idle_since = now = self._now.steady
        if self.state is State.SETTLING:
            assert self._former is not None
            check_end(self._former.error)
            self._move(Signal.SETTLED)
            return
        session = self._session
        assert session is not None
        if session.party is None:  # the result was computed
            self._session = None
            self._conclusion.check()
            self._move(Signal.RETURNED)
            self._tell_all(Done(self._conclusion.digest))
            return
        self._send_messages(session.computed(messages, now))
        if not session.party.done:
            self._move(Signal.COMPUTED)
            return
        error = session.error
        session.close(self._costs, now)
        check_end(error)
        self._output.append(events.Compute(self._conclusion.reach))

    # The end of a session before its time.

    def _interrupt(self, signal: Signal, by: str) -> None:
        """End the session for everybody, if there is one; `by` has caused that.

        It is counted at once: a party that stops while it waits must not be blamed for it later,
        and after too many there is nothing to wait for.
        """
        session, self._session = self._session, None
        self._move(signal)
        if session is not None:
            self._send_messages(session.farewell(by, self._now.steady))  # others may have begun it
            if session.start is not None:
                self._close_former()
                self._former = session
                self._memory.draining = True
                self._memory.interrupt(by)
                self._say(self._interruptions())
        if self.state is State.READY and self._own is not None:
            self._tell_all(self._own)  # again: a peer that had started has used it up

    def _interruptions(self) -> str:
        terms = self._terms
        return count_interruptions(self._memory, terms.most_interruptions, terms.earlier)

    def _close_former(self) -> None:
        if self._former is not None:
            self._former.close(self._costs, self._now.steady)
            self._former = None

    # The end.

    def _keep(self, digest: str) -> None:
        self._move(Signal.ALL_DONE)
        self._session = None
        for peer in self._peers.values():
            peer.start()
        self._memory.confirm(digest)
        outcome = self._conclusion.outcome
        found = outcome if isinstance(outcome, Transcript) else self._memory.whole()
        self._output.append(events.Keep(found, self._costs))
        self._patience.kept_at = self._now.steady
        self._tell_all(Kept())

    def _finish(self, signal: Signal) -> None:
        assert self._conclusion.outcome is not None
        self._move(signal)
        self._output.append(events.Finish(self._conclusion.outcome))

    @property
    def _where(self) -> str:
        """In which exchange, if there was one or the program runs."""
        done = exchanges_done(self._memory.transcript)
        running = self.state in (State.COMPUTING, State.LISTENING)
        return f" in exchange {done + 1}" if done or running else ""
