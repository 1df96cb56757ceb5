"""Tables for a first consortium: the breast-cancer data of scikit-learn, split over silos."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from securefedyj.errors import InputError
from securefedyj.files import write_atomically
from securefedyj.numerics.arrays import Array
from securefedyj.tables.files import write_table

SILOS = ("north", "east", "south", "west")


def breast_cancer() -> tuple[Array, list[str]]:
    """The table and the names of its columns."""
    data = load_breast_cancer()
    return data.data, [str(name) for name in data.feature_names]


def by_silo(X: Array, names: Sequence[str], silos: int) -> dict[str, Array]:
    """The rows of each silo. The silos differ: the first has the smallest tumours."""
    order = np.argsort(X[:, list(names).index("mean radius")], kind="stable")
    parts = np.array_split(order, silos)
    return {silo: X[np.sort(rows)] for silo, rows in zip(SILOS, parts, strict=False)}


def public_bounds(X: Array) -> list[tuple[float, float]]:
    """From 0 to a power of two; real silos agree on bounds without looking at values."""
    return [(0.0, 2.0 ** ceil(log2(highest))) for highest in X.max(axis=0)]


def write(folder: Path, silos: int) -> list[tuple[Path, int]]:
    """Write NAME/patients.csv for each silo, and features.csv; return the tables and their rows."""
    if not 2 <= silos <= len(SILOS):
        raise InputError("SFY-DEMO-001", f"--silos must be 2 to {len(SILOS)}, not {silos}.")
    X, names = breast_cancer()
    tables = []
    for silo, rows in by_silo(X, names, silos).items():
        path = folder / silo / "patients.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, names, rows)
        tables.append((path, len(rows)))
    lines = ["name,lower,upper"]
    for name, (lower, upper) in zip(names, public_bounds(X), strict=True):
        lines.append(f"{name},{lower:g},{upper:g}")
    write_atomically(folder / "features.csv", ("\n".join(lines) + "\n").encode())
    return tables
