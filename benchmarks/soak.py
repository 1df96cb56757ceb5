"""Kill processes and corrupt bytes at random, for as long as it takes; no bit may change.

    python -m benchmarks.soak --kills 51 --corruptions 200

Every run is a hub and five parties, each a process, with real TLS. It must end with the very bits
of the in-process fit at every party, or with one sentence and exit code 1; nobody has a result
unless all have confirmed it, and no value is opened twice (`once`, which reads all that the
parties keep), but for the one lost opening of a run that may be, and the final one, of which the
same bytes may be sent again. Anything else, such as a traceback, a hang or another bit, ends the
soak with exit code 1 and leaves its folder.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import once
from securefedyj import SecureFedYJ
from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.protocol.transcript import Transcript

BOUNDS = (0.0, 1000.0)
ROWS = np.random.default_rng(5).lognormal(size=(60, 2))
# Two silos outside of the committee, and a coordinator without data in it.
TABLES: dict[str, Any] = {
    "ana": ROWS[:10], "bob": ROWS[10:35], "coordinator": None, "dua": ROWS[35:50], "eva": ROWS[50:],
}  # fmt: skip
COMMITTEE = ("coordinator", "ana", "dua")
VICTIMS = {"member": COMMITTEE, "silo": ("bob", "eva"), "hub": ("hub",)}
WAYS = ("flip", "cut", "drop", "repeat", "swap")
MANY = 1000  # interruptions, so that none of these runs ends on their account
PATIENCE = 900.0  # seconds; parties lose theirs after 300


class Broken(Exception):
    """What must never happen has happened."""


@dataclass(frozen=True)
class End:
    """How a run has ended."""

    sentences: list[str]
    """Of the parties that stopped without a result."""
    openings: int
    repeats: int
    """Openings that some party was about to send again."""

    def __str__(self) -> str:
        ended = f"stopped: {self.sentences[0]}" if self.sentences else "same bits"
        return f"{ended}; {self.openings} openings, {self.repeats} made again"


@dataclass
class Tally:
    """What was done to how many runs, and how they ended."""

    what: str
    done: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    same: int = 0
    repeats: int = 0
    openings: int = 0
    stopped: Counter[str] = field(default_factory=Counter)

    def add(self, done: Counter[str], end: End) -> None:
        self.done += done
        self.runs += 1
        self.same += not end.sentences
        self.repeats += end.repeats
        self.openings += end.openings
        self.stopped.update(end.sentences)

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.done.items()))
        lines = [
            f"{self.done.total()} {self.what} ({kinds}) in {self.runs} runs: {self.same} ended "
            f"with the same bits everywhere, {self.runs - self.same} stopped. Of {self.openings} "
            f"openings {self.repeats} were made again, at most one in a run."
        ]
        return "\n".join(lines + [f"  {n} x {text}" for text, n in self.stopped.most_common()])


def prepare(folder: Path, **numbers: int) -> Consortium:
    features = [Feature(name, *BOUNDS) for name in ("lactate", "age")]
    agreed: dict[str, Any] = {
        "minimum_values": 10,
        "levels_per_exchange": 1,
        "max_steps": 40,
        "max_interruptions": MANY,
        **numbers,
    }
    return local.prepare(folder, TABLES, features, committee=COMMITTEE, **agreed)


def in_one_process(max_steps: int, result_bits: int) -> SecureFedYJ:
    """The fit that every run is compared with."""
    fit = SecureFedYJ(bounds=BOUNDS, max_steps=max_steps, result_bits=result_bits)
    return fit.fit([ROWS[:20], ROWS[20:40], ROWS[40:]])


def end_of(processes: local.Processes) -> End:
    """Wait for the end of a run, and look at all that it has left."""
    sentences = sentences_of(processes)
    journals = once.journals_in(processes.folder, TABLES)
    found = once.violations(journals)
    if found:
        raise Broken(f"Something was opened twice: {'; '.join(found)}.")
    read = {name: once.read_journal(text) for name, text in journals.items()}
    whole = max((len(journal.reveals) for journal in read.values()), default=0)
    for name in TABLES:
        if not (processes.folder / name / "parameters.json").exists():
            continue
        if not read[name].confirmed or any(len(one.reveals) < whole for one in read.values()):
            raise Broken(f"{name} has a result that not all have confirmed.")
    openings = {opening for journal in read.values() for opening in journal.openings}
    repeats = {opening for journal in read.values() for opening in journal.repeats}
    return End(sentences, len(openings), len(repeats))


def sentences_of(processes: local.Processes) -> list[str]:
    """Wait for the end; return the sentences of the parties that stopped without a result."""
    try:
        codes = processes.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise Broken("A party hangs.") from None
    agreed = processes.consortium
    expected = in_one_process(agreed.max_steps, agreed.result_bits)
    sentences = []
    for name in ("hub", *TABLES):
        if "Traceback" in processes.log(name):
            raise Broken(f"{name} shows a traceback.")
    for name, code in codes.items():
        last = processes.log(name).rstrip().rpartition("\n")[2]
        if code == 1 and last.startswith("securefedyj: "):
            sentences.append(last)
        elif code != 0:
            raise Broken(f"{name} ended with code {code} and {last!r}.")
        path = processes.folder / name / "transcript.jsonl"
        if path.exists() or code == 0:
            _check_bits(name, Transcript.read(path), expected)
    return sentences


def _check_bits(name: str, transcript: Transcript, expected: SecureFedYJ) -> None:
    result = transcript.result
    if result is None or not all(
        np.array_equal(ours, theirs)
        for ours, theirs in [
            (result.lmbda, expected.lambdas_),
            (result.mean, expected.mean_),
            (result.var, expected.var_),
        ]
    ):
        raise Broken(f"{name} has another result.")


@contextmanager
def _run(**numbers: int) -> Iterator[local.Processes]:
    """A consortium in a folder of its own, which is kept if the run breaks."""
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    prepare(folder, **numbers)
    try:
        with local.Processes(folder) as processes:
            processes.start_hub()
            yield processes
    except Broken as error:
        raise Broken(f"{error} See {folder}.") from None
    shutil.rmtree(folder)


def soak_kills(
    kills: int,
    chance: random.Random,
    say: Callable[[str], None] = print,
    most_per_run: int = 5,
    **numbers: int,
) -> Tally:
    """Kill each kind of process in turn, at random moments, and start it again.

    Not too often in a run: a second opening that a kill has made too few parties see ends it.
    """
    tally = Tally("kills")
    while (left := kills - tally.done.total()) > 0:
        with _run(**numbers) as processes:
            for name in TABLES:
                _start(processes, name)
            done: Counter[str] = Counter()
            most = min(left, most_per_run)
            while done.total() < most and _wait_for_reveals(processes, chance.randrange(8)):
                kind = list(VICTIMS)[(tally.done.total() + done.total()) % len(VICTIMS)]
                time.sleep(chance.uniform(0, 0.3))  # anywhere in an exchange
                _kill_and_start(processes, chance.choice(VICTIMS[kind]))
                done[kind] += 1
            end = end_of(processes)
        tally.add(done, end)
        say(f"run {tally.runs}: {done.total()} kills, {end}")
    return tally


def _start(
    processes: local.Processes, name: str, timeout: str = "60", file: str = "consortium.toml"
) -> None:
    processes.start_party(name, "--wait", "120", "--timeout", timeout, file=file)


def _kill_and_start(processes: local.Processes, victim: str) -> None:
    processes.kill(victim)
    if victim == "hub":
        processes.start_hub()
    else:
        _start(processes, victim)


def _wait_for_reveals(processes: local.Processes, reveals: int) -> bool:
    """Let so many more signs be revealed; return whether the run still goes on."""
    path = processes.folder / "bob" / "state.jsonl"

    def revealed() -> int:
        return path.read_text().count('"reveal"') if path.exists() else 0

    begin, deadline = revealed(), time.monotonic() + PATIENCE
    while all(processes.running[name].poll() is None for name in TABLES):
        if revealed() >= begin + reveals:
            return True
        if time.monotonic() > deadline:
            raise Broken("The run makes no progress.")
        time.sleep(0.005)
    return False


class CorruptingProxies:
    """Proxies between parties and the hub that corrupt each direction of a connection once.

    After `most` times they corrupt nothing any more.
    """

    def __init__(self, target: int, chance: random.Random, most: int) -> None:
        self.target, self.chance, self.most, self.done = target, chance, most, Counter[str]()
        self.ports: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        for name in TABLES:
            start = asyncio.start_server(self._serve, "127.0.0.1", 0)
            server = asyncio.run_coroutine_threadsafe(start, self._loop).result(10)
            self.ports[name] = server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        pumps = [self._pump(reader, back), self._pump(there, writer)]
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left, way = self.chance.randrange(200, 60_000), self.chance.choice(WAYS)
        try:
            while data := await reader.read(1 << 14):
                if left < len(data) and self.done.total() < self.most:
                    data, left = self._corrupted(data, left, way), 1 << 60
                    if way == "cut":
                        writer.write(data)
                        return
                left -= len(data)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    def _corrupted(self, data: bytes, at: int, way: str) -> bytes:
        self.done[way] += 1
        head, tail = data[:at], data[at:]
        if way == "flip":
            return head + bytes([tail[0] ^ (1 << self.chance.randrange(8))]) + tail[1:]
        ways = {"cut": head, "drop": head + tail[1:], "repeat": data + data, "swap": tail + head}
        return ways[way]


def soak_corruptions(
    cases: int,
    chance: random.Random,
    say: Callable[[str], None] = print,
    most_per_run: int = 100,
    **numbers: int,
) -> Tally:
    """Corrupt what parties and hub send each other, on every connection anew."""
    tally = Tally("corrupted streams")
    while tally.done.total() < cases:
        with _run(**numbers) as processes:
            consortium = processes.consortium
            proxies = CorruptingProxies(consortium.agreed_hub().port, chance, most_per_run)
            for name, port in proxies.ports.items():
                hub = dataclasses.replace(consortium.agreed_hub(), address=f"127.0.0.1:{port}")
                moved = dataclasses.replace(consortium, hub=hub)
                moved.write(processes.folder / f"{name}.toml")
                _start(processes, name, timeout="5", file=f"{name}.toml")
            end = end_of(processes)
        tally.add(proxies.done, end)
        say(f"run {tally.runs}: {proxies.done.total()} corrupted streams, {end}")
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=51)
    parser.add_argument("--corruptions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, start = random.Random(options.seed), time.monotonic()

    def say(line: str) -> None:
        print(line, flush=True)

    try:
        kills = soak_kills(options.kills, chance, say)
        corruptions = soak_corruptions(options.corruptions, chance, say)
    except Broken as error:
        print(f"Broken: {error}")
        return 1
    print(f"\n{kills}\n{corruptions}")
    print(
        "Nothing opened twice, no other bit, no hang, no traceback in "
        f"{time.monotonic() - start:.0f} seconds."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
