"""The pooled fit of a table: lambda, center and width of every feature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Bools, Integers, each
from securefedyj.numerics.passes import Source, read
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.pooled.blocks import Held, Streamed, Survey, Table, survey
from securefedyj.pooled.likelihood import Likelihood
from securefedyj.pooled.sides import Sides
from securefedyj.pooled.solvers import Optimum, expsearch, newton

# Numbers held at once: features are fitted in batches of this size (16 MB), or one by one. A source
# with more is read again for every pass.
_BATCH = 1 << 21

# Beyond this many rows, a fit to a sample gives the start of the fit to all. Where there are fewer,
# a pass over all rows costs no more than one over the sample.
_MANY_ROWS = 1 << 19
# Columns of a source that are fitted at once.
_COLUMNS = 128


class PooledFit(NamedTuple):
    lmbda: Array
    at_bound: Bools
    converged: Bools
    constant: Bools
    standardization: Standardization
    path: Array  # (visits, n_features)
    n: Integers  # values that are not missing


def fit_pooled(X: Array | Source, solver: str, max_steps: int, box_cox: bool = False) -> PooledFit:
    """Fit every column of X. A column with fewer than two distinct values gets lambda = 1.

    The result depends on the rows alone, in every bit: an array and a source that yields the same
    rows, in blocks of whatever size, have the same.
    """
    held = X if isinstance(X, np.ndarray) else _held(X)
    keep, tables = held is not None, _streamed(X) if held is None else _batches(held)
    batches = [_fit_batch(table, keep, solver, max_steps, box_cox) for table in tables]
    visits = max(len(batch.path) for batch in batches)
    return PooledFit(*(_joined(parts, visits) for parts in zip(*batches, strict=True)))


def _held(source: Source) -> Array | None:
    """All rows of a source, unless they are too many to be held."""
    blocks, n = [np.empty((0, len(source.names)))], 0
    for block in read(source, range(len(source.names))):
        blocks.append(block)
        n += block.size
        if n > _BATCH:
            return None
    held = np.concatenate(blocks)
    if len(held) < 2:
        raise InputError(
            "SFY-NUM-007", f"The table has {len(held)} row(s); a fit needs 2 at least."
        )
    return held


def _batches(X: Array) -> Iterator[Table]:
    at_once = max(1, min(_BATCH // len(X), X.shape[1]))
    room = np.empty(at_once * len(X))  # one batch is done with when the next is asked for
    for first in range(0, X.shape[1], at_once):
        yield Held.copy_of(X[:, first : first + at_once], room)


def _streamed(source: Any) -> Iterator[Table]:
    columns = np.arange(len(source.names))
    for first in range(0, len(columns), _COLUMNS):
        yield Streamed(source, columns[first : first + _COLUMNS])


def _joined(parts: tuple[Any, ...], visits: int) -> Any:
    """One field of the fits of all batches, whose features lie side by side."""
    if np.ndim(parts[0]) == 1 or isinstance(parts[0], Standardization):
        return each(lambda *arrays: np.concatenate(arrays), *parts)
    missing = [np.full((visits - len(path), path.shape[1]), np.nan) for path in parts]
    paths = [np.concatenate(pair) for pair in zip(parts, missing, strict=True)]
    return np.concatenate(paths, axis=1)


def _fit_batch(table: Table, keep: bool, solver: str, max_steps: int, box_cox: bool) -> PooledFit:
    """Fit all features of a table, and keep its distances in memory or not."""
    p = table.n_features
    rows, found = survey(table)
    if np.any((found.n > 0) & (np.isinf(found.lowest) | np.isinf(found.highest))):
        raise InputError(
            "SFY-NUM-008",
            "The table contains infinity. Declare it missing, or leave out the rows that have it.",
        )
    if box_cox:
        _check_positive(found)
    constant = ~found.varies
    center = np.where(found.n == 0, 0.0, found.lowest)
    # Of a constant c: Psi(1, x) - c = x - c, as if its standard deviation were 1.
    width = 1 / np.maximum(np.abs(center) + (not box_cox), np.finfo(np.float64).tiny)
    standardization = Standardization(center, width, np.zeros(p))
    lmbda, at_bound, converged = np.ones(p), np.zeros(p, dtype=bool), np.ones(p, dtype=bool)
    path = np.empty((0, p))
    varying = np.flatnonzero(~constant)
    if len(varying):
        chosen = table.take(varying)
        sides = Sides(chosen, rows, found.take(varying), box_cox)
        optimum = _optimize(chosen, rows, sides, keep, solver, max_steps)
        lmbda[varying], at_bound[varying] = optimum.lmbda, optimum.at_bound
        converged[varying] = optimum.converged
        for column, values in zip(standardization, optimum.standardization, strict=True):
            column[varying] = values
        path = np.full((len(optimum.path), p), np.nan)
        path[:, varying] = optimum.path
    return PooledFit(lmbda, at_bound, converged, constant, standardization, path, found.n)


def _check_positive(found: Survey) -> None:
    """Refuse what has no Box-Cox transformation, in the words of scikit-learn."""
    if np.any(found.lowest <= 0):
        raise InputError(
            "SFY-NUM-016",
            "The Box-Cox transformation can only be applied to strictly positive data.",
        )
    if np.any(found.n == 0):
        raise InputError("SFY-NUM-017", "Column must not be all nan.")


def _optimize(
    table: Table, rows: int, sides: Sides, keep: bool, solver: str, max_steps: int
) -> Optimum:
    """The optimum of every feature by the chosen solver."""
    many = rows > _MANY_ROWS and solver == "newton"
    start = _rough_fit(sides) if many else None
    likelihood = Likelihood(table, sides, keep)
    if solver == "expsearch":
        return expsearch(likelihood, max_steps)
    optimum = newton(likelihood, start)
    if many and not optimum.converged.all():
        again = newton(likelihood, features=np.flatnonzero(~optimum.converged))
        optimum = _better(optimum, again)
    return optimum


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


def _rough_fit(sides: Sides) -> Array:
    """Starting points from a sample of the rows, NaN where it will not do."""
    part, box_cox = sides.sample, sides.box_cox
    start = np.full(len(part), np.nan)
    varies = survey(Held.copy_of(part.T))[1].varies
    if varies.any():
        rough = newton(Likelihood(part[varies], box_cox=box_cox), rough=True)
        start[varies] = np.where(rough.converged, rough.lmbda, np.nan)
    return start
