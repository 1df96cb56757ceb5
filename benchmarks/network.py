"""Wall time of a fit over the paper's network, beside the paper's formula and our own plan.

    python -m benchmarks.network --features 30 1000 --levels 1 2 4 8

Three parties and a hub, each a process in a network namespace of its own, with 20 ms from party
to party and 1 Gbit/s for each party (`line.py`; what the line really has is measured and
printed first). The time is that of the session: from the moment that all parties are there to
the result at the last of them. Every result is compared, bit for bit, with the in-process fit.

The plan is for parties with a machine each. Here parties, hub and lines share one, and what they
compute adds up: `planned_here` is the plan's delay and, for each second of a processor in it, what
such a second takes when all cores are busy (measured: three processes against one). The seconds
that the router of the lines takes are added; they are measured in the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from math import ceil, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.line import HUB, Lines, NotPermitted, check_permitted
from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.identity import Identity
from securefedyj.network.session import participant as network
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.silos import timed_silo
from securefedyj.protocol.transcript import Transcript
from securefedyj.tables.files import read_table

if TYPE_CHECKING:
    from securefedyj import SecureFedYJ

DELAY, BYTES_PER_SECOND = 0.020, 125e6
LEVELS = (1, 2, 4, 8)
ROWS = 600  # in all, of the made-up features
PORT = 7443
PATIENCE = 1800.0


class Example(NamedTuple):
    """Rows of every party, and the features that all have agreed on."""

    tables: dict[str, Any]
    features: list[Feature]

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return [(feature.lower, feature.upper) for feature in self.features]


def example(features: int, parties: int = 3) -> Example:
    """The 30 features of the breast cancer data, or any other number of made-up ones."""
    if features == 30:
        from sklearn.datasets import load_breast_cancer  # parties need not wait for this

        X = load_breast_cancer().data
    else:
        X = np.random.default_rng(0).lognormal(size=(ROWS, features))
    parts = np.array_split(np.random.default_rng(1).permutation(len(X)), parties)
    tables = {f"silo-{k + 1}": X[part] for k, part in enumerate(parts)}
    highest = X.max(axis=0)
    names = [f"feature {j}" for j in range(features)]
    bounds = [float(2.0 ** ceil(log2(high))) for high in highest]
    agreed = [Feature(name, 0.0, upper) for name, upper in zip(names, bounds, strict=True)]
    return Example(tables, agreed)


def in_process(data: Example) -> SecureFedYJ:
    from securefedyj import SecureFedYJ  # nor for this

    return SecureFedYJ(bounds=data.bounds).fit(list(data.tables.values()))


def prepare(folder: Path, data: Example, fit: SecureFedYJ, verified: bool, **others: Any) -> None:
    """The consortium that agrees on what a fit in one process had: steps and bits."""
    local.prepare(
        folder, data.tables, data.features,
        max_steps=fit.max_steps, result_bits=fit.result_bits, verified=verified, **others,
    )  # fmt: skip


def run(
    data: Example,
    levels: int,
    expected: SecureFedYJ,
    folder: Path,
    within: Callable[[str], Sequence[str]] = lambda name: (),
    host: str = "127.0.0.1",
    verified: bool = True,
) -> dict[str, Any]:
    """One fit with a process for each party; the cost of the party that it costs most."""
    port = PORT if host == HUB else 0
    prepare(folder, data, expected, verified, host=host, port=port, levels_per_exchange=levels)
    with local.Processes(folder, within) as processes:
        processes.start_hub()
        start = time.monotonic()
        for name in data.tables:
            processes.start(name, "-m", "benchmarks.network", "--join", str(folder), name)
        codes = processes.wait(PATIENCE)
        whole = time.monotonic() - start
    for name, code in codes.items():
        if code:
            raise SystemExit(f"{name} failed: {processes.last_line(name)}")
    costs = []
    for name in data.tables:
        result = Transcript.read(folder / name / "transcript.jsonl").result
        assert result is not None
        for ours, theirs in (
            (result.lmbda, expected.lambdas_),
            (result.mean, expected.mean_),
            (result.var, expected.var_),
        ):
            if not np.array_equal(ours, theirs):
                raise SystemExit(f"{name} has another result than in one process")
        costs.append(json.loads((folder / name / "cost.json").read_text()))
    most = {key: max(cost[key] for cost in costs) for key in costs[0]}
    return {"parties": len(data.tables), "features": len(data.features), "levels": levels,
            **most, "seconds_with_start": whole}  # fmt: skip


def join(folder: Path, name: str) -> None:
    """What `securefedyj join` does, with a clock."""
    consortium = Consortium.read(folder / "consortium.toml")
    agreement = consortium.agreement()
    table = read_table(folder / f"{name}.csv", agreement.features)
    silo = timed_silo(agreement, table)
    output = folder / name
    output.mkdir(exist_ok=True)
    latest: list[tuple[network.Progress, float, float]] = []

    def progress(now: network.Progress) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        latest.append((now, time.monotonic(), usage.ru_utime + usage.ru_stime))

    def done(transcript: Transcript, _: Cost | None) -> None:
        progress(latest[-1][0])
        (first, moment, used), (last, now, used_now) = latest[0], latest[-1]
        cost = {
            "seconds": first.seconds + now - moment,
            "cpu_seconds": used_now - used,
            "rounds": last.rounds,
            "megabytes": last.bytes_sent / 1e6,
        }
        transcript.write(output / "transcript.jsonl")
        (output / "cost.json").write_text(json.dumps(cost))

    identity = Identity(folder / f"{name}.key", folder / f"{name}.pem")
    settings = network.Settings(
        consortium, name, identity, output, wait=120.0, progress=progress, done=done, say=print
    )
    asyncio.run(network.participate(settings, silo))


# What the line has.

_ANSWER = f"""
import socket
server = socket.create_server(("{HUB}", 9))
while True:
    peer, _ = server.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := peer.recv(1 << 20):
        if data.endswith(b"?"):
            peer.sendall(b"!")
"""

_ASK = f"""
import json, socket, sys, time
while True:
    try:
        hub = socket.create_connection(("{HUB}", 9))
        break
    except OSError:
        time.sleep(0.05)
hub.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def seconds(size):
    start = time.perf_counter()
    hub.sendall(bytes(size) + b"?")
    hub.recv(1)
    return time.perf_counter() - start
trips = sorted(seconds(0) for _ in range(21))
size, delay = int(sys.argv[1]), float(sys.argv[2])
rates = [size / (seconds(size) - 2 * delay) for _ in range(4)]
print(json.dumps([trips[10] / 2, max(rates)]))
"""


def measure_line(lines: Lines, size: int = 50_000_000) -> dict[str, float]:
    """Delay from a party to the hub, and rate, as TCP has them."""
    answer = subprocess.Popen([*lines.within("hub"), sys.executable, "-c", _ANSWER])
    try:
        asked = subprocess.run(
            [*lines.within("silo-1"), sys.executable, "-c", _ASK, str(size), str(lines.delay)],
            stdout=subprocess.PIPE, check=True, timeout=120,
        )  # fmt: skip
    finally:
        answer.kill()
        answer.wait()
    delay, rate = json.loads(asked.stdout)
    return {"delay_ms": 1e3 * delay, "mbit_per_second": rate * 8 / 1e6}


# What it is to share a machine.

_COMPUTE = """
import time
from benchmarks.network import example, in_process
data = example(30)
time.sleep(max(0.0, {start} - time.time()))
start = time.perf_counter()
in_process(data)
print(time.perf_counter() - start)
"""


def contention(parties: int) -> float:
    """How much longer computing takes when so many processes compute at once."""

    def seconds(processes: int) -> float:
        program = _COMPUTE.format(start=time.time() + 4.0)
        environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
        running = [
            subprocess.Popen(
                [sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment
            )
            for _ in range(processes)
        ]
        return max(float(process.communicate()[0]) for process in running)

    return min(seconds(parties) for _ in range(3)) / min(seconds(1) for _ in range(3))


def measure(features: int, levels: Sequence[int], shared: float) -> list[dict[str, Any]]:
    """Run all levels over the lines, next to what the plan says; not verified, as the paper."""
    data = example(features)
    expected = in_process(data)
    results = []
    with tempfile.TemporaryDirectory(prefix="lines-") as name:
        outlook = planned(Path(name) / "plan", data, expected)
        with Lines(Path(name), DELAY / 2, BYTES_PER_SECOND) as lines:
            for plan in outlook["levels"]:
                if plan["levels"] not in levels:
                    continue
                folder, before = Path(name) / str(plan["levels"]), lines.seconds
                result = run(
                    data, plan["levels"], expected, folder, lines.within, HUB, verified=False
                )
                result["router_seconds"] = lines.seconds - before
                result["planned_seconds"] = plan["seconds"]
                processor = 3 * plan["computing"] + plan["relaying"] + result["router_seconds"]
                here = plan["rounds"] * DELAY + processor * shared / 3
                result["planned_here"] = max(here, plan["seconds"])
                result["paper_seconds"] = 726 * DELAY + features * 0.008
                results.append(result)
                print(described(result), flush=True)
    fastest = min(results, key=lambda result: result["seconds"])["levels"]
    for result in results:
        result["fastest"], result["recommended"] = fastest, outlook["recommended"]
    print(f"fastest here: {fastest} levels; plan recommends: {outlook['recommended']}", flush=True)
    return results


def planned(folder: Path, data: Example, fit: SecureFedYJ) -> dict[str, Any]:
    """What `securefedyj plan` says about the same fit over this network."""
    prepare(folder, data, fit, verified=False, port=PORT)
    command = [str(Path(sys.executable).with_name("securefedyj")), "plan",
               str(folder / "consortium.toml"), "--json", "--delay-ms", str(1e3 * DELAY),
               "--rows", str(max(len(table) for table in data.tables.values())),
               "--mbit", str(BYTES_PER_SECOND * 8 / 1e6)]  # fmt: skip
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    outlook: dict[str, Any] = json.loads(done.stdout)
    return outlook


def described(result: dict[str, Any]) -> str:
    return (
        f"{result['features']:>5} features, {result['levels']} levels: "
        f"{result['seconds']:.1f} s (planned {result['planned_here']:.1f} s, on a machine each "
        f"{result['planned_seconds']:.1f} s), {result['rounds']} rounds, "
        f"{result['megabytes']:.1f} MB, {result['cpu_seconds']:.1f} s CPU; "
        f"paper {result['paper_seconds']:.1f} s"
    )


def table(data: dict[str, Any]) -> str:
    """Return the table for docs/benchmarks.md."""
    lines = [
        "| features | levels | rounds | MB sent per party | seconds | planned (on a machine each) "
        "| the paper's formula |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in data["results"]:
        mark = " (fastest)" if one["levels"] == one["fastest"] else ""
        mark += " (recommended)" if one["levels"] == one["recommended"] else ""
        lines.append(
            f"| {one['features']:,} | {one['levels']}{mark} | {one['rounds']} "
            f"| {one['megabytes']:.1f} | {one['seconds']:.1f} "
            f"| {one['planned_here']:.1f} ({one['planned_seconds']:.1f}) "
            f"| {one['paper_seconds']:.1f} |"
        )
    return "\n".join(lines)


def caption(data: dict[str, Any]) -> str:
    line = data["line"]
    return (
        f"The line has {line['delay_ms']:.1f} ms from a party to the hub and "
        f"{line['mbit_per_second']:.0f} Mbit/s, measured by TCP. Parties share {data['cores']} "
        f"cores, where three processes take {data['shared']:.2f} times as long as one."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, nargs="+", default=[30, 1000])
    parser.add_argument("--levels", type=int, nargs="+", default=LEVELS)
    parser.add_argument("--output", type=Path, metavar="FILE", help="save all numbers as JSON")
    parser.add_argument("--join", nargs=2, metavar=("FOLDER", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.join:
        join(Path(options.join[0]), options.join[1])
        return
    try:
        check_permitted()
    except NotPermitted as error:
        print(f"Skipped: {error}.")
        return
    with (
        tempfile.TemporaryDirectory(prefix="lines-") as name,
        Lines(Path(name), DELAY / 2, BYTES_PER_SECOND) as lines,
    ):
        line = measure_line(lines)
    print(f"the line: {line['delay_ms']:.1f} ms from party to hub, "
          f"{line['mbit_per_second']:.0f} Mbit/s", flush=True)  # fmt: skip
    shared = contention(3)
    print(f"three processes compute {shared:.2f} times as long as one on {os.cpu_count()} cores")
    results = [one for p in options.features for one in measure(p, options.levels, shared)]
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        data = {"line": line, "shared": shared, "cores": os.cpu_count(), "results": results}
        options.output.write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
