"""A party on the network: the same `Party` as everywhere, driven through the hub.

With every peer there is one channel, TLS from end to end (`tls.Channel`); the hub carries its
bytes. On a channel travel records:

    GREETING  first of all: version of the protocol, digest of the agreed file, clock
    READY     ready for a new session: fresh random bytes, number of reveals so far; who has the
              result says so only if somebody else does, who has not
    BEGIN     all are ready: the session that follows, and the digest of what all have revealed
    MESSAGE   one message of the session
    DONE      the result is there
    ALIVE     nothing new
    LEAVE     about to go

A session begins when all have said READY and, to the same session, BEGIN. Its id is a hash of the
random bytes of all. It starts from the shortest transcript that any party has, and ends for
everybody when it ends for one: whoever cannot go on says READY again as soon as all are there.
A READY in the middle of a session is therefore its end.

    state       what happens                      becomes
    forming     all peers there, READY, BEGIN     running
    running     a peer leaves, is silent, READY   forming
    running     the program returns               done: DONE to all
    done        all peers are done                leaves
    done        a peer that was not comes back    forming: it still needs the others
    any         the hub is lost                   connects again, forming
    forming     longer than `wait`                stops, or leaves if there is a result
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from securefedyj.errors import PartyStopped, ProtocolError
from securefedyj.network import checkpoint as saved
from securefedyj.network import link as hub_link
from securefedyj.network import tls
from securefedyj.network.checkpoint import State
from securefedyj.network.consortium import Consortium
from securefedyj.network.frames import Frame, Type
from securefedyj.network.identity import Identity
from securefedyj.network.link import Link, LinkLost, Unwelcome
from securefedyj.network.worker import Worker
from securefedyj.numerics.silo import TimedSilo
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES, VERSION, Message
from securefedyj.party.messages import Kind as Step
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.program import TooFewValues, run_party
from securefedyj.protocol.transcript import Transcript

CLOCKS_APART = 300.0  # seconds; more, and logs and certificates mean different things
ALIVE_EVERY = 5.0  # seconds
MOST_FAULTS = 8  # broken channels without progress between them; then somebody is at work
MOST_UNWELCOME = 6  # connections that the hub ends without a word
_TICK = 0.5
_FLUSH = 2.0


class JoinError(ValueError):
    """The run ended without a result, for a reason that the user can act on."""


class Kind(IntEnum):
    """What a record on a channel is about."""

    GREETING = 1
    READY = 2
    BEGIN = 3
    MESSAGE = 4
    DONE = 5
    ALIVE = 6
    LEAVE = 7


class Progress(NamedTuple):
    """How far a run is; everything in it is public."""

    exchange: int
    exchanges_at_most: int
    features_open: int
    rounds: int
    bytes_sent: int
    seconds: float
    """Since the session began."""
    seconds_left: float
    """At most, by the exchanges so far."""


@dataclass(frozen=True)
class Settings:
    """One party's side of a run.

    `say` gets one sentence for the user at a time, `progress` the state after each exchange,
    `done` the result as soon as it is there, which is before the others have confirmed it; the
    cost is None if the result was there from the start.
    """

    consortium: Consortium
    name: str
    identity: Identity
    output: Path
    timeout: float = 60.0
    wait: float = 600.0
    say: Callable[[str], None] = lambda sentence: None
    progress: Callable[[Progress], None] = lambda progress: None
    done: Callable[[Transcript, Cost | None], None] = lambda transcript, cost: None
    clock: Callable[[], float] = time.time


@dataclass
class _Peer:
    """What is known of one peer; most of it belongs to the present channel."""

    name: str
    absent_since: float = field(default_factory=time.monotonic)
    leaving: bool = False  # the user knows
    connection: int = 0
    channel: tls.Channel | None = None
    heard: float = 0.0
    warned: bool = False  # the user, that nothing is heard
    greeted: bool = False  # by us, as soon as the channel stands
    checked: bool = False  # its greeting, which comes before all else
    ready: dict[str, Any] | None = None
    begin: dict[str, Any] | None = None

    def forget(self) -> None:
        if self.greeted:  # who has not been heard since the last time is absent since then
            self.absent_since = time.monotonic()
        self.connection, self.channel, self.greeted, self.checked = 0, None, False, False
        self.ready = self.begin = None
        self.leaving = False


@dataclass
class _Session:
    """A session that is forming or running."""

    id: bytes
    reveals: int
    held: list[Message] = field(default_factory=list)  # of peers that have begun before us
    party: Party[Transcript] | None = None
    began: float = 0.0
    computing: float = 0.0  # seconds
    received: int = 0  # bytes
    first_exchange: int = 0


def _sentence(body: bytes) -> str:
    """Words of the hub for the user's terminal: one line, and nothing that controls it."""
    text = body.decode(errors="replace")[:1000]
    return "".join(character if character.isprintable() else "?" for character in text)


async def participate(settings: Settings, silo: TimedSilo | None) -> Transcript:
    """Take part until the result is there; every party returns the same transcript.

    Raises
    ------
    JoinError
        In one sentence, why there is no result.
    TooFewValues
        As agreed, at every party.
    """
    participant = _Participant(settings, silo)
    alive = asyncio.create_task(participant.keep_alive())
    try:
        return await participant.run()
    finally:
        alive.cancel()
        await participant.leave()


class _Participant:
    """One party, from its start to its result, over as many connections as it takes."""

    def __init__(self, settings: Settings, silo: TimedSilo | None) -> None:
        consortium = settings.consortium
        consortium.check_clock(settings.clock())
        self._settings, self._silo = settings, silo
        self._agreement: Agreement = consortium.agreement()
        self._state = State(settings.output, self._agreement)
        names = [party.name for party in consortium.parties if party.name != settings.name]
        self._peers = {name: _Peer(name) for name in names}
        self._contexts = {
            name: tls.context(
                settings.identity,
                [consortium.party(name).certificate],
                server_side=settings.name < name,
            )
            for name in names
        }
        self._worker = Worker()
        self._link: Link | None = None
        self._session: _Session | None = None
        self._mine: dict[str, Any] | None = None
        self._outcome: Transcript | TooFewValues | None = None
        self._complete: set[str] = set()  # peers that have the result
        self._cost = Cost(
            0, {settings.name: dict.fromkeys(names, 0)}, 0.0, 0.0, 0.0, {settings.name: 0}
        )
        self._waiting_since: float | None = time.monotonic()
        self._missed = ""  # whom we have said to wait for
        self._idle_since = time.monotonic()
        self._looked = 0.0  # when silence and patience were last looked at
        self._faults = self._attempts = self._unwelcome = 0
        self._progressed = self._computing = False
        self._reached = False  # the hub, when we last tried

    async def run(self) -> Transcript:
        if self._state.complete:
            self._outcome = self._state.transcript
            self._settings.say(
                f"The result of an earlier run is in {self._settings.output} and stays as it is; "
                "for a new run, choose another --output."
            )
            self._settings.done(self._outcome, None)
        while True:
            try:
                if self._check_patience():
                    break
                await self._connect()
                await self._attend()
                break
            except Unwelcome as error:
                raise JoinError(str(error)) from None
            except LinkLost as error:
                self._settings.say(f"{error} Trying again.")
                await self._drop_link(str(error))
        if isinstance(self._outcome, TooFewValues):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome

    async def leave(self) -> None:
        """Take leave of all peers; they are told within seconds."""
        self._worker.end()
        for peer in self._peers.values():
            if peer.greeted:
                self._post(peer, Kind.LEAVE)
        if self._link is not None:
            await self._link.close(_FLUSH)

    async def keep_alive(self) -> None:
        """Let the hub and the peers know that we are there, also in long computations."""
        while True:
            await asyncio.sleep(min(ALIVE_EVERY, self._settings.timeout / 4))
            if self._link is not None:
                self._link.send(Frame(Type.PING))
            for peer in self._peers.values():
                if peer.greeted:
                    self._post(peer, Kind.ALIVE)

    # The hub.

    async def _connect(self) -> None:
        """Connect and wait for the welcome; try more slowly each time."""
        if self._attempts:
            await asyncio.sleep(
                min(0.1 * 2 ** min(self._attempts, 6), 5.0) * (0.5 + secrets.randbelow(8) / 8)
            )
        self._attempts += 1
        self._reached = False
        settings = self._settings
        self._link = await hub_link.connect(
            settings.consortium, settings.name, settings.identity, min(settings.timeout, 10.0)
        )
        self._link.glimpse = self._glimpse
        try:
            welcome = await self._link.receive(settings.timeout)
        except LinkLost as error:
            self._count_unwelcome(error)
            raise
        if welcome is None:
            raise LinkLost("The hub accepts connections and does not answer.")
        self._unwelcome, self._reached = 0, True
        await self._handle(welcome)

    def _count_unwelcome(self, error: LinkLost) -> None:
        """Who is refused by TLS may find the line cut before the reason arrives."""
        self._unwelcome += 1
        if self._unwelcome >= MOST_UNWELCOME:
            raise JoinError(
                f"{error} It did so {self._unwelcome} times before any welcome: it may not know "
                "our certificate. Compare its agreed file with ours (`securefedyj check`); its "
                "log says why."
            )

    async def _drop_link(self, reason: str) -> None:
        self._abort(reason)
        for peer in self._peers.values():
            peer.forget()
        if self._link is not None:
            link, self._link = self._link, None
            await link.close(_TICK)

    async def _attend(self) -> None:
        """Play until we and all peers have the result."""
        while not self._over():
            await self._form()
            if self._over():
                return
            assert self._link is not None
            frame = await self._link.receive(_TICK)
            if frame is not None:
                await self._handle(frame)
            if time.monotonic() - self._looked > _TICK:
                self._looked = time.monotonic()
                self._check_silence()
                if self._check_patience():
                    return

    def _over(self) -> bool:
        return self._outcome is not None and self._complete >= set(self._peers)

    async def _handle(self, frame: Frame) -> None:
        if frame.type == Type.REFUSED:
            raise JoinError(f"The hub refuses us: {_sentence(frame.body)}")
        if frame.type == Type.CLOSING:
            self._settings.say(_sentence(frame.body))
        peer = self._peers.get(frame.name)
        if peer is None:
            return
        if frame.type == Type.PRESENT:
            self._arrived(peer, frame.connection)
        elif frame.type == Type.LEFT and frame.connection == peer.connection:
            self._lost(peer, "left")
        elif frame.type == Type.DATA and frame.connection == peer.connection:
            await self._take(peer, frame.body)

    def _glimpse(self, frame: Frame) -> None:
        """Say at once who has left, also while we compute, which may take minutes."""
        peer = self._peers.get(frame.name)
        if peer is None or frame.type != Type.LEFT or frame.connection != peer.connection:
            return
        if self._computing and peer.name not in self._complete:
            self._settings.say(f"Party {peer.name} left{self._where()}.")
            peer.leaving = True

    # The peers.

    def _arrived(self, peer: _Peer, connection: int) -> None:
        """Open a channel; the later of the two names is the TLS client and speaks first."""
        if peer.channel is not None:
            self._lost(peer, "came back on another connection")
        name, settings = self._settings.name, self._contexts[peer.name]
        print_ = self._settings.consortium.party(peer.name).fingerprint
        peer.connection, peer.heard = connection, time.monotonic()
        peer.channel = tls.Channel(peer.name, print_, settings, server_side=name < peer.name)
        peer.channel.begin()
        self._flush(peer)

    def _lost(self, peer: _Peer, what: str) -> None:
        if peer.name not in self._complete and not peer.leaving:
            self._settings.say(f"Party {peer.name} {what}{self._where()}.")
        if peer.name not in self._complete or self._running():
            self._abort(f"Party {peer.name} {what}.")
        peer.forget()
        self._mine = None

    async def _take(self, peer: _Peer, data: bytes) -> None:
        assert peer.channel is not None
        try:
            records = list(peer.channel.receive(data))
            if peer.channel.established and not peer.greeted:
                self._greet(peer)
            self._flush(peer)
            peer.heard, peer.warned = time.monotonic(), False
            for record in records:
                await self._take_record(peer, record)
        except ProtocolError as error:
            self._flush(peer)  # TLS tells the other end what is wrong
            peer.forget()  # nothing more can be said on this channel
            self._fault(str(error))

    def _fault(self, sentence: str) -> None:
        """A channel is broken: begin anew with fresh ones, but not for ever."""
        self._faults += 1
        if self._faults > MOST_FAULTS:
            raise JoinError(
                f"{sentence} That happened {self._faults} times; ask the operator of the hub."
            )
        raise LinkLost(sentence)

    def _greet(self, peer: _Peer) -> None:
        peer.greeted = True
        self._post(peer, Kind.GREETING, self._greeting())
        if self._outcome is not None:
            self._post(peer, Kind.DONE)

    def _greeting(self) -> dict[str, Any]:
        digest = self._settings.consortium.digest()
        return {"version": VERSION, "digest": digest, "clock": self._settings.clock()}

    async def _take_record(self, peer: _Peer, record: tls.Record) -> None:
        if not peer.checked and record.type != Kind.GREETING:
            raise ProtocolError(f"Party {peer.name} did not begin with a greeting.")
        if record.type == Kind.MESSAGE:
            await self._take_message(peer, _message(peer, record))
        elif record.type == Kind.GREETING:
            self._check_greeting(peer, _json(peer, record, version=int))
        elif record.type == Kind.READY:
            peer.ready = _json(peer, record, random=str, reveals=int)
            if self._running():
                self._abort(f"Party {peer.name} began anew.")
        elif record.type == Kind.BEGIN:
            peer.begin = _json(peer, record, session=str, reveals=int, digest=str)
        elif record.type == Kind.DONE:
            self._complete.add(peer.name)
        elif record.type == Kind.LEAVE and peer.name not in self._complete:
            if not peer.leaving:
                self._settings.say(f"Party {peer.name} was stopped there{self._where()}.")
            peer.leaving = True
            self._abort(f"Party {peer.name} was stopped.")

    def _check_greeting(self, peer: _Peer, greeting: dict[str, Any]) -> None:
        if greeting["version"] != VERSION:
            raise JoinError(
                f"Party {peer.name} speaks protocol version {greeting['version']!r}, we speak "
                f"version {VERSION}; install the same release everywhere."
            )
        if greeting.get("digest") != (own := self._settings.consortium.digest()):
            raise JoinError(
                f"Party {peer.name} has another agreed file: its digest begins "
                f"{str(greeting.get('digest'))[:16]!r}, ours {own[:16]!r}. Use the same "
                "consortium.toml everywhere (`securefedyj check` shows the digest)."
            )
        clock = greeting.get("clock")
        apart = (clock if isinstance(clock, float) else 0.0) - self._settings.clock()
        if not abs(apart) <= CLOCKS_APART:
            raise JoinError(
                f"The clock of party {peer.name} is {abs(apart) / 60:.0f} minutes "
                f"{'ahead of' if apart > 0 else 'behind'} ours; set both, by NTP if possible."
            )
        peer.checked = True

    def _post(self, peer: _Peer, kind: Kind, content: dict[str, Any] | bytes = b"") -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        assert peer.channel is not None
        peer.channel.send(tls.Record(kind, body))
        self._flush(peer)

    def _flush(self, peer: _Peer) -> None:
        assert peer.channel is not None
        if self._link is not None:
            self._link.send_stream(peer.name, peer.connection, peer.channel.outgoing())

    # Sessions.

    def _running(self) -> bool:
        return self._session is not None and self._session.party is not None

    async def _form(self) -> None:
        """Say READY when all are there, BEGIN when all are ready, and begin."""
        peers = list(self._peers.values())
        if self._running() or not all(peer.greeted for peer in peers):
            return
        if self._outcome is not None and not any(peer.ready for peer in peers):
            return  # we have what we want, and nobody has asked for more
        if self._mine is None:
            reveals = len(self._state.transcript.reveals)
            self._mine = {"random": secrets.token_hex(32), "reveals": reveals}
            for peer in peers:
                self._post(peer, Kind.READY, self._mine)
        readies = [peer.ready for peer in peers if peer.ready is not None]
        if len(readies) < len(peers) or self._over():
            return
        session = _Session(*_session_of([self._mine, *readies]))
        if self._session is None or self._session.id != session.id:
            self._session = session
            begin = self._begin(session)
            for peer in peers:
                self._post(peer, Kind.BEGIN, begin)
        if all(peer.begin and peer.begin["session"] == session.id.hex() for peer in peers):
            await self._start(self._session)

    def _begin(self, session: _Session) -> dict[str, Any]:
        digest = saved.digest(self._state.transcript, session.reveals)
        return {"session": session.id.hex(), "reveals": session.reveals, "digest": digest}

    async def _start(self, session: _Session) -> None:
        own = self._begin(session)
        for peer in self._peers.values():
            if peer.begin != own:
                raise JoinError(
                    f"Party {peer.name} has another record of what was revealed so far (up to "
                    f"reveal {session.reveals}); all parties must begin anew, with a new --output."
                )
        settings = self._settings
        session.party = Party(
            settings.name,
            self._agreement.parties,
            self._program(session),
            session=session.id,
            parameters=settings.consortium.canonical(),
        )
        session.began, self._missed = time.monotonic(), ""
        session.first_exchange = saved.exchanges_done(self._state.prefix(session.reveals))
        settings.say(
            f"All {len(self._agreement.parties)} parties are there"
            + (f"; going on after exchange {session.first_exchange}." if session.reveals else ".")
        )
        await self._compute(session.party.start)
        for message in session.held:
            await self._compute(session.party.receive, message)

    async def _program(self, session: _Session) -> Transcript:
        transcript = self._state.prefix(session.reveals)

        def keep(transcript: Transcript) -> None:
            if self._state.save(transcript):
                self._progressed = True
            self._report(session, transcript)

        done = await run_party(self._settings.name, self._agreement, self._silo, transcript, keep)
        return done.concluded()

    def _report(self, session: _Session, transcript: Transcript) -> None:
        assert session.party is not None
        done = saved.exchanges_done(transcript)
        most = saved.exchanges_at_most(self._agreement)
        seconds = time.monotonic() - session.began
        open_ = saved.features_open(transcript)
        left = seconds / max(done - session.first_exchange, 1) * (most - done) if open_ else 0.0
        sent = sum(session.party.bytes_sent.values())
        self._settings.progress(
            Progress(done, most, open_, session.party.rounds, sent, seconds, left)
        )

    async def _take_message(self, peer: _Peer, message: Message) -> None:
        """Give a message of the present session to the party; drop those of earlier ones."""
        if message.sender != peer.name:
            raise ProtocolError(f"Party {peer.name} sent a message in the name of another.")
        session = self._session
        if session is None or message.session != session.id:
            return
        session.received += message.size
        if session.party is None:
            session.held.append(message)
        else:
            await self._compute(session.party.receive, message)

    async def _compute(self, step: Callable[..., list[Message]], *arguments: Message) -> None:
        """Let the party compute, in a thread so that signs of life go on; send what it says."""
        session, start = self._session, time.monotonic()
        if session is None or session.party is None or session.party.done:
            return
        party = session.party
        self._computing = True
        outgoing = await self._worker.run(step, *arguments)
        self._computing = False
        self._idle_since = time.monotonic()
        session.computing += self._idle_since - start
        if self._progressed:
            self._progressed, self._waiting_since = False, None
            self._faults = self._attempts = 0
        if isinstance(party.error, TooFewValues):  # everybody finds that out without being told
            outgoing = [message for message in outgoing if message.kind != Step.STOP]
        self._send_messages(outgoing)
        if party.done:
            self._ended(party)

    def _send_messages(self, messages: list[Message]) -> None:
        for message in messages:
            peer = self._peers[message.recipient]
            if peer.greeted:
                self._post(peer, Kind.MESSAGE, message.to_bytes())

    def _ended(self, party: Party[Transcript]) -> None:
        self._count()
        self._session = self._mine = None
        if isinstance(party.error, PartyStopped):
            return  # who has left, and is awaited, becomes clear by itself
        if isinstance(party.error, TooFewValues):
            self._outcome = party.error
        elif isinstance(party.error, (ProtocolError, saved.StateError, OSError)):
            raise JoinError(str(party.error)) from party.error
        elif party.error is not None:
            # What an error of another library says may hold values: its name must do.
            raise JoinError(
                f"The computation failed here ({type(party.error).__name__})."
            ) from party.error
        else:
            self._state.save(party.result)
            self._outcome = party.result
            self._settings.done(self._outcome, self._cost)
        for peer in self._peers.values():
            peer.ready = None
            if peer.greeted:
                self._post(peer, Kind.DONE)

    def _count(self) -> None:
        """Add the present session, which is about to end, to the cost."""
        session, before = self._session, self._cost
        if session is None or session.party is None:
            return
        local = 0.0 if self._silo is None else self._silo.seconds
        computing = before.seconds_local + before.seconds_secure + session.computing
        waiting = time.monotonic() - session.began - session.computing
        name, sent = self._settings.name, before.bytes_sent[self._settings.name]
        self._cost = Cost(
            (before.rounds or 0) + session.party.rounds,
            {name: {peer: sent[peer] + more for peer, more in session.party.bytes_sent.items()}},
            local,
            computing - local,
            before.seconds_waiting + waiting,
            {name: before.bytes_received[name] + session.received},
        )

    def _abort(self, reason: str) -> None:
        """End the session for everybody, if there is one."""
        self._count()
        session, self._session = self._session, None
        if session is not None and session.party is not None and not session.party.done:
            self._send_messages(session.party.stop(JoinError(reason)))
        self._mine = None

    # Patience.

    def _where(self) -> str:
        """In which exchange, as soon as there was one, also while a run begins anew."""
        done = saved.exchanges_done(self._state.transcript)
        return f" in exchange {done + 1}" if done or self._running() else ""

    def _check_silence(self) -> None:
        """Nobody may be silent for longer than the timeout; our own computing does not count."""
        now, timeout = time.monotonic(), self._settings.timeout
        assert self._link is not None
        if now - max(self._link.heard, self._idle_since) > timeout:
            raise LinkLost(f"Nothing was heard from the hub for {timeout:g} seconds.")
        for peer in self._peers.values():
            silent = now - max(peer.heard, self._idle_since)
            if peer.channel is None or peer.name in self._complete:
                continue
            what = f"Nothing was heard from party {peer.name} for"
            if silent > timeout:
                raise LinkLost(f"{what} {timeout:g} seconds{self._where()}.")
            # All say so before the first of them begins anew, which ends the session for all.
            if silent > 0.7 * timeout and self._running() and not peer.warned:
                self._settings.say(f"{what} {silent:.1f} seconds{self._where()}.")
                peer.warned = True

    def _check_patience(self) -> bool:
        """Say whom we wait for; stop, or return True if we have a result, when it is too long."""
        if self._running():
            return False
        now, wait = time.monotonic(), self._settings.wait
        if self._waiting_since is None:
            self._waiting_since = now
        spared = self._complete if self._outcome is not None else set[str]()
        missing = ", ".join(
            peer.name
            for peer in self._peers.values()
            if not peer.greeted and peer.name not in spared
        )
        if now - self._waiting_since > wait:
            if self._outcome is not None:
                late = ", ".join(sorted(set(self._peers) - self._complete))
                self._settings.say(f"The result is here; {late} did not confirm to have it, too.")
                return True
            raise JoinError(self._gave_up(missing, wait))
        news = missing and missing != self._missed and self._link is not None
        if news and now - self._waiting_since > _TICK:
            here = "" if self._outcome is None else "The result is here. "
            self._settings.say(f"{here}Waiting for {missing}, up to {wait:g} seconds.")
            self._missed = missing
        return False

    def _gave_up(self, missing: str, wait: float) -> str:
        done = saved.exchanges_done(self._state.transcript)
        # Others may have lost their patience a moment before us: they are not to blame.
        long_ago = time.monotonic() - wait / 2
        absent = [peer for peer in self._peers.values() if not peer.greeted]
        first = ", ".join(peer.name for peer in absent if peer.absent_since < long_ago)
        missing = first or missing
        if not self._reached:
            what = f"The hub at {self._settings.consortium.hub.address} could not be reached"
        elif missing:
            what = f"Party {missing} did not come"
        else:
            what = "No session could be brought to progress"
        kept = f" after exchange {done}; the same command goes on from there" if done else ""
        return f"{what} within {wait:g} seconds: stopped{kept}."


def _session_of(readies: list[dict[str, Any]]) -> tuple[bytes, int]:
    """Session id from the random bytes of all, and how many reveals all have."""
    digest = hashlib.sha256("".join(sorted(str(one["random"]) for one in readies)).encode())
    return digest.digest()[:SESSION_BYTES], min(int(one["reveals"]) for one in readies)


def _json(peer: _Peer, record: tls.Record, **types: type) -> dict[str, Any]:
    """The content of a record that has these keys, with values of these types."""
    with contextlib.suppress(ValueError):
        content = json.loads(record.body)
        if isinstance(content, dict) and all(
            isinstance(content.get(key), kind) for key, kind in types.items()
        ):
            return content
    raise ProtocolError(f"Party {peer.name} sent a record of type {record.type} we cannot read.")


def _message(peer: _Peer, record: tls.Record) -> Message:
    try:
        return Message.from_bytes(record.body)
    except ProtocolError as error:
        raise ProtocolError(f"Party {peer.name} sent no message of the protocol: {error}") from None
