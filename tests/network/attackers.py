"""Attackers among honest parties: all of them real, through a real hub and TLS, in one event loop.

An `Arena` is a hub and four parties, of which `dua` has rows and is outside of the committee. Its
`Stage` lets a test get between a party and the world, for one party only:

- `engines`: what the party computes with, so that it sees openings first, and may stop there;
- `messages`: what it says within a session;
- `records`: what it says on its channels;
- `dead` and `deaf`: whether it says, and hears, anything at all.

The others are unmodified. `Stage.openings` counts what those have opened, and how often.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import hmac
import json
import threading
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from securefedyj.errors import PartyStopped
from securefedyj.network import channels, local, records, tls
from securefedyj.network import participant as network
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.participant import JoinError
from securefedyj.numerics import wide
from securefedyj.numerics.silo import TimedSilo
from securefedyj.party.machine import Party
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol import program
from securefedyj.protocol.silos import timed_silo
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.results import PARAMETERS, write_results
from tests.network.harness import Loopback
from tests.network.once import Openings

BOUNDS = (0.0, 1000.0)
ROWS = np.random.default_rng(7).lognormal(size=(60, 2))
FOUR: dict[str, Any] = {
    "ana": ROWS[:15], "bob": ROWS[15:30], "cem": ROWS[30:45], "dua": ROWS[45:],
}  # fmt: skip
COMMITTEE = ("ana", "bob", "cem")
OUTSIDER = "dua"
STEPS, LEVELS = 6, 3
# The openings of a run, by their number: none of these searches ends before its last step.
OPENINGS = {
    "counts": 0,
    "variation": 1,
    **{f"sign {step}": 2 + step for step in range(STEPS)},
    "magnitudes": 2 + STEPS,
    "moments": 3 + STEPS,
}
STATE = "state.jsonl"


# What an attacker may do.


class LyingSilo:
    """Adds numbers of its choice to the sums of its rows.

    `phi` and `yy` are integers on the grids that the sums are on; a lie may change while it runs.
    """

    def __init__(self, silo: Any) -> None:
        self._silo, self.count = silo, silo.count
        self.phi = self.yy = 0

    def phi_sum(self, features: Any, limbs: int) -> Any:
        return _plus(self._silo.phi_sum(features, limbs), self.phi)

    def sums(self, *arguments: Any) -> Any:
        sums = self._silo.sums(*arguments)
        return sums._replace(yy=_plus(sums.yy, self.yy))


def _plus(values: Any, number: int) -> Any:
    limbs, size = values.shape
    return wide.add(values, wide.from_ints([number % (1 << 64 * limbs)] * size, limbs))


@dataclasses.dataclass(eq=False)
class Play:
    """One session at one party: where it began, and what was opened since."""

    party: str
    start: int
    transcript: Transcript
    opened: int = 0
    rounds: list[int] = dataclasses.field(default_factory=list)

    @property
    def due(self) -> int:
        """The number of the opening that comes next."""
        return self.start + self.opened

    def number(self, turn: int) -> int:
        """That of the opening in a round."""
        if turn not in self.rounds:
            self.rounds.append(turn)
        return self.start + self.rounds.index(turn)


class Peeking:
    """An engine that shows what was opened, with its number, before the program gets it."""

    def __init__(self, engine: Any, play: Play, look: Callable[[int, Any], None]) -> None:
        self._engine, self._play, self._look = engine, play, look

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def open(self, a: Any) -> Any:
        return self._shown(await self._engine.open(a))

    async def open_bits(self, a: Any) -> Any:
        return self._shown(await self._engine.open_bits(a))

    def _shown(self, value: Any) -> Any:
        number = self._play.due
        self._play.opened += 1
        self._look(number, value)
        return value


def begin_anew() -> None:
    """Call it from a program: the party's own sessions then say READY to everybody."""
    raise PartyStopped("Enough seen.")


class Stage:
    """Gets between the parties of this process and the world."""

    def __init__(self, attackers: Iterable[str] = ()) -> None:
        self.attackers = set(attackers)
        self.openings = Openings()
        self.engines: dict[str, Callable[[Any, Play], Any]] = {}
        self.messages: dict[str, Callable[[int | None, Message], Message | None]] = {}
        self.records: dict[str, Callable[[str, Any], Iterable[Any]]] = {}
        self.sent: dict[str, Callable[[str, Any, int | None], None]] = {}
        self.dead: set[str] = set()
        self.deaf: set[str] = set()
        self._here = threading.local()
        self._plays: dict[Party[Any], Play] = {}
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._owners: dict[channels.Channels, str] = {}

    def __enter__(self) -> Stage:
        self._patches = contextlib.ExitStack()
        for where, name, instead in [
            (Party, "start", self._stepping(Party.start)),
            (Party, "receive", self._stepping(Party.receive)),
            (program, "secure_fed_yj", self._program(program.secure_fed_yj)),
            (channels.Channels, "__init__", self._owned(channels.Channels.__init__)),
            (channels.Channels, "send", self._send(channels.Channels.send)),
            (channels.Channels, "receive", self._receive(channels.Channels.receive)),
            (records, "write", _as_it_is(records.write)),
        ]:
            self._patches.enter_context(mock.patch.object(where, name, instead))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def number(self, record: Any) -> int | None:
        """That of the opening which a record is a part of."""
        if not isinstance(record, records.Delivery):
            return None
        return self._numbers.get((record.message.session, record.message.round))

    def peek(self, name: str, look: Callable[[int, Any], None]) -> None:
        """Let a party see what is opened before its program does."""
        self.engines[name] = lambda engine, play: Peeking(engine, play, look)

    def _program(self, original: Any) -> Any:
        async def watched(
            engine: Any, silo: Any, agreement: Any, transcript: Any = None, *rest: Any, **more: Any
        ) -> Any:
            transcript = Transcript(agreement) if transcript is None else transcript
            party = self._here.party
            play = Play(party.name, len(transcript.reveals), transcript)
            self._plays[party] = play
            if party.name in self.engines:
                engine = self.engines[party.name](engine, play)
            return await original(engine, silo, agreement, transcript, *rest, **more)

        return watched

    def _stepping(self, original: Any) -> Any:
        def step(party: Party[Any], *arguments: Message) -> list[Message]:
            self._here.party = party
            return list(self._passed(party, original(party, *arguments)))

        return step

    def _passed(self, party: Party[Any], messages: list[Message]) -> Iterable[Message]:
        for message in messages:
            number = None
            if Kind.OPENING in message.kind:
                number = self._plays[party].number(message.round)
                self._numbers[message.session, message.round] = number
            alter = self.messages.get(party.name)
            passed = message if alter is None else alter(number, message)
            if passed is not None:
                yield passed

    def _owned(self, original: Any) -> Any:
        def init(own: channels.Channels, consortium: Consortium, name: str, *rest: Any) -> None:
            self._owners[own] = name
            original(own, consortium, name, *rest)

        return init

    def _send(self, original: Any) -> Any:
        def send(own: channels.Channels, peer: str, record: Any) -> None:
            name = self._owners[own]
            alter = self.records.get(name)
            for said in [record] if alter is None else alter(peer, record):
                number = self.number(said)
                if number is not None and name not in self.attackers | self.dead:
                    self.openings.note(number, said.message.session, name)
                if name not in self.dead:
                    original(own, peer, said)
                if name in self.sent:
                    self.sent[name](peer, said, number)

        return send

    def _receive(self, original: Any) -> Any:
        def receive(own: channels.Channels, peer: str, data: bytes) -> Iterable[Any]:
            return () if self._owners[own] in self.deaf else original(own, peer, data)

        return receive


def _with_error(inner: Any, error: Any) -> Any:
    """Drive a member's `negative`, and add an error to the one product that ends it."""

    @types.coroutine
    def drive() -> Any:
        answer = None
        while True:
            try:
                request = inner.send(answer)
            except StopIteration as stop:
                return stop.value
            sizes = {len(payload) for payload in request.outgoing.values()}
            if Kind.CARRY in request.kind and sizes == {error.nbytes}:
                altered = {
                    peer: (np.frombuffer(payload, np.uint8) ^ error).tobytes()
                    for peer, payload in request.outgoing.items()
                }
                request = dataclasses.replace(request, outgoing=altered)
            answer = yield request

    return drive()


class Flipping(Peeking):
    """A member's engine that flips bits of a comparison, so that all see the same wrong ones.

    `flips` says which, given how many there are, for the opening of this number.
    """

    def __init__(self, engine: Any, play: Play, number: int, flips: Callable[[int], Any]) -> None:
        super().__init__(engine, play, lambda number, value: None)
        self._number, self._flips = number, flips

    async def negative(self, a: Any) -> Any:
        if self._play.due != self._number:
            return await self._engine.negative(a)
        error = np.packbits(self._flips(a.size), bitorder="little")
        bits = await _with_error(self._engine.negative(a), error)
        bits.components[0] ^= error.reshape(bits.components[0].shape)
        return bits


def _as_it_is(original: Any) -> Any:
    """Let forged records pass that are bytes already."""
    return lambda record: record if isinstance(record, tls.Record) else original(record)


# Forged records: all that depends on their form is here.


def claim(record: Any, *, reveals: int, digest: str | None = None) -> Any:
    """The same record, in which its sender has so many reveals, of this digest."""
    if not isinstance(record, records.Ready | records.Begin) or not hasattr(record, "reveals"):
        return record
    changes: dict[str, Any] = {"reveals": reveals}
    if digest is not None and hasattr(record, "digest"):
        changes["digest"] = digest
    if hasattr(record, "exchange"):  # of the new form
        changes["exchange"] = min(record.exchange, max(reveals, 0))
        changes["finished"] = False
    return dataclasses.replace(record, **changes)


def raw(record: Any, **fields: Any) -> tls.Record:
    """A record with fields of any type."""
    written = records.write(record)
    content = json.loads(written.body or b"{}") | fields
    return tls.Record(written.type, json.dumps(content).encode())


def ready() -> Any:
    """A READY of the present form."""
    return records.Ready("ab" * 32, *([0] if "reveals" in records.Ready.__annotations__ else []))


def begin(digest: str) -> Any:
    """A BEGIN of the present form."""
    values: dict[str, Any] = {
        "session": "ab" * 16, "reveals": 0, "exchange": 0, "digest": digest, "finished": False,
    }  # fmt: skip
    return records.Begin(**{name: values[name] for name in records.Begin.__annotations__})


def confirm(record: Any, digest: str) -> Any:
    """The same DONE, about something else."""
    form: Any = dataclasses.replace
    return form(record, digest=digest) if hasattr(record, "digest") else record


# States on disk.


def shorten(path: Path, reveals: int) -> None:
    """Forget all but the first reveals, as if the rest had never been written."""
    kept, seen = [], 0
    for line in path.read_text().splitlines(keepends=True):
        content = json.loads(line)
        if seen >= reveals and ("reveal" in content or "result" in content):
            break
        seen += "reveal" in content
        kept.append(line)
    while "opening" in json.loads(kept[-1]):  # not even asked for
        kept.pop()
    path.write_text("".join(kept))


# The arena.


class Arena(Loopback):
    """A hub and four parties; `attackers` do not play by the rules, the others do."""

    def __init__(
        self, folder: Path, attackers: Iterable[str] = (), tables: Any = None, **options: Any
    ) -> None:
        super().__init__(folder, prepare(folder, tables or FOUR, **options), dict(tables or FOUR))
        self.stage = Stage(attackers)
        self._outputs: dict[str, Path] = {}

    @property
    def honest(self) -> list[str]:
        return [name for name in self.tables if name not in self.stage.attackers]

    async def __aenter__(self) -> Arena:
        self.stage.__enter__()
        await self.start_hub()
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await super().__aexit__(*error)
        finally:
            self.stage.__exit__(*error)

    def join(
        self, *names: str, output: str = "", table: Any = None, silo: Any = None, **options: Any
    ) -> None:
        """Let parties take part; each writes its results as the command does."""
        for name in names or self.tables:
            folder = self.folder / (output or name)
            folder.mkdir(exist_ok=True)
            self._outputs[name] = folder
            self.stage.dead.discard(name)
            rows = self.tables[name] if table is None else table
            # A file of the same columns has one digest, whoever reads it.
            if "rows" in {field.name for field in dataclasses.fields(network.Settings)}:
                options.setdefault("rows", _digest_of(rows))
            settings = network.Settings(
                self.consortium,
                name,
                self.identity(name),
                folder,
                **{"timeout": 2.0, "wait": 4.0, **options},
                say=self.said[name].append,
                progress=self.progress[name].append,
                done=self._done(name, folder),
            )
            given: Any = silo or timed_silo(self.consortium.agreement(), rows)
            given = given if isinstance(given, TimedSilo) else TimedSilo(given)
            self.tasks[name] = asyncio.create_task(network.participate(settings, given))

    def _done(self, name: str, folder: Path) -> Callable[[Transcript, Any], None]:
        def done(transcript: Transcript, cost: Any) -> None:
            self.results[name] = transcript
            write_results(transcript, cost, name, folder)

        return done

    def liar(self, name: str) -> LyingSilo:
        return LyingSilo(timed_silo(self.consortium.agreement(), self.tables[name]))

    async def ended(self, name: str) -> None:
        """Wait for the end of a party, whatever it is."""
        await asyncio.gather(self.tasks[name], return_exceptions=True)

    def kill(self, name: str) -> None:
        """End a party as a power cut would, from any thread: nothing more is said."""
        self.stage.dead.add(name)
        task = self.tasks[name]
        task.get_loop().call_soon_threadsafe(task.cancel)

    def state(self, name: str) -> Path:
        return self._outputs[name] / STATE

    def parameters(self, name: str) -> bytes | None:
        """What a party has written as its result."""
        path = self._outputs[name] / PARAMETERS
        return path.read_bytes() if path.exists() else None

    def check(self, outcomes: dict[str, Any]) -> None:
        """What must hold whatever was done: nothing twice, one result or a sentence, for all."""
        twice = self.stage.openings.violations()
        assert not twice, twice
        found = {name: outcomes[name] for name in self.honest if name in outcomes}
        for name, outcome in found.items():
            assert isinstance(outcome, Transcript | JoinError), (name, outcome)
            if isinstance(outcome, JoinError):
                assert str(outcome).endswith("."), outcome
            else:
                assert outcome.audit().passed
        texts = {outcome.to_text() for outcome in found.values() if isinstance(outcome, Transcript)}
        assert len(texts) <= 1, "two results"
        assert len({self.parameters(name) for name in found} - {None}) <= 1, "two files"


def _digest_of(rows: Any) -> Callable[[bytes], str]:
    return lambda key: hmac.new(key, np.asarray(rows).tobytes(), hashlib.sha256).hexdigest()


def prepare(folder: Path, tables: Any, **options: Any) -> Consortium:
    features = options.pop("features", None) or [Feature(f, *BOUNDS) for f in ("lactate", "age")]
    numbers = {"minimum_values": 10, "max_steps": STEPS, "levels_per_exchange": LEVELS, **options}
    return local.prepare(folder, tables, features, committee=COMMITTEE, **numbers)


def play(scenario: Callable[[], Any], seconds: float = 15.0) -> Any:
    """Run a scenario to its end, which must come."""

    async def bounded() -> Any:
        async with asyncio.timeout(seconds):
            return await scenario()

    return asyncio.run(bounded())


def undisturbed(folder: Path) -> Transcript:
    """The result of the same rows when nobody attacks."""

    async def scenario() -> Transcript:
        async with Arena(folder) as arena:
            arena.join()
            outcomes = await arena.outcomes()
            assert len(arena.stage.openings.times()) == len(OPENINGS)
            assert arena.stage.openings.repeated() == {}
            return outcomes["ana"]

    result = play(scenario)
    assert isinstance(result, Transcript)
    return result
