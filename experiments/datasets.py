"""The paper's data: what comes with scikit-learn, and what a folder may hold beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from securefedyj.numerics.arrays import Array

VARIABLE = "SECUREFEDYJ_DATA"
"""Environment variable that names the folder, where the option is not given."""

_LOADERS = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
    "breast cancer": datasets.load_breast_cancer,
}


class Feature(NamedTuple):
    dataset: str
    column: int
    name: str
    x: Array


class Listed(NamedTuple):
    """A line of the paper's table 1: a dataset and how often Brent's method failed on it."""

    name: str
    samples: int
    features: int
    instabilities: int
    source: str  # file, or the name of scikit-learn's loader


# The paper's table of appendix E.
UCI = [
    Listed("airfoil self noise", 1503, 5, 0, "airfoil_self_noise.csv"),
    Listed("blood transfusion", 748, 4, 1, "blood_transfusion.csv"),
    Listed("boston", 506, 13, 0, "boston.csv"),
    Listed("breast cancer diagnostic", 569, 30, 2, "breast cancer"),
    Listed("california", 20640, 8, 0, "california.csv.gz"),
    Listed("climate model crashes", 540, 18, 0, "climate_model_crashes.csv"),
    Listed("concrete compression", 1030, 7, 0, "concrete_compression.csv"),
    Listed("concrete slump", 103, 7, 0, "concrete_slump.csv"),
    Listed("connectionist bench sonar", 208, 60, 0, "connectionist_bench_sonar.csv"),
    Listed("connectionist bench vowel", 990, 10, 0, "connectionist_bench_vowel.csv"),
    Listed("ecoli", 336, 7, 2, "ecoli.csv"),
    Listed("glass", 214, 9, 0, "glass.csv"),
    Listed("ionosphere", 351, 34, 0, "ionosphere.csv"),
    Listed("iris", 150, 4, 0, "iris"),
    Listed("libras", 360, 90, 0, "libras.csv"),
    Listed("parkinsons", 195, 23, 0, "parkinsons.csv"),
    Listed("planning relax", 182, 12, 0, "planning_relax.csv"),
    Listed("qsar biodegradation", 1055, 41, 0, "qsar_biodegradation.csv"),
    Listed("seeds", 210, 7, 0, "seeds.csv"),
    Listed("wine", 178, 13, 0, "wine"),
    Listed("wine quality red", 1599, 10, 0, "wine_quality_red.csv"),
    Listed("wine quality white", 4898, 11, 0, "wine_quality_white.csv"),
    Listed("yacht hydrodynamics", 308, 6, 0, "yacht_hydrodynamics.csv"),
    Listed("yeast", 1484, 8, 0, "yeast.csv"),
]


class Cohort(NamedTuple):
    """Gene expression with survival, from a file."""

    name: str
    file: str
    unit: str
    components: int  # of the PCA, as in the paper


TCGA = [
    Cohort("colorectal (COAD+READ)", "tcga_coadread_tpm.csv.gz", "TPM", 128),
    Cohort("lung (LUAD)", "tcga_luad_fpkm.csv.gz", "FPKM", 128),
    Cohort("lung (LUSC)", "tcga_lusc_rsem.csv.gz", "RSEM counts", 128),
    Cohort("pancreas (PAAD)", "tcga_paad_rsem.csv.gz", "RSEM counts", 90),
]


def folder(option: Path | None) -> Path | None:
    """The folder of datasets: by the option, else by the environment variable, else none.

    A folder that was named and is not there is an error.
    """
    named = option or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None and not named.is_dir():
        raise FileNotFoundError(
            f"the data folder {named} does not exist: correct --data or {VARIABLE}"
        )
    return named


@cache
def features_108() -> list[Feature]:
    """The features with at least two distinct values of the paper's four datasets."""
    return [feature for name in _LOADERS for feature in load_sklearn(name)]


def load_sklearn(name: str) -> list[Feature]:
    bunch = _LOADERS[name]()
    names = [str(n) for n in bunch.feature_names]
    return list(_columns(name, bunch.data.astype(np.float64), names))


def feature(dataset: str, name: str) -> Feature:
    return next(f for f in load_sklearn(dataset) if f.name == name)


def available(data: Path | None, files: list[str]) -> list[str]:
    return [
        name for name in files if name in _LOADERS or (data is not None and (data / name).exists())
    ]


def fingerprint(data: Path | None, files: list[str]) -> dict[str, int]:
    """Which of the files there are, and their sizes: part of what results depend on."""
    return {
        name: 0 if name in _LOADERS else (data / name).stat().st_size  # type: ignore[operator]
        for name in available(data, files)
    }


def load_uci(listed: Listed, data: Path | None) -> list[Feature]:
    if listed.source in _LOADERS:
        return [f._replace(dataset=listed.name) for f in load_sklearn(listed.source)]
    table, names = _read_table(data, listed.source)
    return list(_columns(listed.name, table, names))


def thinned(x: Array, size: int) -> Array:
    """At most `size` order statistics at even distances: real values, extremes included."""
    order = np.sort(x)
    return order[np.linspace(0, len(x) - 1, min(size, len(x))).round().astype(int)]


def _columns(dataset: str, table: Array, names: list[str]) -> Iterator[Feature]:
    for column, name in enumerate(names):
        x = np.ascontiguousarray(table[:, column])
        if len(np.unique(x)) >= 2:
            yield Feature(dataset, column, name, x)


def _read_table(data: Path | None, name: str) -> tuple[Array, list[str]]:
    import pandas as pd

    assert data is not None
    frame = pd.read_csv(data / name)
    return frame.to_numpy(dtype=np.float64), [str(column) for column in frame.columns]


class Survival(NamedTuple):
    """Expression (patients x genes), linear scale, with follow-up."""

    name: str
    unit: str
    X: Array
    time: Array
    event: NDArray[np.bool_]
    patient: NDArray[np.str_]
    components: int


def load_cohort(cohort: Cohort, data: Path) -> Survival:
    """Genes without any expression are removed, as in the paper."""
    import pandas as pd

    frame = pd.read_csv(data / cohort.file)
    X = frame.iloc[:, 3:].to_numpy(dtype=np.float64)
    return Survival(
        cohort.name,
        cohort.unit,
        X[:, X.any(axis=0)],
        frame.iloc[:, 1].to_numpy(dtype=np.float64),
        frame["event"].to_numpy().astype(bool),
        frame["patient"].to_numpy().astype(str),
        cohort.components,
    )


def load_gse7390() -> Survival:
    """The breast cancer cohort of scikit-survival: 76 genes of 198 patients, time to metastasis.

    It comes as log2 intensities; 2^x brings it back to the linear scale of the other cohorts.
    """
    from sksurv.datasets import load_breast_cancer

    X, y = load_breast_cancer()
    genes = [column for column in X.columns if column.startswith("X")]
    return Survival(
        "breast (GSE7390)",
        "microarray intensity",
        np.exp2(X[genes].to_numpy(dtype=np.float64)),
        np.asarray(y["t.tdm"], dtype=np.float64),
        np.asarray(y["e.tdm"], dtype=bool),
        np.arange(len(X)).astype(str),
        90,
    )
