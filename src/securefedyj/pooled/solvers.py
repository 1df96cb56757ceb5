"""Two ways to the maximum of a pooled likelihood, over all its features at once.

`newton` is for speed, `expsearch` is the paper's algorithm 1. Both use only that the score,
the derivative of the log-likelihood, falls strictly (the paper's proposition 3.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index
from securefedyj.numerics.search import (
    PRECISION,
    Bracket,
    Limits,
    at_bound,
    exp_update,
    finished,
    promised,
)
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.pooled.likelihood import Evaluation, Likelihood
from securefedyj.pooled.noise import noise

# Beyond this a lambda is not followed: only data some 10^-300 apart have their optimum there.
LAMBDA_LIMIT = 1e300

# A Newton step shorter than this, relative to v, leaves an error of about its square.
_CONVERGED = 3e-9
# And one shorter than this, in units of v, which are those of exponents, leaves the mean and the
# variance where they are expected by their slopes.
_SHORT = 1e-7
# One shorter than this, relative to the distance over which the curvature changes much, leaves so
# little, too, if the curvature hardly changes on its way; `_certified` has the last word.
_NEARLY = 5e-6
_STRAIGHT = 1e-4
# What is enough for a start, in the same units.
_ROUGH = 1e-3
_MAX_PASSES = 100
# Below this a width has too few digits.
_SMALLEST_WIDTH = 1e-300
# A Newton step is corrected for the change of the curvature where that is less than this share.
_SLIGHT = 0.6
# No start is taken from a part of the data beyond this |v|.
_FAR = 1e9


class Optimum(NamedTuple):
    """lambda* of each feature, and the lambdas visited on the way, NaN once it was found."""

    lmbda: Array
    at_bound: Bools
    converged: Bools  # see `_certified`
    standardization: Standardization
    path: Array  # (visits, n_features)


def newton(
    likelihood: Likelihood,
    start: Array | None = None,
    features: Index | None = None,
    rough: bool = False,
) -> Optimum:
    """A Newton iteration inside a bracket that every evaluation narrows, of all or some features.

    A step that leaves the bracket, or is more than half as long as the one before, gives way
    to bisection. A rough optimum is one to start from.
    """
    v = likelihood.start()
    if start is not None:
        # Far off, the score cannot be judged: of all values but the largest nothing is left.
        near = np.abs(start * likelihood.scale) <= _FAR
        v = np.where(near, start * likelihood.scale, v)
    limit = LAMBDA_LIMIT * likelihood.scale
    lower, upper = np.full_like(v, -np.inf), np.full_like(v, np.inf)
    last_step = np.full_like(v, np.inf)
    was_lost = np.zeros(len(v), dtype=bool)
    converged = np.zeros(len(v), dtype=bool)
    standardization = Standardization(*(np.ones_like(v) for _ in Standardization._fields))
    active = np.arange(len(v)) if features is None else features
    path: list[Array] = []
    while len(active):
        at = v[active]
        path.append(_scattered(at / likelihood.scale[active], active, len(v)))
        evaluation = likelihood.evaluate(active, at)
        rising = evaluation.score > 0
        lower[active] = np.where(rising, at, lower[active])
        upper[active] = np.where(rising, upper[active], at)
        proposal, newton_step, straight = _propose(
            evaluation, at, lower[active], upper[active], last_step[active]
        )
        # Where the score is lost in rounding, and was so before, its sign cannot narrow the bracket
        # any further.
        lost = np.abs(evaluation.score) <= evaluation.score_noise
        proposal = np.where(lost & was_lost[active], at, proposal)
        was_lost[active] = lost
        proposal = np.clip(proposal, -limit[active], limit[active])
        step = np.abs(proposal - at)
        v[active], last_step[active] = proposal, step
        # A short Newton step leaves its square; a short bisection may have left the root behind.
        short = step <= np.minimum(_CONVERGED * np.maximum(np.abs(proposal), 1e-4), _SHORT)
        short |= rough & (step <= _ROUGH)
        done = (short & newton_step) | (step <= 2 * np.spacing(np.abs(proposal)))
        done |= len(path) == _MAX_PASSES
        with np.errstate(invalid="ignore"):
            unit = np.sqrt(likelihood.n[active] / -evaluation.curvature)
        ending = done | (newton_step & straight & (step <= _NEARLY * unit))
        if not ending.any():
            continue
        last, chosen = evaluation.take(ending), active[ending]
        left = _left_over(last, likelihood.n[chosen], step[ending])
        precision = _ROUGH if rough else PRECISION
        certified = _certified(likelihood, chosen, last, left, step[ending], precision)
        # What is only nearly done takes another step, unless it is certain.
        over = done[ending] | certified
        ending[ending] = over
        last, chosen = last.take(over), chosen[over]
        converged[chosen] = certified[over]
        found = likelihood.standardization(chosen, last, (proposal - at)[ending])
        for column, values in zip(standardization, found, strict=True):
            column[chosen] = values
        active = active[~ending]
    at_edge = np.abs(v) >= limit
    converged = (converged | at_edge) & (standardization.width > _SMALLEST_WIDTH)
    return Optimum(v / likelihood.scale, at_edge, converged, standardization, np.array(path))


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
    at_edge = at_bound(bracket, limits)
    # Of the bracket, which every sign has halved, the value is one end or the middle.
    distance = likelihood.scale * np.maximum(
        bracket.upper - bracket.value, bracket.value - bracket.lower
    )
    standardization = likelihood.standardization(everything, final)
    moved = np.zeros(n_features)
    certified = _certified(likelihood, everything, final, distance, moved, promised(max_steps))
    return Optimum(
        bracket.value,
        at_edge,
        (certified | at_edge) & (standardization.width > _SMALLEST_WIDTH),
        standardization,
        np.array(path),
    )


def _left_over(evaluation: Evaluation, n: Array, step: Array) -> Array:
    """How far a Newton step of this length may end from the optimum: some of its square.

    The unit is the distance over which the curvature changes much; the numbers of a float64 at the
    optimum are the least.
    """
    with np.errstate(all="ignore"):
        unit = np.sqrt(n / -evaluation.curvature)
        square: Array = 16 * step * step / unit
        left: Array = np.minimum(step, square) + 2 * np.spacing(np.abs(evaluation.v))
    return left


def _certified(
    likelihood: Likelihood,
    features: Index,
    evaluation: Evaluation,
    distance: Array,
    step: Array,
    precision: float,
) -> Bools:
    """Whether lambda, mean and variance are right to what is promised of them.

    The score at an evaluated point, its slope and its noise say where it changes its sign, whatever
    way led to the point: the optimum is at most ``distance`` away if the score is right. Rounding
    moves the score by no more than its noise, and so moves the optimum by no more than that over
    the curvature. Mean and variance are taken a step from the point, by two derivatives.
    """
    n, moved = likelihood.n[features], noise(evaluation.rounding, likelihood.sides)
    with np.errstate(all="ignore"):
        curvature = -evaluation.curvature
        allowed = precision * np.maximum(np.abs(evaluation.v), np.sqrt(n / curvature))
        of_moments = moved.mean + moved.variance + 2 * moved.bend * step * step
        certified: Bools = (
            (curvature > 0)
            & np.isfinite(evaluation.score)
            & (n * moved.score / curvature + distance <= allowed)
            & (of_moments <= max(precision, PRECISION))
        )
    return certified


def _propose(
    evaluation: Evaluation, v: Array, lower: Array, upper: Array, last_step: Array
) -> tuple[Array, Bools, Bools]:
    """Where to go next, whether that is a step of Newton or Halley, and if so a straight one."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        step = -evaluation.score / evaluation.curvature
        # Halley's step, where it is close enough to Newton's.
        share = step * evaluation.bend / (2 * evaluation.curvature)
        step = np.where(np.abs(share) < _SLIGHT, step / (1 + share), step)
    straight = np.abs(share) < _STRAIGHT
    bracketed = np.isfinite(lower) & np.isfinite(upper)
    # Without a bracket: in the direction of the score, and further each time.
    reach = np.abs(v) * (2 + np.abs(v)) + 4
    safe = v + np.where(evaluation.score > 0, reach, -reach)
    safe[bracketed] = _middle(lower[bracketed], upper[bracketed])
    # Far out the score is like 1/v - 1/v*, where Newton's steps would double v time and again:
    # there they are taken in 1/v.
    far = np.flatnonzero(~bracketed & (np.abs(v) > 2))
    if len(far):
        share = step[far] / v[far]
        doubling = (share > 0.5) & (share < 1)
        step[far[doubling]] /= 1 - share[doubling]
    good = (np.abs(step) <= reach) & (v + step >= lower) & (v + step <= upper)
    good &= ~bracketed | (np.abs(step) <= last_step / 2)
    good |= evaluation.score == 0
    step = np.where(evaluation.score == 0, 0.0, step)
    return np.where(good, v + step, safe), good, straight


def _middle(lower: Array, upper: Array) -> Array:
    """Halfway between two numbers, or between their magnitudes where these are far apart."""
    small, large = np.sort(np.abs([lower, upper]), axis=0)
    apart = large > 64 * (small + 1)
    same_side = lower * np.sign(upper) > 0
    magnitude = np.sqrt(np.where(same_side, np.maximum(small, 1.0), 1.0)) * np.sqrt(large)
    sign = np.where(np.abs(upper) > np.abs(lower), np.sign(upper), np.sign(lower))
    return np.where(apart, sign * magnitude, lower + (upper - lower) / 2)


def _scattered(values: Array, where: Index, size: int) -> Array:
    out = np.full(size, np.nan)
    out[where] = values
    return out
