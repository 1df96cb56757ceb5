"""A silo with more rows than memory: seconds and peak memory by the number of rows.

    python -m benchmarks.large --rows 1e5 1e6 1e7

A folder of Parquet files with four features is made in a temporary place and deleted afterwards.
Each measurement is a process of its own: a silo's sums of one exchange (15 lambdas of each feature)
after the first pass over its rows, a whole fit with two other silos that are tiny, and the
pooled fit. With --compare, all of them are done again with the rows in memory, and the bits are
compared.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from securefedyj import ExpYJ, SecureFedYJ
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.streamed import StreamedSilo
from securefedyj.tables.files import write_table
from securefedyj.tables.source import as_array, as_source

NAMES = ["lognormal", "normal", "exponential", "uniform"]
BOUNDS = [(0.0, 1000.0), (-100.0, 100.0), (0.0, 1000.0), (-10.0, 10.0)]
LEVELS = 4
ROWS_IN_FILE = 1 << 20


def table(rows: int, seed: int) -> np.ndarray:
    """Rows of four features, of which one value in a hundred is missing."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.lognormal(0, 1, rows),
            rng.normal(0, 1, rows),
            rng.exponential(1, rows),
            rng.uniform(-1, 2, rows),
        ]
    )
    X[rng.random(X.shape) < 0.01] = np.nan
    return X


def make(folder: Path, rows: int) -> None:
    for k, first in enumerate(range(0, rows, ROWS_IN_FILE)):
        part = table(min(ROWS_IN_FILE, rows - first), k)
        write_table(folder / f"part-{k:04}.parquet", NAMES, part)


def exchange(data: Any, cache_bytes: int) -> dict[str, Any]:
    """The first pass over a silo's rows, and the sums of one exchange."""
    source, domain = as_source(data), Domain.from_bounds(BOUNDS, len(NAMES))
    start = time.perf_counter()
    silo = StreamedSilo(source, domain, NAMES, cache_bytes)
    arranged = time.perf_counter()
    nodes = 2**LEVELS - 1
    feature = np.tile(np.arange(len(NAMES)), nodes)
    lmbda = np.repeat(np.linspace(-1.0, 3.0, nodes), len(NAMES))
    encoding = choose_encoding(domain.take(feature), silo.count[feature], lmbda)
    sums = silo.sums(feature, lmbda, encoding, int(encoding.limbs.max()))
    done = time.perf_counter()
    return {
        "seconds": done - arranged,
        "seconds of the first pass": arranged - start,
        "ns per value and lambda": (done - arranged) / silo.count.sum() / nodes * 1e9,
        "bits": [part.tolist() for part in (*sums, silo.count)],
    }


def fit(data: Any, cache_bytes: int) -> dict[str, Any]:
    """A fit of three silos, two of which are tiny."""
    others = [pd.DataFrame(table(100, seed), columns=NAMES) for seed in (10**6, 10**6 + 1)]
    model = SecureFedYJ(bounds=BOUNDS, levels_per_exchange=LEVELS, cache_bytes=3 * cache_bytes)
    start = time.perf_counter()
    model.fit([data, *others])
    return {"seconds": time.perf_counter() - start, "bits": bits_of(model)}


def pooled(data: Any, cache_bytes: int) -> dict[str, Any]:
    """The pooled fit."""
    start = time.perf_counter()
    model = ExpYJ().fit(data)
    return {"seconds": time.perf_counter() - start, "bits": bits_of(model)}


def bits_of(model: Any) -> list[list[float]]:
    return [part.tolist() for part in (model.lambdas_, model.mean_, model.var_)]


MEASUREMENTS: dict[str, Callable[[Any, int], dict[str, Any]]] = {
    "exchange": exchange,
    "fit": fit,
    "pooled": pooled,
}


def measure(what: str, folder: Path, cache_bytes: int, in_memory: bool) -> dict[str, Any]:
    """In another process, whose memory is then known."""
    command = [sys.executable, "-m", "benchmarks.large", "--measure", what, str(folder)]
    command += ["--cache-mb", str(cache_bytes // 10**6), *["--in-memory"] * in_memory]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    measured: dict[str, Any] = json.loads(run.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--what", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS))
    parser.add_argument("--cache-mb", type=int, default=512)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--in-memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cache_bytes = options.cache_mb * 10**6
    if options.measure:
        what, folder = options.measure
        data = folder
        if options.in_memory:
            data = pd.DataFrame(as_array(as_source(folder)), columns=NAMES)
        began = time.process_time()
        measured = MEASUREMENTS[what](data, cache_bytes)
        measured["seconds of CPU"] = time.process_time() - began
        measured["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(measured))
        return
    for rows in map(int, options.rows):
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            make(Path(name), rows)
            for what in options.what:
                measured = measure(what, Path(name), cache_bytes, in_memory=False)
                bits = measured.pop("bits")
                words = [f"{key} {value:.1f}" for key, value in measured.items()]
                if options.compare:
                    whole = measure(what, Path(name), 10**12, in_memory=True)
                    words += ["same bits" if whole["bits"] == bits else "OTHER BITS"]
                print(f"{rows:>11,} rows, {what}: {', '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
