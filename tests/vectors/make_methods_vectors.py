"""Write methods.json: a small run with all methods, for other implementations.

python -m tests.vectors.make_methods_vectors

Numbers of type float64 are written as hexadecimal floating-point literals; `V` and `S_y` are
integers in hexadecimal.

agreement   The public parameters, with `methods` and `resolution`; the digest is that of its JSON.
silos       The rows of each silo; null is a missing value.
reveals     Everything that is opened, in order, as in a transcript. `features` are numbers of
            questions (docs/protocol.md, section 2.1).
result      What follows from the reveals, for the questions that are not about quantiles.
points      The quantiles that are not refused.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.protocol.agreement import Agreement, bounds_of
from securefedyj.protocol.simulation import simulate
from tests.vectors.make_fit_vectors import in_hexadecimal

FILE = Path(__file__).with_name("methods.json")
FEATURES = ("age", "creatinine", "sodium", "lactate")
METHODS: Any = (
    {"robust": ("0.25", "0.5", "0.75"), "quantiles": ("0.07", "0.5", "0.52", "0.9")},
    {"box-cox": (), "quantiles": ("0.5",)},
    {"standard": ()},
    {"yeo-johnson": (), "standard": (), "quantiles": ("0.3",)},
)
BOUNDS = [(0, 120), (0.1, 50), (100, 180), (0, 40)]
PARTIES = ("north", "east", "south")
NONE = np.nan
AGREEMENT = Agreement(
    features=FEATURES,
    domain=bounds_of(BOUNDS, FEATURES, METHODS),
    methods=METHODS,
    resolution=("1", "", "0.5", "0.1"),
    parties=PARTIES,
    committee=PARTIES,
    engine="clear",
    max_steps=16,
    levels_per_exchange=3,
    result_bits=24,
    minimum_values=3,
    verified=False,
)


def tables() -> dict[str, Any]:
    """Rows of three silos, with missing values."""
    rows = [
        [
            20.0 + 37 * i % 75,
            (2 + i * i * 13 % 97) / 20,
            130 + i * 29 % 41 / 2,
            (i * 17 % 23) ** 2 / 20,
        ]
        for i in range(40)
    ]
    X = np.array([[NONE if (i + 3 * j) % 11 == 0 else x for j, x in enumerate(row)]
                  for i, row in enumerate(rows)])  # fmt: skip
    return dict(zip(PARTIES, np.split(X, [9, 23]), strict=True))


def vectors() -> dict[str, Any]:
    """The content of the file."""
    silos = tables()
    transcript, _ = simulate(AGREEMENT, list(silos.values()))
    assert transcript.audit().passed
    header, *reveals, last = transcript.to_lines()
    rows = {
        name: [[None if np.isnan(x) else float(x).hex() for x in row] for row in table]
        for name, table in silos.items()
    }
    return {
        "version": 1,
        "agreement": header["agreement"],
        "digest": hashlib.sha256(AGREEMENT.to_bytes()).hexdigest(),
        "silos": rows,
        "reveals": in_hexadecimal(reveals),
        "result": in_hexadecimal(last["result"]),
        "points": in_hexadecimal(last["points"]),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
