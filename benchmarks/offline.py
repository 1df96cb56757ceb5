"""Wall time of a submitted run over the paper's network, beside a live run over the same values.

    python -m benchmarks.offline --levels 4 8

30 clinical columns on grids of 100 to 2,000 points; three silos that are the members, and a hub,
each a process in a network namespace with 20 ms from party to party (`line.py`). The time is that
of the session, by cost.json of `securefedyj join`, at the party where it is longest. Both runs must
have the same lambdas. Ends with exit code 1 if the submitted run takes more than twice as long.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.line import HUB, Lines, NotPermitted, check_permitted
from benchmarks.network import BYTES_PER_SECOND, DELAY, PATIENCE, PORT, example
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from securefedyj.protocol.transcript import Transcript

FEWEST, MOST = 100, 2000  # points of a column
LIMIT = 2.0
_STEPS = [float(f"{m}e{e}") for e in range(-6, 4) for m in (1, 2, 5)]


def clinical() -> tuple[dict[str, Any], list[Feature]]:
    """The breast cancer data on decimal grids, from coarse to fine."""
    data = example(30)
    most = np.geomspace(2.5 * FEWEST, MOST, len(data.features))
    steps = [
        min(step for step in _STEPS if feature.upper / step < points)
        for feature, points in zip(data.features, most, strict=True)
    ]
    features = [
        Feature(feature.name, 0.0, feature.upper, resolution=f"{step:.6f}".rstrip("0").rstrip("."))
        for feature, step in zip(data.features, steps, strict=True)
    ]
    tables = {name: np.round(X / steps) * steps for name, X in data.tables.items()}
    exact = {name: np.round(X, 6) for name, X in tables.items()}  # the shortest decimals
    return exact, features


def run(folder: Path, lines: Lines, levels: int, *, submitted: bool) -> dict[str, float]:
    """One run with the commands that users type; what it costs the party that it costs most."""
    tables, features = clinical()
    local.prepare(
        folder, tables, features, host=HUB, port=PORT, levels_per_exchange=levels,
        submitted=submitted,
    )  # fmt: skip
    for name in tables if submitted else ():
        made = [sys.executable, "-m", "securefedyj", "submit", "consortium.toml", "--key",
                f"{name}.key", "--certificate", f"{name}.pem", "--data", f"{name}.csv",
                "--output", f"{name}.submission", "--ledger", f"{name}.jsonl"]  # fmt: skip
        subprocess.run(made, cwd=folder, check=True, capture_output=True)
    with local.Processes(folder, lines.within) as processes:
        processes.start_hub()
        for name in tables:
            processes.start_party(name, *["--submissions", str(folder)] * submitted)
        codes = processes.wait(PATIENCE)
    for name, code in codes.items():
        if code:
            raise SystemExit(f"{name} failed: {processes.last_line(name)}")
    costs = [json.loads((folder / name / "cost.json").read_text()) for name in tables]
    return {
        "seconds": max(sum(v for k, v in one.items() if k.startswith("seconds_")) for one in costs),
        "rounds": max(one["rounds"] for one in costs),
        "megabytes": max(one["bytes_sent"] for one in costs) / 1e6,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--levels", type=int, nargs="+", default=[4, 8])
    options = parser.parse_args()
    try:
        check_permitted()
    except NotPermitted as error:
        print(f"Skipped: {error}.")
        return 0
    fastest = dict[str, float]()
    for levels in options.levels:
        found = []
        for way in ("live", "submitted"):
            with (
                tempfile.TemporaryDirectory(prefix="lines-") as name,
                Lines(Path(name), DELAY / 2, BYTES_PER_SECOND) as lines,
            ):
                cost = run(Path(name) / way, lines, levels, submitted=way == "submitted")
                result = Transcript.read(Path(name) / way / "silo-1" / "transcript.jsonl").result
            assert result is not None
            found.append(result.lmbda.tolist())
            fastest[way] = min(cost["seconds"], fastest.get(way, cost["seconds"]))
            print(
                f"{way:>9}, {levels} levels: {cost['seconds']:.1f} s, {cost['rounds']} rounds, "
                f"{cost['megabytes']:.1f} MB",
                flush=True,
            )
        if found[0] != found[1]:
            raise SystemExit("The two runs have different results.")
    ratio = fastest["submitted"] / fastest["live"]
    print(f"submitted: {ratio:.2f} times as long as live; at most {LIMIT:g}")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
