"""Agreements with several methods, and tables for them, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from securefedyj.numerics.arrays import Array
from securefedyj.protocol.agreement import Agreement, bounds_of
from securefedyj.protocol.methods import QUARTILES
from tests.federated_data import agreement

Methods = Mapping[str, tuple[str, ...]]

FIVE: tuple[Methods, ...] = (
    {"yeo-johnson": (), "quantiles": ("0.5",)},
    {"box-cox": ()},
    {"standard": ()},
    {"robust": QUARTILES, "quantiles": ("0.1", "0.5")},
    {"quantiles": ("0.2", "0.9")},
)
"""All methods, two of them of one feature twice."""


def agreed(
    methods: Sequence[Methods],
    bounds: Any = (0.25, 64.0),
    silos: int = 3,
    engine: str = "clear",
    resolution: tuple[str, ...] = (),
    **changes: Any,
) -> Agreement:
    """An agreement about a feature for each entry of `methods`."""
    names = tuple(f"feature {j}" for j in range(len(methods)))
    domain = bounds_of(bounds, names, tuple(methods))
    common = {"methods": tuple(methods), "resolution": resolution, "domain": domain}
    return agreement(len(methods), silos, None, engine, **common | changes)


def table(rows: int = 90, columns: int = 5, seed: int = 0) -> Array:
    """Positive values with 16 bits behind the point, some of them missing."""
    rng = np.random.default_rng(seed)
    values = rng.lognormal(sigma=0.8, size=(rows, columns))
    X = np.clip(np.rint(values * 2**16) / 2**16, 0.25, 64.0)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X
