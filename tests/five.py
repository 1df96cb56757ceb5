"""A consortium of five columns with five methods, and the rows of three silos."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from securefedyj.network.consortium import Feature
from securefedyj.numerics.arrays import Array
from securefedyj.protocol.agreement import Agreement, bounds_of
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript

FEATURES = (
    Feature("lactate", 0.0, 64.0, method="yeo-johnson, quantiles", quantiles="0.5"),
    Feature("crp", 0.25, 64.0, method="box-cox"),
    Feature("age", 0.0, 128.0, method="standard"),
    Feature("creatinine", 0.0, 64.0, method="robust", resolution="0.25"),
    Feature("stay", 0.0, 64.0, method="quantiles", quantiles="0.2, 0.9", resolution="1"),
)
NAMES = tuple(one.name for one in FEATURES)


def rows(size: int = 90, seed: int = 0) -> Array:
    """Positive values on the grids of the quantiles, some of them missing."""
    rng = np.random.default_rng(seed)
    values = rng.lognormal(mean=1.0, sigma=0.8, size=(size, len(FEATURES)))
    X = np.clip(np.rint(values * 4) / 4, 0.25, 64.0)
    X[:, 4] = np.ceil(X[:, 4])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def frame(size: int = 90, seed: int = 0) -> pd.DataFrame:
    """The same rows with names."""
    return pd.DataFrame(rows(size, seed), columns=list(NAMES))


def agreement(**changes: Any) -> Agreement:
    """What three silos agree on for a run in one process."""
    bounds = [(one.lower, one.upper) for one in FEATURES]
    methods = tuple(one.methods for one in FEATURES)
    parties = ("ana", "bob", "cem")
    common: dict[str, Any] = {
        "features": NAMES,
        "domain": bounds_of(bounds, NAMES, methods),
        "methods": methods,
        "resolution": tuple(one.resolution for one in FEATURES),
        "parties": parties,
        "committee": parties,
        "engine": "clear",
        "minimum_values": 5,
        "verified": False,
    }
    return Agreement(**common | changes)


@cache
def run(size: int = 90) -> Transcript:
    """A run over the rows."""
    return simulate(agreement(), np.array_split(rows(size), 3))[0]
