"""The federated fit of the demo: a hub and three parties, each a process with a key of its own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from math import ceil, log2
from pathlib import Path

import numpy as np

import securefedyj
from securefedyj import FrozenYJ, SecureFedYJ
from securefedyj.demo.comparison import Comparison
from securefedyj.demo.layout import cannot_write, command, show_status, underlined, wrapped
from securefedyj.network.consortium import Feature
from securefedyj.network.local import Processes, prepare
from securefedyj.numerics.arrays import Array
from securefedyj.protocol.transcript import Transcript

SILOS = ("north", "center", "south")

_PATIENCE = 600.0  # seconds; the processes take a few
_FEATURES_SHOWN = ("mean area", "mean concavity", "radius error", "worst texture")


def federated_section(cancer: Comparison, path: Path) -> str:
    """Three silos with different patients: the same bits as if their rows were in one place."""
    silos = _silos_by_size(cancer)
    # Agreed before the fit, and public: no value is negative, and none above the next power of 2.
    bounds = [(0.0, float(2.0 ** ceil(log2(highest)))) for highest in cancer.X.max(axis=0)]
    show_status("the same rows in one process, to compare with ...")
    pooled = SecureFedYJ(engine="clear", bounds=bounds).fit([cancer.X])
    together = SecureFedYJ(bounds=bounds, verified=True).fit(silos)
    features = [Feature(name, *pair) for name, pair in zip(cancer.names, bounds, strict=True)]
    with (
        _delayed_interrupts() as interrupts,
        tempfile.TemporaryDirectory(prefix="securefedyj-demo-") as name,
    ):
        folder = Path(name)
        seconds = _run_processes(folder, dict(zip(SILOS, silos, strict=True)), features, interrupts)
        fitted = [securefedyj.load(folder / silo / "parameters.json") for silo in SILOS]
        transcript = Transcript.read(folder / SILOS[0] / "transcript.jsonl")
    equal = np.all(
        [
            getattr(one, a) == getattr(pooled, a)
            for one in (*fitted, together)
            for a in ("lambdas_", "mean_", "var_")
        ],
        axis=0,
    )
    audit = transcript.audit()
    try:
        transcript.write(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    title = "The same, federated: three silos that may not pool their rows"
    return "\n".join(
        [
            underlined(title),
            wrapped(
                "A hub and three parties, each a process with a key of its own, as on four "
                "machines; TLS 1.3 from party to party, which the hub relays and cannot read."
            ),
            "",
            _silo_table(cancer, silos, fitted[0]),
            "",
            wrapped(
                f"{np.count_nonzero(equal)} of {len(equal)} features have the same lambda, mean "
                "and variance at all three parties as in one process, and as one silo with all "
                "rows, bit for bit."
            ),
            "",
            wrapped(
                "Revealed to every silo: the number of values, the signs of the search, and the "
                f"result. The audit recomputes every sign from the result: "
                f"{'passed' if audit.passed else 'FAILED'}. Read it with:"
            ),
            "",
            f"    {command('audit', str(path))}",
            "",
            wrapped(
                "Whatever one of the parties had done, no other would have accepted a result that "
                "is not right for the sums that the silos gave."
            ),
            "",
            _cost_table(together, seconds),
        ]
    )


def _silos_by_size(cancer: Comparison) -> list[Array]:
    """A third of the rows each: the small, the middle and the large tumours."""
    order = np.argsort(cancer.X[:, cancer.names.index("mean radius")])
    return [cancer.X[part] for part in np.array_split(order, 3)]


def _silo_table(cancer: Comparison, silos: list[Array], federated: FrozenYJ) -> str:
    row = "{:<24}{:>9}{:>9}{:>9}{:>14}{:>14}"
    lines = [
        f"{'':<24}{'median at silo':^27}{'lambda':^28}".rstrip(),
        row.format("feature", *SILOS, "federated", "ExpYJ"),
    ]
    for name in _FEATURES_SHOWN:
        j = cancer.names.index(name)
        medians = (f"{np.median(silo[:, j]):.3g}" for silo in silos)
        ours, pooled = federated.lambdas_[j], cancer.ours.lambdas_[j]
        lines.append(row.format(name, *medians, f"{ours:.8f}", f"{pooled:.8f}"))
    return "\n".join(lines)


def _cost_table(federated: SecureFedYJ, seconds: float) -> str:
    """Our cost beside what the paper states for its protocol at 40 steps."""
    cost, p = federated.cost_, federated.n_features_in_
    sent = max(max(to.values()) for to in cost.bytes_sent.values()) / p
    inside = cost.seconds_local + cost.seconds_secure
    rows = [
        ("cost of the fit", "this run", "paper, 40 steps"),
        ("rounds of messages", str(cost.rounds), "726"),
        ("sent per feature and peer, at most", f"{sent / 1e6:.3f} MB", "8 MB"),
        ("time of all three silos in one process", f"{inside:.1f} s", "not stated"),
        ("time of the four processes, start included", f"{seconds:.1f} s", ""),
    ]
    return "\n".join("{:<44}{:>16}{:>18}".format(*row).rstrip() for row in rows)


def _run_processes(
    folder: Path, tables: dict[str, Array], features: list[Feature], interrupts: list[int]
) -> float:
    """Run a hub and a process for each party; return the seconds from their start to their end.

    Keys, tables and results are in the folder. However this ends, no process is left.
    """
    # The precision of the estimator, to compare digit by digit, and with the paper; what a
    # consortium has by default is less.
    prepare(folder, tables, features, name="demo", max_steps=40, result_bits=44)
    with _status_cleared(), Processes(folder) as processes:
        start = time.monotonic()
        show_status("starting a hub and three parties ...")
        processes.start_hub()
        for party in tables:
            processes.start_party(party)
        while time.monotonic() < start + _PATIENCE:
            try:
                processes.wait(timeout=0.2)
                return time.monotonic() - start
            except subprocess.TimeoutExpired:
                if interrupts:
                    raise KeyboardInterrupt from None
                for party in tables:
                    _check_running(processes, party)
                show_status(processes.last_line(SILOS[0]) or "starting ...")
        raise OSError(
            f"the parties are not done after {_PATIENCE:g} seconds: is this machine busy?"
        )


def _check_running(processes: Processes, party: str) -> None:
    """Stop if a party has failed: the others would wait for it."""
    if processes.running[party].poll():
        raise OSError(f"party {party} of the demo failed: {processes.last_line(party)}")


@contextlib.contextmanager
def _delayed_interrupts() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM, and obey them at the end.

    An exception while a process is being started would leave that process behind.
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


@contextlib.contextmanager
def _status_cleared() -> Iterator[None]:
    """Remove the line of the status at the end."""
    try:
        yield
    finally:
        show_status("")
