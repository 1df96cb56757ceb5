"""A hub and four parties, some of which attack, through real sockets and TLS in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import hashlib
import hmac
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.session import participant as network
from securefedyj.network.session.participant import JoinError
from securefedyj.protocol.silos import TimedSilo, timed_silo
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.results import PARAMETERS, write_results
from tests.network.attackers import STATE, LyingSilo, Stage, launder
from tests.network.clock import run, until
from tests.network.harness import LONG, Loopback

T = TypeVar("T")

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

# The one at the end of a run that is verified.
FINAL = 2 + STEPS


class Arena(Loopback):
    """A hub and four parties; `attackers` do not play by the rules, the others do."""

    def __init__(
        self, folder: Path, attackers: Iterable[str] = (), tables: Any = None, **options: Any
    ) -> None:
        super().__init__(folder, prepare(folder, tables or FOUR, **options), dict(tables or FOUR))
        self.stage = Stage(attackers)
        if self.consortium.verified:
            self.stage.openings.final = FINAL
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
            known = {field.name for field in dataclasses.fields(network.Settings)}
            digest = {"rows": _digest_of(rows)} if "rows" in known else {}
            settings = network.Settings(
                self.consortium,
                name,
                self.identity(name),
                folder,
                **{**LONG, **digest, **options},
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
        """Wait for the end of a party, and until its thread has let go of its state.

        Where parties are processes, the end of one is the end of its threads.
        """
        await asyncio.gather(self.tasks[name], return_exceptions=True)
        with open(self.state(name), "ab") as state:

            def free() -> bool:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(state, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                return False

            await until(free)

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


class Mishaps:
    """A party fails at some openings, as by a power cut, and is started again.

    Parameters
    ----------
    moment
        "before" it sends its part of an opening, "after" it has, or when it "had" the value and has
        not kept it yet. Who is outside of the committee sends no part.
    numbers
        The openings; one that stands there twice is one that it fails at again if it comes again.
    options
        How an attacker comes back. Its own notes about interruptions are gone then.
    """

    def __init__(
        self, arena: Arena, name: str, moment: str, numbers: Iterable[int], **options: Any
    ) -> None:
        self._arena, self._name, self._left, self._options = arena, name, list(numbers), options
        self.seen: list[Any] = []
        """What it had in its hands when it failed."""
        stage = arena.stage
        if moment == "had":
            stage.peek(name, self._look)
        elif moment == "before":
            stage.records[name] = self._withhold
        else:
            stage.sent[name] = self._follow

    def _fail(self, number: int | None) -> bool:
        if number not in self._left or self._name in self._arena.stage.dead:
            return False
        self._left.remove(number)
        return True

    def _look(self, number: int, value: Any) -> None:
        if self._fail(number):
            self.seen.append(value)
            self._arena.kill(self._name)
            raise RuntimeError("power cut")

    def _withhold(self, peer: str, record: Any) -> list[Any]:
        if self._fail(self._arena.stage.number(record)):
            self._arena.kill(self._name)
        return [record]

    def _follow(self, peer: str, record: Any, number: int | None) -> None:
        if self._fail(number):  # but let it send the rest of this opening
            asyncio.get_running_loop().call_soon(self._arena.kill, self._name)

    async def watch(self, *, empty: bool = False) -> None:
        """Start the party again whenever it has failed, until it ends by itself.

        `empty`: in a new folder each time, as if it had never been there.
        """
        arena, name, attempt = self._arena, self._name, 0
        while True:
            await arena.ended(name)
            if name not in arena.stage.dead:
                return
            attempt += 1
            if name in arena.stage.attackers:
                launder(arena.state(name))
            output = f"{name} {attempt}" if empty else ""
            arena.join(name, output=output, **self._options)


def _digest_of(rows: Any) -> Callable[[bytes], str]:
    return lambda key: hmac.new(key, np.asarray(rows).tobytes(), hashlib.sha256).hexdigest()


def prepare(folder: Path, tables: Any, **options: Any) -> Consortium:
    features = options.pop("features", None) or [Feature(f, *BOUNDS) for f in ("lactate", "age")]
    numbers = {
        "minimum_values": 10,
        "max_steps": STEPS,
        "levels_per_exchange": LEVELS,
        "verified": False,
        **options,
    }
    return local.prepare(folder, tables, features, committee=COMMITTEE, **numbers)


def play(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a scenario to its end."""
    return run(scenario())


def content(transcript: Transcript) -> str:
    """All but the name of the consortium: two with keys of their own have the same result."""
    return dataclasses.replace(transcript, origin=None).to_text()


def check_all_have(arena: Arena, outcomes: dict[str, Any], expected: Transcript) -> None:
    """Every honest party has the result that it would have if nobody attacked."""
    arena.check(outcomes)
    for name in arena.honest:
        assert isinstance(outcomes[name], Transcript), (name, outcomes[name])
        assert content(outcomes[name]) == content(expected)
        assert arena.parameters(name) is not None


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
