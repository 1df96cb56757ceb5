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
METHODS = ("yeo-johnson", "box-cox")

_DEFAULT = 2.0**20
_LARGEST = 2.0**100
_SMALLEST = 2.0**-40
# Of values for Box-Cox; and how close their bounds may be.
_EXTREMES = (1e-307, 1e307)
_CLOSEST = 1 + 2.0**-30
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
    method: str = METHODS[0]

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


def make(fit: str, family: str, seed: int, number: int, method: str = METHODS[0]) -> Case:
    """A feature that depends on these five alone."""
    rng = np.random.default_rng([seed, list(FITS).index(fit), number])
    draw, source = FITS[fit][family], f"make({fit!r}, {family!r}, {seed}, {number}).x"
    if method == "box-cox":
        x = _positive(draw(rng), rng)
        bounds = _bounds_above_0(x, rng) if fit == "federated" else None
        source = source.replace(")", f", {method!r})")
        kind = "expsearch" if fit == "pooled" and rng.random() < 0.2 else "newton"
        steps = 1200 if kind == "expsearch" else 52
        kind = "federated" if bounds else kind
        return Case(family, kind, x, bounds, steps, source, method)
    if fit == "federated":
        while True:
            x = draw(rng)
            if _SMALLEST <= np.nanmax(np.abs(x)) <= _LARGEST:
                return Case(family, fit, x, _bounds_for(family, x, rng), source=source)
    if fit == "pooled" and rng.random() < 0.2:
        return Case(family, "expsearch", draw(rng), max_steps=1200, source=source)
    return Case(family, "newton", draw(rng), source=source)


def _positive(x: Array, rng: np.random.Generator) -> Array:
    """The magnitudes that are not 0, or in one of eight features of any magnitude at all."""
    x = np.abs(x[x != 0])
    if rng.random() < 0.125:
        x = x ** rng.uniform(-1, 1) * 10.0 ** rng.uniform(-200, 200, size=len(x))
    x = np.clip(x, *_EXTREMES)
    known = x[~np.isnan(x)]
    return x if len(known) > 1 else np.array([1.0, 2.0])


def _bounds_above_0(x: Array, rng: np.random.Generator) -> tuple[float, float]:
    """From tight to far too wide."""
    below, above = (2.0 ** rng.choice([0, 1, 5, 20]) for _ in range(2))
    bounds = np.clip([np.nanmin(x) / below, np.nanmax(x) * above], *_EXTREMES).tolist()
    return bounds[0], max(bounds[1], bounds[0] * _CLOSEST)


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
    yj = ExpYJ(case.method, solver=case.fit, max_steps=case.max_steps)
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
    options: Any = {"max_steps": cases[0].max_steps, "method": cases[0].method}
    fed = SecureFedYJ(engine="clear", bounds=bounds, **options)
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
        bool(fitted.var_[j] == 0 and fitted.lambdas_[j] == 1),
        z,
        passes,
    )


def most(values: Array) -> float:
    """The largest magnitude; inf if one is not a number."""
    largest = float(np.max(np.abs(values)))
    return math.inf if math.isnan(largest) else largest
