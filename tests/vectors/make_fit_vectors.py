"""Write fit.json: a whole small fit, that another implementation can check itself by.

python tests/vectors/make_fit_vectors.py

Two features with 12 values each in three silos, engine `clear`. Numbers of type float64 are
written as hexadecimal floating-point literals, integers of any size as hexadecimal with a sign.

agreement   The public parameters. The SHA-256 digest of its JSON, with sorted keys and Python's
            default separators, is what the parties compare in their greeting.
silos       The rows of each silo; null is a missing value.
plan        For the first three lambdas of each feature: the grid, on which y and d are integers;
            that of phi; bits of the largest |y| and |d| on the positive and the negative side;
            by how many bits a side may round more coarsely (only multiples of 22 are used); bits of
            V, and of the widest number with its sign; 64-bit limbs of the ring.
sums        At every lambda that is visited, and at last at the final one: S_y, S_d, S_yy, S_yd and
            S_phi of each silo. Products of two integers on the grid have twice its bits.
reveals     Everything that is opened, in order, as in a transcript.
result      What follows from the reveals.

With the sums over all silos, V = n S_yy - S_y^2 and K = n S_yd - S_y S_d; the sign that is revealed
is -1 if S_phi V - n K 2^phi_grid < 0, and +1 otherwise.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.numerics import wide
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import Step
from securefedyj.protocol.simulation import simulate

FILE = Path(__file__).with_name("fit.json")
NONE = np.nan
SILOS = {
    "north": [[-3.5, 0.25], [1.25, 7.0], [NONE, 2.5], [0.0, 0.125], [12.0, 1.0]],
    "east": [[2.5, 3.75], [-0.5, NONE], [7.0, 19.0]],
    "south": [[0.1, 0.7], [-1.0, 1.1], [3.0, 0.3], [1.0, 55.5], [0.625, 4.2]],
}
AGREEMENT = Agreement(
    features=("change", "income"),
    domain=Domain.from_bounds([(-1000, 1000), (0, 100)], 2),
    parties=tuple(SILOS),
    committee=tuple(SILOS),
    engine="clear",
    max_steps=10,
    levels_per_exchange=2,
    result_bits=44,
    minimum_values=0,
    verified=False,
)


def plan_at(feature: int, n: int, lmbda: float) -> dict[str, Any]:
    """The numbers of a plan."""
    domain = AGREEMENT.domain.take(np.array([feature]))
    plan = choose_encoding(domain, np.array([n]), np.array([lmbda]))
    return {
        "feature": feature,
        "lambda": lmbda.hex(),
        "grid": int(plan.grid[0]),
        "phi_grid": int(domain.phi_grid()[0]),
        "y_bits": [int(side.y_bits[0]) for side in (plan.positive, plan.negative)],
        "d_bits": [int(side.d_bits[0]) for side in (plan.positive, plan.negative)],
        "spare": [int(side.spare[0]) for side in (plan.positive, plan.negative)],
        "v_bits": int(plan.v_bits[0]),
        "sum_bits": int(plan.sum_bits[0]),
        "limbs": int(plan.limbs[0]),
    }


def sums_at(feature: int, n: int, lmbda: float) -> dict[str, Any]:
    """The sums of every silo."""
    chosen = np.array([feature])
    plan = choose_encoding(AGREEMENT.domain.take(chosen), np.array([n]), np.array([lmbda]))
    limbs = int(plan.limbs[0])
    silos = {}
    for name, rows in SILOS.items():
        silo = ArraySilo(np.array(rows), AGREEMENT.domain, list(AGREEMENT.features))
        parts = [
            *silo.sums(chosen, np.array([lmbda]), plan, limbs),
            silo.phi_sum(chosen, limbs),
        ]
        named = zip(("y", "d", "yy", "yd", "phi"), parts, strict=True)
        silos[name] = {key: hex(wide.to_ints(part)[0]) for key, part in named}
    return {
        "feature": feature,
        "lambda": lmbda.hex(),
        "grid": int(plan.grid[0]),
        "silos": silos,
    }


def in_hexadecimal(values: Any) -> Any:
    """All floating-point numbers in a structure as hexadecimal literals."""
    if isinstance(values, dict):
        return {key: in_hexadecimal(value) for key, value in values.items()}
    if isinstance(values, list):
        return [in_hexadecimal(value) for value in values]
    return values.hex() if isinstance(values, float) else values


def vectors() -> dict[str, Any]:
    """The content of the file."""
    transcript, _ = simulate(AGREEMENT, [np.array(rows) for rows in SILOS.values()])
    assert transcript.audit().passed
    header, *reveals, result = transcript.to_lines()
    n = transcript.result.n.tolist()
    visited = [
        (int(j), float(lmbda))
        for reveal in transcript.all(Step)
        for j, lmbda in zip(reveal.features, reveal.lmbda, strict=True)
    ]
    final = list(enumerate(transcript.result.lmbda.tolist()))
    rows = {
        name: [[None if np.isnan(x) else float(x).hex() for x in row] for row in table]
        for name, table in SILOS.items()
    }
    return {
        "version": 1,
        "agreement": header["agreement"],
        "digest": hashlib.sha256(AGREEMENT.to_bytes()).hexdigest(),
        "silos": rows,
        "plan": [plan_at(j, n[j], lmbda) for j, lmbda in visited[:6]],
        "sums": [sums_at(j, n[j], lmbda) for j, lmbda in visited + final],
        "reveals": in_hexadecimal(reveals),
        "result": in_hexadecimal(result["result"]),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
