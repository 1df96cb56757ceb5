"""A party on the network: the same `Party` as everywhere, driven through the hub.

`sessions` decides what to do, and this module does it: it turns what the hub or another carrier
delivers into events, sends records, and computes in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from securefedyj.engines.registry import facts_of
from securefedyj.errors import code_of
from securefedyj.network import carrier
from securefedyj.network.bounds import most_waiting
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError, OwnTrouble
from securefedyj.network.identity import Identity
from securefedyj.network.session import events
from securefedyj.network.session.channels import Channels
from securefedyj.network.session.events import AnyEvent, Output, Progress, SessionTerms
from securefedyj.network.session.journal import open_journal
from securefedyj.network.session.memory import Outcome, count_interruptions
from securefedyj.network.session.peers import TIMEOUT, WAIT
from securefedyj.network.session.sessions import Sessions
from securefedyj.network.session.states import State
from securefedyj.network.settling import Copy, settle
from securefedyj.network.transport.link import HubDialer
from securefedyj.party.machine import Party
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.program import run_party
from securefedyj.protocol.schedule import TooFewValues, exchanges_done
from securefedyj.protocol.silos import TimedSilo
from securefedyj.protocol.transcript import Transcript

__all__ = ["JoinError", "Progress", "Settings", "participate"]

T = TypeVar("T")

ALIVE_EVERY = 5.0  # seconds
MOST_FAULTS = 8  # broken channels without progress between them; more are an attack
MOST_UNWELCOME = 6  # connections that the hub ends without a word
_TICK = 0.5  # seconds between two looks at the clock
_FLUSH = 2.0  # seconds for our last words


@dataclass(frozen=True)
class Settings:
    """One party's side of a run.

    `say` gets one sentence for the user at a time, and `progress` the state after each opening.
    `started` is called once, when the first session begins, and `done` as soon as all parties have
    confirmed the result, or without one that there are too few values; the cost is None if that was
    there from the start. `rows` gives the
    digest of the silo's rows under a key: after a restart they must be the same.
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
    dialer: carrier.Dialer | None = None  # what connects us to the others in place of the hub
    proxy: str | None = field(default=None, repr=False)
    """The URL of an HTTP proxy on the way to the hub; if None, as the environment says."""
    copies: Mapping[str, Copy] = field(default_factory=dict, repr=False)
    """What a member has of the silos' submissions."""


async def participate(settings: Settings, silo: TimedSilo | None) -> Transcript:
    """Take part until the result is there; every party returns the same transcript.

    Raises JoinError, which says why there is no result, or, at every party, TooFewValues.
    """
    participant = _Participant(settings, silo)
    alive = asyncio.create_task(participant.keep_alive())
    failed = False
    try:
        outcome = await participant.run()
    except Exception:
        failed = True
        raise
    finally:
        alive.cancel()
        await participant.leave(failed=failed)
    if isinstance(outcome, TooFewValues):
        raise outcome
    return outcome


def _to_hub(settings: Settings) -> HubDialer:
    consortium, name, identity = settings.consortium, settings.name, settings.identity
    made = HubDialer(consortium, name, identity, settings.timeout, MOST_UNWELCOME, settings.proxy)
    if made.proxy is not None:
        settings.say(f"The way to the hub is through the proxy at {made.proxy.address}.")
    return made


class Worker:
    """One thread. Unlike those of asyncio, it does not delay the end of the process."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    async def run(self, step: Callable[..., T], *arguments: Any) -> T:
        """Let the thread take the step; raise what it raises."""
        answer: Future[T] = Future()

        def job() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(step(*arguments))
                except BaseException as raised:  # the caller would wait forever otherwise
                    answer.set_exception(raised)

        self._jobs.put(job)
        return await asyncio.wrap_future(answer)

    def end(self, last: Callable[[], None] = lambda: None) -> None:
        """Do this after the jobs that are waiting, and then stop."""
        self._jobs.put(last)
        self._jobs.put(None)

    def _work(self) -> None:
        for job in iter(self._jobs.get, None):
            job()


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
        digest, folder = consortium.digest(), settings.output
        # What may be refused comes before the journal, which keeps others out.
        self._channels = Channels(consortium, name, settings.identity)
        self._dialer = settings.dialer or _to_hub(settings)
        self._memory = open_journal(
            folder, self._agreement, digest, name, settings.rows, consortium.name
        )
        self._terms = SessionTerms(
            name,
            tuple(peer for peer in self._agreement.online if peer != name),
            "" if consortium.hub is None else consortium.hub.address,
            digest,
            settings.timeout,
            settings.wait,
            MOST_FAULTS,
            consortium.max_interruptions,
            settings.earlier,
            most_waiting(self._agreement),
            self._new_party,
        )
        self._party: Party[Transcript] | None = None
        self._loop = asyncio.get_running_loop()
        try:
            self._sessions = Sessions(self._terms, self._memory, self._now())
        except BaseException:
            self._memory.close()
            raise
        self._worker = Worker()
        self._carrier: carrier.Carrier | None = None
        self._outcome: Outcome | None = None

    async def run(self) -> Outcome:
        """Take part until there is nothing more to do."""
        if self._memory.confirmed:
            outcome = self._memory.outcome()
            if isinstance(outcome, TooFewValues):
                self._settings.done(self._memory.whole(), None)
                return outcome
            self._settings.say(
                f"This run is finished: its result is in {self._settings.output} and stays as it "
                "is. For a new fit, choose another output folder. A party that lacks the result "
                f"can get it now: we wait up to {self._settings.wait:g} seconds until all others "
                "have it. If they do, you can stop this."
            )
            self._settings.done(outcome, None)
        elif self._memory.interruptions:
            most, earlier = self._terms.most_interruptions, self._terms.earlier
            self._settings.say(count_interruptions(self._memory, most, earlier))
        await self._happen(events.TimePassed())
        while self._outcome is None:
            try:
                await self._attend()
            except carrier.Unwelcome as error:  # it may name our proxy
                raise OwnTrouble(code_of(error, "SFY-JOIN-039"), str(error)) from None
            except carrier.LinkLost as error:
                await self._happen(events.HubLost(str(error)))
                await self._drop_link()
            except _Reconnect:
                await self._drop_link()
        return self._outcome

    async def leave(self, *, failed: bool) -> None:
        """Say LEAVE to all peers, within seconds."""
        try:
            self._worker.end(self._stop_party)
            self._happen_aside(events.Stopping(failed))
            if self._carrier is not None:
                await self._carrier.close(_FLUSH)
        finally:
            if self._party is not None:
                self._party.release()
            self._memory.close()

    def _stop_party(self) -> None:
        """End a program that waits; in the thread that computes."""
        if self._party is not None and not self._party.done:
            self._party.stop(JoinError("SFY-JOIN-038", "The session is over."))

    async def keep_alive(self) -> None:
        """Show the hub and the peers that we are there, also in long computations."""
        while True:
            await asyncio.sleep(min(ALIVE_EVERY, self._settings.timeout / 4))
            if self._carrier is not None:
                self._carrier.sign_of_life()
                self._happen_aside(events.SignOfLifeDue())

    # The carrier.

    async def _drop_link(self) -> None:
        self._channels.use(None)
        lost, self._carrier = self._carrier, None
        if lost is not None:
            await lost.close(_TICK)
        await self._happen(events.TimePassed())

    async def _attend(self) -> None:
        """Connect, and take what is delivered until all is over."""
        link = self._carrier = await self._dialer.connect()
        link.on_left = self._preview
        self._channels.use(link)
        await self._happen(events.HubReached())
        looked_at_clock = 0.0
        while self._outcome is None:
            for event in self._channels.take(await link.receive(_TICK)):
                await self._happen(event)
                if self._sessions.state is State.OVER:
                    return
            if self._loop.time() - looked_at_clock > _TICK:
                looked_at_clock = self._loop.time()
                await self._happen(events.TimePassed(link.heard))

    def _preview(self, left: carrier.Left) -> None:
        """In a computation, tell the user at once who has left; its last records are read later."""
        computing = self._sessions.state is State.COMPUTING
        if computing and self._channels.leads_to(left.peer, left.connection):
            self._happen_aside(left)

    # The sessions.

    def _now(self) -> events.Moment:
        return events.Moment(self._loop.time(), self._settings.clock())

    async def _happen(self, event: AnyEvent) -> None:
        """Tell the sessions what has happened, and do what they ask for."""
        to_do = deque(self._sessions.handle(event, self._now()))
        while to_do:
            match to_do.popleft():
                case events.Compute(step, arguments):
                    messages = await self._worker.run(step, *arguments)
                    to_do.extend(self._sessions.handle(events.Computed(messages), self._now()))
                case output:
                    self._do(output)

    def _happen_aside(self, event: AnyEvent) -> None:
        """The same for what may happen at any time, also during a computation."""
        for output in self._sessions.handle(event, self._now()):
            self._do(output)

    def _do(self, output: Output) -> None:
        match output:
            case events.Send(peer, record):
                self._channels.send(peer, record)
            case events.Say(words):
                self._settings.say(words)
            case events.Keep(transcript, costs):
                silo = self._silo
                spent = (0.0, 0.0) if silo is None else (silo.seconds, silo.prepared)
                self._settings.done(transcript, costs.cost(self._settings.name, *spent))
            case events.Reconnect():
                raise _Reconnect
            case events.Finish(outcome):
                if isinstance(outcome, JoinError):
                    raise outcome
                self._outcome = outcome

    # The program.

    def _new_party(self, session: bytes, reveals: int, reopening: bool) -> Party[Transcript]:
        """The program of a session that resumes from this number of reveals.

        With `reopening`, it sends our part of the next opening as it was.
        """
        if self._party is None:
            self._settings.started()
        transcript = self._memory.known(reveals)
        began, before = time.monotonic(), exchanges_done(transcript)
        memory, name, agreement = self._memory, self._settings.name, self._agreement
        own = b"" if memory.part is None else bytes.fromhex(memory.part.bits)
        accepted = (reveals, own) if reopening else None
        party = self._party = self._facts.party(
            name,
            agreement.online,
            self._program(transcript, accepted),
            session=session,
            parameters=self._settings.consortium.canonical(),
            most_waiting=self._terms.most_waiting,
        )

        def opened(now: Transcript) -> None:  # in the thread that computes
            with contextlib.suppress(RuntimeError):  # the loop is closed: we were stopped
                self._loop.call_soon_threadsafe(self._revealed)
            seconds = time.monotonic() - began
            self._settings.progress(events.progress_of(now, before, party, seconds))

        memory.opened = opened
        return party

    async def _program(
        self, transcript: Transcript, accepted: tuple[int, bytes] | None
    ) -> Transcript:
        settings, name, agreement = self._settings, self._settings.name, self._agreement
        submissions = None
        if agreement.submitted:
            submissions = await settle(settings.consortium, name, settings.copies, settings.say)
        return await run_party(
            name, agreement, self._silo, transcript, self._memory, accepted, submissions
        )

    def _revealed(self) -> None:
        self._dialer.progress()
        self._happen_aside(events.OpeningKept())
