"""The sessions of one party: a state machine with no socket, no clock, no file and no thread.

Events and the time go in (`Sessions.handle`); records to send, sentences for the user and
computations to make come out (`events`). The states and the moves between them are tables
(`states`). docs/protocol.md, section 12, describes what the parties say to each other, and
docs/security-details.md, section 6, what an interruption reveals.
"""

from __future__ import annotations

from securefedyj import __version__
from securefedyj.errors import ProtocolError
from securefedyj.network.carrier import Left, Present, Word
from securefedyj.network.errors import EndOfRun, JoinError, NotVerified, OutOfPatience, upgrade
from securefedyj.network.session import events, records
from securefedyj.network.session.events import AnyEvent, Moment, Output, SessionTerms
from securefedyj.network.session.memory import Memory
from securefedyj.network.session.peers import HUB, Peer, check_greeting
from securefedyj.network.session.run import PartyRun
from securefedyj.network.session.states import PeerState, Signal, State, check_legal
from securefedyj.party.messages import VERSION, Kind, Message
from securefedyj.printable import in_words
from securefedyj.protocol.schedule import exchanges_done


class Sessions(PartyRun):
    """All sessions of one party, from its start to its result: what follows from each event."""

    def __init__(self, terms: SessionTerms, memory: Memory, now: Moment) -> None:
        super().__init__(terms, memory, now)
        self._connected = self._reached = False  # to the hub: now, and at the last attempt
        self._cause = ""  # what the user heard last of the hub, or of why the hub is lost
        self._faults = 0  # broken channels without progress between them

    def handle(self, event: AnyEvent, now: Moment) -> list[Output]:
        """Take an event; return what to do, in order.

        Raises IllegalTransition for an event that cannot happen in the present state.
        """
        check_legal(self.state, event)
        self._now, self._output = now, []
        try:
            self._take(event)
            self._advance()
        except JoinError as error:
            if isinstance(error, EndOfRun):
                self._memory.fail(str(error))
                self._tell_all(records.End(isinstance(error, NotVerified)))
            self._move(Signal.GAVE_UP if isinstance(error, OutOfPatience) else Signal.ERROR)
            self._output.append(events.Finish(error))
        return self._output

    def _take(self, event: AnyEvent) -> None:
        peers, now = self._peers, self._now.steady
        match event:
            case events.HubReached():
                self._connected, self._reached, self._cause = True, True, ""
            case events.HubLost(reason):
                self._cause = reason
                self._start_over(reason, HUB)
            case Word(words):
                self._cause = words
                self._say(words)
                self._patience.remind = True  # they may say why a peer does not come
            case Present(name):
                if peers[name].state is not PeerState.ABSENT:
                    self._lose(peers[name], "came back on another connection")
                peers[name].show(Present, now)
            case Left(name):
                self._lose(peers[name], "left")
            case events.ChannelStands(name):
                self._greet(peers[name])
            case events.ChannelBroke(name, reason):
                self._fault(peers[name], reason)
            case events.Heard(name):
                peers[name].show(events.Heard, now)
            case events.RecordArrived(name, record):
                try:
                    peers[name].speak(record)
                    self._take_record(peers[name], record)
                except ProtocolError as error:
                    self._fault(peers[name], str(error))
            case events.OpeningKept():
                self._patience.waiting_since = None
                self._faults = 0
            case events.Computed(messages):
                self._computed(messages)
            case events.TimePassed(hub_heard):
                self._pass_time(hub_heard)
            case events.SignOfLifeDue():
                self._tell_all(records.Alive())
            case events.Stopping(failed):
                self._tell_all(records.Leave(failed))

    # Peers and their channels.

    def _greet(self, peer: Peer) -> None:
        peer.show(events.ChannelStands, self._now.steady)
        self._send(peer, records.Greeting(VERSION, self._terms.digest, self._now.wall, __version__))
        if self._conclusion.outcome is not None:
            self._send(peer, records.Done(self._conclusion.digest))
        if self._memory.confirmed:
            self._send(peer, records.Kept())

    def _lose(self, peer: Peer, what: str) -> None:
        # Without a channel only the carrier says that it was there, as often as it likes.
        if peer.connected and not (peer.kept or peer.announced):
            self._say(f"Party {peer.name} {what}{self._where}.")
        if self.state is State.COMPUTING:  # it is lost later; the computation may take long
            peer.announced = True
            return
        peer.lose(self._now.steady)
        self._interrupt(Signal.LOST, peer.name)

    def _fault(self, peer: Peer, sentence: str) -> None:
        """A channel is broken: reconnect, but not forever."""
        peer.lose(self._now.steady)  # nothing more can be sent on this channel
        self._faults += 1
        if self._faults > self._terms.most_faults:
            raise JoinError(
                "SFY-JOIN-053",
                f"{sentence} That happened {self._faults} times; ask the operator of the hub.",
            )
        self._reconnect(sentence, peer.name)

    def _reconnect(self, reason: str, by: str) -> None:
        self._start_over(reason, by)
        self._output.append(events.Reconnect())

    def _start_over(self, reason: str, by: str) -> None:
        """All channels are lost, or about to be closed."""
        self._reached, self._connected = self._connected, False
        until = f", up to {self._terms.wait:g} seconds" * (by == HUB and not self._reached)
        self._say(f"{reason} Trying again{until}.")
        self._interrupt(Signal.LOST, by)
        for peer in self._peers.values():
            if peer.state is not PeerState.ABSENT:
                peer.lose(self._now.steady)

    # Records.

    def _take_record(self, peer: Peer, record: records.AnyRecord) -> None:
        match record:
            case records.Greeting():
                check_greeting(peer.name, record, self._terms.digest, self._now.wall)
            case records.OtherVersion(version, release):
                raise JoinError(
                    "SFY-JOIN-056",
                    upgrade(f"Party {peer.name}", version, release, "this party"),
                )
            case records.Ready() if record != peer.ready:  # else repeated for others, who need it
                peer.say_ready(record)
                if self.state in (State.BEGUN, State.TAKING, State.LISTENING):
                    self._interrupt(Signal.READY_AGAIN, peer.name)
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
            case records.Leave(failed) if not peer.kept:
                self._take_leave(peer, failed=failed)
            case records.End(unverified):
                self._say(f"Party {peer.name} says that this run has ended for good.")
                self._conclusion.hear_end(peer.name, unverified=unverified)

    def _take_message(self, peer: Peer, message: Message) -> None:
        if message.sender != peer.name:
            raise ProtocolError(
                "SFY-JOIN-054", f"Party {peer.name} sent a message in the name of another."
            )
        session = self._session
        if message.kind != Kind.STOP:
            for one in filter(None, (session, self._former)):  # which may be over
                one.deliver(message)
        elif session is not None and session.start is not None and session.id == message.session:
            self._interrupt(Signal.STOPPED, _culprit(peer.name, message.payload, self._terms))

    def _take_leave(self, peer: Peer, *, failed: bool) -> None:
        if failed and not peer.failed:
            self._say(f"Party {peer.name} has failed there{self._where}; ask there why.")
        elif not peer.announced:
            self._say(f"Party {peer.name} was stopped there{self._where}.")
        peer.announced, peer.failed = True, peer.failed or failed
        self._interrupt(Signal.LOST, peer.name)

    # Time.

    def _pass_time(self, hub_heard: float | None) -> None:
        now, patience = self._now.steady, self._patience
        if self.state is State.GATHERING:  # with a result from the start, if this comes first
            self._advance()
        confirmed = bool(self._memory.confirmed)
        if confirmed and patience.exhausted(now):
            self._give_up()
        elif silence := patience.silence(hub_heard, self._where, now):
            self._reconnect(*silence)
        elif self.state is State.LISTENING and patience.session_is_stuck(now):
            lacking = () if self._session is None else self._session.lacking
            sentence = patience.silence_summary(lacking, self._where)
            self._interrupt(Signal.LOST, ", ".join(lacking))
            raise OutOfPatience("SFY-JOIN-051", sentence)
        elif self.state is State.LISTENING:
            for warning in patience.warnings(self._where, now):
                self._say(warning)
        elif patience.exhausted(now):
            self._give_up()
        elif self._connected:
            opened = self._conclusion.outcome is not None
            if news := patience.news(now, opened=opened, confirmed=confirmed):
                self._say(news)

    def _give_up(self) -> None:
        peers, wait = self._peers.values(), f"within {self._terms.wait:g} seconds"
        if self._memory.confirmed:
            late = sorted(peer.name for peer in peers if not peer.kept)
            self._say(f"{in_words(late)} confirmed the result and did not say that it is written.")
            self._finish(Signal.UNCONFIRMED)
            return
        if self._conclusion.outcome is not None:
            late = sorted(peer.name for peer in peers if not peer.done)
            raise OutOfPatience(
                "SFY-JOIN-055",
                f"All was opened, and {in_words(late)} did not confirm the result {wait}: it is "
                "not written. Start again at every party: the results are compared then, "
                "and nothing is opened again.",
            )
        what, remedy = self._patience.blame(self._now.steady), "Ask them to start"
        if not self._reached:
            what = f"The hub at {self._terms.hub} could not be reached"
            remedy = "Ask its operator whether it runs"
        done = exchanges_done(self._memory.transcript)
        kept, again = (f" after exchange {done}", " to resume") if done else ("", "")
        why = f"{what} {wait}: stopped{kept}. {self._cause}".rstrip()
        raise OutOfPatience("SFY-JOIN-052", f"{why} {remedy}; then start again{again}.")


def _culprit(peer: str, payload: bytes, terms: SessionTerms) -> str:
    """Who has ended a session, according to the peer that sent STOP."""
    others = {name.encode(): name for name in (HUB, terms.name, *terms.peers) if name != peer}
    return f"{others[payload]}, as {peer} says" if payload in others else peer
