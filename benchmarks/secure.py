"""The secure fit: ours on both engines against the paper taken literally, on the same data.

Run by `make bench`. The peers run by turns in the same minutes and the ratios count. All
parties of a run are on this machine: engine `replicated` in this one process, one party after
the other; `mpyc` and the literal paper with a process per party, which share the cores.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.literal_paper import fit_literal
from experiments.formulas import derivative
from securefedyj import SecureFedYJ
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo
from securefedyj.numerics.yeojohnson import transform

FEATURES = 100
# Rows of each silo and features, beside the paper.
SHAPES = ((200, FEATURES), (200, 1_000), (1_000, FEATURES), (10_000, FEATURES))
LITERAL_FEATURES = 2
MPYC_FEATURES = 4
LEVELS = (1, 2, 4, 8)
# The default ones, |x| <= 2^20; and those of data that cannot be negative.
BOUNDS = {"default": None, "from 0": (0.0, 2.0**20)}


def example(rows: int, features: int, silos: int = 3) -> list[np.ndarray[Any, Any]]:
    """Skewed features around 1, a little different at each silo."""
    source = np.random.default_rng(0)
    return [source.lognormal(0.2 * k, 1, size=(rows, features)) for k in range(silos)]


def shortest(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, result


def against_the_paper(rows: int, features: int, turns: int) -> dict[str, Any]:
    """Seconds per feature of all three, 3 parties and 40 steps.

    The literal one and ours take turns, so that both see the same moods of the machine.
    """
    silos = example(rows, features)
    few = [silo[:, :LITERAL_FEATURES] for silo in silos]
    some = [silo[:, :MPYC_FEATURES] for silo in silos]
    literal: list[float] = []
    ours: dict[str, dict[int, list[float]]] = {name: {m: [] for m in LEVELS[:3]} for name in BOUNDS}
    for _ in range(turns):
        peer = fit_literal(few)
        literal += peer.seconds.tolist()
        for name, bounds in BOUNDS.items():
            for levels, times in ours[name].items():
                model = SecureFedYJ(levels_per_exchange=levels, bounds=bounds)
                for _ in range(LITERAL_FEATURES):  # as many times as the literal one
                    seconds, fitted = shortest(partial(model.fit, silos), 1)
                    times.append(seconds / features)
    mpyc, _ = shortest(lambda: SecureFedYJ(engine="mpyc", levels_per_exchange=1).fit(some), 1)
    return {
        "rows": rows,
        "features": features,
        "literal_seconds": literal,
        "literal_bytes_per_peer": float(peer.bytes_sent.mean() / 2),
        "mpyc_seconds": mpyc / MPYC_FEATURES,
        "replicated_seconds": ours,
        "speedup": {name: _speedup(min, literal, by) for name, by in ours.items()},
        "speedup_of_medians": {name: _speedup(np.median, literal, by) for name, by in ours.items()},
        "largest_difference_in_lambda": float(
            np.max(np.abs(peer.lambdas - fitted.lambdas_[:LITERAL_FEATURES]))
        ),
    }


def _speedup(
    typical: Callable[[list[float]], float], literal: list[float], ours: dict[int, list[float]]
) -> float:
    return float(typical(literal) / min(typical(times) for times in ours.values()))


def rounds_and_bytes() -> list[dict[str, Any]]:
    """Over levels per exchange and silos; 100 features, 600 rows in all, 40 steps."""
    results = []
    for silos in (3, 5, 10):
        data = example(600 // silos, FEATURES, silos)
        for levels in LEVELS:
            fitted = SecureFedYJ(levels_per_exchange=levels).fit(data)
            sent = fitted.cost_.bytes_sent
            results.append(
                {
                    "silos": silos,
                    "levels": levels,
                    "rounds": fitted.cost_.rounds,
                    "kb_per_feature_and_peer": max(max(to.values()) for to in sent.values())
                    / FEATURES
                    / 1e3,
                    "kb_per_feature_and_party": max(sum(to.values()) for to in sent.values())
                    / FEATURES
                    / 1e3,
                }
            )
    return results


def local_sums(repeats: int) -> list[dict[str, float]]:
    """Nanoseconds per value and lambda: exact integer sums against plain float64 sums."""
    n, p = 350, 2000
    X = np.random.default_rng(0).lognormal(size=(n, p))
    domain = Domain.from_bounds(None, p)
    silo = ArraySilo(X, domain, [str(j) for j in range(p)])
    features = np.arange(p)
    results = []
    for lmbda in (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0):
        lambdas = np.full(p, lmbda)
        encoding = choose_encoding(domain, silo.count, lambdas)
        limbs = int(encoding.limbs.max())

        def exact(lambdas: Any = lambdas, encoding: Any = encoding, limbs: int = limbs) -> Any:
            return silo.sums(features, lambdas, encoding, limbs)

        def floating(lmbda: float = lmbda) -> Any:
            y, d = transform(X, lmbda), derivative(X, lmbda)
            return y.sum(0), d.sum(0), (y * y).sum(0), (y * d).sum(0)

        ours, theirs = shortest(exact, repeats)[0], shortest(floating, repeats)[0]
        results.append({"lambda": lmbda, "exact_ns": ours / X.size * 1e9, "ratio": ours / theirs})
    return results


def transcriptome(levels: int, *, verified: bool = True) -> dict[str, float]:
    """3 silos x 350 rows x 20,000 features, in a process of its own to see its memory."""
    command = [sys.executable, "-m", "benchmarks.secure", "--transcriptome", str(levels)]
    if not verified:
        command.append("--unverified")
    result: dict[str, float] = json.loads(
        subprocess.run(command, capture_output=True, check=True).stdout
    )
    return result


def _measure_transcriptome(levels: int, verified: bool) -> None:
    silos = example(350, 20_000)
    model = SecureFedYJ(levels_per_exchange=levels, verified=verified)
    before = time.process_time()
    seconds, fitted = shortest(lambda: model.fit(silos), 1)
    processor = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        json.dumps(
            {
                "levels": levels,
                "seconds": seconds,
                "cpu_seconds": processor,
                "seconds_local": fitted.cost_.seconds_local,
                "peak_gb": peak / 1e9,
                "input_gb": sum(silo.nbytes for silo in silos) / 1e9,
                "rounds": fitted.cost_.rounds,
            }
        )
    )


def paper_table(data: dict[str, Any]) -> str:
    """Seconds per feature beside the literal paper, the shortest of each, as Markdown."""
    lines = [
        "| rows per silo x features | the paper, literally | engine `mpyc` "
        "| engine `replicated`, default bounds | the same, bounds from 0 |",
        "|---|---|---|---|---|",
    ]
    for r in data["against_the_paper"]:
        cells = []
        for name, by in r["replicated_seconds"].items():
            seconds, levels = min((min(times), levels) for levels, times in by.items())
            cells.append(
                f"{1e3 * seconds:.1f} ms (levels {levels}): {r['speedup'][name]:.0f}x faster"
            )
        lines.append(
            f"| {r['rows']:,} x {r['features']:,} | {min(r['literal_seconds']):.2f} s "
            f"| {r['mpyc_seconds']:.2f} s | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def cost_table(data: dict[str, Any]) -> str:
    """Rounds and bytes over levels per exchange, as Markdown."""
    lines = [
        "| | the paper | levels 1 | levels 2 | levels 4 | levels 8 |",
        "|---|---|---|---|---|---|",
    ]
    for silos in (3, 5, 10):
        rows = [r for r in data["rounds_and_bytes"] if r["silos"] == silos]
        paper = ("726", "8 MB") if silos == 3 else ("", "")
        lines.append(
            f"| rounds, {silos} silos | {paper[0]} | "
            + " | ".join(str(r["rounds"]) for r in rows)
            + " |"
        )
        lines.append(
            f"| sent per feature and peer, {silos} silos | {paper[1]} | "
            + " | ".join(f"{r['kb_per_feature_and_peer']:.0f} kB" for r in rows)
            + " |"
        )
    return "\n".join(lines)


def caption(data: dict[str, Any]) -> str:
    """How it was measured, local sums and a transcriptome, as sentences."""
    sums = [r["exact_ns"] for r in data["local_sums"]]
    ratios = [r["ratio"] for r in data["local_sums"]]
    best, verified = data["transcriptome"]
    paper = data["against_the_paper"][0]
    medians = " and ".join(f"{ratio:.0f}x" for ratio in paper["speedup_of_medians"].values())
    return (
        f"Times in the first table are the shortest of {len(paper['literal_seconds'])} each, the "
        f"paper and ours by turns; with {paper['rows']} rows, the medians give {medians}. A silo's "
        f"exact sums take {min(sums):.0f} to {max(sums):.0f} ns per value and lambda (lambda from "
        f"-2 to 2), {min(ratios):.2f} to {max(ratios):.2f} of what plain float64 sums take. A "
        f"transcriptome, 3 silos x 350 rows x 20,000 features in one process, takes "
        f"{best['seconds']:.0f} s (levels {best['levels']}), {best['seconds_local']:.0f} s of them "
        f"for the sums, and {best['peak_gb']:.1f} GB of memory at most; verified, "
        f"{verified['seconds']:.0f} s and {verified['peak_gb']:.1f} GB."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("out/secure.json"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--turns", type=int, default=6, help="of the paper and of ours")
    parser.add_argument("--transcriptome", type=int, metavar="LEVELS", help=argparse.SUPPRESS)
    parser.add_argument("--unverified", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.transcriptome:
        _measure_transcriptome(arguments.transcriptome, not arguments.unverified)
        return
    data: dict[str, Any] = {"against_the_paper": []}
    for rows, features in SHAPES:
        print(f"measuring {features:,} features, {rows:,} rows a silo ...", flush=True)
        turns = arguments.turns if rows * features < 10**5 else min(arguments.turns, 2)
        data["against_the_paper"].append(against_the_paper(rows, features, turns))
    print("counting rounds and bytes ...", flush=True)
    data["rounds_and_bytes"] = rounds_and_bytes()
    print("measuring local sums ...", flush=True)
    data["local_sums"] = local_sums(arguments.repeats)
    print("measuring a transcriptome, 20,000 features ...", flush=True)
    data["transcriptome"] = [transcriptome(1, verified=verified) for verified in (False, True)]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(data, indent=1))
    print("\n3 parties, 40 steps, seconds per feature\n")
    print(paper_table(data))
    print()
    print(cost_table(data))
    print("\nexact integer sums, per value and lambda, and their time as a multiple of float64's")
    for r in data["local_sums"]:
        print(f"  lambda {r['lambda']:+.1f}: {r['exact_ns']:.0f} ns, {r['ratio']:.2f}x")
    print("\n3 silos x 350 rows x 20,000 features")
    for r, how in zip(data["transcriptome"], ("not verified", "verified"), strict=True):
        print(
            f"  levels {r['levels']}, {how}: {r['seconds']:.0f} s, of which local sums "
            f"{r['seconds_local']:.0f} s; peak {r['peak_gb']:.2f} GB; {r['rounds']} rounds"
        )
    print(f"\nsaved: {arguments.output}")


if __name__ == "__main__":
    main()
