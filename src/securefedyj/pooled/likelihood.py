"""The profile likelihood of pooled data and its derivatives in lambda, for all features at once.

The log-likelihood (the paper's equation 3) needs only the variance of y = Psi(lambda, x), its
derivative only that and Cov(y, dy/dlambda). What makes them hard is that y may overflow, and
that y may be nearly constant. Both go away when each side of a feature (its values >= 0, its
values < 0) is measured from a reference value c amid its data:

    y = y(c) ± (1+|c|)^u R,    R = (e^{u D} - 1)/u,    D = log((1+|x|)/(1+|c|)).

If all values lie on one side, y(c) and (1+|c|)^u drop out of the problem altogether. Box-Cox has
one side, and x in place of 1+|x|.

Units: a side divides its D by their largest magnitude s, and multiplies u by it. A feature is
searched over v = lambda * scale, where scale is s for a feature with one side, and the largest
log(1+|x|) for one with two. So data of any magnitude, 10^-300 or 10^300, give numbers around 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index
from securefedyj.numerics.yeojohnson import SERIES_BELOW, Standardization, quotient_series
from securefedyj.pooled.blocks import Held, Table, survey
from securefedyj.pooled.distances import distances, row_sums
from securefedyj.pooled.noise import Rounding
from securefedyj.pooled.sides import Sides, sum_by

# What one of the sums behind a score usually loses: some units of the last place.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)

_SMALLEST = float(np.finfo(np.float64).smallest_subnormal)

# From this exponent on a row is scaled down by its largest value, lest its squares overflow.
_EXPONENT_MAX = 300.0


class Evaluation(NamedTuple):
    """The log-likelihood of some features at one v each, with derivatives in v.

    Mean and variance are those of y / (scale e^top), where y is measured from the reference of
    the side that the mean is on; each is followed by its first two derivatives.
    """

    v: Array
    log_likelihood: Array
    score: Array
    score_noise: Array
    """How far rounding may well have moved the score: below this, its sign tells nothing."""
    curvature: Array
    bend: Array
    """The third derivative."""
    top: Array
    side: Index
    """The row of the side that the mean is on."""
    mean: Array  # (3, features)
    mean_from_0: Array
    variance: Array
    rounding: Rounding

    def take(self, chosen: Bools) -> Evaluation:
        columns: list[Any] = [column[..., chosen] for column in self[:-1]]
        columns.append(self.rounding.take(chosen))
        return Evaluation(*columns)


class _Moments(NamedTuple):
    """Means and covariances of R and its derivatives in u over each row, divided by e^shift."""

    shift: Array
    mean_D: Array
    m0: Array
    m1: Array
    m2: Array
    m3: Array
    c00: Array
    c01: Array
    c11: Array
    c02: Array
    c12: Array
    c03: Array


class Likelihood:
    """The likelihood of every feature, prepared for evaluation at many lambdas.

    Given are features with at least two distinct values each, in the rows of an array or as a
    table; NaN counts as missing. Every evaluation is a pass over the distances of all values from
    their references: these are kept, or else taken from the table again.
    """

    def __init__(
        self,
        data: Array | Table,
        sides: Sides | None = None,
        keep: bool = True,
        box_cox: bool = False,
    ) -> None:
        table = Held.copy_of(data.T) if isinstance(data, np.ndarray) else data
        self.sides = sides = sides or Sides(table, *survey(table), box_cox)
        self._table = table
        self._kept = list(distances(table, sides, np.arange(len(sides.sign)))) if keep else None
        self.n = sides.n
        self.scale = sides.scale

    def start(self) -> Array:
        """Where to begin the search: lambda = 1, or u = 0 where there is but one side."""
        sides = self.sides
        negative = np.bincount(sides.feature, sides.sign < 0) > 0
        return self.scale * np.where(sides.one_sided, np.where(negative, 2.0, 0.0), 1.0)

    def evaluate(self, features: Index, v: Array) -> Evaluation:
        """The likelihood of the given features, each at its own v."""
        sides = self.sides
        position = np.full(len(self.n), -1)
        position[features] = np.arange(len(features))
        rows = np.flatnonzero(position[sides.feature] >= 0)
        owner = position[sides.feature[rows]]
        scale, n = self.scale[features], self.n[features]

        u = np.where(sides.sign[rows] > 0, v[owner], 2 * scale[owner] - v[owner])
        moments = self._row_moments(rows, u * sides.ratio[rows])
        sign, share = sides.sign[rows], sides.measure.n[rows] / n[owner]
        mean_D = moments.mean_D
        origin, ratio = sides.origin[rows], sides.ratio[rows]

        exponent = u * origin + moments.shift
        top = np.zeros(len(features))
        np.maximum.at(top, owner, exponent)
        # Derivatives are taken of e^{-o v} y, with o the origin of the larger side: y' - o y, and
        # so on. That moves phi and the slope by o alike, which would drown what distinguishes
        # close values far from 0.
        o = sides.larger_origin[features]
        relative = origin - sign * o[owner]
        alone = sides.one_sided[features]
        reference = (
            (np.zeros_like(u),) * 4  # such a side is its own origin
            if alone.all()
            else _relative_to(sign * o[owner], _reference_derivatives(u, origin, top[owner]))
        )
        offsets, covariances, products = _rescale(moments, relative, ratio, exponent, top[owner])
        # d/dv is d/du on the side of u = v and -d/du on the side of u = 2 - v, where y = -Y.
        signs = (sign, np.ones_like(sign), sign, np.ones_like(sign))
        own = [s * offset for s, offset in zip(signs, offsets, strict=True)]
        at_reference = [s * at for s, at in zip(signs, reference, strict=True)]

        def average(values: Array) -> Array:
            return sum_by(owner, share * values, len(features))

        y = [a + b for a, b in zip(own, at_reference, strict=True)]
        means = [average(values) for values in y]
        e0 = means[0]
        z0, z1, z2, z3 = (a - mean[owner] for a, mean in zip(y, means, strict=True))
        k00 = average(covariances[0] + z0 * z0)
        k01 = average(sign * covariances[1] + z0 * z1)
        k11_02 = average(covariances[2] + z1 * z1 + z0 * z2)
        k03_12 = average(sign * covariances[3] + z0 * z3 + 3 * (z1 * z2))

        mean_phi = average(sign * (relative + ratio * mean_D))
        slope = k01 / k00  # of log(sqrt(k00)), then its first and second derivative
        slope_1 = k11_02 / k00 - 2 * slope * slope
        slope_2 = k03_12 / k00 - slope * (6 * slope_1 + 4 * slope * slope)
        noise = _ROUNDING * (
            average(np.abs(relative) + ratio * np.abs(mean_D))
            + (np.abs(slope) * average(products[0]) + average(products[1])) / k00
        )
        if not alone.all():
            # Compared with each other, sides are off by the rounding of their exponents, except
            # a side that is negligible compared with the other.
            exponents, counts = np.zeros(len(features)), exponent - top[owner] > -40
            np.maximum.at(exponents, owner, np.where(counts, np.abs(u * origin), 0.0))
            noise *= 1 + exponents
        # Measured from 0, the mean would lose what distinguishes close values far from there.
        on_side = alone[owner] | ((e0[owner] >= 0) == (sign > 0))
        center = np.zeros(len(features), dtype=np.intp)
        center[owner[on_side]] = np.flatnonzero(on_side)
        of_center = (
            means[:3]
            if alone.all()
            else [
                average(np.where(on_side, own[k], y[k] - at_reference[k][center][owner]))
                for k in range(3)
            ]
        )
        log_variance = np.log(k00) + 2 * (top + np.log(scale))
        return Evaluation(
            v,
            n * (v - scale) * average(sign * (origin + ratio * mean_D))
            - n / 2 * (log_variance + np.log(2 * np.pi))
            - sides.log_jacobian[features],
            n * (mean_phi - slope),
            n * noise,
            -n * slope_1,
            -n * slope_2,
            top,
            rows[center],
            _with_factor(o, *of_center),
            _with_factor(o, *means[:3]),
            _with_factor(2 * o, k00, 2 * k01, 2 * k11_02),
            Rounding(
                *(owner, rows, share, u * ratio, u, relative, exponent, moments.shift, mean_D),
                *(moments.m0, np.sqrt(moments.c00 + moments.m0**2)),
                *(np.sqrt(np.abs(moments.c11) + moments.m1**2), z0, z1, covariances[0]),
                *(top, k00, slope),
            ),
        )

    def _row_moments(self, rows: Index, kappa: Array) -> _Moments:
        sides = self.sides
        n, lowest, highest = (
            column[rows]
            for column in (sides.measure.n, sides.measure.lowest_D, sides.measure.highest_D)
        )
        largest = np.maximum(kappa * highest, kappa * lowest)
        shift = np.where(largest > _EXPONENT_MAX, largest, 0.0)
        small = np.abs(kappa) <= SERIES_BELOW
        D = distances(self._table, sides, rows) if self._kept is None else self._kept
        sums = row_sums(D, rows, kappa, shift, small)
        m0, m1, m2, s00, s01, s11, s02, mean_D, m3, s12, s03 = sums / n
        moments = _Moments(
            *(shift, mean_D, m0, m1, m2, m3),
            *(s00 - m0 * m0, s01 - m0 * m1, s11 - m1 * m1, s02 - m0 * m2),
            *(s12 - m1 * m2, s03 - m0 * m3),
        )
        divided = _divided(moments, np.where(small, 1.0, kappa))
        return _Moments(*(np.where(small, a, b) for a, b in zip(moments, divided, strict=True)))

    def standardization(
        self, features: Index, evaluation: Evaluation, step: Array | float = 0.0
    ) -> Standardization:
        """Center and width of the features, a small step in v from where they were evaluated."""
        sides, row = self.sides, evaluation.side
        v, scale = evaluation.v + step, self.scale[features]
        two_sided = ~sides.one_sided[features]
        from_0, own, variance = (
            at[0] + step * (at[1] + step / 2 * at[2])
            for at in (evaluation.mean_from_0, evaluation.mean, evaluation.variance)
        )
        # The step may carry the mean across 0, where it has all its digits: it is small compared
        # with the values on both sides.
        crossed = two_sided & ((from_0 >= 0) != (sides.sign[row] > 0))
        sign = np.where(crossed, -sides.sign[row], sides.sign[row])
        u = np.where(sign > 0, v, 2 * scale - v)
        # From 0 or from the reference of the side, whichever is nearer.
        at_0 = crossed | (two_sided & (np.abs(from_0) < np.abs(own)))
        reference = np.where(at_0, 0.0, sides.measure.reference[row])
        # e^top, by the factor (1+|c|)^u of the reference.
        top = evaluation.top - np.where(at_0, 0.0, u * sides.origin[row])
        m = sign * np.where(at_0, from_0, own)
        slope = np.exp(-top) + u * m  # e^{uD} at the center, divided by e^top
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            m_full = m * np.exp(np.minimum(top, 30.0))
            D = scale * np.where(
                top > 30,  # where e^-top no longer counts
                (top + np.log(slope)) / u,
                np.where(
                    np.abs(u * m_full) < 1e-8,
                    m_full - u * m_full * m_full / 2,  # 0/0 at u = 0
                    np.log1p(u * m_full) / u,
                ),
            )
        near = np.abs(D) < 0.5
        offset = 0.0 if sides.box_cox else 1.0
        distance = np.where(near, (offset + reference) * np.expm1(np.where(near, D, 0.0)), 0.0)
        rest = np.where(near, 0.0, D)
        if sides.box_cox:
            far = reference * np.exp(rest / 2) * np.exp(rest / 2)  # which may overflow as one
        else:
            far = np.expm1(np.log1p(reference) + rest)  # keeps what is far below it
        magnitude = np.where(near, reference + distance, far)
        low = np.where(near, distance - (magnitude - reference), 0.0)
        width = np.maximum(scale * np.sqrt(variance) / slope, _SMALLEST)
        return Standardization(sign * magnitude, width, sign * low)


def log_likelihood(x: Array, lmbda: float, box_cox: bool = False) -> float:
    """log L(lambda) of one sample, the paper's equation 3, or that of Box-Cox."""
    return float(_evaluate_one(x, lmbda, box_cox)[0].log_likelihood[0])


def score(x: Array, lmbda: float) -> float:
    """d log L / d lambda = S_phi - n Cov(y, dy/dlambda) / Var(y)."""
    evaluation, scale = _evaluate_one(x, lmbda)
    return float(evaluation.score[0] * scale)


def score_derivative(x: Array, lmbda: float) -> float:
    """d^2 log L / d lambda^2, never positive: the negative log-likelihood is convex."""
    evaluation, scale = _evaluate_one(x, lmbda)
    return float(evaluation.curvature[0] * scale * scale)


def _evaluate_one(x: Array, lmbda: float, box_cox: bool = False) -> tuple[Evaluation, float]:
    likelihood = Likelihood(np.array(x, dtype=np.float64).reshape(1, -1), box_cox=box_cox)
    scale = float(likelihood.scale[0])
    return likelihood.evaluate(np.array([0]), np.array([lmbda * scale])), scale


def _divided(q: _Moments, kappa: Array) -> _Moments:
    """Moments of R = q0/u, R' = (q1 - R)/u and so on: R^(k) = (q_k - k R^(k-1))/u."""
    b = 1 / kappa
    b2 = b * b
    return _Moments(
        q.shift,
        q.mean_D,
        b * q.m0,
        b * (q.m1 - b * q.m0),
        b * (q.m2 - 2 * b * q.m1 + 2 * b2 * q.m0),
        b * (q.m3 - 3 * b * q.m2 + 6 * b2 * q.m1 - 6 * b2 * b * q.m0),
        b2 * q.c00,
        b2 * (q.c01 - b * q.c00),
        b2 * (q.c11 - 2 * b * q.c01 + b2 * q.c00),
        b2 * (q.c02 - 2 * b * q.c01 + 2 * b2 * q.c00),
        b2 * (q.c12 - b * (2 * q.c11 + q.c02) + 4 * b2 * q.c01 - 2 * b2 * b * q.c00),
        b2 * (q.c03 - 3 * b * q.c02 + 6 * b2 * q.c01 - 6 * b2 * b * q.c00),
    )


def _rescale(
    r: _Moments, origin: Array, ratio: Array, exponent: Array, top: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array, Array]]:
    """From R of each side to Y - Y(c) = e^{u origin} R, all divided by e^top.

    Returns the means of it and of its three derivatives, less those of Y(c); Var(Y) and its first
    three derivatives, these divided by 2; and the sizes of the products that the first two are
    sums of.
    """
    o, o2 = origin, origin**2
    with np.errstate(under="ignore"):
        f = np.exp(exponent - top)
        r1, r2, r3 = ratio, ratio**2, ratio**3
        m0, m1, m2, m3 = f * r1 * r.m0, f * r2 * r.m1, f * r3 * r.m2, f * r2 * r2 * r.m3
        f2 = f * f * r2
        c00, c01 = f2 * r.c00, f2 * ratio * r.c01
        c11_02, c03_12 = f2 * r2 * (r.c11 + r.c02), f2 * r3 * (r.c03 + 3 * r.c12)
        squares = c00 + m0 * m0
        slopes = np.sqrt(f2 * r2 * np.abs(r.c11) + m1 * m1)
    return (
        (
            *(m0, o * m0 + m1, o2 * m0 + 2 * o * m1 + m2),
            o2 * o * m0 + 3 * o2 * m1 + 3 * o * m2 + m3,
        ),
        (
            *(c00, o * c00 + c01, 2 * o2 * c00 + 4 * o * c01 + c11_02),
            4 * o2 * o * c00 + 12 * o2 * c01 + 6 * o * c11_02 + c03_12,
        ),
        (squares, np.abs(origin) * squares + np.sqrt(squares) * slopes),
    )


def _relative_to(o: Array, y: tuple[Array, ...]) -> tuple[Array, ...]:
    """Y and its derivatives by those of e^{-o u} Y: Y' - o Y, Y'' - 2 o Y' + o^2 Y, and so on."""
    y0, y1, y2, y3 = y
    o2 = o * o
    return y0, y1 - o * y0, y2 - 2 * o * y1 + o2 * y0, y3 - 3 * o * y2 + 3 * o2 * y1 - o * o2 * y0


def _with_factor(o: Array, y0: Array, y1: Array, y2: Array) -> Array:
    """y and its first two derivatives, from those of e^{-o v} y."""
    return np.array([y0, y1 + o * y0, y2 + o * (2 * y1 + o * y0)])


def _reference_derivatives(u: Array, origin: Array, top: Array) -> tuple[Array, ...]:
    """Y = (e^{u origin} - 1)/u at the reference and its three derivatives, divided by e^top."""
    z = u * origin
    small = np.abs(z) <= SERIES_BELOW
    series = quotient_series(np.where(small, z, 0.0))
    scale = np.exp(-top)
    z = np.where(small, 1.0, z)
    e = np.exp(z - top)
    h0 = np.where(small, scale * series[0], (e - scale) / z)
    h1 = np.where(small, scale * series[1], (e - h0) / z)
    h2 = np.where(small, scale * series[2], (e - 2 * h1) / z)
    h3 = np.where(small, scale * series[3], (e - 3 * h2) / z)
    return origin * h0, origin**2 * h1, origin**3 * h2, origin**4 * h3
