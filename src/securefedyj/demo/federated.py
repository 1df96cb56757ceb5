"""The federated fit of the demo: a hub and three parties, each a process with a key of its own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import securefedyj
from securefedyj import SecureFedYJ
from securefedyj.demo.comparison import FitComparison
from securefedyj.demo.example import by_silo, public_bounds
from securefedyj.network.consortium import Feature
from securefedyj.network.lines import require_locks
from securefedyj.network.local import Processes, prepare
from securefedyj.numerics.arrays import Array, Bools
from securefedyj.protocol.transcript import Transcript

_PATIENCE = 600.0  # seconds; the processes take a few


@dataclass(frozen=True)
class FederatedFit:
    """The fit of a hub and three parties, and its cost."""

    silos: dict[str, Array]  # the rows of each
    lambdas: Array
    equal: Bools  # features with the same bits at all parties, in one process, from pooled rows
    transcript: Transcript
    rounds: int | None
    megabytes: float  # sent per feature and peer, at most
    seconds: float  # from the start of the processes to their end

    def medians(self, j: int) -> list[str]:
        """Those of a feature at the silos."""
        return [f"{np.median(rows[:, j]):.3g}" for rows in self.silos.values()]


def fit(cancer: FitComparison) -> FederatedFit:
    """Fit three silos with different patients: small, middle and large tumours."""
    require_locks()
    silos, bounds = by_silo(cancer.X, cancer.names, 3), public_bounds(cancer.X)
    _show_status("the same rows in one process, to compare with ...")
    pooled = SecureFedYJ(engine="clear", bounds=bounds).fit([cancer.X])
    together = SecureFedYJ(bounds=bounds, verified=True).fit(list(silos.values()))
    features = [Feature(name, *pair) for name, pair in zip(cancer.names, bounds, strict=True)]
    with (
        _delayed_interrupts() as interrupts,
        tempfile.TemporaryDirectory(prefix="securefedyj-demo-") as name,
    ):
        folder = Path(name)
        seconds = _run_processes(folder, silos, features, interrupts)
        fitted = [securefedyj.load(folder / silo / "parameters.json") for silo in silos]
        transcript = Transcript.read(folder / next(iter(silos)) / "transcript.jsonl")
    equal = np.ones(len(cancer.names), dtype=bool)
    for one in (*fitted, together):
        for attribute in ("lambdas_", "mean_", "var_"):
            equal &= getattr(one, attribute) == getattr(pooled, attribute)
    cost = together.cost_
    megabytes = max(max(to.values()) for to in cost.bytes_sent.values()) / len(equal) / 1e6
    lambdas = fitted[0].lambdas_
    return FederatedFit(silos, lambdas, equal, transcript, cost.rounds, megabytes, seconds)


def _run_processes(
    folder: Path, tables: dict[str, Array], features: list[Feature], interrupts: list[int]
) -> float:
    """Run a hub and a process for each party; return the seconds from their start to their end.

    Keys, tables and results are in the folder. No process survives this function.
    """
    # The precision of the estimator, which is higher than the default of a consortium, to compare
    # digit by digit, and with the paper.
    prepare(folder, tables, features, name="demo", max_steps=40, result_bits=44)
    start = time.monotonic()
    try:
        with Processes(folder) as processes:
            _show_status("starting a hub and three parties ...")
            processes.start_hub()
            for party in tables:
                processes.start_party(party)
            while time.monotonic() < start + _PATIENCE:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    processes.wait(timeout=0.2)
                    return time.monotonic() - start
                if interrupts:
                    raise KeyboardInterrupt
                for party in tables:  # if one has failed, the others would wait for it
                    if processes.running[party].poll():
                        reason = processes.last_line(party)
                        raise OSError(f"party {party} of the demo failed: {reason}")
                _show_status(processes.last_line(next(iter(tables))) or "starting ...")
    finally:
        _show_status("")
    raise OSError(f"the parties did not finish within {_PATIENCE:g} seconds: is this machine busy?")


@contextlib.contextmanager
def _delayed_interrupts() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM, and obey them at the end.

    An exception during the start of a process would leave that process behind.
    """
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise KeyboardInterrupt


def _show_status(text: str) -> None:
    """Rewrite one line, for a user at a terminal."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{text[:79]}", end="", flush=True)
