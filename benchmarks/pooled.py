"""ExpYJ against scikit-learn's PowerTransformer: time of fit and peak memory, same data.

Run by `make bench`. Warm: both fit the same array in the same process, by turns; the shortest of
several runs counts, and what is reported is the ratio. First: the first fit of a fresh process, all
imports excluded, each in a process of its own, by turns; the median of several. Memory is the peak
of what a fit allocates beyond its input, as counted by tracemalloc, in a run of its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
import sklearn
from sklearn.preprocessing import PowerTransformer

from securefedyj import ExpYJ, kernel
from securefedyj.numerics.arrays import Array

MB = 1e6
COMPARED = ((1_000, 100), (10_000, 10), (100_000, 10), (1_000_000, 4))
TRANSCRIPTOME = (1_000, 20_000)


def shortest(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def data(rows: int, features: int) -> Array:
    return np.random.default_rng(0).lognormal(size=(rows, features))


def first_fit(name: str, rows: int, features: int) -> float:
    """Seconds of the first fit in a fresh process."""
    shape = str(rows), str(features)
    command = [sys.executable, "-m", "benchmarks.pooled", "--first", name, *shape]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def first_fits(rows: int, features: int, repeats: int) -> dict[str, float]:
    """The medians of both, and their ratio."""
    turns = [
        [first_fit(name, rows, features) for name in ("newton", "sklearn")] for _ in range(repeats)
    ]
    ours, theirs = np.median(turns, axis=0).tolist()
    return {"newton_first": ours, "sklearn_first": theirs, "first_speedup": theirs / ours}


def peak_memory(function: Callable[[], object]) -> int:
    """The most that was allocated at once during the call, in bytes."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def measure(rows: int, features: int, repeats: int, with_sklearn: bool = True) -> dict[str, float]:
    X = data(rows, features)
    fits: dict[str, Callable[[], object]] = {
        "newton": lambda: ExpYJ().fit(X),
        "expsearch": lambda: ExpYJ(solver="expsearch").fit(X),
    }
    if with_sklearn:
        fits["sklearn"] = lambda: PowerTransformer().fit(X)
    seconds = dict.fromkeys(fits, np.inf)
    for _ in range(repeats):
        for name, fit in fits.items():
            seconds[name] = min(seconds[name], shortest(fit))
    result: dict[str, float] = {"rows": rows, "features": features, "input_mb": X.nbytes / MB}
    for name, fit in fits.items():
        result[f"{name}_seconds"] = seconds[name]
        result[f"{name}_peak_mb"] = peak_memory(fit) / MB
        if name != "sklearn" and with_sklearn:
            result[f"{name}_speedup"] = seconds["sklearn"] / seconds[name]
    if with_sklearn:
        result |= first_fits(rows, features, repeats)
        ours, theirs = ExpYJ().fit(X).lambdas_, PowerTransformer().fit(X).lambdas_
        result["largest_difference_in_lambda"] = float(np.max(np.abs(ours - theirs)))
    return result


def table(results: list[dict[str, float]]) -> str:
    """Return the results as the Markdown table of docs/benchmarks.md."""
    lines = [
        "| rows x features | ExpYJ, first fit | PowerTransformer, first fit | faster by"
        " | ExpYJ, warm | expsearch, warm | PowerTransformer, warm | faster by"
        " | peak memory beyond the input (ours, theirs) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        compared = "sklearn_seconds" in r
        first = (
            f"{r['newton_first']:.3g} s | {r['sklearn_first']:.3g} s | {r['first_speedup']:.0f}x"
            if compared
            else "| not run |"
        )
        theirs = f"{r['sklearn_seconds']:.3g} s" if compared else "not run"
        faster = f"{r['newton_speedup']:.0f}x" if compared else ""
        memory = f"{r['newton_peak_mb']:.0f} MB"
        if compared:
            memory += f", {r['sklearn_peak_mb']:.0f} MB"
        lines.append(
            f"| {r['rows']:,.0f} x {r['features']:,.0f} ({r['input_mb']:.3g} MB) | {first} "
            f"| {r['newton_seconds']:.3g} s | {r['expsearch_seconds']:.3g} s "
            f"| {theirs} | {faster} | {memory} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("out/bench.json"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--first", nargs=3, metavar=("WHO", "ROWS", "FEATURES"))
    arguments = parser.parse_args()
    if arguments.first:
        name, *shape = arguments.first
        X = data(*map(int, shape))
        print(shortest(lambda: (ExpYJ if name == "newton" else PowerTransformer)().fit(X)))
        return
    results = []
    for rows, features in COMPARED:
        print(f"measuring {rows:,} x {features:,} ...", flush=True)
        results.append(measure(rows, features, arguments.repeats))
    print("measuring {:,} x {:,} (ours only) ...".format(*TRANSCRIPTOME), flush=True)
    results.append(measure(*TRANSCRIPTOME, repeats=1, with_sklearn=False))
    versions = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "kernel": kernel.level(),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"versions": versions, "results": results}, indent=1))
    print(f"\nLognormal data; {', '.join(f'{k} {v}' for k, v in versions.items())}\n")
    print(table(results))
    print(f"\nsaved: {arguments.output}")


if __name__ == "__main__":
    main()
