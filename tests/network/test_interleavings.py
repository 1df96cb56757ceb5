"""Whatever happens when: three parties that are killed, cut off and slow, in random orders.

Every party is a state machine with a line to a hub, and a disk. A seed decides what comes next: a
record goes from a party to the hub or from there to another, a party computes, time passes, a
process is killed or loses power, a line is cut, the hub ends, or somebody comes back. After that
everybody stays, and the run must come to its end.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict, deque
from typing import Any, NamedTuple

import pytest

from securefedyj.network.carrier import Left, Present
from securefedyj.network.errors import EndOfRun
from securefedyj.network.session import events, records
from securefedyj.network.session.events import AnyEvent, Output
from securefedyj.network.session.memory import MOST_REPEATS, Memory
from securefedyj.network.session.records import AnyRecord
from securefedyj.network.session.states import State
from securefedyj.party.machine import Party
from securefedyj.protocol.transcript import Transcript
from tests.network.machines import AGREEMENT, NAMES, Machine, Notebook, close_programs, whole

ENDS = (State.OVER, State.FAILED)
WAIT = 100.0  # seconds that a party waits for others


@pytest.fixture(autouse=True)
def _no_program_is_left_over():
    yield
    close_programs()


class Disk(Memory):
    """A memory that is read again after a restart, line by line, as the journal is."""

    def __init__(self, name: str) -> None:
        self.name, self.notes = name, Notebook()
        super().__init__(AGREEMENT, lines=self.notes)

    def read_again(self, *, power_cut: bool) -> Disk:
        new, notes = Disk(self.name), self.notes
        for line in notes.lines[: notes.safe] if power_cut else notes.lines:
            new.replay(line)
            new.notes.append(line)
        new.notes.sync()
        if new.running and not new.finished:
            new.interrupt(self.name)
        return new


class Frame(NamedTuple):
    """Something on its way from one connection to another."""

    what: str
    peer: str
    connection: int
    record: AnyRecord | None = None


class Line(NamedTuple):
    """A connection of a party to the hub."""

    number: int
    out: deque[tuple[str, int, AnyRecord]]
    arrived: deque[Frame]
    known: dict[str, int]
    """The connections of its peers."""


class Watched(Machine):
    """A machine that keeps in which session it has sent what."""

    def __init__(self, chaos: Chaos, name: str, known: Disk) -> None:
        self.chaos, self.session = chaos, b""
        super().__init__(
            name, known, wait=WAIT, most_interruptions=10**6, most_faults=10**6,
            fresh=lambda: f"{next(chaos.numbers):064x}",
        )  # fmt: skip

    def new_party(self, session: bytes, length: int, reopening: bool = False) -> Party[Transcript]:
        self.session, self.log = session, _Log(self.chaos, session)
        return super().new_party(session, length)

    def note(self, output: Output) -> None:
        if isinstance(output, events.Keep):
            self.chaos.check_all_have_opened_all(self.name)
        super().note(output)


class _Log(list[tuple[int, str]]):
    """Tells of each opening that a party sends."""

    def __init__(self, chaos: Chaos, session: bytes) -> None:
        super().__init__()
        self._chaos, self._session = chaos, session

    def append(self, entry: tuple[int, str]) -> None:
        self._chaos.opened[entry[0]].add(self._session)


class Chaos:
    """Three parties and a hub; `chance` decides what happens next."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.numbers, self.connections = itertools.count(), itertools.count(1)
        self.opened: dict[int, set[bytes]] = defaultdict(set)
        self.machines = {name: Watched(self, name, Disk(name)) for name in NAMES}
        self.lines: dict[str, Line] = {}
        self.ends: list[str] = []
        self.now = 1000.0

    def disk(self, name: str) -> Disk:
        known = self.machines[name].known
        assert isinstance(known, Disk)
        return known

    def check_all_have_opened_all(self, keeper: str) -> None:
        for name in NAMES:
            assert self.disk(name).finished, f"{keeper} keeps a result that {name} has not"

    # What may happen.

    def happen(self, name: str, event: AnyEvent) -> None:
        machine, before = self.machines[name], self.machines[name].reconnects
        machine.now = machine.clock = self.now
        machine.happen(event)
        self._send(name)
        if machine.reconnects > before:
            self.leave(name)
        if machine.state in ENDS and name in self.lines:
            machine.happen(events.Stopping())
            self._send(name)
            self.leave(name, lossless=True)

    def _send(self, name: str) -> None:
        sent, self.machines[name].sent[:] = list(self.machines[name].sent), []
        line = self.lines.get(name)
        for peer, record in sent:
            if line is not None and peer in line.known:
                assert isinstance(record, AnyRecord)
                copy = records.read(name, records.write(record))
                line.out.append((peer, line.known[peer], copy))

    def join(self, name: str) -> None:
        line = Line(next(self.connections), deque(), deque(), {})
        self.happen(name, events.HubReached())
        for other, there in self.lines.items():
            for one, peer, number in ((line, other, there.number), (there, name, line.number)):
                one.arrived.append(Frame("present", peer, number))
                one.arrived.append(Frame("stands", peer, number))
        self.lines[name] = line

    def leave(self, name: str, *, lossless: bool = False) -> None:
        """A connection ends; of what was sent, the end may be lost."""
        out = self.lines[name].out
        for _ in range(len(out) if lossless else self.chance.randint(0, len(out))):
            self.relay(name)
        line = self.lines.pop(name)
        for other in self.lines:
            self._arrive(other, Frame("left", name, line.number))

    def relay(self, name: str) -> None:
        peer, connection, record = self.lines[name].out.popleft()
        if peer in self.lines and self.lines[peer].number == connection:
            self._arrive(peer, Frame("record", name, self.lines[name].number, record))

    def _arrive(self, name: str, frame: Frame) -> None:
        line = self.lines[name]
        line.arrived.append(frame)
        computing = self.machines[name].is_in(State.COMPUTING)
        left = frame.what == "left" and line.known.get(frame.peer) == frame.connection
        if left and computing:
            self.happen(name, Left(frame.peer, 1))

    def read(self, name: str) -> None:
        line = self.lines[name]
        frame = line.arrived.popleft()
        if frame.what == "present":
            line.known[frame.peer] = frame.connection
            self.happen(name, Present(frame.peer, 1))
        elif line.known.get(frame.peer) != frame.connection:
            return
        elif frame.what == "stands":
            self.happen(name, events.ChannelStands(frame.peer))
        elif frame.what == "left":
            del line.known[frame.peer]
            self.happen(name, Left(frame.peer, 1))
        else:
            assert frame.record is not None
            self.happen(name, events.Heard(frame.peer))
            if name in self.lines:
                self.happen(name, events.RecordArrived(frame.peer, frame.record))

    def compute(self, name: str) -> None:
        self.machines[name].compute()
        self._send(name)
        self._after(name)

    def _after(self, name: str) -> None:
        if self.machines[name].state in ENDS and name in self.lines:
            self.leave(name, lossless=True)

    def cut(self, name: str) -> None:
        """Some of what has arrived is still read."""
        line = self.lines[name]
        for _ in range(self.chance.randint(0, len(line.arrived))):
            if self.lines.get(name) is line and self.can_read(name):
                self.read(name)
        if self.lines.get(name) is line and self.machines[name].asked is None:
            self.leave(name)
            self.happen(name, events.HubLost("The hub is gone."))

    def kill(self, name: str) -> None:
        """Maybe after it has computed, and before it has sent anything of that."""
        machine = self.machines[name]
        if name in self.lines:
            self.leave(name)
        if machine.asked is not None and self.chance.random() < 0.5:
            machine.asked.step(*machine.asked.arguments)
        self.restart(name, power_cut=self.chance.random() < 0.5)

    def restart(self, name: str, *, power_cut: bool = False) -> None:
        disk = self.disk(name).read_again(power_cut=power_cut)
        if not disk.failed:
            self.machines[name] = Watched(self, name, disk)

    def end_hub(self) -> None:
        for name in NAMES:
            if name in self.lines and self.machines[name].asked is None:
                self.cut(name)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for name, machine in self.machines.items():
            if machine.asked is None and machine.state not in ENDS:
                self.happen(name, events.TimePassed(self.now if name in self.lines else None))
            if name in self.lines:
                self.happen(name, events.SignOfLifeDue())

    # The course of a run.

    def can_read(self, name: str) -> bool:
        machine = self.machines[name]
        return bool(self.lines[name].arrived) and machine.asked is None

    def orderly(self) -> list[Any]:
        """All that happens by itself."""
        may: list[Any] = [(self.relay, name) for name, line in self.lines.items() if line.out]
        may += [(self.read, name) for name in self.lines if self.can_read(name)]
        may += [(self.compute, n) for n, machine in self.machines.items() if machine.asked]
        may += [
            (self.join, name)
            for name, machine in self.machines.items()
            if name not in self.lines and machine.state not in ENDS and machine.asked is None
        ]
        return may

    def step(self) -> bool:
        may = self.orderly()
        if may:
            what, name = self.chance.choice(may)
            what(name)
        return bool(may)

    def disturb(self) -> None:
        what = self.chance.choices(["kill", "cut", "hub", "time"], [4, 4, 1, 2])[0]
        if what == "time":
            self.pass_time(self.chance.choice([0.6, 3.0, 11.0]))
        elif what == "hub":
            self.end_hub()
        else:
            living = [n for n, machine in self.machines.items() if machine.state not in ENDS]
            name = self.chance.choice(living or list(NAMES))
            if what == "kill" and name in living:
                self.kill(name)
            elif name in self.lines:
                self.cut(name)

    def settle(self) -> None:
        """Nobody disturbs any more; who waits for somebody in vain gives up."""
        for _ in range(20_000):
            if self.step():
                continue
            states = [machine.state for machine in self.machines.values()]
            if all(state in ENDS for state in states):
                return
            # All are there, nothing is on its way, nobody computes, and nobody has come to an end.
            assert any(state in ENDS for state in states), f"deadlock: {states}"
            self.pass_time(4.0)
        raise AssertionError(f"no end: {[machine.state for machine in self.machines.values()]}")

    def run(self, disturbances: int) -> None:
        pause = self.chance.choice([3, 30, 100])
        for _ in range(disturbances):
            for _ in range(self.chance.randint(0, pause)):
                self.step()
            self.disturb()
        self.settle()


def check(chaos: Chaos) -> str:
    """What must hold in the end; return how it ended."""
    again = {number: len(sessions) for number, sessions in chaos.opened.items()}
    again = {number: times for number, times in again.items() if times > 1}
    assert all(times == 2 for times in again.values()), again
    assert len(again) <= MOST_REPEATS, again
    for_good = [m.error for m in chaos.machines.values() if isinstance(m.error, EndOfRun)]
    for error in for_good:
        assert "was sent before an interruption, and too few parties have it" in str(error)
    confirmed = {chaos.disk(name).confirmed for name in NAMES} - {""}
    assert len(confirmed) <= 1
    for machine in chaos.machines.values():
        for kept in machine.kept:
            assert kept.transcript.to_text() == whole().to_text()
    if for_good:
        assert not confirmed
        return "ended for good"
    # Who gave up, since others had the result already and left, gives the command again.
    for name in NAMES:
        chaos.restart(name)
    chaos.settle()
    for name, machine in chaos.machines.items():
        assert chaos.disk(name).confirmed, f"{name}: {machine.error}"
        assert machine.outcome.to_text() == whole().to_text()
    return "repeated" if again else "the result"


SEEDS = [(seed, disturbances) for seed in range(16) for disturbances in (1, 2, 5, 20)]


@pytest.mark.slow
def test_nothing_is_opened_twice_whatever_happens_when():
    ends = set()
    for seed, disturbances in SEEDS:
        chaos = Chaos(1000 * seed + disturbances)
        chaos.run(disturbances)
        try:
            ends.add(check(chaos))
        except AssertionError as error:
            raise AssertionError(f"Chaos({1000 * seed + disturbances})") from error
        close_programs()
    assert ends == {"the result", "repeated", "ended for good"}  # all of that was tried
