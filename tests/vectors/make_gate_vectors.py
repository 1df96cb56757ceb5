"""Write gates.json: the proofs of three members' AND gates for fixed keys. README.md explains it.

python tests/vectors/make_gate_vectors.py
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.engines.replicated.gates import Gates
from securefedyj.engines.replicated.keystream import Keystream
from securefedyj.engines.replicated.shares import BITS

FILE = Path(__file__).with_name("gates.json")
OCTETS = 10


def fixed(label: str, size: int) -> bytes:
    """Fixed bytes: never do this outside of test vectors."""
    return hashlib.shake_256(b"securefedyj test vector gates " + label.encode()).digest(size)


def octets(label: str) -> Any:
    """Fixed bits of all three components."""
    components = [fixed(f"{label}{i}", OCTETS) for i in range(3)]
    return np.array([np.frombuffer(component, np.uint8) for component in components])


def vectors() -> dict[str, Any]:
    """Keys, bits and messages."""
    keys = [fixed(f"k{i}", 32) for i in range(3)]
    x, y, drawn = octets("x"), octets("y"), octets("drawn")
    held = [[i, (i + 1) % 3] for i in range(3)]
    z = np.array([BITS.local_product(x[h], y[h]) ^ drawn[h[0]] ^ drawn[h[1]] for h in held])
    checks = []
    for own, other in held:
        gates, both = Gates(), [own, other]
        gates.record(x[both], y[both], drawn[own], drawn[other], z[both])
        checks.append(gates.check(Keystream(keys[own]), Keystream(keys[other])))
    proofs = []
    for prover, check in enumerate(checks):
        v1 = checks[prover - 1]
        messages = {
            "challenge": v1.challenge(),
            "proof": check.proof(v1.challenge()),
            "evaluations": v1.evaluations(),
        }
        proofs.append({name: message.hex() for name, message in messages.items()})
    layout = checks[0].layout
    return {
        "version": 1,
        "keys": [key.hex() for key in keys],
        **{
            name: [component.tobytes().hex() for component in value]
            for name, value in (("x", x), ("y", y), ("drawn", drawn), ("z", z))
        },
        "rows": layout.rows,
        "columns": layout.columns,
        "proofs": proofs,
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")
