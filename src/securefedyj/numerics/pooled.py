"""The pooled fit of a table: lambda, center and width of every feature."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.likelihood import Likelihood
from securefedyj.numerics.sides import sample_of
from securefedyj.numerics.solvers import Optimum, expsearch, newton
from securefedyj.numerics.yeojohnson import Standardization

# Numbers held at once: features are fitted in batches of this size (32 MB), or one by one.
_BATCH = 1 << 22

# Beyond this many rows, a fit to a sample of a sixteenth gives the start of the fit to all.
_MANY_ROWS = 1 << 16
_THINNING = 16


class PooledFit(NamedTuple):
    lmbda: Array
    at_bound: Bools
    converged: Bools
    constant: Bools
    standardization: Standardization
    path: Array  # (visits, n_features)
    n: Integers  # values that are not missing


def fit_pooled(X: Array, solver: str, max_steps: int) -> PooledFit:
    """Fit every column of X. A column with fewer than two distinct values gets lambda = 1."""
    rows_at_once = max(1, _BATCH // len(X))
    batches = [
        _fit_batch(np.array(X[:, first : first + rows_at_once].T, order="C"), solver, max_steps)
        for first in range(0, X.shape[1], rows_at_once)
    ]
    visits = max(len(batch.path) for batch in batches)
    return PooledFit(*(_joined(parts, visits) for parts in zip(*batches, strict=True)))


def _joined(parts: tuple[Any, ...], visits: int) -> Any:
    """One field of the fits of all batches, the features of which stand side by side."""
    if isinstance(parts[0], Standardization):
        return Standardization(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    missing = [np.full((visits - len(path), path.shape[1]), np.nan) for path in parts]
    paths = [np.concatenate(pair) for pair in zip(parts, missing, strict=True)]
    return np.concatenate(paths, axis=1)


def _fit_batch(rows: Array, solver: str, max_steps: int) -> PooledFit:
    """Fit the features in the rows of an array, which is used up."""
    p, n = rows.shape
    lowest, highest = _extremes(rows)
    constant = ~(lowest < highest)
    center = np.where(np.isnan(lowest), 0.0, lowest)
    # Of a constant c: Psi(1, x) - c = x - c, as if its standard deviation were 1.
    width = 1 / (1 + np.abs(center))
    standardization = Standardization(center, width, np.zeros(p))
    lmbda, at_bound, converged = np.ones(p), np.zeros(p, dtype=bool), np.ones(p, dtype=bool)
    count = np.full(p, n)
    if constant.any():
        count -= np.count_nonzero(np.isnan(rows), axis=1)
        rows = rows[~constant]
    path = np.empty((0, p))
    if len(rows):
        optimum, count[~constant] = _optimize(rows, solver, max_steps)
        lmbda[~constant], at_bound[~constant] = optimum.lmbda, optimum.at_bound
        converged[~constant] = optimum.converged
        for column, values in zip(standardization, optimum.standardization, strict=True):
            column[~constant] = values
        path = np.full((len(optimum.path), p), np.nan)
        path[:, ~constant] = optimum.path
    return PooledFit(lmbda, at_bound, converged, constant, standardization, path, count)


def _optimize(rows: Array, solver: str, max_steps: int) -> tuple[Optimum, Array]:
    """The optimum of every row by the chosen solver, and its number of values."""
    if solver == "expsearch":
        likelihood = Likelihood(rows)
        return expsearch(likelihood, max_steps), likelihood.n
    start = _rough_fit(rows)
    likelihood = Likelihood(rows)
    optimum = newton(likelihood, start)
    if start is not None and not optimum.converged.all():
        optimum = _better(optimum, newton(likelihood))
    return optimum, likelihood.n


def _better(first: Optimum, second: Optimum) -> Optimum:
    """Of each feature the first fit, or the second where only that has converged."""
    chosen = second.converged & ~first.converged
    for ours, theirs in zip(first.standardization, second.standardization, strict=True):
        ours[chosen] = theirs[chosen]
    return first._replace(
        lmbda=np.where(chosen, second.lmbda, first.lmbda),
        at_bound=np.where(chosen, second.at_bound, first.at_bound),
        converged=first.converged | chosen,
    )


def _rough_fit(rows: Array) -> Array | None:
    """Starting points from a part of the values, where there are many and the part will do."""
    if rows.shape[1] <= _MANY_ROWS:
        return None
    part = np.array(sample_of(rows, rows.shape[1] // _THINNING))
    lowest, highest = _extremes(part)
    varies = lowest < highest
    start = np.full(len(rows), np.nan)
    if varies.any():
        rough = newton(Likelihood(part[varies]))
        start[varies] = np.where(rough.converged, rough.lmbda, np.nan)
    return start


def _extremes(rows: Array) -> tuple[Array, Array]:
    """Lowest and highest value of each row, NaN where all are missing."""
    lowest, highest = np.min(rows, axis=1), np.max(rows, axis=1)
    missing = np.isnan(lowest)
    lowest[missing] = np.fmin.reduce(rows[missing], axis=1)
    highest[missing] = np.fmax.reduce(rows[missing], axis=1)
    return lowest, highest
