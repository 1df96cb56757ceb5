"""The engines side by side: seconds a feature, in one call and among processes over a hub.

    python -m benchmarks.engines --data iris wine --parties 3 5

All parties run on this machine, and share its cores. Over the hub, seconds are those of the session
at the slowest party. The engines take turns, and the shortest of each counts; the ratios are what
to look at. Every result is compared, bit for bit, with that of engine `replicated` in one process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
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
_STEPS: dict[str, Any] = {"max_steps": 30, "result_bits": 24}


class Setting(NamedTuple):
    """An engine, whether its result is verified, and whether parties meet at a hub."""

    name: str
    engine: str
    verified: bool = False
    hub: bool = False


SETTINGS = (
    Setting("clear", "clear"),
    Setting("replicated", "replicated"),
    Setting("verified", "replicated", verified=True),
    Setting("mpyc", "mpyc"),
    Setting("replicated, hub", "replicated", hub=True),
    Setting("verified, hub", "replicated", verified=True, hub=True),
    Setting("mpyc, hub", "mpyc", hub=True),
)


def measure(X: Array, parties: int, levels: int, times: int) -> dict[str, dict[str, float]]:
    """What each setting has cost when it was fastest."""
    expected = _model(X, SETTINGS[1], levels).fit(np.array_split(X, parties))
    best: dict[str, dict[str, float]] = {}
    for _ in range(times):
        for setting in SETTINGS:
            cost = (_over_hub if setting.hub else _in_one_call)(
                X, parties, setting, levels, expected
            )
            before = best.get(setting.name, cost)
            best[setting.name] = min(before, cost, key=lambda one: one["seconds"])
    return best


def _model(X: Array, setting: Setting, levels: int) -> SecureFedYJ:
    return SecureFedYJ(
        engine=setting.engine,
        bounds=[(feature.lower, feature.upper) for feature in _features(X)],
        levels_per_exchange=levels,
        verified=setting.verified,
        **_STEPS,
    )


def _features(X: Array) -> list[Feature]:
    return [Feature(f"x{j}", 0.0, 2.0 * float(X[:, j].max())) for j in range(X.shape[1])]


def _in_one_call(
    X: Array, parties: int, setting: Setting, levels: int, expected: SecureFedYJ
) -> dict[str, float]:
    start = time.perf_counter()
    fit = _model(X, setting, levels).fit(np.array_split(X, parties))
    seconds = time.perf_counter() - start
    _compare((fit.lambdas_, fit.mean_, fit.var_), expected)
    return {"seconds": seconds}


def _over_hub(
    X: Array, parties: int, setting: Setting, levels: int, expected: SecureFedYJ
) -> dict[str, float]:
    tables = {f"silo-{k}": part for k, part in enumerate(np.array_split(X, parties))}
    numbers: dict[str, Any] = {"levels_per_exchange": levels, "verified": setting.verified}
    with tempfile.TemporaryDirectory() as folder:
        local.prepare(
            Path(folder), tables, _features(X), engine=setting.engine, **numbers, **_STEPS
        )
        with local.Processes(Path(folder)) as processes:
            processes.start_hub()
            for name in tables:
                processes.start_party(name)
            codes = processes.wait(_LONGEST)
        if any(codes.values()):
            raise RuntimeError(f"parties failed: {codes}")
        costs = [_ended(Path(folder) / name, expected) for name in tables]
    return max(costs, key=lambda one: one["seconds"])


def _ended(folder: Path, expected: SecureFedYJ) -> dict[str, float]:
    result = Transcript.read(folder / "transcript.jsonl").result
    if result is None:
        raise RuntimeError(f"{folder.name} has no result")
    _compare((result.lmbda, result.mean, result.var), expected)
    cost = json.loads((folder / "cost.json").read_text())
    seconds = sum(value for key, value in cost.items() if key.startswith("seconds"))
    return {"seconds": seconds, "rounds": cost["rounds"], "bytes_sent": cost["bytes_sent"]}


def _compare(found: tuple[Array, ...], expected: SecureFedYJ) -> None:
    wanted = (expected.lambdas_, expected.mean_, expected.var_)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def table(results: list[dict[str, Any]]) -> str:
    """Seconds a feature, and how many times as long `mpyc` takes as `replicated`."""
    lines = [
        "| | parties | `clear` | `replicated` | the same, verified | `mpyc` | times `replicated` "
        "| over a hub: `replicated` | the same, verified | `mpyc` | times `replicated` |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        each = {name: cost["seconds"] / result["features"] for name, cost in result["cost"].items()}
        cells = [
            *(_shown(each[name]) for name in ("clear", "replicated", "verified", "mpyc")),
            f"{each['mpyc'] / each['replicated']:.0f}x",
            *(_shown(each[name]) for name in ("replicated, hub", "verified, hub", "mpyc, hub")),
            f"{each['mpyc, hub'] / each['replicated, hub']:.0f}x",
        ]
        lines.append(f"| {result['data']} | {result['parties']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def caption(results: list[dict[str, Any]]) -> str:
    """What else was measured."""
    words = [
        f"{result['parties']} parties, {result['data']}: {cost['rounds']:.0f} rounds, "
        f"{cost['bytes_sent'] / 1e6 / result['features']:.1f} MB a feature sent"
        for result in results
        for cost in [result["cost"]["mpyc, hub"]]
    ]
    features = ", ".join(
        f"{features} feature{'s' * (features > 1)} of {data}"
        for data, features in {one["data"]: one["features"] for one in results}.items()
    )
    return (
        f"{features}; {_STEPS['max_steps']} steps, levels {results[0]['levels']}. A party with "
        f"`mpyc` over the hub: {'; '.join(words)}."
    )


def _shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(_DATA), default=list(_DATA))
    parser.add_argument("--features", type=int, default=4, help="of each table, at most")
    parser.add_argument("--parties", nargs="+", type=int, default=[3, 5])
    parser.add_argument("--levels", type=int, default=1)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--output", type=Path, metavar="FILE", help="the measurements, as JSON")
    options = parser.parse_args()
    results = []
    for data in options.data:
        X = _DATA[data]().data[:, : options.features]
        for parties in options.parties:
            cost = measure(X, parties, options.levels, options.times)
            known = {"data": data, "features": X.shape[1], "levels": options.levels}
            results.append({**known, "parties": parties, "cost": cost})
    print(table(results), caption(results), sep="\n\n")
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps({"results": results}, indent=1))


if __name__ == "__main__":
    main()
