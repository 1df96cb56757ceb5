"""Two ways to the maximum of a pooled likelihood, over all its features at once.

`newton` is for speed, `expsearch` is the paper's algorithm 1. Both use only that the score,
the derivative of the log-likelihood, falls strictly (the paper's proposition 3.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index
from securefedyj.numerics.likelihood import Evaluation, Likelihood
from securefedyj.numerics.search import Bracket, Limits, at_bound, exp_update, finished
from securefedyj.numerics.yeojohnson import Standardization

# Beyond this a lambda is not followed: only data some 10^-300 apart have their optimum there.
LAMBDA_LIMIT = 1e300

# A Newton step shorter than this, relative to v, leaves an error of about its square.
_CONVERGED = 3e-9
_MAX_PASSES = 400


class Optimum(NamedTuple):
    """lambda* of each feature, and the lambdas visited on the way, NaN once it was found."""

    lmbda: Array
    at_bound: Bools
    standardization: Standardization
    path: Array  # (visits, n_features)


def newton(likelihood: Likelihood, start: Array | None = None) -> Optimum:
    """A Newton iteration inside a bracket that every evaluation narrows.

    A step that leaves the bracket, or is more than half as long as the one before, gives way
    to bisection.
    """
    v = likelihood.start() if start is None else start * likelihood.scale
    limit = LAMBDA_LIMIT * likelihood.scale
    lower, upper = np.full_like(v, -np.inf), np.full_like(v, np.inf)
    last_step = np.full_like(v, np.inf)
    standardization = Standardization(np.empty_like(v), np.empty_like(v))
    active = np.arange(len(v))
    path: list[Array] = []
    while len(active):
        at = v[active]
        path.append(_scattered(at / likelihood.scale[active], active, len(v)))
        evaluation = likelihood.evaluate(active, at)
        rising = evaluation.score > 0
        lower[active] = np.where(rising, at, lower[active])
        upper[active] = np.where(rising, upper[active], at)
        proposal, newton_step = _propose(
            evaluation, at, lower[active], upper[active], last_step[active]
        )
        proposal = np.clip(proposal, -limit[active], limit[active])
        step = np.abs(proposal - at)
        v[active], last_step[active] = proposal, step
        # A short Newton step leaves its square; a short bisection may have left the root behind.
        short = step <= _CONVERGED * np.maximum(np.abs(proposal), 1e-4)
        done = (short & newton_step) | (step <= 2 * np.spacing(np.abs(proposal)))
        done |= len(path) == _MAX_PASSES
        last = Evaluation(*(column[done] for column in evaluation))
        found = likelihood.standardization(active[done], last, (proposal - at)[done])
        for column, values in zip(standardization, found, strict=True):
            column[active[done]] = values
        active = active[~done]
    return Optimum(v / likelihood.scale, np.abs(v) >= limit, standardization, np.array(path))


def expsearch(likelihood: Likelihood, max_steps: int) -> Optimum:
    """The paper's ExpYJ (algorithm 1): max_steps signs, each followed by ExpUpdate."""
    n_features = len(likelihood.n)
    limits = Limits(-LAMBDA_LIMIT, LAMBDA_LIMIT)
    bracket = Bracket.start(n_features)
    path = []
    for _ in range(max_steps):
        active = np.flatnonzero(~finished(bracket))
        if not len(active):
            break
        at = bracket.value[active]
        path.append(_scattered(at, active, n_features))
        score = likelihood.evaluate(active, at * likelihood.scale[active]).score
        delta = np.zeros(n_features)
        delta[active] = np.where(score > 0, 1, -1)
        update = exp_update(bracket, delta, limits)
        bracket = Bracket(*map(lambda a, b: np.where(delta == 0, a, b), bracket, update))
    everything = np.arange(n_features)
    final = likelihood.evaluate(everything, bracket.value * likelihood.scale)
    return Optimum(
        bracket.value,
        at_bound(bracket, limits),
        likelihood.standardization(everything, final),
        np.array(path),
    )


def _propose(
    evaluation: Evaluation, v: Array, lower: Array, upper: Array, last_step: Array
) -> tuple[Array, Bools]:
    """Where to go next, and whether that is a Newton step."""
    with np.errstate(divide="ignore", invalid="ignore"):
        step = -evaluation.score / evaluation.curvature
    bracketed = np.isfinite(lower) & np.isfinite(upper)
    # Without a bracket: in the direction of the score, no further than doubling.
    reach = 2 * np.abs(v) + 4
    safe = v + np.where(evaluation.score > 0, reach, -reach)
    np.add(lower, upper, out=safe, where=bracketed)
    np.divide(safe, 2, out=safe, where=bracketed)
    good = (np.abs(step) <= reach) & (v + step >= lower) & (v + step <= upper)
    good &= ~bracketed | (np.abs(step) <= last_step / 2)
    good |= evaluation.score == 0
    step = np.where(evaluation.score == 0, 0.0, step)
    return np.where(good, v + step, safe), good


def _scattered(values: Array, where: Index, size: int) -> Array:
    out = np.full(size, np.nan)
    out[where] = values
    return out
