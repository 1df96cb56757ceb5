"""Reading and transforming a large CSV: time, processor time and resident memory.

A table of 1 million rows and 20 columns is generated (about 370 MB). Each way to read it runs in
its own process, in turn, and the shortest of several runs counts: imports are not measured, and
memory is the peak of the process. Each result is compared with a peer: with pandas' read_csv; and
for the transformation of every second column with Arrow's read_csv and write_csv, which copy the
table and transform nothing. (pandas' to_csv takes several times as long.)

    python -m benchmarks.tables --output out/tables.json
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
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

MB = 1e6
TABLE, AGREED, FITTED, WRITTEN = "rows.csv", "consortium.toml", "parameters.json", "written.csv"


def generate(folder: Path, rows: int, columns: int) -> None:
    """A table, an agreed file that it fits, and the parameters of every second column."""
    import pandas as pd

    from securefedyj import SecureFedYJ, parameters
    from securefedyj.network import local
    from securefedyj.network.consortium import Feature

    names = [f"feature {j}" for j in range(columns)]
    few = np.ones((2, columns))
    local.prepare(
        folder, {"north": few, "east": few, "south": few}, [Feature(n, 0, 1e6) for n in names]
    )
    random, left = np.random.default_rng(0), rows
    sample = pd.DataFrame(random.lognormal(size=(100, len(names[::2]))), columns=names[::2])
    fitted = SecureFedYJ(engine="clear", bounds=(0, 1e6)).fit([sample])
    parameters.save(fitted.transcript_, folder / FITTED)
    schema = pa.schema([(name, pa.float64()) for name in names])
    with csv.CSVWriter(folder / TABLE, schema) as writer:
        while left:
            some = min(left, 100_000)
            values = random.lognormal(size=(columns, some))
            writer.write_batch(pa.record_batch([pa.array(row) for row in values], schema=schema))
            left -= some


def _pandas(folder: Path) -> None:
    import pandas as pd

    _measured(lambda: pd.read_csv(folder / TABLE))


def _join(folder: Path) -> None:
    from securefedyj.tables.silo_table import load_or_stream
    from securefedyj.tables.source import as_source

    _measured(lambda: load_or_stream(as_source(folder / TABLE), 1 << 30))


def _check(folder: Path) -> None:
    from securefedyj.cli.main import main
    from securefedyj.tables import files  # noqa: F401  # imports are not measured

    arguments = ["check", str(folder / AGREED), "--data", str(folder / TABLE)]
    _measured(lambda: main([*arguments, "--ledger", str(folder / "ledger.jsonl")]))


def _arrow_copy(folder: Path) -> None:
    _measured(lambda: csv.write_csv(csv.read_csv(folder / TABLE), folder / WRITTEN))


def _transform(folder: Path) -> None:
    from securefedyj import estimators  # noqa: F401
    from securefedyj.cli.main import main
    from securefedyj.tables import transforming  # noqa: F401

    arguments = ["transform", str(folder / FITTED), str(folder / TABLE)]
    _measured(lambda: main([*arguments, "--output", str(folder / WRITTEN), "--force"]))


READ, COPY = "pandas.read_csv", "pyarrow: read and write"
WAYS: dict[str, tuple[Callable[[Path], None], str]] = {
    READ: (_pandas, READ),
    "join (reading)": (_join, READ),
    "check --data": (_check, READ),
    COPY: (_arrow_copy, COPY),
    "transform": (_transform, COPY),
}
"""What is measured, and its peer."""


def _measured(function: Callable[[], object]) -> None:
    start, used = time.perf_counter(), time.process_time()
    with redirect_stdout(StringIO()):
        function()
    measured = {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - used,
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB,
    }
    print(json.dumps(measured))


def measure(folder: Path, repeats: int) -> dict[str, dict[str, float]]:
    best: dict[str, dict[str, float]] = {}
    for _ in range(repeats):
        for way in WAYS:
            call = [sys.executable, "-m", "benchmarks.tables", "--inside", way, str(folder)]
            now = json.loads(subprocess.run(call, check=True, capture_output=True).stdout)
            before = best.setdefault(way, now)
            best[way] = {key: min(value, before[key]) for key, value in now.items()}
    for way, (_, peer) in WAYS.items():
        for key in ("seconds", "processor_seconds"):
            best[way][f"{key}_ratio"] = best[way][key] / best[peer][key]
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="for the results as JSON")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is not None:
        way, folder = options.inside
        function, _ = WAYS[way]
        function(Path(folder))
        return
    with tempfile.TemporaryDirectory() as name:
        generate(Path(name), options.rows, options.columns)
        size = (Path(name) / TABLE).stat().st_size / MB
        results = measure(Path(name), options.repeats)
    print(f"CSV of {options.rows:,} x {options.columns}, {size:.0f} MB")
    print("| | seconds | of its peer's | processor seconds | of its peer's | resident |")
    print("|---|---|---|---|---|---|")
    for way, r in results.items():
        print(
            f"| {way} | {r['seconds']:.2f} | {r['seconds_ratio']:.2f} | "
            f"{r['processor_seconds']:.2f} | {r['processor_seconds_ratio']:.2f} | "
            f"{r['resident_mb']:.0f} MB |"
        )
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
