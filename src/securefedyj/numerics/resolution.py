"""Is lambda certain? What the signs of the search can tell, from public values alone.

The score of a feature, divided by n, is mean(phi) - Cov(y, d)/Var(y). Every value has its y and d
rounded to float64 and to the grid of the encoding, so the score that the parties compare with 0 is
not the true one. How far this may move lambda follows from what the run has opened: center, spread,
n and lambda.

Write L = log(1+|c|) at the center c, w = e^{uL} for the slope of Psi there (in units of L), and s
for the standard deviation of y over w: the width of the standardization. Near the center y/w varies
like L, with deviation s.

- *The error of one value*, over w. In closed form y and d are right to some 2^-53 of themselves; on
  a decaying side, as constant + residual, to 2^-53 of w/|u| and w (|z| + 1)/u^2, with z = uL. On
  the grid both are off by half of 2^-f. An error of y counts L times, since dd/dy = L. In all:

      e = 2^-53 (d + L y)/w  or  2^-53 ((1 + |z|)/u^2 + L/|u|),  plus  (1 + L) 2^-f/w,

  with (L w + y)/|u| in place of d beyond |z| = 0.34, where d is the difference of these.

- *The error of the score.* |Cov(y, error)|/Var(y) <= e/s, and half of the grid of phi.
- *The error of lambda.* The score falls by 1/t^2 per unit of lambda, where t is the natural unit
  of lambda, 1/sqrt(|score'|/n). For values close to each other, in L, t is 0.82/s for a normal
  distribution and sqrt(3)/s for two values of equal frequency, which is the most: so lambda is
  off by no more than (e/s) (3/s^2), and it should be right to 1e-9 of max(|lambda|, t). It is
  then also right for heavier tails: there t is smaller, and what rounding does to lambda shrinks by
  its square.
- *The bracket*, after the last step, must be as narrow. With heavy tails t is as small as
  sqrt(12/(7 n))/s; 1/(s sqrt(n)) is less than that.

Values that are far from each other have a large s, and lambda is certain by far. A side that the
center is not on may have another grid; it counts only if it can have values at all: one value
beyond 0 has a distance of |y(c)| from the mean, which makes s at least |y(c)|/(w sqrt(n)).

A sign at an earlier point of the search came from another grid, which may be coarser. It is right
if the score there is larger than its error: at a distance from lambda* it is at least that distance
over t^2, up to t.

All is computed by operations that have the same result everywhere: the answer is part of what the
parties must agree on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.elementary import exponential
from securefedyj.numerics.encoding import (
    DIGIT,
    NEAR,
    NEAR_ZERO,
    Domain,
    choose_encoding,
    is_decaying,
)
from securefedyj.numerics.search import PRECISION, Bracket, Path, promised
from securefedyj.numerics.yeojohnson import Standardization

# What the argument leaves out: the units of the last place that a few operations lose, and values
# that are not close to each other.
_SAFETY = 3.0
# Pairs of a feature and a point of its search that are looked at together.
_PAIRS = 1 << 16
# t s of a normal distribution, and the most that it can be.
_NORMAL_UNIT, _LARGEST_UNIT = 0.8, 3.0**0.5


def steps_wanted(domain: Domain, precision: float = PRECISION) -> Integers:
    """Steps that reach a precision where lambda has the size that the bounds suggest.

    Values that fill their bounds have s of about L_max, and lambda of a few times 1/L_max.
    """
    size = 4 / np.maximum(domain.L_positive, domain.L_negative)
    reaching = np.maximum(np.frexp(size)[1], 0) + 2
    halving = -int(np.frexp(precision)[1])
    return np.asarray(reaching + halving, dtype=np.int64)


class Certainty(NamedTuple):
    """What can be said of lambda; where either is not so, the fit has not converged."""

    resolved: Bools
    """Whether rounding cannot have moved it beyond the promise."""
    narrowed: Bools
    """Whether the steps have narrowed the bracket to the promise."""


def certainty(
    domain: Domain,
    n: Integers,
    bracket: Bracket,
    path: Path,
    standardization: Standardization,
    at_bound: Bools,
) -> Certainty:
    """Whether lambda is certain, for features that vary."""
    center, spread = standardization.center, standardization.width
    lmbda, allowed = bracket.value, promised(len(path.points))
    with np.errstate(all="ignore"):
        tolerance = allowed * np.maximum(np.abs(lmbda), _NORMAL_UNIT / spread)
        unit = _LARGEST_UNIT / spread
        resolved = (spread > 0) & (_error(domain, n, center, spread, lmbda) <= tolerance)
        visited = ~np.isnan(path.points)
        points, features = path.points[visited], np.nonzero(visited)[1]
        for first in range(0, len(points), _PAIRS):
            j, point = features[first : first + _PAIRS], points[first : first + _PAIRS]
            error = _error(domain.take(j), n[j], center[j], spread[j], point)
            distance = np.minimum(np.abs(point - lmbda[j]), unit[j])
            np.logical_and.at(resolved, j, error <= np.maximum(tolerance[j], distance))
        half = np.maximum(bracket.upper - lmbda, lmbda - bracket.lower)
        narrowest = allowed * np.maximum(np.abs(lmbda), 1 / (spread * np.sqrt(n)))
        narrowed = at_bound | (half <= narrowest)
    return Certainty(resolved, narrowed)


def _error(domain: Domain, n: Integers, center: Array, spread: Array, lmbda: Array) -> Array:
    """How far rounding at some lambda may move the optimum, by the argument above; may be inf."""
    encoding = choose_encoding(domain, n, lmbda)
    positive = center >= 0
    u = np.where(positive, lmbda, 2 - lmbda)
    L = np.abs(domain.logarithm(center))
    L_max = np.where(positive, domain.L_positive, domain.L_negative)
    z = np.clip(u * L, -700.0, 700.0)
    w = exponential(z)
    y = np.where(np.abs(z) < 1e-4, L, (w - 1) / u)
    d = np.where(np.abs(z) < 1e-4, L * L / 2, (L * w - y) / u)
    kept_apart = is_decaying(L_max, u) & (np.abs(z) > NEAR_ZERO)
    d = np.where(np.abs(z) > NEAR, (L * w + y) / np.abs(u), d)
    in_float64 = np.where(kept_apart, (1 + np.abs(z)) / (u * u) + L / np.abs(u), (d + L * y) / w)
    # The grids that residuals of the center's side and of the other are rounded to.
    sides = encoding.positive, encoding.negative
    grids = [encoding.grid - side.spare // DIGIT * DIGIT for side in sides]
    own, other = np.where(positive, grids, grids[::-1])
    coarsest = np.where(y <= w * spread * np.sqrt(n), np.minimum(own, other), own)
    on_grid = (1 + L) * np.ldexp(1.0, -coarsest.astype(np.int32)) / w
    on_phi_grid = np.ldexp(0.5, -domain.phi_grid().astype(np.int32))
    of_score = (2.0**-53 * in_float64 + on_grid) / spread + on_phi_grid
    moved: Array = _SAFETY * of_score * (_LARGEST_UNIT / spread) ** 2
    return moved
