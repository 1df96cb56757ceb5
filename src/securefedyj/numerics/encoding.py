"""From public values to bit widths: on which grid a silo rounds, and how wide the sums become.

This is section 4.3 of docs/protocol.md. Everything here follows from the agreed bounds of a
feature, the total number of its values n, and the lambdas of the search, which are all public. So
all parties make the same encoding, and no encoding tells anything about the data.

Why no admissible data can overflow an encoding. Write L_max = log(1 + |bound|) for a side,
z = u L_max for its exponent, and z+ for max(z, 0). For every value inside the bounds

    |y| <= min(L_max, 1/|u|) e^{z+}             since (e^z - 1)/u is L times the mean of
                                                e^{zt} over t in [0, 1], and <= e^{z+}/|u|,
    |d| <= min(L_max^2/2, L_max/|u|) e^{z+}     since d is L^2 times the integral of t e^{zt},

and on a decaying side, where z+ = 0, the residuals obey |r_y| = w/|u| <= 1/|u| and
|r_d| = (w/|u|)(L + 1/|u|) <= 1/u^2, because e^{uL}(L + 1/|u|) falls with L. Rounding to a grid
keeps a bound that is a power of two. So with |y| <= 2^b_y, |d| <= 2^b_d, |phi| <= 2^b_phi (as
integers on their grids) and n values:

    |S_y| <= n 2^b_y,   S_yy <= n 2^2b_y,   |S_yd| <= n 2^(b_y + b_d),
    0 <= V = n S_yy - S_y^2 <= n^2 2^2b_y,
    |K| = |n S_yd - S_y S_d| <= n^2 2^(b_y + b_d)                       (Cauchy-Schwarz),
    |D| = |S_phi V - n K 2^shift| <= n^3 (2^(b_phi + 2b_y) + 2^(b_y + b_d + shift)),

and D is the widest number of the protocol; one more bit holds its sign. The bounds are taken
with a margin of 2^-20 for the rounding of float64 arithmetic on y and d, which is far smaller.

How precise lambda can be on these grids is argued in `resolution.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Bools, Index, Integers, each
from securefedyj.numerics.elementary import LOG2_E, log1p, log_ratio
from securefedyj.numerics.grid import Grid
from securefedyj.numerics.search import Limits

# Bits behind the binary point of y and d, where they are about 1 and e^{uL} does not decay.
PRECISION = 60
# Bits behind the binary point of phi, where it is about 1.
PHI_PRECISION = 52
# The range of lambda ends where |u| L_max log2(e), the exponent of w = e^{uL}, reaches this.
EXPONENT_BUDGET = 256
# |x| up to which values are admitted where nothing else was agreed.
DEFAULT_BOUND = float(2**20)
# Larger bounds leave too little of the range of lambda, smaller ones need more than there is.
LARGEST_BOUND = float(2**100)
SMALLEST_BOUND = float(2**-40)
# Below this, float64 does not hold the scale of the grid of phi, and sums would be wrong.
_NO_GRID_BELOW = 2.0**-970
# Sums are taken digit by digit; a side may leave out whole digits only.
DIGIT = 22

# Where |u| L stays below this, series in uL replace the closed forms; it is below ln(2)/2.
NEAR = 0.34
# Where -u L goes beyond this, e^{uL} would lose digits next to 1.
DECAYING = 1.0
# On a decaying side, w/u cannot tell values of smaller |u| L from each other; y itself can.
NEAR_ZERO = 2.0**-3
# Kinds of sides: y by series, in closed form, or as constant + residual.
SERIES, CLOSED, DECAY = range(3)

_MARGIN = 1 + 2.0**-20

# Scales of a feature: what a silo keeps of x, with the sign of x. For LINEAR it is scaled by a
# power of 2 to at most 1; RANKED values are counted, and none of the sums is taken.
LOGARITHM, RATIO, LINEAR, RANKED = range(4)
# Bits behind the binary point of a LINEAR value, in addition to PRECISION.
_LINEAR_PRECISION = 68


class Domain(NamedTuple):
    """The agreed bounds of each feature, lower <= x <= upper, and its scale.

    With them L at both ends: the largest log(1+|x|) among values >= 0 and among values < 0, 0 if
    there are none. Of a feature for Box-Cox, which is Yeo-Johnson of x/lower - 1, log(x/lower)
    takes its place, and of a LINEAR one the scaled value.
    """

    lower: Array
    upper: Array
    L_positive: Array
    L_negative: Array
    least: Array
    """The lower bound of features for Box-Cox, 0 of others."""
    scale: Integers
    grid: Grid
    """The points of RANKED features."""

    @classmethod
    def from_bounds(
        cls,
        bounds: Sequence[float] | Sequence[Sequence[float]] | Array | None,
        n_features: int,
        scale: Sequence[int] | None = None,
        resolution: Sequence[str] | None = None,
    ) -> Domain:
        """None (|x| <= 2^20), one (lower, upper) for all features, or one pair per feature.

        Features for Box-Cox, if there are any, have bounds > 0. By default all scales are
        LOGARITHM, and a grid has 2^24 steps.
        """
        if bounds is None:
            bounds = (-DEFAULT_BOUND, DEFAULT_BOUND)
        pairs = np.asarray(bounds, dtype=np.float64)
        if pairs.shape != (2,) and pairs.shape != (n_features, 2):
            raise InputError(
                "SFY-NUM-001",
                f"bounds must be None, one (lower, upper) or {n_features} pairs of them, one per "
                f"feature; got an array of shape {pairs.shape}",
            )
        lower, upper = np.broadcast_to(pairs, (n_features, 2)).T.copy()
        scales = np.array([LOGARITHM] * n_features if scale is None else scale, dtype=np.int64)
        scaled = scales == RATIO
        largest = np.where(scaled, np.finfo(np.float64).max, LARGEST_BOUND)
        smallest = np.where(scaled, np.finfo(np.float64).smallest_subnormal, -LARGEST_BOUND)
        right = (lower >= smallest) & (lower < upper) & (upper <= largest)
        if not right.all():
            j = int(np.flatnonzero(~right)[0])
            allowed = "> 0" if scaled[j] else "up to 2^100"
            raise InputError(
                "SFY-NUM-002",
                f"bounds of feature {j} must be numbers {allowed} with lower < upper, "
                f"got ({lower[j]:g}, {upper[j]:g})",
            )
        size = np.where(scaled, 1.0, np.maximum(np.abs(lower), np.abs(upper)))
        tiny = np.flatnonzero(size < _NO_GRID_BELOW)
        if len(tiny):
            j = int(tiny[0])
            raise InputError(
                "SFY-NUM-003",
                f"bounds of feature {j} are ({lower[j]:g}, {upper[j]:g}): below 1e-292 there is no "
                "grid for sums. Give the feature in another unit, in which its values are closer "
                "to 1.",
            )
        least, lowest = np.where(scaled, lower, 0.0), np.maximum(-lower, 0.0)
        highest, linear = np.maximum(upper, 0.0), scales == LINEAR
        ratio = log_ratio(np.where(scaled, upper, 1.0), np.where(scaled, lower, 1.0))
        grid = Grid.of(lower, upper, scales == RANKED, resolution)
        L = np.where(scaled, ratio, log1p(highest)), log1p(lowest)
        domain = cls(lower, upper, *L, least, scales, grid)
        domain.L_positive[linear] = domain.scaled(highest)[linear]
        domain.L_negative[linear] = domain.scaled(lowest)[linear]
        return domain

    def take(self, features: Index) -> Domain:
        return each(lambda part: part[features], self)

    def logarithm(self, x: Array) -> Array:
        """L of values of each feature, with the sign of x; not for LINEAR and RANKED ones."""
        ratio = self.scale == RATIO
        L = log_ratio(np.where(ratio, x, 1.0), np.where(ratio, self.least, 1.0))
        return np.where(ratio, L, np.copysign(log1p(np.abs(x)), x))

    def scaled(self, x: Array) -> Array:
        """LINEAR values of each feature as a silo keeps them."""
        scaled: Array = np.ldexp(x, -self.exponent().astype(np.int32))
        return scaled

    def exponent(self) -> Integers:
        """The least b with |x| < 2^b; LINEAR values are kept as x 2^-b."""
        return _exponent(np.maximum(np.abs(self.lower), np.abs(self.upper)))

    def check_usable(self, names: Sequence[str]) -> None:
        """Refuse bounds that no run can work with."""
        largest = np.maximum(self.L_positive, self.L_negative)
        small = np.flatnonzero((self.scale <= RATIO) & (largest < log1p(np.array(SMALLEST_BOUND))))
        if len(small):
            j = int(small[0])
            what, advice = (
                (f"closer than {SMALLEST_BOUND:.1g} of themselves", "Agree on wider bounds.")
                if self.least[j]
                else (
                    f"below {SMALLEST_BOUND:.1g}",
                    "Give the feature in another unit, in which its values are closer to 1.",
                )
            )
            raise InputError(
                "SFY-NUM-004",
                f"the bounds of feature {names[j]!r} are {self.lower[j]:g} and {self.upper[j]:g}; "
                f"values {what} would need a lambda beyond any range. {advice}",
            )

    def phi_grid(self) -> Integers:
        """phi is rounded to multiples of 2^-phi_grid."""
        return PHI_PRECISION + _smallness(np.maximum(self.L_positive, self.L_negative))

    def limits(self) -> Limits:
        """The range of lambda, |u| L_max log2(e) <= EXPONENT_BUDGET on both sides.

        For a RANKED feature the numbers of the points, below which there is -1.
        """
        L = np.maximum([self.L_positive, self.L_negative], 2.0**-40)
        positive, negative = EXPONENT_BUDGET / (L * LOG2_E)
        ranked = self.scale == RANKED
        return Limits(
            np.where(ranked, -1.0, np.maximum(-positive, 2 - negative)),
            np.where(ranked, self.grid.last, np.minimum(positive, 2 + negative)),
            ranked,
        )

    def at_constants(self) -> Array:
        """Where features that do not vary are evaluated: lambda = 1, or less if that is too far.

        It may be for Box-Cox, whose bounds have no limit.
        """
        return np.minimum(1.0, self.limits().highest)


class SideEncoding(NamedTuple):
    """What one side of a feature needs; numbers of bits."""

    y_bits: Integers  # of the largest |y|, as an integer on the grid of the encoding
    d_bits: Integers
    spare: Integers  # the side may round to a grid that is coarser by as much


class Encoding(NamedTuple):
    """Grids and widths for pairs of a feature and a lambda; numbers of bits."""

    grid: Integers  # y and d are rounded to multiples of 2^-grid
    positive: SideEncoding
    negative: SideEncoding
    v_bits: Integers  # of V = n S_yy - S_y^2
    sum_bits: Integers  # of the widest number of the protocol, its sign included

    @property
    def limbs(self) -> Integers:
        """64-bit words that hold every number of the protocol: the ring is Z_2^(64 limbs)."""
        return -(-self.sum_bits // 64)

    def take(self, pairs: Index | slice) -> Encoding:
        return each(lambda part: part[pairs], self)

    @classmethod
    def joined(cls, parts: Sequence[Encoding]) -> Encoding:
        """The encodings of several lists of pairs, one behind the other."""
        return each(lambda *arrays: np.concatenate(arrays), *parts)


def choose_encoding(domain: Domain, n: Integers, lmbda: Array) -> Encoding:
    """The encoding of each feature at its lambda; domain, n and lambda have one entry per pair."""
    # Both sides at once: row 0 is the positive one.
    L, u = sides_of(domain, lmbda)
    z, decays = u * L, is_decaying(L, u)
    inverse = 1 / np.maximum(np.abs(u), 2.0**-20)  # where |u| is less, L is the smaller bound
    # How far w = e^{uL} can fall below 1 and rise above it, in bits.
    decay = np.ceil(np.maximum(-z, 0.0) * (LOG2_E * _MARGIN)).astype(np.int64)
    growth = np.ceil(np.maximum(z, 0.0) * LOG2_E * _MARGIN).astype(np.int64)
    # y is about as large as the scale, d as its square: a small scale takes a finer grid.
    scale = np.minimum(L, inverse)
    basis = PRECISION + 2 * _smallness(scale.max(axis=0))
    basis += np.where(domain.scale == LINEAR, _LINEAR_PRECISION, 0)
    grid = basis + decay.max(axis=0)
    # |y| <= a e^z and |d| <= b e^z, and the same for the residuals of a decaying side.
    a = np.where(decays, inverse, scale)
    b = np.where(decays, inverse * inverse, np.minimum(L * L / 2, L * inverse))
    bits = _exponent(np.maximum([a, b], 2.0**-200) * _MARGIN)  # a side without values has none
    y_bits, d_bits = np.maximum(grid + bits + growth, 1)
    sides = zip(y_bits, d_bits, grid - basis - decay, strict=True)
    positive, negative = (SideEncoding(*side) for side in sides)
    phi_grid = domain.phi_grid()
    phi_bits = phi_grid + _exponent(L.max(axis=0) * _MARGIN)
    n_bits = _exponent(np.maximum(n, 1).astype(np.float64))
    most_y, most_d = y_bits.max(axis=0), d_bits.max(axis=0)
    widest = np.maximum(phi_bits + 2 * most_y, phi_grid + most_y + most_d)
    return Encoding(grid, positive, negative, 2 * (n_bits + most_y), 3 * n_bits + widest + 2)


def sides_of(domain: Domain, lmbda: Array) -> tuple[Array, Array]:
    """The largest L and u of both sides; row 0 is the positive one.

    A LINEAR value is its own y, which is what u = 0 means.
    """
    u = np.where(domain.scale == LINEAR, 0.0, np.array([lmbda, 2 - lmbda]))
    return np.array([domain.L_positive, domain.L_negative]), u


def kinds(L: Array, u: Array) -> Integers:
    """The kind of each side: by series, where e^{uL} is within a factor of sqrt(2) from 1."""
    return np.where(np.abs(u) * L <= NEAR, SERIES, np.where(is_decaying(L, u), DECAY, CLOSED))


def is_decaying(L: Array, u: Array) -> Bools:
    """Where the y of a side pile up at -side/u, and are kept as constant + residual."""
    return -u * L > DECAYING


def _smallness(scale: Array) -> Integers:
    """How far a scale is below 1, in bits."""
    return np.maximum(-_exponent(scale), 0)


def _exponent(a: Array) -> Integers:
    """The least b with a < 2^b."""
    return np.frexp(a)[1].astype(np.int64)
