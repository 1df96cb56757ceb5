"""The Yeo-Johnson transformation: functions of arrays, right for every finite input.

With L = log(1+|x|), one side of the transformation is x >= 0 with u = lambda, the other is
x < 0 with u = 2 - lambda, and Psi(lambda, x) = ± (e^{uL} - 1)/u on both. Every function here
is written in (L, u), so that the two sides share one formula.

All functions broadcast their arguments, keep NaN, and raise no RuntimeWarning for any finite
float64 input; a result beyond the range of float64 is ±inf.
"""

from __future__ import annotations

from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.numerics.arrays import Array, Bools, Index
from securefedyj.numerics.powers import choose, inverse_power, power, power_scaled

# Where |z| is below this, (e^z - 1)/z and its derivatives are summed as series: the closed forms
# divide small differences by small powers of z.
SERIES_BELOW = 0.25
_PHI4_COEFFICIENTS = tuple(1 / factorial(j + 4) for j in reversed(range(11)))

# A standard deviation smaller than this, relative to log(1+|c|), loses its last digits.
_CLOSE = 0.01


class Standardization(NamedTuple):
    """Where a fitted feature has its zero and how wide it is, precise for any lambda.

    ``center + center_low`` is the value that is transformed to the mean, in two float64: one
    alone is off by up to half a unit of its last place, which among values that are close to each
    other may be a whole standard deviation. ``width`` is the standard deviation of Psi in units of
    its slope there, (1 + |center|)^u, so that neither overflows nor cancels where mean and
    variance do.
    """

    center: Array
    width: Array
    center_low: Array = np.array(0.0)

    def take(self, features: int | Index) -> Standardization:
        return Standardization(*(part[features] for part in self))

    def follows_from(self, mean: Array, var: Array, offset: float | Array = 1.0) -> Bools:
        """The features for which mean and variance, as float64, say as much as this.

        The slope at the center is ``(offset + |center|)^u``; for Box-Cox the offset is 0.
        """
        constant = var == 0
        with np.errstate(over="ignore", divide="ignore"):
            precise = np.sqrt(var) >= 1e-10 * np.abs(mean)
            at_zero = self.width == 1 / (offset + np.abs(self.center))
        known: Bools = np.isfinite(mean) & np.isfinite(var) & np.where(constant, at_zero, precise)
        return known


def transform(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Psi(lambda, x), the paper's equation 1."""
    L, u, side = _sides(x, lmbda)
    return side * power(L, u)


def inverse(y: ArrayLike, lmbda: ArrayLike) -> Array:
    """The x with Psi(lambda, x) = y; NaN where there is none.

    For u < 0 a side of Psi is bounded by -1/u: the bound itself is the image of ±inf.
    """
    y, lmbda = np.asarray(y, dtype=np.float64), np.asarray(lmbda, dtype=np.float64)
    u = np.where(y >= 0, lmbda, 2 - lmbda)
    with np.errstate(over="ignore"):
        x: Array = np.copysign(np.expm1(inverse_power(np.abs(y), u)), y)
    return x


def standardize(x: ArrayLike, lmbda: ArrayLike, at: Standardization) -> Array:
    """(Psi(lambda, x) - mean) / standard deviation, with no cancellation and no overflow.

    On the side of the center c this is (((1+|x|)/(1+|c|))^u - 1) / (u width): Psi itself,
    which may be as large as 10^300000, never appears.
    """
    x = np.asarray(x, dtype=np.float64)
    L, u, side = _sides(at.center, lmbda)
    magnitude, center, low = np.abs(x), np.abs(at.center), side * at.center_low
    with np.errstate(over="ignore"):
        log_scale = -u * L
    distance = choose(
        ((x >= 0) == (side > 0)) | (x == 0),
        lambda: power(
            # Among close values the logarithms would cancel.
            choose(
                np.asarray(at.width < _CLOSE * L),
                lambda: _log_ratio(magnitude, center, low),
                lambda: np.log1p(magnitude) - L,
            ),
            u,
        ),
        # Across zero Psi(x) and the mean have different signs: the distance is a sum.
        lambda: power(-L, u) - power_scaled(np.log1p(magnitude), 2 - u, log_scale),
    )
    with np.errstate(over="ignore"):
        return side * distance / at.width


def unstandardize(z: ArrayLike, lmbda: ArrayLike, at: Standardization) -> Array:
    """The inverse of `standardize`; NaN where no x is mapped to z."""
    z = np.asarray(z, dtype=np.float64)
    L_center, u, side = _sides(at.center, lmbda)
    center, low = np.abs(at.center), side * at.center_low
    with np.errstate(over="ignore", invalid="ignore"):
        distance = z * (side * at.width)
        beyond_zero = power(-L_center, u) - distance
        delta = inverse_power(distance, u)
        return side * choose(
            beyond_zero > 0,
            lambda: -np.expm1(inverse_power(beyond_zero, 2 - u, u * L_center)),
            lambda: choose(
                np.abs(delta) < 0.5,
                lambda: center + ((1 + center) * np.expm1(delta) + low),  # keeps x - c
                lambda: np.expm1(L_center + delta),  # keeps x near 0
            ),
        )


def moments(lmbda: Array, at: Standardization) -> tuple[Array, Array]:
    """Mean and variance, which float64 may not be able to hold: they become inf or 0 there."""
    L, u, _ = _sides(at.center, lmbda)
    with np.errstate(over="ignore", under="ignore"):
        deviation = at.width * np.exp(u * L)
        return transform(at.center, lmbda), deviation * deviation


def quotient_series(z: Array) -> tuple[Array, Array, Array, Array]:
    """(e^z - 1)/z and its three derivatives for |z| <= SERIES_BELOW, to full precision.

    They follow from phi_k(z) = sum_j z^j/(j+k)!.
    """
    phi4 = np.full_like(z, _PHI4_COEFFICIENTS[0])
    for c in _PHI4_COEFFICIENTS[1:]:
        phi4 *= z
        phi4 += c
    phi3 = 1 / 6 + z * phi4
    phi2 = 0.5 + z * phi3
    phi1 = 1.0 + z * phi2
    second, third = phi1 - 2 * phi2 + 2 * phi3, phi1 - 3 * phi2 + 6 * phi3 - 6 * phi4
    return phi1, phi1 - phi2, second, third


def _sides(x: ArrayLike, lmbda: ArrayLike) -> tuple[Array, Array, Array]:
    """L = log(1+|x|), the exponent u of x's side, and the side, +1 or -1."""
    x, lmbda = np.asarray(x, dtype=np.float64), np.asarray(lmbda, dtype=np.float64)
    positive = x >= 0
    u = np.where(positive, lmbda, 2 - lmbda)
    return np.log1p(np.abs(x)), u, np.where(positive, 1.0, -1.0)


def _log_ratio(a: Array, c: Array, low: Array) -> Array:
    """log((1+a)/(1+c+low)) for a, c >= 0; keeps the digits of a - c where a is close to c."""
    difference = (a - c) - low
    return choose(
        np.abs(difference) <= (1 + c) / 2,
        lambda: np.log1p(np.maximum(difference / (1 + c), -0.5)),
        lambda: np.log1p(a) - np.log1p(c),
    )
