"""Features as they are fitted, each by its number; and what a fit says of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.fuzz import aimed  # noqa: F401  # which adds its families to the tables
from benchmarks.fuzz.families import FAMILIES, MANY_ROWS, POOLED, Array
from securefedyj import ExpYJ, SecureFedYJ

FITS = {"pooled": {**FAMILIES, **POOLED}, "federated": FAMILIES, "large": MANY_ROWS}
"""The families of each kind of fit; "large" is a pooled one, too."""

_DEFAULT = 2.0**20
_LARGEST = 2.0**100
_SMALLEST = 2.0**-40
# Bounds are so many times the largest magnitude, if they are not the default ones.
_WIDTHS = {"equal_values": [2.0, 2.0, 1.0, 2.0**20], "thresholds": [1.0, 1.0, 2.0]}


@dataclass(frozen=True)
class Case:
    """One feature and how it is fitted."""

    family: str
    fit: str  # "newton", "expsearch" or "federated"
    x: Array = field(repr=False)
    bounds: tuple[float, float] | None = None
    max_steps: int = 40
    source: str = ""
    """Code that makes x again."""

    @property
    def values(self) -> Array:
        """Those that are not missing."""
        return self.x[~np.isnan(self.x)] + 0.0


@dataclass(frozen=True)
class Outcome:
    """What a fit says of one feature."""

    lmbda: float
    converged: bool
    at_bound: bool
    constant: bool
    z: Array = field(repr=False)  # of the values of the case
    passes: int = 0


def make(fit: str, family: str, seed: int, number: int) -> Case:
    """A feature that depends on these four alone."""
    rng = np.random.default_rng([seed, list(FITS).index(fit), number])
    draw, source = FITS[fit][family], f"make({fit!r}, {family!r}, {seed}, {number}).x"
    if fit == "federated":
        while True:
            x = draw(rng)
            if _SMALLEST <= np.nanmax(np.abs(x)) <= _LARGEST:
                return Case(family, fit, x, _bounds_for(family, x, rng), source=source)
    if fit == "pooled" and rng.random() < 0.2:
        return Case(family, "expsearch", draw(rng), max_steps=1200, source=source)
    return Case(family, "newton", draw(rng), source=source)


def _bounds_for(family: str, x: Array, rng: np.random.Generator) -> tuple[float, float] | None:
    """The default bounds where they hold the values, or others from tight to far too wide."""
    largest = float(np.nanmax(np.abs(x)))
    kind = int(rng.integers(4))
    if kind == 0 and largest <= _DEFAULT:
        return None
    wide = largest * float(rng.choice(_WIDTHS.get(family, [1.0, 2.0, 2.0**5, 2.0**20])))
    wide = min(max(wide, 2 * _SMALLEST), _LARGEST)
    if kind == 1:
        return (-wide, wide)
    lower = 0.0 if np.nanmin(x) >= 0 else -wide
    upper = 0.0 if np.nanmax(x) <= 0 and lower < 0 else wide
    return (lower, upper)


def outcomes(cases: Sequence[Case]) -> list[Outcome]:
    """Fit some features, which are all pooled or all federated."""
    if cases[0].fit == "federated":
        return _fit_federated(cases)
    return [_fit_pooled(case) for case in cases]


def _fit_pooled(case: Case) -> Outcome:
    yj = ExpYJ(solver=case.fit, max_steps=case.max_steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yj.fit(case.x[:, None])
        return _outcome(yj, 0, yj.transform(case.values[:, None])[:, 0], len(yj.path_))


def _fit_federated(cases: Sequence[Case]) -> list[Outcome]:
    """All features in one fit, which pads the shorter ones with NaN."""
    X = np.full((max(len(case.x) for case in cases), len(cases)), np.nan)
    for j, case in enumerate(cases):
        X[: len(case.values), j] = case.values
    bounds = [case.bounds or (-_DEFAULT, _DEFAULT) for case in cases]
    fed = SecureFedYJ(engine="clear", bounds=bounds, max_steps=cases[0].max_steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fed.fit([X])
        Z = fed.transform(X)
    return [_outcome(fed, j, Z[: len(case.values), j]) for j, case in enumerate(cases)]


def _outcome(fitted: Any, j: int, z: Array, passes: int = 0) -> Outcome:
    return Outcome(
        float(fitted.lambdas_[j]),
        bool(fitted.converged_[j]),
        bool(fitted.at_bound_[j]),
        bool(fitted.var_[j] == 0),
        z,
        passes,
    )


def most(values: Array) -> float:
    """The largest magnitude; inf if one is not a number."""
    largest = float(np.max(np.abs(values)))
    return math.inf if math.isnan(largest) else largest
