"""The sessions of one party: a state machine with no socket, no clock, no file and no thread.

Events and the time go in (`Sessions.handle`); records to send, sentences for the user and
computations to make come out (`events`). The states and the moves between them are tables
(`states`). docs/protocol.md, section 12, describes what the parties say to each other, and
docs/security.md, section 6, what an interruption reveals.
"""

from __future__ import annotations

from securefedyj.errors import ProtocolError
from securefedyj.network.carrier import Left, Present, Word
from securefedyj.network.errors import EndOfRun, JoinError, NotVerified, OutOfPatience
from securefedyj.network.session import events, records
from securefedyj.network.session.events import AnyEvent, Moment, Output, SessionTerms
from securefedyj.network.session.memory import Memory, exchanges_done
from securefedyj.network.session.peers import HUB, Peer, check_greeting
from securefedyj.network.session.run import PartyRun
from securefedyj.network.session.states import PeerState, Signal, State, check_legal
from securefedyj.party.messages import VERSION, Kind, Message
from securefedyj.printable import in_words


class Sessions:
    """All sessions of one party, from its start to its result."""

    def __init__(self, terms: SessionTerms, memory: Memory, now: Moment) -> None:
        self._terms = terms
        self._run = PartyRun(terms, memory, now)
        self._connected = self._reached = False  # to the hub: now, and at the last attempt
        self._faults = 0  # broken channels without progress between them

    @property
    def state(self) -> State:
        return self._run.state

    def handle(self, event: AnyEvent, now: Moment) -> list[Output]:
        """Take an event; return what to do, in order.

        Raises IllegalTransition for an event that cannot happen in the present state.
        """
        run = self._run
        check_legal(run.state, event)
        run.now, run.output = now, []
        try:
            self._take(event)
            run.advance()
        except JoinError as error:
            if isinstance(error, EndOfRun):
                run.memory.fail(str(error))
                run.tell_all(records.End(isinstance(error, NotVerified)))
            run.move(Signal.GAVE_UP if isinstance(error, OutOfPatience) else Signal.ERROR)
            run.output.append(events.Finish(error))
        return run.output

    def _take(self, event: AnyEvent) -> None:
        run, peers = self._run, self._run.peers
        match event:
            case events.HubReached():
                self._connected = self._reached = True
            case events.HubLost(reason):
                self._start_over(reason, HUB)
            case Word(words):
                run.say(words)
                run.patience.remind = True  # they may say why a peer does not come
            case Present(name):
                if peers[name].state is not PeerState.ABSENT:
                    self._lose(peers[name], "came back on another connection")
                peers[name].arrive(run.now.steady)
            case Left(name):
                self._lose(peers[name], "left")
            case events.ChannelStands(name):
                self._greet(peers[name])
            case events.ChannelBroke(name, reason):
                self._fault(peers[name], reason)
            case events.Heard(name):
                peers[name].hear(run.now.steady)
            case events.RecordArrived(name, record):
                try:
                    peers[name].speak(record)
                    self._take_record(peers[name], record)
                except ProtocolError as error:
                    self._fault(peers[name], str(error))
            case events.OpeningKept():
                run.patience.waiting_since = None
                self._faults = 0
            case events.Computed(messages):
                run.computed(messages)
            case events.TimePassed(hub_heard):
                self._pass_time(hub_heard)
            case events.SignOfLifeDue():
                run.tell_all(records.Alive())
            case events.Stopping(failed):
                run.tell_all(records.Leave(failed))

    # Peers and their channels.

    def _greet(self, peer: Peer) -> None:
        run = self._run
        peer.connect()
        run.send(peer, records.Greeting(VERSION, self._terms.digest, run.now.wall))
        if run.conclusion.outcome is not None:
            run.send(peer, records.Done(run.conclusion.digest))
        if run.memory.confirmed:
            run.send(peer, records.Kept())

    def _lose(self, peer: Peer, what: str) -> None:
        # Without a channel only the carrier says that it was there, as often as it likes.
        if peer.connected and not (peer.kept or peer.announced):
            self._run.say(f"Party {peer.name} {what}{self._run.where}.")
        if self._run.state is State.COMPUTING:  # it is lost later; the computation may take long
            peer.announced = True
            return
        peer.lose(self._run.now.steady)
        self._run.interrupt(Signal.LOST, peer.name)

    def _fault(self, peer: Peer, sentence: str) -> None:
        """A channel is broken: reconnect, but not forever."""
        peer.lose(self._run.now.steady)  # nothing more can be sent on this channel
        self._faults += 1
        if self._faults > self._terms.most_faults:
            raise JoinError(
                "SFY-JOIN-053",
                f"{sentence} That happened {self._faults} times; ask the operator of the hub.",
            )
        self._reconnect(sentence, peer.name)

    def _reconnect(self, reason: str, by: str) -> None:
        self._start_over(reason, by)
        self._run.output.append(events.Reconnect())

    def _start_over(self, reason: str, by: str) -> None:
        """All channels are lost, or about to be closed."""
        self._reached, self._connected = self._connected, False
        until = f", up to {self._terms.wait:g} seconds" * (by == HUB and not self._reached)
        self._run.say(f"{reason} Trying again{until}.")
        self._run.interrupt(Signal.LOST, by)
        for peer in self._run.peers.values():
            if peer.state is not PeerState.ABSENT:
                peer.lose(self._run.now.steady)

    # Records.

    def _take_record(self, peer: Peer, record: records.AnyRecord) -> None:
        match record:
            case records.Greeting():
                check_greeting(peer.name, record, self._terms.digest, self._run.now.wall)
            case records.OtherVersion(version):
                raise JoinError(
                    "SFY-JOIN-056",
                    f"Party {peer.name} speaks protocol version {version}, we speak "
                    f"version {VERSION}; install the same release everywhere.",
                )
            case records.Ready() if record != peer.ready:  # else repeated for others, who need it
                peer.say_ready(record)
                if self._run.state in (State.BEGUN, State.TAKING, State.LISTENING):
                    self._run.interrupt(Signal.READY_AGAIN, peer.name)
            case records.Begin():
                peer.begin = record
            case Message():
                self._take_message(peer, record)
            case records.Handover():
                peer.handover = record
            case records.Done(digest):
                peer.done = digest
            case records.Kept():
                peer.kept = True
            case records.Leave(failed):
                self._take_leave(peer, failed=failed)
            case records.End(unverified):
                self._run.say(f"Party {peer.name} says that this run has ended for good.")
                self._run.conclusion.hear_end(peer.name, unverified=unverified)

    def _take_message(self, peer: Peer, message: Message) -> None:
        if message.sender != peer.name:
            raise ProtocolError(
                "SFY-JOIN-054", f"Party {peer.name} sent a message in the name of another."
            )
        if message.kind != Kind.STOP:
            self._run.deliver(message)
            return
        session = self._run.session
        if session is not None and session.start is not None and session.id == message.session:
            self._run.interrupt(Signal.STOPPED, _culprit(peer.name, message.payload, self._terms))

    def _take_leave(self, peer: Peer, *, failed: bool) -> None:
        if peer.kept:
            return
        if failed and not peer.failed:
            self._run.say(f"Party {peer.name} has failed there{self._run.where}; ask there why.")
        elif not peer.announced:
            self._run.say(f"Party {peer.name} was stopped there{self._run.where}.")
        peer.announced, peer.failed = True, peer.failed or failed
        self._run.interrupt(Signal.LOST, peer.name)

    # Time.

    def _pass_time(self, hub_heard: float | None) -> None:
        run, now, patience = self._run, self._run.now.steady, self._run.patience
        if run.state is State.GATHERING:  # with a result from the start, if this is the first event
            run.advance()
        if run.memory.confirmed and patience.exhausted(now):
            self._give_up()
        elif silence := patience.silence(hub_heard, run.where, now):
            self._reconnect(*silence)
        elif run.state is State.LISTENING and patience.session_is_stuck(now):
            lacking = run.session.lacking if run.session is not None else ()
            sentence = patience.silence_summary(lacking, run.where)
            run.interrupt(Signal.LOST, ", ".join(lacking))
            raise OutOfPatience("SFY-JOIN-051", sentence)
        elif run.state is State.LISTENING:
            for warning in patience.warnings(run.where, now):
                run.say(warning)
        elif patience.exhausted(now):
            self._give_up()
        elif self._connected:
            opened, confirmed = run.conclusion.outcome is not None, bool(run.memory.confirmed)
            if news := patience.news(now, opened=opened, confirmed=confirmed):
                run.say(news)

    def _give_up(self) -> None:
        run = self._run
        if run.memory.confirmed:
            late = sorted(peer.name for peer in run.peers.values() if not peer.kept)
            run.say(f"{in_words(late)} confirmed the result and did not say that it is written.")
            run.finish(Signal.UNCONFIRMED)
            return
        if run.conclusion.outcome is not None:
            late = sorted(peer.name for peer in run.peers.values() if not peer.done)
            raise OutOfPatience(
                "SFY-JOIN-055",
                f"All was opened, and {in_words(late)} did not confirm the result within "
                f"{self._terms.wait:g} seconds: it is not written. Rerun the command at every "
                "party: the results are compared then, and nothing is opened again.",
            )
        what = run.patience.blame(run.now.steady)
        if not self._reached:
            what = f"The hub at {self._terms.hub} could not be reached"
        done = exchanges_done(run.memory.transcript)
        kept = f" after exchange {done}; rerun the command to resume" if done else ""
        raise OutOfPatience(
            "SFY-JOIN-052", f"{what} within {self._terms.wait:g} seconds: stopped{kept}."
        )


def _culprit(peer: str, payload: bytes, terms: SessionTerms) -> str:
    """Who has ended a session, according to the peer that sent STOP."""
    others = {name.encode(): name for name in (HUB, terms.name, *terms.peers) if name != peer}
    return f"{others[payload]}, as {peer} says" if payload in others else peer
