"""How far rounding may move the score, the mean and the variance of pooled data: upper bounds.

Notation as in `likelihood`: a side has n values with distances D, the largest of which is 1, and
R = (e^{kappa D} - 1)/kappa. Every R and R' is divided by e^shift; top, ratio, origin and c are as
there. eps = 2^-53 is what one operation loses, of its result. All is to first order in eps; where
that is not enough, the bounds are so large that nothing is certified.

*One value.* Write e for e^{kappa D - shift}, r0 and r1 for the root mean squares of R and R', which
follow from the sums over the side, and w = e^-shift + |kappa| r0, which is at least that of e.

- D is off by eps (18 |D| + far). The logarithm that it comes from is right to 6 eps, differences
  and quotients add as much, and what happens to kappa D is like a change of D by 2 eps |D|. Where D
  is the difference of two logarithms, each is off by 6 eps of itself, and they differ by s |D|:
  far = 12 L_c/s. Where the values are close, only those with D < -log(2)/s are such differences;
  that is 18 L_c |D| at most. For Box-Cox, log(x/c) is right to 6 eps, whatever x and c.
- This moves R by e times as much, and R' by |D| e; and |D| e <= (1 + z) |R|, D^2 e <= (2 + z) R',
  where z is the largest kappa D, or 0 if all are negative.
- By series, R and R' are right to 16 eps. By exponentials, e is right to (8 + shift) eps, and so
  q0 = e - e^-shift to (16 + shift) eps e + 9 eps |q0|, and q1 = D e to (9 + shift) eps. With
  b = 1/|kappa| (0 for series), R = b q0 and R' = b (q1 - R).

So the root mean squares of the errors of R and R' are at most

    A = eps ((18 (1 + z) + 16) r0 + (far + (16 + shift) b) w)
    B = eps ((18 (2 + z) + 16) r1 + (1 + z) (far + (20 + shift) b) r0 + (16 + shift) b^2 w).

*Sums.* Some values at a time are summed in lanes, these are added up over a piece, then lane by
lane; pieces are added together with what that loses. So a sum of t is off by (d - 10) eps sum |t|
at most, where d - 16 is the number of additions to a lane, up to 80. Products, quotients and
differences of sums add less than
10 eps. By Cauchy and Schwarz, with m0 the mean of R,

    Var(R) is off by      C  = d eps r0 (r0 + 2 |m0|)
    Cov(R, R') is off by  C' = 2 d eps (r0 + 2 |m0|) (r1 + b r0).

*Sides.* Y - Y(c) is R times the ratio and f = e^{exponent - top}. The side whose exponent is top
has f = 1; f of the other is off by E = eps (8 (|u origin| + top) + 2 shift + 8). Y(c) and Y'(c) are
the same for all values of a side: what they lose, and what the means of R and R' lose, counts only
as far as the mean of the side differs from that of all. Origins are right to 8 eps, u origin to 10
eps; where it is below SERIES_BELOW, 4 takes the place of its inverse in what Y(c) loses.

*Score.* Let k00 be the variance of y, k01 its covariance with y', and z0 and z1 the deviations of y
and y' from their means. If y moves by a and y' by b, k00 moves by mean(2 |z0| a) and k01 by
mean(|z0| b + |z1| a), besides the errors of the sums; a side enters with its root mean squares. The
score over n is mean(phi) - k01/k00. The mean of |D| is at most |mean(D)| + 2 r0 e^shift, for
|D| <= |R| where kappa D > 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index
from securefedyj.numerics.yeojohnson import SERIES_BELOW
from securefedyj.pooled.blocks import LANES, PIECE, SOME
from securefedyj.pooled.sides import Sides, sum_by

_EPS = 2.0**-53


class Noise(NamedTuple):
    """Of each feature: what rounding may do, at most."""

    score: Array
    """To the score, divided by n."""
    mean: Array
    """To the mean, in standard deviations."""
    variance: Array
    """To the variance, of itself."""
    bend: Array
    """A step by dv moves both by their slopes, and by no more than this times dv^2 beyond."""


class Rounding(NamedTuple):
    """What the bounds follow from, for each side of some features."""

    owner: Index  # the feature
    side: Index
    share: Array  # of the values of the feature
    kappa: Array
    u: Array
    relative: Array  # the origin, less that of the larger side
    exponent: Array
    shift: Array
    mean_D: Array
    m0: Array
    r0: Array
    r1: Array
    z0: Array  # mean of the side, less that of the feature
    z1: Array
    c00: Array
    # Of the feature:
    top: Array
    k00: Array
    slope: Array

    def take(self, chosen: Bools) -> Rounding:
        rows, place = chosen[self.owner], np.cumsum(chosen) - 1
        of_sides: list[Any] = [column[rows] for column in self[1:15]]
        of_features: list[Any] = [column[chosen] for column in self[15:]]
        return Rounding(place[self.owner[rows]], *of_sides, *of_features)


def noise(at: Rounding, sides: Sides) -> Noise:
    """The bounds, for the features of an evaluation."""
    side, owner, ratio = at.side, at.owner, sides.ratio[at.side]
    measure, top = sides.measure, at.top[at.owner]
    size = measure.size[side]
    L = np.zeros(len(side)) if sides.box_cox else np.log1p(measure.reference[side])
    close, low, high = measure.close[side], measure.lowest_D[side], measure.highest_D[side]
    r0, r1, shift, share = at.r0, at.r1, at.shift, at.share
    with np.errstate(all="ignore"):
        z = np.maximum(np.maximum(at.kappa * low, at.kappa * high), 0.0)
        b = np.where(np.abs(at.kappa) <= SERIES_BELOW, 0.0, 1 / np.abs(at.kappa))
        w = np.exp(-shift) + np.abs(at.kappa) * r0
        far = np.where(close, 0.0, 12 * L / size)
        own = 18 + np.where(close & (low * size < -0.69), 18 * L, 0.0)
        A = _EPS * ((own * (1 + z) + 16) * r0 + (far + (16 + shift) * b) * w)
        B = _EPS * (
            (own * (2 + z) + 16) * r1
            + (1 + z) * (far + (20 + shift) * b) * r0
            + (16 + shift) * b * b * w
        )
        values = np.minimum(measure.n[side], PIECE)
        d = np.ceil(np.minimum(values, SOME) / LANES) + np.ceil(values / SOME) + 16
        spread = r0 + 2 * np.abs(at.m0)
        C, C1 = d * _EPS * r0 * spread, 2 * d * _EPS * spread * (r1 + b * r0)

        # In units of the feature.
        origin, at_reference = sides.origin[side], at.u * sides.origin[side]
        largest = np.abs(at_reference) + np.abs(top)
        E = _EPS * np.where(at.exponent == top, 8, 8 * largest + 2 * shift + 8)
        f = ratio * np.exp(at.exponent - top)
        o, larger, g = np.abs(at.relative), np.abs(at.relative - origin), f * ratio
        P0 = f * r0
        P1 = o * P0 + g * r1
        shaken = 8 * _EPS * np.where(at.relative == 0, 0.0, origin + larger)
        a = f * A + E * P0
        b_ = o * f * A + g * B + E * P1 + shaken * P0
        mean_a = f * d * _EPS * r0
        mean_b = o * mean_a + g * d * _EPS * (r1 + 2 * b * r0)
        # Y(c) is (power - 1)/u, and Y'(c) is (origin power - Y(c))/u.
        inverse = np.minimum(4.0, 1 / np.abs(at_reference))
        power = np.where(at_reference == top, 20, 8 * largest + 20) * np.exp(at_reference - top)
        of_Y = inverse * _EPS * (power + (8 * np.abs(top) + 20) * np.exp(-top))
        of_slope = 2 * inverse * (_EPS * power + of_Y)
        mean_a = mean_a + origin * of_Y
        mean_b = mean_b + origin * (origin * of_slope + larger * of_Y)

        def average(values: Array) -> Array:
            return sum_by(owner, share * values, len(at.k00))

        z0, z1 = np.abs(at.z0), np.abs(at.z1)
        s0, s1 = np.sqrt(np.maximum(at.c00, 0.0) + z0 * z0), P1 + z1
        k00 = average(2 * (s0 * a + z0 * mean_a) + f * f * C)
        k01 = average(s0 * b_ + s1 * a + z0 * mean_b + z1 * mean_a + o * f * f * C + f * g * C1)
        size_of_D = np.where(shift > 0, 1.0, np.minimum(1.0, np.abs(at.mean_D) + 2 * r0))
        phi = average(ratio * _EPS * ((d + own) * size_of_D + far) + shaken)
        variance = k00 / at.k00
        return Noise(
            phi + k01 / at.k00 + np.abs(at.slope) * variance,
            average(a + mean_a) / np.sqrt(at.k00),
            variance,
            8 * average((P0 + z0) ** 2) / at.k00,
        )
