"""The Box-Cox transformation: functions of arrays, right for every positive float64.

Psi(lambda, x) = (x^lambda - 1)/lambda. In the units of a value a, it is Yeo-Johnson of x/a - 1 with
the same lambda, the center a (1 + c), and the same width.

The functions have the names and the promises of `yeojohnson`. A value that is not positive has no
transform: that is NaN.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.elementary import log_ratio
from securefedyj.numerics.powers import choose, inverse_power, power
from securefedyj.numerics.yeojohnson import Standardization


def transform(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Psi(lambda, x)."""
    return power(np.log(_positive(x)), np.asarray(lmbda, dtype=np.float64))


def inverse(y: ArrayLike, lmbda: ArrayLike) -> Array:
    """The x with Psi(lambda, x) = y; NaN where there is none."""
    y, lmbda = np.asarray(y, dtype=np.float64), np.asarray(lmbda, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        x: Array = np.exp(inverse_power(y, lmbda))
    return x


def standardize(x: ArrayLike, lmbda: ArrayLike, at: Standardization) -> Array:
    """(Psi(lambda, x) - mean) / standard deviation: (((x/c)^lambda - 1)/lambda) / width.

    It has no cancellation and no overflow: Psi itself, which may be as large as 10^300000, never
    appears.
    """
    x = _positive(x)
    center = np.asarray(at.center)
    difference = (x - center) - at.center_low
    with np.errstate(over="ignore", invalid="ignore"):
        distance = choose(
            np.abs(difference) <= center / 2,
            lambda: np.log1p(np.maximum(difference / center, -0.5)),  # keeps x - c
            lambda: log_ratio(x, center),
        )
        return power(distance, np.asarray(lmbda, dtype=np.float64)) / at.width


def unstandardize(z: ArrayLike, lmbda: ArrayLike, at: Standardization) -> Array:
    """The inverse of `standardize`; NaN where no x is mapped to z."""
    center = np.asarray(at.center)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        distance = inverse_power(
            np.asarray(z, dtype=np.float64) * at.width, np.asarray(lmbda, dtype=np.float64)
        )
        half = np.exp(distance / 2)  # of a factor that may overflow where the product does not
        return choose(
            np.abs(distance) < 0.5,
            lambda: center + (center * np.expm1(distance) + at.center_low),  # keeps x - c
            lambda: center * half * half,
        )


def moments(lmbda: Array, at: Standardization) -> tuple[Array, Array]:
    """Mean and variance, which float64 may not be able to hold: they become inf or 0 there."""
    with np.errstate(over="ignore", under="ignore"):
        deviation = at.width * np.exp(lmbda * np.log(at.center))
        return transform(at.center, lmbda), deviation * deviation


def _positive(x: ArrayLike) -> Array:
    """The values, NaN in place of those that are not positive."""
    x = np.asarray(x, dtype=np.float64)
    return np.where(x > 0, x, np.nan)
