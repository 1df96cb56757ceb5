"""The paper's phi and dPsi/dlambda, value by value: the package sums them in other forms."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.yeojohnson import SERIES_BELOW, quotient_series

_EXP_MAX = 700.0  # exp overflows a little above this


def phi(x: ArrayLike) -> Array:
    """sgn(x) log(1+|x|): a product, where the paper prints a sum."""
    x = np.asarray(x, dtype=np.float64)
    signed: Array = np.copysign(np.log1p(np.abs(x)), x)
    return signed


def derivative(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """dPsi/dlambda. On both sides it is L^2 g(uL), never negative."""
    x, lmbda = np.asarray(x, dtype=np.float64), np.asarray(lmbda, dtype=np.float64)
    L, u = np.log1p(np.abs(x)), np.where(x >= 0, lmbda, 2 - lmbda)
    with np.errstate(over="ignore", invalid="ignore"):
        d = L * (L * g(u * L))
    # x = 0 stays where it is for every lambda; 0 * inf says otherwise.
    return np.where(L == 0, 0.0, d)


def g(z: Array) -> Array:
    """(z e^z - (e^z - 1)) / z^2, the derivative of (e^z - 1)/z."""
    small = np.abs(z) < SERIES_BELOW
    zs, zl = np.where(small, z, 0.0), np.where(small, 1.0, z)
    with np.errstate(over="ignore", invalid="ignore"):
        # e^z may overflow where e^z/z does not.
        capped = np.minimum(zl, 2 * _EXP_MAX)
        huge = np.exp(capped - np.log(np.abs(capped)))
        large = np.where(zl > _EXP_MAX, huge, np.exp(zl) / zl) * (1 - 1 / zl) + 1 / zl / zl
    return np.where(small, quotient_series(zs)[1], large)
