"""Whether the common lambda can be true, as far as a silo's own rows tell; for that silo alone.

A silo that makes up its sums chooses what each sign of the search answers, and lambda ends where
the answers lead (docs/security.md). No rule of the protocol prevents it. But a lambda from such
answers often fits nobody's rows. So each silo compares, at home, the log-likelihood of its own
rows at the common lambda with that at their own best one.

The limit, half a nat per value, is from trials. Honest silos of the paper's data sets, three to ten
of them, that have rows at random, by another column, or sorted by the very feature, lose at most
0.45. Signs that are tossed like coins lose more in one feature of nine, and so are noticed in
nearly every table of thirty. What this is not: a lambda that is moved by little stays unnoticed.
And an honest one may be far off where tails are so heavy that a few values decide (as of Student's
t with two degrees of freedom), or where one silo has most of the values that are not 0.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial

import numpy as np

from securefedyj.numerics.arrays import Array, Bools
from securefedyj.numerics.likelihood import Likelihood
from securefedyj.numerics.passes import RemoteSource, over_blocks
from securefedyj.numerics.pooled import fit_pooled
from securefedyj.printable import printable
from securefedyj.protocol.result import Result
from securefedyj.tables.census import Census, SiloTable

LIMIT = 0.5
"""Nats per value."""
LEAST_DISTINCT = 20
"""With fewer distinct values the likelihood says more of how they are rounded than of lambda."""

_MOST_ROWS = 10_000  # more would say the same, and take longer
_MOST_STEPS = 120
_MOST_NAMES = 5


def likelihood_lost(values: Array, lmbda: Array) -> Array:
    """How much worse, per value, lambda is for these rows than their own; NaN if they are few."""
    rows = values[:: max(1, -(-len(values) // _MOST_ROWS))]
    lost = np.full(values.shape[1], np.nan)
    usable = np.flatnonzero([_distinct(column) >= LEAST_DISTINCT for column in rows.T])
    if len(usable) == 0:
        return lost
    own = fit_pooled(np.array(rows[:, usable]), "newton", _MOST_STEPS)
    likelihood, every = Likelihood(np.array(rows[:, usable].T, order="C")), np.arange(len(usable))
    with np.errstate(all="ignore"):  # a lambda from nowhere may be beyond what float64 holds
        best, common = (
            likelihood.evaluate(every, at * likelihood.scale).log_likelihood / likelihood.n
            for at in (own.lmbda, lmbda[usable])
        )
    lost[usable] = np.where(np.isfinite(common), best - common, np.inf)
    return lost


def implausible(values: Array, result: Result) -> Bools:
    """The features whose lambda is implausible for these rows."""
    doubtful: Bools = likelihood_lost(values, result.lmbda) > LIMIT
    return doubtful & ~result.constant


def implausible_for(own: SiloTable, result: Result) -> Bools:
    """The same for a silo's table; where its rows are elsewhere, they are looked at there."""
    if not isinstance(own.source, RemoteSource):
        return implausible(own.census.sample.values, result)
    every, last = range(len(own.source.names)), partial(_of_sample, result=result)
    found = over_blocks(own.source, every, Census.of, operator.add, last)
    return np.zeros(len(result.lmbda), dtype=bool) if found is None else found


def _of_sample(census: Census, result: Result) -> Bools:
    return implausible(census.sample.values, result)


def warning(names: Sequence[str]) -> str:
    """What to tell the silo about such features."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    named = ", ".join(map(printable, names[:_MOST_NAMES]))
    return (
        f"For your own rows, lambda of {named}{more} is implausible. "
        "Perhaps they differ much from those of the other silos, or a few extreme values decide. "
        "Perhaps a party has computed with something else than its rows. Ask the others before "
        "you use it. Only you are told this."
    )


def _distinct(column: Array) -> int:
    return len(np.unique(column[~np.isnan(column)]))
