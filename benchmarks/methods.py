"""What each method costs: rounds, bytes and seconds of a run of three parties in this process.

`python -m benchmarks.methods` prints a line for each run, unverified and verified, and ends with
exit code 1 if one takes more than its limit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.secure import example, shortest
from securefedyj.engines.registry import facts_of
from securefedyj.protocol.agreement import Agreement, bounds_of
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.methods import DEFAULT, QUARTILES, Methods
from securefedyj.protocol.simulation import simulate

BOUNDS = (2.0**-20, 2.0**20)
MIXED: Methods = {
    **{"yeo-johnson": (), "box-cox": (), "standard": ()},
    "robust": QUARTILES,
    "quantiles": ("0.1", "0.9"),
}
RUNS: Mapping[str, Methods] = {
    "yeo-johnson": DEFAULT,
    "box-cox": {"box-cox": ()},
    "standard": {"standard": ()},
    "robust": {"robust": QUARTILES},
    "all methods": MIXED,
}


class Measured(NamedTuple):
    """A run, by feature where it says so."""

    rounds: int
    kilobytes: float
    """By feature: what the party that sends most sends to all others."""
    milliseconds: float
    """By feature: the shortest of all turns."""


def measure(methods: Methods, features: int, rows: int, verified: bool, turns: int) -> Measured:
    """A run with levels 4 and 40 steps."""
    names = tuple(map(str, range(features)))
    parties = ("a", "b", "c")
    agreement = Agreement(
        features=names,
        domain=bounds_of(BOUNDS, names, (methods,) * features),
        methods=(methods,) * features,
        parties=parties,
        committee=facts_of("replicated").committee_of(parties),
        max_steps=40,
        minimum_values=0,
        verified=verified,
    )
    tables = [np.clip(silo, *BOUNDS) for silo in example(rows, features)]
    seconds, (_, cost) = shortest(lambda: simulate(agreement, tables), turns)
    assert isinstance(cost, Cost)
    sent = max(cost.sent_by(name) for name in parties)
    return Measured(cost.rounds or 0, sent / features / 1e3, seconds / features * 1e3)


def beyond(found: Mapping[tuple[str, bool], Measured]) -> list[str]:
    """What takes more than it may."""
    quantiles, standard, most = (
        found[name, False] for name in ("robust", "standard", "all methods")
    )
    limits = {
        "rounds of three quantiles": (quantiles.rounds, 75),
        "kB of three quantiles": (quantiles.kilobytes, 15),
        "ms of three quantiles": (quantiles.milliseconds, 1),
        "rounds of standard": (standard.rounds, 25),
        "rounds of all methods": (most.rounds, found["yeo-johnson", False].rounds + 5),
    }
    for name in RUNS:
        more = found[name, True].rounds - found[name, False].rounds
        limits[f"rounds more of {name}, verified"] = (more, 25)
    return [
        f"{what}: {value:.2f}, at most {most}"
        for what, (value, most) in limits.items()
        if value > most
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=200, help="of each silo")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    found: dict[tuple[str, bool], Measured] = {}
    for name, methods in RUNS.items():
        for verified in (False, True):
            sizes = options.features, options.rows, verified, options.turns
            found[name, verified] = one = measure(methods, *sizes)
            print(
                f"{name:<12} {'verified' if verified else '':<9} {one.rounds:>4} rounds "
                f"{one.kilobytes:>7.2f} kB and {one.milliseconds:>6.3f} ms a feature",
                flush=True,
            )
    wrong = beyond(found)
    print("\n".join(wrong) if wrong else "All within their limits.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
