"""Sessions without sockets: one machine whose peers are played by hand, or three wired together."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from securefedyj.network.carrier import Left, Present
from securefedyj.network.errors import EndOfRun, JoinError
from securefedyj.network.lines import LineFile
from securefedyj.network.session import events, records
from securefedyj.network.session.events import AnyEvent, Moment, Output, SessionTerms
from securefedyj.network.session.memory import Memory
from securefedyj.network.session.records import NO_SESSION, AnyRecord
from securefedyj.network.session.sessions import Sessions
from securefedyj.network.session.states import State
from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.passes import ChangedData
from securefedyj.party.machine import Party
from securefedyj.party.messages import VERSION, Kind, Message
from securefedyj.party.rounds import play_round
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript

NAMES = ("ana", "bob", "cem")
DIGEST = "d" * 64
PARAMETERS = b"agreed"
AGREEMENT = Agreement(
    features=("x",),
    domain=Domain.from_bounds((0.0, 9.0), 1),
    parties=NAMES,
    committee=NAMES,
    engine="clear",
    max_steps=3,
    levels_per_exchange=2,
    result_bits=44,
    minimum_values=0,
    verified=False,
)

T = TypeVar("T")

_programs: list[Party[Transcript]] = []


def close_programs() -> None:
    """End what a test has begun and not brought to an end."""
    while _programs:
        if not (party := _programs.pop()).done:
            party.stop(RuntimeError("the test is over"))


@functools.lru_cache
def whole(others: bool = False) -> Transcript:
    """A run over some rows, or over others: counts, variation, three steps, moments."""
    rows = np.arange(1.0, 8.0)[:, None] ** (0.5 if others else 1.0)
    return simulate(AGREEMENT, [rows[:3], rows[3:5], rows[5:]])[0]


OPENINGS = len(whole().reveals)
BEGINNINGS = (0, 1, 4, 5)
"""The openings with which an exchange begins."""


def memory(length: int = 0, *, others: bool = False, confirmed: bool = False) -> Memory:
    """Of a run that has made so many openings, and is about to make the next."""
    known = Memory(AGREEMENT)
    for number in range(length):
        before = Transcript(AGREEMENT, whole(others).reveals[:number])
        if number in BEGINNINGS:
            known.exchange(before)
        known.opening(before)
        known.take([whole(others).reveals[number]])
    if length in BEGINNINGS:
        known.exchange(known.transcript)
    if confirmed:
        known.confirm(result_digest())
    return known


def result_digest() -> str:
    return hashlib.sha256(whole().to_text().encode()).hexdigest()


class Notebook(LineFile):
    """The lines that a journal would hold."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.safe = 0  # lines that a power cut does not take

    def append(self, line: Mapping[str, Any], *, sync: bool = False) -> None:
        self.lines.append(dict(line))

    def sync(self) -> None:
        self.safe = len(self.lines)


class Machine:
    """The sessions of one party, and what they have asked for."""

    def __init__(self, name: str, known: Memory, **options: Any) -> None:
        self.name = name
        self.now = 1000.0
        self.clock = 5000.0
        self.known = known
        self.sent: list[tuple[str, AnyRecord]] = []
        self.said: list[str] = []
        self.asked: events.Compute | None = None
        self.kept: list[events.Keep] = []
        self.reconnects = 0
        self.rows = whole()  # what its openings tell
        self.log: list[tuple[int, str]] = []  # what it has taken part in opening
        self.outcome: Any = None
        self.error: Exception | None = None
        self.revealed = 0
        numbers = itertools.count()
        defaults: dict[str, Any] = {
            "timeout": 10.0,
            "wait": 100.0,
            "most_faults": 2,
            "most_interruptions": 5,
            "earlier": 0,
            "most_waiting": 1000,
            "digest": DIGEST,
            "fresh": lambda: hashlib.sha256(f"{name} {next(numbers)}".encode()).hexdigest(),
        }
        peers = tuple(peer for peer in NAMES if peer != name)
        terms = SessionTerms(
            name=name, peers=peers, hub="hub:1", new_party=self.new_party, **{**defaults, **options}
        )
        self.sessions = Sessions(terms, known, self.moment())

    @property
    def state(self) -> State:
        return self.sessions.state

    def is_in(self, state: State) -> bool:
        """Whether it is in this state now; mypy takes it that a property stays as it was."""
        return self.state is state

    def moment(self) -> Moment:
        return Moment(self.now, self.clock)

    def happen(self, event: AnyEvent) -> list[Output]:
        outputs = self.sessions.handle(event, self.moment())
        for output in outputs:
            self.note(output)
        return outputs

    def note(self, output: Output) -> None:
        match output:
            case events.Say(sentence):
                self.said.append(sentence)
            case events.Send(peer, record):
                self.sent.append((peer, record))
            case events.Compute():
                assert self.asked is None
                self.asked = output
            case events.Keep():
                self.kept.append(output)
            case events.Reconnect():
                self.reconnects += 1
            case events.Finish(JoinError() as error):
                self.error = error
            case events.Finish(outcome):
                self.outcome = outcome

    def compute(self) -> None:
        """Make the computation that was asked for."""
        assert self.asked is not None
        asked, self.asked = self.asked, None
        messages = asked.step(*asked.arguments)
        for _ in range(self.revealed):
            self.happen(events.OpeningKept())
        self.revealed = 0
        self.happen(events.Computed(messages))

    @property
    def openings(self) -> int:
        """So many has it seen."""
        return len(self.known.transcript.reveals)

    def new_party(self, session: bytes, length: int, reopening: bool = False) -> Party[Transcript]:
        start = Transcript(AGREEMENT, self.known.transcript.reveals[:length])
        party = Party(self.name, NAMES, self.program(start), session=session, parameters=PARAMETERS)
        _programs.append(party)
        return party

    async def program(self, now: Transcript) -> Transcript:
        """As the real one: inputs to all, and an opening that each goes on with from one."""
        peers, first = [peer for peer in NAMES if peer != self.name], len(now.reveals)
        while (done := len(now.reveals)) < OPENINGS:
            if done in (first, *BEGINNINGS):
                self.known.exchange(now)
                await play_round(Kind.INPUT, dict.fromkeys(peers, b"x"), dict.fromkeys(peers, 1))
            self.known.opening(now)
            if not self.known.draining:  # else nothing of it is sent
                self.log.append((done, now.digest().hex()))
            await play_round(
                Kind.OPENING,
                dict.fromkeys(peers, b"x"),
                dict.fromkeys(peers, 1),
                enough=1,
                late=lambda peer, payload: None,
            )
            now.reveals.append(self.rows.reveals[done])
            self.known.revealed(now)
            self.revealed += 1
        return now

    def last(self, kind: type[T]) -> T:
        """The last record of a kind that was sent."""
        return [record for _, record in self.sent if isinstance(record, kind)][-1]


class Solo(Machine):
    """The machine of ana; bob and cem are played by hand.

    `ending` says what the program does when both have greeted: it goes on, returns or fails.
    """

    def __init__(
        self, *, length: int = 0, kept: bool = False, ending: str = "go on", **options: Any
    ) -> None:
        self.ending = ending
        self.helping = kept or length == OPENINGS
        options = {"timeout": 1e6, **options}  # nobody is silent for too long, unless asked for
        super().__init__("ana", memory(OPENINGS if kept else length, confirmed=kept), **options)

    async def program(self, now: Transcript) -> Transcript:
        if self.ending == "return":
            for reveal in whole().reveals[len(now.reveals) :]:
                now.reveals.append(reveal)
                self.known.revealed(now)
            return now
        if self.ending == "fail":
            raise RuntimeError("cannot add 31337")
        if self.ending == "other rows":
            raise ChangedData("SFY-TEST-001", "The table is another now.")
        if self.ending == "end for good":
            raise EndOfRun("SFY-TEST-001", "It is over.")
        return await super().program(now)

    def hear(self, peer: str, record: AnyRecord) -> None:
        self.happen(events.RecordArrived(peer, record))

    def arrive(self, peer: str) -> None:
        self.happen(Present(peer, 1))
        self.happen(events.ChannelStands(peer))
        self.hear(peer, records.Greeting(VERSION, DIGEST, self.clock, "0.3"))

    def ready(self, peer: str, turn: int = 0) -> records.Ready:
        return records.Ready(hashlib.sha256(f"{peer} {turn}".encode()).hexdigest())

    def begin(self, length: int, **changed: Any) -> records.Begin:
        """What a peer says that has so many openings, of the session that ana has begun."""
        known = {
            "session": self.last(records.Begin).session,
            "reveals": length,
            "digest": whole().digest(length).hex(),
            "finished": length == OPENINGS,
            "sending": False,
            "repeated": False,
            "accepted": 0,
            "computed": NO_SESSION,
        }
        return records.Begin(**{**known, **changed})

    def done(self) -> records.Done:
        return records.Done(result_digest())

    def message(self, sender: str, kind: Kind = Kind.HELLO) -> Message:
        """A message of the session that ana has begun."""
        session = bytes.fromhex(self.last(records.Begin).session)
        payload = hashlib.sha256(PARAMETERS).digest() if kind == Kind.HELLO else b""
        return Message(VERSION, session, sender, "ana", 0, kind, payload)

    def bring(self, state: State) -> Solo:
        """Go on, as a run does, until the state is reached."""
        steps = {
            State.GATHERING: self._to_gathering,
            State.READY: self._to_ready,
            State.SETTLING: self._to_settling,
            State.BEGUN: self._to_begun,
            State.TAKING: self._to_taking,
            State.COMPUTING: self._to_computing,
            State.LISTENING: self._to_listening,
            State.DONE: self._to_done,
            State.KEPT: self._to_kept,
            State.OVER: self._to_over,
            State.FAILED: self._to_failed,
        }
        steps[state]()
        assert self.state is state
        return self

    def _to_gathering(self) -> None:
        self.happen(events.HubReached())
        self.arrive("bob")
        if self.helping:
            self.hear("bob", self.done())

    def _to_ready(self) -> None:
        self._to_gathering()
        self.arrive("cem")
        if self.helping:
            self.hear("cem", self.ready("cem"))

    def _to_settling(self) -> None:
        self._to_listening()
        late = self.message("cem")
        self.hear("bob", self.ready("bob", 1))
        self.hear("cem", late)
        self.hear("cem", self.ready("cem", 1))

    def _to_begun(self) -> None:
        self._to_ready()
        for peer in ("bob", "cem"):
            self.hear(peer, self.ready(peer))

    def _to_taking(self) -> None:
        self._to_begun()
        for peer in ("bob", "cem"):
            self.hear(peer, self.begin(1))

    def _to_computing(self) -> None:
        """In the computation that ends the program, or brings it to its first exchange."""
        self._to_listening()
        self.hear("cem", self.message("cem"))

    def _to_listening(self) -> None:
        self._to_begun()
        for peer in ("bob", "cem"):
            self.hear(peer, self.last(records.Begin))
        self.compute()
        self.hear("bob", self.message("bob"))
        self.compute()

    def _to_done(self) -> None:
        if self.helping:
            self._to_gathering()
            return
        self.ending = "return"
        self._to_computing()
        self.compute()  # the program
        self.compute()  # the result

    def _to_kept(self) -> None:
        self._to_done()
        for peer in ("bob", "cem"):
            if self.state is State.DONE and not (self.helping and peer == "bob"):
                if self.helping:
                    self.arrive(peer)
                self.hear(peer, self.done())

    def _to_over(self) -> None:
        self._to_kept()
        for peer in ("bob", "cem"):
            self.hear(peer, records.Kept())

    def _to_failed(self) -> None:
        self._to_gathering()
        self.hear("bob", records.OtherVersion(99))


_DEAF = (State.COMPUTING, State.SETTLING, State.OVER, State.FAILED)


class Trio:
    """Three machines, and a hub that carries their records when it is told to."""

    def __init__(self, known: dict[str, Memory] | None = None, **options: Any) -> None:
        known, self._options = known or {}, options
        self.machines = {
            name: Machine(name, known.get(name, memory()), **options) for name in NAMES
        }
        self.present: list[str] = []
        self.way: dict[tuple[str, str], deque[AnyRecord]] = defaultdict(deque)
        self.slow: set[str] = set()  # those compute only when told to

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    def happen(self, name: str, event: AnyEvent) -> None:
        machine, reconnects = self.machines[name], self.machines[name].reconnects
        machine.happen(event)
        self._settle(name)
        if machine.reconnects > reconnects:
            self.cut(name)

    def compute(self, name: str) -> None:
        self.machines[name].compute()
        self._settle(name)

    def _settle(self, name: str) -> None:
        """Compute, and put what was said on its way."""
        machine = self.machines[name]
        while machine.asked is not None and name not in self.slow:
            machine.compute()
        for peer, record in machine.sent:
            if peer in self.present and name in self.present:
                self.way[name, peer].append(records.read(name, records.write(record)))
        machine.sent.clear()

    def join(self, *names: str) -> None:
        for name in names:
            others = list(self.present)
            self.present.append(name)
            self.happen(name, events.HubReached())
            for other in others:
                for one, peer in ((name, other), (other, name)):
                    self.happen(one, Present(peer, 1))
                for one, peer in ((name, other), (other, name)):
                    self.happen(one, events.ChannelStands(peer))

    def cut(self, name: str) -> None:
        """A party's connection has ended; it knows, and the others are told."""
        self.present.remove(name)
        for pair in self.way:
            if name in pair:
                self.way[pair].clear()
        for other in list(self.present):
            self.happen(other, Left(name, 1))

    def crash(self, name: str) -> None:
        """A party ends without a word; a new one takes its place, with what was kept."""
        old = self.machines[name]
        self.cut(name)
        if old.known.running and not old.known.finished:  # as the journal does
            old.known.interrupt(name)
        self.machines[name] = Machine(name, old.known, **self._options)
        self.machines[name].now, self.machines[name].clock = old.now, old.clock
        self.machines[name].log = old.log

    def carry(self, until: Callable[[], bool] = lambda: False) -> None:
        """Deliver records, one of each pair in turn, until none is left or so much is done."""
        while pairs := [pair for pair in sorted(self.way) if self.way[pair]]:
            moved = False
            for sender, recipient in pairs:
                if until():
                    return
                machine = self.machines[recipient]
                if machine.state in _DEAF:
                    continue
                if not self.way[sender, recipient]:
                    continue
                moved = True
                self.happen(recipient, events.Heard(sender))
                self.happen(
                    recipient, events.RecordArrived(sender, self.way[sender, recipient].popleft())
                )
            if not moved:
                return

    def pass_time(self, seconds: float, *names: str) -> None:
        for machine in self.machines.values():
            machine.now += seconds
            machine.clock += seconds
        for name in names or NAMES:
            if self.machines[name].state not in _DEAF:
                heard = self.machines[name].now if name in self.present else None
                self.happen(name, events.TimePassed(heard))

    def until_opening(self, name: str, done: int) -> None:
        self.carry(until=lambda: self.machines[name].openings >= done)
        assert self.machines[name].openings >= done

    def states(self) -> list[State]:
        return [machine.state for machine in self.machines.values()]
