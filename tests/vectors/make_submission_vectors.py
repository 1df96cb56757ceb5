"""Write submission.json: the submissions of a small run, that another implementation can open.

python -m tests.vectors.make_submission_vectors

Three silos and a helper, which is the first member: so there are masks. README.md describes the
fields.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.network import local, submission
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.keys import PrivateKeys
from securefedyj.numerics import wide
from securefedyj.numerics.tally import Tally
from tests.vectors.make_fit_vectors import NONE

FILE = Path(__file__).with_name("submission.json")
SILOS = {
    "north": [[1.5, 120.0], [0.0, 7.0], [NONE, 0.5], [2.0, -0.3]],
    "Süd": [[0.75, 99.0], [2.2, NONE]],
    "east": [[NONE, NONE]],
}
FEATURES = (
    Feature("dose", 0.0, 2.25, resolution="0.25", round=True),
    Feature("change", -10.0, 120.0, resolution="0.1", digits=1, round=True),
    Feature("height", 0.0, 250.0),
)


def counts_of(consortium: Consortium, rows: list[list[float]]) -> np.ndarray:
    agreement = consortium.agreement()
    table = np.column_stack([np.array(rows), np.full(len(rows), 180.0)])
    return np.concatenate(Tally.of(table, agreement.points, agreement.domain).counts)


def vectors(folder: Path) -> dict[str, Any]:
    tables = {"clinic": None, **{name: np.ones((1, 3)) for name in SILOS}}
    made = local.prepare(
        folder, tables, FEATURES, committee=("clinic", "Süd", "north"), submitted=True, name="dose"
    )
    consortium = dataclasses.replace(made, hub=None)
    counts = {name: counts_of(consortium, rows) for name, rows in SILOS.items()}
    files = {
        name: submission.make(consortium, name, folder / f"{name}.key", counts[name])
        for name in SILOS
    }
    private = {}
    for party in consortium.parties:
        own = PrivateKeys.read(folder / f"{party.name}.key", party.public)
        private[party.name] = {
            "sealing": own.sealing.private_bytes_raw().hex(),
            "mask": own.mask.private_bytes_raw().hex(),
        }
    heads = [submission.read(files[name], consortium) for name in SILOS]
    digests = [head.digest for head in heads]
    return {
        "version": 1,
        "agreed_file": consortium.to_toml(),
        "digest": consortium.digest(),
        "private_keys": private,
        "points": [
            [value.hex() for value in own.tolist()] for own in consortium.agreement().points
        ],
        "rows": {
            name: [[None if x != x else float(x).hex() for x in row] for row in rows]
            for name, rows in SILOS.items()
        },
        "counts": {name: own.tolist() for name, own in counts.items()},
        "files": {name: data.hex() for name, data in files.items()},
        "headers": submission.digest_of(digests).hex(),
        "components": _components(consortium, folder, heads),
    }


def _components(consortium: Consortium, folder: Path, heads: Any) -> list[list[str]]:
    """Of each member the two sums that it computes with, each as decimal numbers."""
    agreement, found = consortium.agreement(), []
    for i, name in enumerate(consortium.committee):
        key = PrivateKeys.read(folder / f"{name}.key", consortium.party(name).public)
        shares = [submission.unseal(one, consortium, name, key) for one in heads]
        held = submission.totals(heads, shares, i, submission.points_in(agreement)).held
        found.append([" ".join(map(str, wide.to_ints(one))) for one in held])
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        FILE.write_text(json.dumps(vectors(Path(place)), indent=1) + "\n", encoding="utf-8")
