"""The pooled fit of a table: lambda, center and width of every feature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.likelihood import Likelihood
from securefedyj.numerics.solvers import Optimum, expsearch, newton
from securefedyj.numerics.yeojohnson import Standardization

# Numbers held at once: features are fitted in batches of this size (32 MB), or one by one.
_BATCH = 1 << 22

# Beyond this many rows, a fit to every 16th gives the start of the fit to all.
_MANY_ROWS = 1 << 16
_THINNING = 16


class PooledFit(NamedTuple):
    lmbda: Array
    at_bound: Bools
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
    paths = [
        np.pad(batch.path, ((0, visits - len(batch.path)), (0, 0)), constant_values=np.nan)
        for batch in batches
    ]
    return PooledFit(
        np.concatenate([batch.lmbda for batch in batches]),
        np.concatenate([batch.at_bound for batch in batches]),
        np.concatenate([batch.constant for batch in batches]),
        Standardization(
            np.concatenate([batch.standardization.center for batch in batches]),
            np.concatenate([batch.standardization.width for batch in batches]),
        ),
        np.concatenate(paths, axis=1),
        np.concatenate([batch.n for batch in batches]),
    )


def _fit_batch(rows: Array, solver: str, max_steps: int) -> PooledFit:
    """Fit the features in the rows of an array, which is used up."""
    p, n = rows.shape
    lowest, highest = _extremes(rows)
    constant = ~(lowest < highest)
    center = np.where(np.isnan(lowest), 0.0, lowest)
    # Of a constant c: Psi(1, x) - c = x - c, as if its standard deviation were 1.
    width = 1 / (1 + np.abs(center))
    lmbda, at_bound, count = np.ones(p), np.zeros(p, dtype=bool), np.full(p, n)
    if constant.any():
        count -= np.count_nonzero(np.isnan(rows), axis=1)
        rows = rows[~constant]
    path = np.empty((0, p))
    if len(rows):
        optimum, count[~constant] = _optimize(rows, solver, max_steps)
        lmbda[~constant], at_bound[~constant] = optimum.lmbda, optimum.at_bound
        center[~constant], width[~constant] = optimum.standardization
        path = np.full((len(optimum.path), p), np.nan)
        path[:, ~constant] = optimum.path
    return PooledFit(lmbda, at_bound, constant, Standardization(center, width), path, count)


def _optimize(rows: Array, solver: str, max_steps: int) -> tuple[Optimum, Array]:
    """The optimum of every row by the chosen solver, and its number of values."""
    if solver == "expsearch":
        likelihood = Likelihood(rows)
        return expsearch(likelihood, max_steps), likelihood.n
    start = _rough_fit(rows)
    likelihood = Likelihood(rows)
    return newton(likelihood, start), likelihood.n


def _rough_fit(rows: Array) -> Array | None:
    """Starting points from a part of the values, where there are many and the part will do."""
    if rows.shape[1] <= _MANY_ROWS:
        return None
    part = np.array(rows[:, ::_THINNING])
    lowest, highest = _extremes(part)
    return newton(Likelihood(part)).lmbda if np.all(lowest < highest) else None


def _extremes(rows: Array) -> tuple[Array, Array]:
    """Lowest and highest value of each row, NaN where all are missing."""
    lowest, highest = np.min(rows, axis=1), np.max(rows, axis=1)
    missing = np.isnan(lowest)
    lowest[missing] = np.fmin.reduce(rows[missing], axis=1)
    highest[missing] = np.fmax.reduce(rows[missing], axis=1)
    return lowest, highest
