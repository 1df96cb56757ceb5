"""Agreements with several methods, tables for them, and what must come out, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil
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
    return agreement(len(methods), silos, bounds, engine, **common, **changes)


def point_numbers(values: Array, agreed: Agreement, column: int) -> list[int]:
    """The smallest points that are not below some values, by exact arithmetic."""
    lower, upper = agreed.domain.lower[column], agreed.domain.upper[column]
    text = agreed.resolution[column] if agreed.resolution else ""
    first = Fraction(Decimal(repr(float(lower)))) if text else Fraction(float(lower))
    step = Fraction(text) if text else (Fraction(float(upper)) - first) / (1 << 24)
    return [max(0, ceil((Fraction(float(x)) - first) / step)) for x in values]


def order_statistic(values: Array, quantile: str) -> float:
    """The value of rank max(1, ceil(q n))."""
    known = np.sort(values[~np.isnan(values)])
    return float(known[max(1, ceil(Fraction(quantile) * len(known))) - 1])
