"""A party on the network: the same `Party` as everywhere, driven through the hub.

`sessions` decides what is to be done; here it is done. What the hub, or another carrier, brings
becomes events, and so do the end of a computation and the passing of time; records go out by the
channels, computations to a thread, what was revealed to the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from securefedyj.engines.registry import facts_of
from securefedyj.errors import code_of
from securefedyj.network import carrier
from securefedyj.network.bounds import most_waiting
from securefedyj.network.carrier import (
    Arrival,
    Carrier,
    Data,
    Left,
    LinkLost,
    Present,
    Unwelcome,
    Word,
)
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError, OwnTrouble
from securefedyj.network.identity import Identity
from securefedyj.network.session import events
from securefedyj.network.session.channels import Channels
from securefedyj.network.session.events import Event, Moment, Outcome, Output
from securefedyj.network.session.journal import Journal
from securefedyj.network.session.patience import TIMEOUT, WAIT
from securefedyj.network.session.progress import Meter, Progress, exchanges_done, prefix
from securefedyj.network.session.run import Terms
from securefedyj.network.session.sessions import Sessions
from securefedyj.network.session.worker import Worker
from securefedyj.network.transport.link import HubDialer
from securefedyj.party.machine import Party
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.program import TooFewValues, run_party
from securefedyj.protocol.silos import TimedSilo
from securefedyj.protocol.transcript import Transcript

__all__ = ["JoinError", "Progress", "Settings", "participate"]

ALIVE_EVERY = 5.0  # seconds
MOST_FAULTS = 8  # broken channels without progress between them; then somebody is at work
MOST_UNWELCOME = 6  # connections that the hub ends without a word
_TICK = 0.5  # seconds between two looks at the clock
_FLUSH = 2.0  # seconds for our last words


@dataclass(frozen=True)
class Settings:
    """One party's side of a run.

    `say` gets one sentence for the user at a time, `progress` the state after each opening,
    `started` is called once, when the first session begins, and `done` with the result as soon as
    all parties have confirmed it; the cost is None if the result was there from the start. `rows`
    gives the digest of the silo's rows under a key: after a restart they must be the same.
    """

    consortium: Consortium
    name: str
    identity: Identity
    output: Path
    timeout: float = TIMEOUT
    wait: float = WAIT
    rows: Callable[[bytes], str] | None = field(default=None, repr=False)  # it holds the table
    earlier: int = 0
    """Earlier runs over the same columns that did not finish; they count as interruptions."""
    started: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda sentence: None
    progress: Callable[[Progress], None] = lambda progress: None
    done: Callable[[Transcript, Cost | None], None] = lambda transcript, cost: None
    clock: Callable[[], float] = time.time
    dialer: carrier.Dialer | None = None
    """What connects us to the others in place of the hub."""
    proxy: str | None = field(default=None, repr=False)
    """The URL of an HTTP proxy on the way to the hub; if None, as the environment says."""


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
    failed = True
    try:
        outcome = await participant.run()
        failed = False
    except asyncio.CancelledError:
        failed = False
        raise
    finally:
        alive.cancel()
        await participant.leave(failed=failed)
    if isinstance(outcome, TooFewValues):
        raise outcome
    return outcome


def _dialer(settings: Settings) -> carrier.Dialer:
    """To the hub, through a proxy if there is one."""
    made = HubDialer(
        settings.consortium,
        settings.name,
        settings.identity,
        settings.timeout,
        MOST_UNWELCOME,
        settings.proxy,
    )
    if made.proxy is not None:
        settings.say(f"The way to the hub is through the proxy at {made.proxy.address}.")
    return made


class _Reconnect(Exception):
    """The sessions need another connection to the hub."""


class _Participant:
    """One party, from its start to its result, over as many connections as it takes."""

    def __init__(self, settings: Settings, silo: TimedSilo | None) -> None:
        consortium, name = settings.consortium, settings.name
        consortium.check_clock(settings.clock())
        self._settings, self._silo = settings, silo
        self._agreement = consortium.agreement()
        self._facts = facts_of(self._agreement.engine)
        try:
            self._facts.check_ready()
        except ImportError as error:
            raise JoinError(code_of(error, "SFY-JOIN-037"), f"{error}.") from None
        self._journal = Journal(
            settings.output,
            self._agreement,
            consortium.digest(),
            name,
            settings.rows,
            consortium.name,
        )
        self._channels = Channels(consortium, name, settings.identity)
        self._dialer = settings.dialer or _dialer(settings)
        terms = Terms(
            name,
            tuple(party.name for party in consortium.parties if party.name != name),
            "" if consortium.hub is None else consortium.hub.address,
            consortium.digest(),
            settings.timeout,
            settings.wait,
            MOST_FAULTS,
            consortium.max_interruptions,
            settings.earlier,
            most_waiting(self._agreement),
            self._new_party,
        )
        self._peers, self._most_waiting = terms.peers, terms.most_waiting
        self._started = False
        self._party: Party[Transcript] | None = None
        self._loop = asyncio.get_running_loop()
        try:
            self._sessions = Sessions(terms, self._journal, self._now())
        except BaseException:
            self._journal.close()
            raise
        self._worker = Worker()
        self._carrier: Carrier | None = None
        self._outcome: Outcome | None = None

    async def run(self) -> Outcome:
        """Take part until there is nothing more to do."""
        if self._journal.confirmed:
            outcome = self._journal.outcome()
            if isinstance(outcome, TooFewValues):
                return outcome
            self._settings.say(
                f"This run is finished: its result is in {self._settings.output} and stays as it "
                "is. To fit anew, choose another --output. Should a party lack the result, it is "
                f"handed on: we wait up to {self._settings.wait:g} seconds for all others to have "
                "it. If they do, stop this by Ctrl-C."
            )
            self._settings.done(outcome, None)
        elif self._journal.interruptions:
            self._settings.say(self._sessions.interruptions)
        await self._happen(events.TimePassed())
        while self._outcome is None:
            try:
                await self._connect()
                await self._attend()
            except Unwelcome as error:  # it may name our proxy
                raise OwnTrouble(code_of(error, "SFY-JOIN-039"), str(error)) from None
            except LinkLost as error:
                await self._happen(events.HubLost(str(error)))
                await self._drop_link()
            except _Reconnect:
                await self._drop_link()
        return self._outcome

    async def leave(self, *, failed: bool) -> None:
        """Take leave of all peers; they are told within seconds, and whether we have failed."""
        try:
            self._worker.end(self._stop_party)
            self._happen_aside(events.Stopping(failed))
            if self._carrier is not None:
                await self._carrier.close(_FLUSH)
        finally:
            if self._party is not None:
                self._party.release()
            self._journal.close()

    def _stop_party(self) -> None:
        """End a program that waits; in the thread that computes."""
        if self._party is not None and not self._party.done:
            self._party.stop(JoinError("SFY-JOIN-038", "The session is over."))

    async def keep_alive(self) -> None:
        """Let the hub and the peers know that we are there, also in long computations."""
        while True:
            await asyncio.sleep(min(ALIVE_EVERY, self._settings.timeout / 4))
            if self._carrier is not None:
                self._carrier.sign_of_life()
                self._happen_aside(events.SignOfLifeDue())

    # The carrier.

    async def _connect(self) -> None:
        self._carrier = await self._dialer.connect()
        self._carrier.on_left = self._preview
        self._channels.attach(self._carrier)
        await self._happen(events.HubReached())

    async def _drop_link(self) -> None:
        self._channels.detach()
        lost, self._carrier = self._carrier, None
        if lost is not None:
            await lost.close(_TICK)
        await self._happen(events.TimePassed())

    async def _attend(self) -> None:
        """Take what is delivered until all is over."""
        assert self._carrier is not None
        looked_at_clock = 0.0
        while self._outcome is None:
            arrival = await self._carrier.receive(_TICK)
            if arrival is not None:
                await self._take(arrival)
            if self._outcome is None and self._loop.time() - looked_at_clock > _TICK:
                looked_at_clock = self._loop.time()
                await self._happen(events.TimePassed(self._carrier.heard))

    async def _take(self, arrival: Arrival) -> None:
        match arrival:
            case Word(sentence):
                await self._happen(events.HubSpoke(sentence))
            case Present(peer, connection) if peer in self._peers:
                await self._happen(events.PeerArrived(peer))
                self._channels.open(peer, connection)
            case Left(peer, connection) if self._channels.leads_to(peer, connection):
                self._channels.close(peer)
                await self._happen(events.PeerLeft(peer))
            case Data(peer, connection, data) if self._channels.leads_to(peer, connection):
                for event in self._channels.receive(peer, data):
                    await self._happen(event)
                    if self._outcome is not None:
                        return

    def _preview(self, left: Left) -> None:
        """Note who has left before its last words are read."""
        if self._channels.leads_to(left.peer, left.connection):
            self._happen_aside(events.PeerDeparting(left.peer))

    # The sessions.

    def _now(self) -> Moment:
        return Moment(self._loop.time(), self._settings.clock())

    async def _happen(self, event: Event) -> None:
        """Tell the sessions what has happened, and do what they ask for."""
        to_do = deque(self._sessions.handle(event, self._now()))
        while to_do:
            match to_do.popleft():
                case events.Compute(step, arguments):
                    messages = await self._worker.run(step, *arguments)
                    to_do.extend(self._sessions.handle(events.Computed(messages), self._now()))
                case output:
                    self._do(output)

    def _happen_aside(self, event: Event) -> None:
        """The same for what may happen at any time, also during a computation."""
        for output in self._sessions.handle(event, self._now()):
            self._do(output)

    def _do(self, output: Output) -> None:
        match output:
            case events.Send(peer, record):
                self._channels.send(peer, record)
            case events.Say(words):
                self._settings.say(words)
            case events.Keep(transcript, tally):
                silo = self._silo
                spent = (0.0, 0.0) if silo is None else (silo.seconds, silo.prepared)
                self._settings.done(transcript, tally.cost(self._settings.name, *spent))
            case events.Reconnect():
                raise _Reconnect
            case events.Finished(outcome):
                self._outcome = outcome
            case events.Failed(error):
                raise error
            case events.Compute():
                raise AssertionError  # only `_happen` can wait for it

    # The program.

    def _new_party(self, session: bytes, reveals: int, reopening: bool) -> Party[Transcript]:
        """The program of a session, which goes on from so many reveals.

        If it is `reopening`, with our part of the next opening as it was.
        """
        if not self._started:
            self._started = True
            self._settings.started()
        transcript = prefix(self._journal.transcript, reveals)
        log = _Log(self._journal, self._opened, Meter(time.monotonic(), exchanges_done(transcript)))
        name, agreement, part = self._settings.name, self._agreement, self._journal.part
        own = bytes.fromhex(part.bits) if part is not None else b""
        accepted = (reveals, own) if reopening else None
        log.party = self._party = self._facts.party(
            name,
            agreement.parties,
            run_party(name, agreement, self._silo, transcript, log, accepted),
            session=session,
            parameters=self._settings.consortium.canonical(),
            most_waiting=self._most_waiting,
        )
        return log.party

    def _opened(self, progress: Progress) -> None:
        """Something was opened and kept; in the thread that computes."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: we were stopped
            self._loop.call_soon_threadsafe(self._revealed)
        self._settings.progress(progress)

    def _revealed(self) -> None:
        self._dialer.progress()
        self._happen_aside(events.Revealed())


@dataclass
class _Log:
    """What a program tells of its openings: kept in the journal first, then shown."""

    journal: Journal
    opened: Callable[[Progress], None]
    meter: Meter
    party: Party[Transcript] | None = None

    def exchange(self, transcript: Transcript) -> None:
        self.journal.exchange(transcript)

    def opening(self, transcript: Transcript) -> None:
        self.journal.opening(transcript)

    def accepted(self, transcript: Transcript, part: bytes) -> None:
        self.journal.accepted(transcript, part)

    def revealed(self, transcript: Transcript) -> None:
        self.journal.revealed(transcript)
        assert self.party is not None
        self.opened(self.meter.read(transcript, self.party, time.monotonic()))
