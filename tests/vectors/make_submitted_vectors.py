"""Write submitted.json: what the members of a small submitted run hold, compute and open.

python -m tests.vectors.make_submitted_vectors

Two features and three silos, one of them outside the committee, with fixed keys and without masks.
Integers of any size are hexadecimal with a sign, float64 hexadecimal floating-point literals.

agreement     The public parameters.
points        Those of each feature.
counts        How often each point occurs at each silo: all features, one behind the other.
shares        Of each silo: the keys of components 0 and 1, and component 2 (section 13.3).
coefficients  At every lambda that is visited, and at the final one: what one row with the value of
              each point adds to S_y, S_d and S_phi, on their grids.
sums          At the same lambdas, components 0, 1 and 2 of S_y, S_d, S_yy, S_yd and S_phi, modulo
              2^(64 limbs).
reveals       Everything that is opened, in order, as in a transcript.
result        What follows from the reveals.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from securefedyj.numerics import wide
from securefedyj.numerics.encoding import choose_encoding
from securefedyj.numerics.sums import ArraySilo
from securefedyj.numerics.weighed import WeighedPoints
from securefedyj.protocol import simulation, submissions
from securefedyj.protocol.agreement import Agreement, bounds_of
from securefedyj.protocol.reveals import Step
from tests.vectors.make_fit_vectors import in_hexadecimal

FILE = Path(__file__).with_name("submitted.json")
COUNTS = {
    "north": [2, 0, 1, 0, 3, 0, 0, 1, 1, 0, 0, 2, 0, 1],
    "east": [0, 1, 0, 0, 2, 1, 0, 0, 0, 4, 1, 0, 0, 0],
    "south": [1, 0, 0, 2, 0, 0, 1, 0, 2, 0, 0, 1, 0, 0],
}
PARTIES = (*COUNTS, "clinic")
METHODS = ({"yeo-johnson": (), "quantiles": ("0.5",)}, {"yeo-johnson": ()})
FEATURES = ("age", "change")
AGREEMENT = Agreement(
    features=FEATURES,
    domain=bounds_of([(0, 7), (-2.0, 3.0)], FEATURES, METHODS),
    methods=METHODS,
    resolution=("1", "1"),
    submitted=True,
    parties=PARTIES,
    committee=("north", "clinic", "east"),
    helpers=("clinic",),
    engine="replicated",
    max_steps=6,
    levels_per_exchange=2,
    minimum_values=0,
)
HEADERS = hashlib.sha256(b"the headers of submitted.json").digest()


def shares_of(silo: str) -> list[bytes]:
    """Those of a silo, by keys that everybody knows."""
    keys = [hashlib.sha256(f"{silo} {i}".encode()).digest() for i in submissions.KEYED]
    with mock.patch.object(submissions, "fresh_key", iter(keys).__next__):
        return submissions.share(submissions.masked(np.array(COUNTS[silo]), (), ()))


def at_lambda(question: int, n: int, lmbda: float, totals: list[wide.Limbs]) -> dict[str, Any]:
    """What each point adds to the sums, and the components of the sums."""
    asked = AGREEMENT.asked
    j = int(asked.column[question])
    points = AGREEMENT.points
    chosen, at = np.array([question]), np.array([lmbda])
    encoding = choose_encoding(asked.domain.take(chosen), np.array([n]), at)
    limbs = int(encoding.limbs[0])
    alone: dict[str, list[str]] = {"y": [], "d": [], "phi": []}
    for value in points[j].tolist():
        silo = ArraySilo([[value]], asked.domain.take(chosen), ["one"])
        own = silo.sums(np.array([0]), at, encoding, limbs)
        for key, part in (("y", own.y), ("d", own.d), ("phi", silo.phi_sum(np.array([0]), limbs))):
            alone[key].append(hex(wide.to_ints(part)[0]))
    sizes = np.cumsum([0, *map(len, points)])
    sums: dict[str, list[str]] = {}
    for total in totals:
        own_counts = total[None, :, sizes[j] : sizes[j + 1]]
        held = WeighedPoints(asked.domain.take(chosen), [points[j]], [own_counts])
        own = held.sums(np.array([0]), at, encoding, limbs)
        phi = held.phi_sum(np.array([0]), limbs)
        for key, part in (*own._asdict().items(), ("phi", phi)):
            sums.setdefault(key, []).append(hex(wide.to_ints(part)[0]))
    return {
        "question": question,
        "lambda": lmbda.hex(),
        "grid": int(encoding.grid[0]),
        "limbs": limbs,
        "coefficients": alone,
        "sums": sums,
    }


def vectors() -> dict[str, Any]:
    """The content of the file."""
    shares = {silo: shares_of(silo) for silo in COUNTS}
    held = submissions.held_by(AGREEMENT, shares.values(), HEADERS)
    with mock.patch.object(simulation, "_submit", return_value=held):
        transcript, _ = simulation.simulate(AGREEMENT, [None] * len(PARTIES))
    assert transcript.audit().passed
    header, *reveals, last = transcript.to_lines()
    n, asked = transcript.counts().tolist(), AGREEMENT.asked
    size = len(COUNTS["north"])
    parts = [[submissions.component(i, own[i], size) for own in shares.values()] for i in range(3)]
    totals = [wide.add(wide.add(a, b), c) for a, b, c in parts]
    searched = np.flatnonzero(asked.searched).tolist()
    visited = [
        (int(j), float(lmbda))
        for reveal in transcript.all(Step)
        for j, lmbda in zip(reveal.features, reveal.lmbda, strict=True)
        if j in searched
    ]
    assert transcript.result is not None
    final = list(zip(asked.fitted.tolist(), transcript.result.lmbda.tolist(), strict=True))
    return {
        "version": 1,
        "agreement": header["agreement"],
        "points": [points.tolist() for points in AGREEMENT.points],
        "counts": COUNTS,
        "shares": {silo: [part.hex() for part in own] for silo, own in shares.items()},
        "sums": [at_lambda(j, n[j], lmbda, totals) for j, lmbda in visited + final],
        "reveals": in_hexadecimal(reveals),
        "result": in_hexadecimal(last),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
