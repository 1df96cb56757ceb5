"""Three sites with their own files, for FLARE's simulator and for its processes."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import Parameters
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Origin
from tests.network.test_secrets import words_of

ROOT = Path(__file__).parents[3]
WATCH = Path(__file__).parent / "watch"


def tables(features: int) -> dict[str, Array]:
    rows = np.random.default_rng(5).lognormal(size=(600, features))
    return {"north": rows[:200], "south": rows[200:350], "west": rows[350:]}


def prepare(
    folder: Path, rows: Mapping[str, Array], features: Sequence[Feature] = ()
) -> Consortium:
    """Keys, tables and an agreed file without a hub."""
    names = [f"feature {j}" for j in range(next(iter(rows.values())).shape[1])]
    features = features or [Feature(name, 0.0, 1000.0) for name in names]
    consortium = local.prepare(folder, rows, features)
    consortium = dataclasses.replace(consortium, hub=None)
    (folder / "consortium.toml").unlink()
    consortium.write(folder / "consortium.toml")
    return consortium


def write_site(folder: Path, name: str, to: Path, output: str = "") -> None:
    """The site's own file."""
    files = {
        "consortium": "consortium.toml",
        "key": f"{name}.key",
        "certificate": f"{name}.pem",
        "data": f"{name}.csv",
        "output": output or name,
        "ledger": f"{name}.ledger.jsonl",
    }
    to.mkdir(parents=True, exist_ok=True)
    lines = [f"{key} = {json.dumps(str(folder / file))}\n" for key, file in files.items()]
    (to / "securefedyj.toml").write_text("".join(lines), encoding="utf-8")


def in_process(consortium: Consortium, rows: Mapping[str, Array]) -> bytes:
    """The bytes of parameters.json, of a run in this process."""
    transcript, _ = simulate(consortium.agreement(), list(rows.values()))
    transcript.origin = Origin(consortium.name, consortium.digest())
    return Parameters.of(transcript).to_bytes()


class Shared(AssertionError):
    """FLARE's server has handled integers that were shared."""


def watched(folder: Path, **environment: str) -> dict[str, str]:
    """The environment of processes that `watch` keeps an eye on; what it sees is in `watched`."""
    (folder / "watched").mkdir(exist_ok=True)
    (folder / "watched" / "on").touch()
    own = [str(WATCH), str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, own)),
        "WATCH": str(folder / "watched"),
        "OPENBLAS_NUM_THREADS": "1",
        **environment,
    }


def assert_nothing_shared(watched: Path, parameters: bytes) -> None:
    """The server has handled the result, and none of the integers that were shared."""
    frames = b"".join(path.read_bytes() for path in watched.glob("*.frames"))
    assert parameters in frames  # so the search could find
    lines = [line for path in watched.glob("*.shares") for line in path.read_text().split()]
    words = set().union(*(words_of(bytes.fromhex(line)) for line in lines))
    assert len(words) > 1000
    handled = {frames[at : at + 8] for at in range(len(frames) - 7)}
    if words & handled:
        raise Shared(f"{len(words & handled)} of {len(words)}")
