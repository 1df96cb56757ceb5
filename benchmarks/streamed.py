"""ExpYJ over a folder of Parquet of any size: time by rows, and resident memory.

    python -m benchmarks.streamed --rows 100000 1000000 10000000 100000000

Each fit is a process of its own, which reads the folder in passes. Beside it, scikit-learn fits
PowerTransformer to the first million rows, or to all if there are fewer, in memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.preprocessing import PowerTransformer

from securefedyj import ExpYJ

FEATURES = 4
PART = 1_000_000
MB = 1e6


def write_part(folder: Path, part: int, rows: int) -> None:
    """One file of the folder: one feature of one sign, two of both, one of counts."""
    rng = np.random.default_rng(part)
    columns = (
        rng.lognormal(size=rows),
        rng.normal(size=rows),
        rng.standard_t(5, rows),
        rng.poisson(3, rows).astype(np.float64),
    )
    table = pa.table({f"x{j}": column for j, column in enumerate(columns)})
    pq.write_table(table, folder / f"part-{part:05}.parquet", compression="none")


def fit(folder: Path) -> None:
    """Fit the folder and print what it took, as JSON."""
    start = time.perf_counter()
    fitted = ExpYJ().fit(folder)
    result = {
        "seconds": time.perf_counter() - start,
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB,
        "passes": len(fitted.path_),
        "lambdas": fitted.lambdas_.tolist(),
    }
    print(json.dumps(result))


def sklearn_seconds(folder: Path) -> tuple[int, float]:
    X = pq.read_table(next(iter(sorted(folder.glob("*.parquet"))))).to_pandas().to_numpy()
    start = time.perf_counter()
    PowerTransformer().fit(X)
    return len(X), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--fit", type=Path, help="fit this folder in this process")
    arguments = parser.parse_args()
    if arguments.fit:
        fit(arguments.fit)
        return
    print("rows, seconds, ns per value, resident MB, scikit-learn's ns per value")
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part, first in enumerate(range(0, rows, PART)):
                write_part(folder, part, min(PART, rows - first))
            command = [sys.executable, "-m", "benchmarks.streamed", "--fit", name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            result = json.loads(done.stdout)
            n, seconds = sklearn_seconds(folder)
            print(
                f"{rows:,}, {result['seconds']:.2f}, "
                f"{1e9 * result['seconds'] / (rows * FEATURES):.0f}, "
                f"{result['resident_mb']:.0f}, {1e9 * seconds / (n * FEATURES):.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
