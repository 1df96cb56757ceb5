"""Compute the exact Yeo-Johnson fit of 108 features: python tests/make_oracle_fixture.py.

The result is stored so that tests can compare with all features without computing them again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import mpmath
import numpy as np
from sklearn import datasets

from tests import oracle

FIXTURE = Path(__file__).parent / "data" / "oracle_108.json"
WORKERS = 2
LAMBDA_DIGITS = 30
MOMENT_DIGITS = 25
LOADERS = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
    "breast_cancer": datasets.load_breast_cancer,
}

Task = tuple[str, int, list[float]]
Row = dict[str, str | int]


def features() -> Iterator[Task]:
    """Yield the columns that have a Yeo-Johnson fit: constant ones have none."""
    for name, load in LOADERS.items():
        data = load().data.astype(np.float64)
        for column in range(data.shape[1]):
            if len(np.unique(data[:, column])) >= 2:
                yield name, column, data[:, column].tolist()


def row(task: Task) -> Row:
    """Fit one feature."""
    name, column, x = task
    lam = oracle.optimum(x)
    mean, var = oracle.mean_var(x, lam)
    return {
        "dataset": name,
        "column": column,
        "n": len(x),
        "lambda": mpmath.nstr(lam, LAMBDA_DIGITS, strip_zeros=False),
        "mean": mpmath.nstr(mean, MOMENT_DIGITS, strip_zeros=False),
        "var": mpmath.nstr(var, MOMENT_DIGITS, strip_zeros=False),
    }


def compute(tasks: list[Task]) -> list[Row]:
    """Fit all features, and tell how far it has come."""
    rows, start = [], time.perf_counter()
    with Pool(WORKERS) as pool:
        for done, result in enumerate(pool.imap(row, tasks), 1):
            rows.append(result)
            label = f"{result['dataset']}[{result['column']}]"
            seconds = time.perf_counter() - start
            print(
                f"{done:3d}/{len(tasks)} {seconds:6.1f} s {label:18} {result['lambda']}", flush=True
            )
    return rows


def dump(rows: list[Row]) -> str:
    """Format as JSON with one feature a line, so that differences can be read."""
    head = {"digits": oracle.BASE_DIGITS, "mpmath": mpmath.__version__}
    lines = ",\n".join("  " + json.dumps(entry) for entry in rows)
    return json.dumps(head)[:-1] + ',\n "features": [\n' + lines + "\n]}\n"


def main() -> None:
    """Write the fixture."""
    tasks = list(features())
    if len(tasks) != 108:
        raise SystemExit(f"expected 108 features, found {len(tasks)}: other data sets?")
    FIXTURE.parent.mkdir(exist_ok=True)
    FIXTURE.write_text(dump(compute(tasks)), encoding="utf-8")
    print(f"wrote {FIXTURE}")


if __name__ == "__main__":
    main()
