"""Tables to try a consortium with: the breast-cancer data of scikit-learn, split over silos."""

from __future__ import annotations

from math import ceil, log2
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from securefedyj.errors import InputError
from securefedyj.files import write_atomically
from securefedyj.tables.files import write_table

SILOS = ("north", "east", "south", "west")


def write(folder: Path, silos: int) -> list[tuple[Path, int]]:
    """Write NAME/patients.csv for each silo, and features.csv; return the tables and their rows.

    The silos differ, as hospitals do: the first has the patients with the smallest tumours.
    """
    if not 2 <= silos <= len(SILOS):
        raise InputError("SFY-DEMO-001", f"--silos must be 2 to {len(SILOS)}, not {silos}.")
    data = load_breast_cancer()
    names = [str(name) for name in data.feature_names]
    order = np.argsort(data.data[:, names.index("mean radius")], kind="stable")
    tables = []
    for silo, rows in zip(SILOS, np.array_split(order, silos), strict=False):
        path = folder / silo / "patients.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, names, data.data[np.sort(rows)])
        tables.append((path, len(rows)))
    lines = ["name,lower,upper"]
    for name, highest in zip(names, data.data.max(axis=0), strict=True):
        # Real silos agree on bounds before anybody looks; powers of two tell little.
        lines.append(f"{name},0,{2.0 ** ceil(log2(highest)):g}")
    write_atomically(folder / "features.csv", ("\n".join(lines) + "\n").encode())
    return tables
