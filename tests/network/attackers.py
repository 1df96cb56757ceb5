"""What attackers among honest parties can do: parties, hub and TLS are real.

A `Stage` lets a test get between a party and the world, for one party only (`arena` has parties):

- `engines`: what the party computes with, so that it sees openings first, and may stop there;
- `messages`: what it says within a session;
- `records`: what it says on its channels;
- `dead` and `deaf`: whether it says, and hears, anything at all.

The others are unmodified. `Stage.openings` counts what those have opened, and how often.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np

from securefedyj.engines import Engine
from securefedyj.network.consortium import Consortium
from securefedyj.network.session import channels, records
from securefedyj.network.session.events import RecordArrived
from securefedyj.network.transport import tls
from securefedyj.numerics import wide
from securefedyj.party.machine import Party
from securefedyj.party.messages import VERSION, Kind, Message
from securefedyj.protocol import program
from securefedyj.protocol.transcript import Transcript
from tests.network.once import Openings

STATE = "state.jsonl"


# What an attacker may do.


class LyingSilo:
    """Adds numbers of its choice to the sums of its rows.

    `phi` and `yy` are integers on the grids that the sums are on; a lie may change while it runs.
    At the lambdas of `elsewhere` the sums are those of another silo.
    """

    def __init__(self, silo: Any) -> None:
        self._silo, self.count = silo, silo.count
        self.phi = self.yy = 0
        self.before_sums: Callable[[], None] = lambda: None
        self.elsewhere: tuple[Any, Any] | None = None

    def phi_sum(self, features: Any, limbs: int) -> Any:
        self.before_sums()
        return _plus(self._silo.phi_sum(features, limbs), self.phi)

    def sums(self, *arguments: Any) -> Any:
        sums = self._silo.sums(*arguments)
        if self.elsewhere is not None:
            other, lmbda = self.elsewhere
            lies = arguments[1] == lmbda[arguments[0]]
            pairs = zip(sums, other.sums(*arguments), strict=True)
            sums = type(sums)(*(np.where(lies, false, true) for true, false in pairs))
        return sums._replace(yy=_plus(sums.yy, self.yy))


def _plus(values: Any, number: int) -> Any:
    limbs, size = values.shape
    return wide.add(values, wide.from_ints([number] * size, limbs))


@dataclasses.dataclass(eq=False)
class Play:
    """One session at one party: where it began, and what was opened since."""

    party: str
    session: bytes
    start: int
    transcript: Transcript
    now: int | None = None
    """The number of the present opening, or of the last one."""
    rounds: dict[int, int] = dataclasses.field(default_factory=dict)

    @property
    def due(self) -> int:
        """The number of the opening that comes next."""
        return self.start if self.now is None else self.now + 1

    def number(self, turn: int) -> int:
        """That of the opening in a round."""
        assert self.now is not None
        return self.rounds.setdefault(turn, self.now)


class Numbering:
    """The log of a program, which says the number of each opening."""

    def __init__(self, log: Any, play: Play) -> None:
        self._log, self._play = log, play

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def opening(self, transcript: Transcript) -> None:
        self._play.now = len(transcript.reveals)
        self._log.opening(transcript)


class Peeking:
    """An engine that shows what was opened, with its number, before the program gets it."""

    def __init__(self, engine: Any, play: Play, look: Callable[[int, Any], None]) -> None:
        self._engine, self._play, self._look = engine, play, look

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def verified(self) -> Any:
        return Peeking(self._engine.verified(), self._play, self._look)

    async def open(self, a: Any) -> Any:
        return self._shown(await self._engine.open(a))

    async def open_bits(self, a: Any) -> Any:
        return self._shown(await self._engine.open_bits(a))

    def _shown(self, value: Any) -> Any:
        assert self._play.now is not None
        self._look(self._play.now, value)
        return value


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
        self.stopping: dict[str, bytes] = {}  # who is to believe that a peer has ended this session
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
        if not isinstance(record, Message):
            return None
        return self._numbers.get((record.session, record.round))

    def peek(self, name: str, look: Callable[[int, Any], None]) -> None:
        """Let a party see what is opened before its program does."""
        self.engines[name] = lambda engine, play: Peeking(engine, play, look)

    def _program(self, original: Any) -> Any:
        async def watched(
            engine: Any, silo: Any, agreement: Any, transcript: Any, log: Any, *rest: Any
        ) -> Any:
            transcript = Transcript(agreement) if transcript is None else transcript
            party = self._here.party
            play = Play(party.name, party._session, len(transcript.reveals), transcript)
            self._plays[party] = play
            if party.name in self.engines:
                engine = self.engines[party.name](engine, play)
            return await original(engine, silo, agreement, transcript, Numbering(log, play), *rest)

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
                    self.openings.note(number, said, name)
                if name not in self.dead:
                    original(own, peer, said)
                if name in self.sent:
                    self.sent[name](peer, said, number)

        return send

    def _receive(self, original: Any) -> Any:
        def receive(own: channels.Channels, peer: str, data: bytes) -> Iterable[Any]:
            name = self._owners[own]
            if name in self.deaf:
                return
            yield from original(own, peer, data)
            session = self.stopping.pop(name, None)
            if session is not None:
                stop = Message(VERSION, session, peer, name, 0, Kind.STOP, b"")
                yield RecordArrived(peer, stop)

        return receive


def _with_error(inner: Any, rounds: int, error: Any) -> Any:
    """Drive a member's `negative`; add an error to the last of so many rounds of carries."""

    @types.coroutine
    def drive() -> Any:
        answer, left = None, rounds
        while True:
            try:
                request = inner.send(answer)
            except StopIteration as stop:
                return stop.value
            left -= Kind.CARRY in request.kind
            if left == 0:
                altered = {peer: _xor(sent, error) for peer, sent in request.outgoing.items()}
                request, left = dataclasses.replace(request, outgoing=altered), -1
            answer = yield request

    return drive()


def _xor(payload: bytes, error: Any) -> bytes:
    """Alter the beginning, where the plane of carries is; that of propagates is not used."""
    data = np.frombuffer(payload, np.uint8).copy()
    data[: error.nbytes] ^= error
    return data.tobytes()


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
        rounds = 1 + (16 * a.limbs - 1).bit_length()  # nibbles, then a tree over them
        bits = await _with_error(self._engine.negative(a), rounds, error)
        bits.components[0] ^= error.reshape(bits.components[0].shape)
        return bits

    async def measure(self, *what: Any) -> Any:
        measure: Any = Engine.measure
        return await measure(self, *what)  # by the comparison above, not by the engine's own


def _as_it_is(original: Any) -> Any:
    """Let forged records pass that are bytes already."""
    return lambda record: record if isinstance(record, tls.RawRecord) else original(record)


# Forged records: all that depends on their form is here.


def claim(record: Any, *, reveals: int, digest: str | None = None) -> Any:
    """The same record, in which its sender has so many reveals, of this digest."""
    if not isinstance(record, records.Ready | records.Begin) or not hasattr(record, "reveals"):
        return record
    changes: dict[str, Any] = {"reveals": reveals}
    if digest is not None and hasattr(record, "digest"):
        changes["digest"] = digest
    if hasattr(record, "finished"):  # of the new form
        changes["finished"] = False
    return msgspec.structs.replace(record, **changes)


def claim_less(record: Any, transcript: Transcript, reveals: int) -> Any:
    """The same record, in which its sender has no more than so many reveals, truly."""
    if getattr(record, "reveals", 0) <= reveals:
        return record
    digest = transcript.digest(reveals).hex() if hasattr(transcript, "digest") else None
    return claim(record, reveals=reveals, digest=digest)


def raw(record: Any, **fields: Any) -> tls.RawRecord:
    """A record with fields of any type."""
    written = records.write(record)
    content = json.loads(written.body or b"{}") | fields
    return tls.RawRecord(written.type, json.dumps(content).encode())


def ready() -> Any:
    """A READY of the present form."""
    return records.Ready("ab" * 32, *([0] if "reveals" in records.Ready.__annotations__ else []))


def begin(digest: str) -> Any:
    """A BEGIN of the present form."""
    values: dict[str, Any] = {
        "session": "ab" * 16, "reveals": 0, "exchange": 0, "digest": digest, "finished": False,
        "sending": False, "repeated": False, "accepted": 0, "computed": "00" * 16,
    }  # fmt: skip
    return records.Begin(**{name: values[name] for name in records.Begin.__annotations__})


def confirm(record: Any, digest: str) -> Any:
    """The same DONE, about something else."""
    form: Any = msgspec.structs.replace
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


def launder(path: Path, *others: str) -> None:
    """Forget what a party has noted against itself, and lines of other kinds."""
    lines = path.read_text().splitlines(keepends=True)
    notes = ("interruption", "session", "repeat", "failed", *others)
    path.write_text("".join(line for line in lines if next(iter(json.loads(line))) not in notes))
