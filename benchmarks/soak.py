"""Kill processes and spoil bytes at random, for as long as it takes; no bit may change.

    python -m benchmarks.soak --kills 50 --corruptions 200

Every run is a hub and five parties, each a process, with real TLS. It must end with the very bits
of the in-process fit at every party, or with one sentence and exit code 1. Anything else, such
as a traceback, a hang or another bit, ends the soak with exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj import SecureFedYJ
from securefedyj.consortium import Consortium, Feature
from securefedyj.runtime import local
from securefedyj.transcript import Transcript

BOUNDS = (0.0, 1000.0)
ROWS = np.random.default_rng(5).lognormal(size=(60, 2))
TABLES: dict[str, Any] = {
    "ana": ROWS[:10], "bob": ROWS[10:35], "coordinator": None, "dua": ROWS[35:50], "eva": ROWS[50:],
}  # fmt: skip
PATIENCE = 180.0


def prepare(folder: Path) -> Consortium:
    features = [Feature(name, *BOUNDS) for name in ("lactate", "age")]
    return local.prepare(
        folder, TABLES, features, committee=("coordinator", "ana", "dua"), minimum_values=10,
        levels_per_exchange=1,
    )  # fmt: skip


def check(processes: local.Processes, expected: SecureFedYJ) -> str:
    """All parties have the same bits, or a sentence; say which."""
    try:
        codes = processes.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"a party hangs; see {processes.folder}") from None
    for name in TABLES:
        if "Traceback" in processes.log(name) or codes[name] not in (0, 1):
            raise SystemExit(f"{name} ended with {codes[name]}; see {processes.folder}")
        path = processes.folder / name / "transcript.jsonl"
        if path.exists():
            result = Transcript.read(path).result
            assert result is not None
            pairs = [(result.lmbda, expected.lambdas_), (result.mean, expected.mean_)]
            if not all(np.array_equal(a, b) for a, b in [*pairs, (result.var, expected.var_)]):
                raise SystemExit(f"{name} has another result; see {processes.folder}")
    if "Traceback" in processes.log("hub"):
        raise SystemExit(f"the hub has a traceback; see {processes.folder}")
    return "same bits" if set(codes.values()) == {0} else "stopped with a sentence"


def soak_kills(kills: int, expected: SecureFedYJ) -> None:
    done, run = 0, 0
    while done < kills:
        run += 1
        folder = Path(tempfile.mkdtemp(prefix="soak-"))
        prepare(folder)
        with local.Processes(folder) as processes:
            processes.start_hub()
            for name in TABLES:
                processes.start_party(name, "--wait", "60", "--timeout", "20")
            before = done
            while done < kills and all(processes.running[n].poll() is None for n in TABLES):
                wait_for_next(processes, random.randrange(1, 8))
                victim = random.choice(["hub", *TABLES])
                if processes.running[victim].poll() is not None:
                    break
                processes.kill(victim)
                done += 1
                if victim == "hub":
                    processes.start_hub()
                else:
                    processes.start_party(victim, "--wait", "60", "--timeout", "20")
            outcome = check(processes, expected)
        print(f"run {run}: {done - before} kills, {outcome}; {done} kills in all", flush=True)


def wait_for_next(processes: local.Processes, reveals: int) -> None:
    """Let so many more signs be revealed, or the run end."""

    def revealed() -> int:
        path = processes.folder / "bob" / "state.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    begin, deadline = revealed(), time.monotonic() + 60
    while revealed() < begin + reveals and time.monotonic() < deadline:
        if any(processes.running[name].poll() is not None for name in TABLES):
            return
        time.sleep(0.005)


class Spoiler:
    """Proxies between parties and the hub that spoil what they carry, each time in one way."""

    def __init__(self, target: int) -> None:
        self.target, self.cases, self.ports = (
            target,
            0,
            {name: local.free_port() for name in TABLES},
        )
        self.ways: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        for port in self.ports.values():
            start = asyncio.start_server(self._serve, "127.0.0.1", port)
            asyncio.run_coroutine_threadsafe(start, self._loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        pumps = [self._pump(reader, back), self._pump(there, writer)]
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left, way = random.randrange(200, 60_000), random.choice(["flip", "cut", "drop", "repeat"])
        try:
            while data := await reader.read(1 << 14):
                if left is not None and left < len(data):
                    data, left = self._spoilt(data, left, way), 1 << 60
                    if way == "cut":
                        writer.write(data)
                        return
                left -= len(data)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    def _spoilt(self, data: bytes, at: int, way: str) -> bytes:
        self.cases += 1
        self.ways[way] = self.ways.get(way, 0) + 1
        if way == "flip":
            return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
        if way == "cut":
            return data[:at]
        return data[:at] + data[at + 1 :] if way == "drop" else data + data


def soak_corruptions(cases: int, expected: SecureFedYJ) -> None:
    done, run = 0, 0
    while done < cases:
        run += 1
        folder = Path(tempfile.mkdtemp(prefix="soak-"))
        consortium = prepare(folder)
        spoiler = Spoiler(consortium.hub.port)
        for name, port in spoiler.ports.items():
            hub = dataclasses.replace(consortium.hub, address=f"127.0.0.1:{port}")
            dataclasses.replace(consortium, hub=hub).write(folder / f"{name}.toml")
        with local.Processes(folder) as processes:
            processes.start_hub()
            for name in TABLES:
                options = ("--wait", "60", "--timeout", "5")
                processes.start_party(name, *options, file=f"{name}.toml")
            outcome = check(processes, expected)
        done += spoiler.cases
        print(f"run {run}: {spoiler.ways}, {outcome}; {done} corruptions in all", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--corruptions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random.seed(options.seed)
    expected = SecureFedYJ(bounds=BOUNDS).fit([ROWS[:20], ROWS[20:40], ROWS[40:]])
    start = time.monotonic()
    soak_kills(options.kills, expected)
    soak_corruptions(options.corruptions, expected)
    print(f"soaked for {time.monotonic() - start:.0f} seconds: no other bit, no hang, no traceback")
    return 0


if __name__ == "__main__":
    sys.exit(main())
