"""Whether the common lambda is plausible for a silo's own rows; for that silo alone.

A silo that makes up its sums chooses lambda (docs/security.md), but such a lambda often fits
nobody's rows. So each silo compares, at home, the log-likelihood of its own rows at the common
lambda with the best one for these rows.

The limit, half a nat per value, comes from trials. Honest silos of the paper's data sets, three to
ten of them, with rows at random, sorted by another column, or sorted by the same feature, lose at
most 0.45. Coin tosses instead of signs lose more in one feature of nine, so nearly every table of
thirty features reveals them. The check misses a lambda that is only a little off. And an honest
lambda may be far off where tails are so heavy that a few values decide (as of Student's t with two
degrees of freedom), or where one silo has most of the values that are not 0.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial

import numpy as np

from securefedyj.numerics.arrays import Array, Bools
from securefedyj.numerics.passes import RemoteSource, over_blocks
from securefedyj.pooled.fit import fit_pooled
from securefedyj.pooled.likelihood import Likelihood
from securefedyj.printable import in_words
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.result import Result, fit_of
from securefedyj.tables.silo_table import Census, SiloTable

LIMIT = 0.5
"""Nats per value."""
LEAST_DISTINCT = 20
"""With fewer distinct values the likelihood depends more on their rounding than on lambda."""

_MOST_ROWS = 10_000  # more would give the same answer, and take longer
_MOST_STEPS = 120
_MOST_NAMES = 5


def likelihood_lost(values: Array, lmbda: Array) -> Array:
    """The log-likelihood per value that lambda loses against the best one for these rows; NaN
    where a feature has too few distinct values."""
    rows = values[:: max(1, -(-len(values) // _MOST_ROWS))]
    lost = np.full(values.shape[1], np.nan)
    distinct = [len(np.unique(column[~np.isnan(column)])) for column in rows.T]
    usable = np.flatnonzero(np.array(distinct) >= LEAST_DISTINCT)
    if len(usable) == 0:
        return lost
    own = fit_pooled(np.array(rows[:, usable]), "newton", _MOST_STEPS)
    likelihood, every = Likelihood(np.array(rows[:, usable].T, order="C")), np.arange(len(usable))
    with np.errstate(all="ignore"):  # a made-up lambda may be beyond float64
        best, common = (
            likelihood.evaluate(every, at * likelihood.scale).log_likelihood / likelihood.n
            for at in (own.lmbda, lmbda[usable])
        )
    lost[usable] = np.where(np.isfinite(common), best - common, np.inf)
    return lost


def implausible(values: Array, agreement: Agreement, result: Result) -> Bools:
    """The features whose lambda is implausible for these rows."""
    found = np.zeros(len(agreement.features), dtype=bool)
    for method in ("yeo-johnson", "box-cox"):
        columns, fit = fit_of(agreement, result, method)
        rows = values[:, columns]
        if method == "box-cox":  # in units of the bound it is Yeo-Johnson
            rows = np.where(rows > 0, rows, np.nan) / agreement.domain.lower[columns] - 1
        found[columns] |= (likelihood_lost(rows, fit.lmbda) > LIMIT) & ~fit.constant
    return found


def implausible_for(own: SiloTable, agreement: Agreement, result: Result) -> Bools:
    """The same for a silo's table; remote rows are examined where they are."""
    examine = partial(_of_sample, agreement=agreement, result=result)
    if not isinstance(own.source, RemoteSource):
        return examine(own.census)
    every = range(len(own.source.names))
    found = over_blocks(own.source, every, Census.of, operator.add, examine)
    return np.zeros(len(agreement.features), dtype=bool) if found is None else found


def _of_sample(census: Census, agreement: Agreement, result: Result) -> Bools:
    return implausible(census.sample, agreement, result)


def warning(names: Sequence[str]) -> str:
    """The warning for the silo about features with an implausible lambda."""
    return (
        f"For your own rows, lambda of {in_words(names, _MOST_NAMES)} is implausible. "
        "Perhaps your rows differ much from those of the other silos, or a few extreme values "
        "decide. Perhaps a party did not use its real rows. Ask the others before you use the "
        "result. Only you see this warning."
    )
