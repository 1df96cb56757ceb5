"""Engine `mpyc` among processes over a hub, beside engine `replicated`: seconds a feature.

    python -m benchmarks.shamir --data iris wine --parties 3 5

The hub and all parties run on this machine, and share its cores. Seconds are those of the session
at the slowest party; the two engines take turns, and the shortest of each counts. Every result is
compared, bit for bit, with the fit in one process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_iris, load_wine

from securefedyj import SecureFedYJ
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from securefedyj.numerics.arrays import Array
from securefedyj.protocol.transcript import Transcript

_DATA = {"iris": load_iris, "wine": load_wine}
_LONGEST = 1200.0  # seconds


class Session(NamedTuple):
    """What a run has cost the slowest party."""

    rounds: int
    bytes_sent: int
    seconds: float


def session(engine: str, X: Array, parties: int, levels: int) -> Session:
    """Run all parties, and compare what they have with the fit in one process."""
    features = [Feature(f"x{j}", 0.0, 2.0 * float(X[:, j].max())) for j in range(X.shape[1])]
    tables = {f"silo-{k}": part for k, part in enumerate(np.array_split(X, parties))}
    numbers: dict[str, Any] = {"levels_per_exchange": levels, "verified": False}
    with tempfile.TemporaryDirectory() as folder:
        agreed = local.prepare(Path(folder), tables, features, engine=engine, **numbers)
        with local.Processes(Path(folder)) as processes:
            processes.start_hub()
            for name in tables:
                processes.start_party(name)
            codes = processes.wait(_LONGEST)
        if any(codes.values()):
            raise RuntimeError(f"parties failed: {codes}")
        fit = SecureFedYJ(
            bounds=[(feature.lower, feature.upper) for feature in features],
            max_steps=agreed.max_steps,
            result_bits=agreed.result_bits,
        ).fit(list(tables.values()))
        ended = (_ended(Path(folder) / name, fit) for name in tables)
        return max(ended, key=lambda one: one.seconds)


def _ended(folder: Path, fit: SecureFedYJ) -> Session:
    result = Transcript.read(folder / "transcript.jsonl").result
    if result is None:
        raise RuntimeError(f"{folder.name} has no result")
    np.testing.assert_array_equal(result.lmbda, fit.lambdas_)
    np.testing.assert_array_equal(result.mean, fit.mean_)
    np.testing.assert_array_equal(result.var, fit.var_)
    cost = json.loads((folder / "cost.json").read_text())
    seconds = sum(value for key, value in cost.items() if key.startswith("seconds"))
    return Session(cost["rounds"], cost["bytes_sent"], seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(_DATA), default=list(_DATA))
    parser.add_argument("--parties", nargs="+", type=int, default=[3, 5])
    parser.add_argument("--levels", type=int, default=1)
    parser.add_argument("--times", type=int, default=2)
    options = parser.parse_args()
    print("  data parties     engine rounds  MB sent s a feature")
    for data in options.data:
        X = _DATA[data]().data
        for parties in options.parties:
            runs: dict[str, list[Session]] = {"mpyc": [], "replicated": []}
            for _ in range(options.times):
                for engine, sessions in runs.items():
                    sessions.append(session(engine, X, parties, options.levels))
            for engine, sessions in runs.items():
                best = min(sessions, key=lambda one: one.seconds)
                megabytes, each = best.bytes_sent / 1e6, best.seconds / X.shape[1]
                print(
                    f"{data:>6} {parties:>7} {engine:>10} {best.rounds:>6} {megabytes:>8.1f} "
                    f"{each:>11.2f}"
                )


if __name__ == "__main__":
    main()
