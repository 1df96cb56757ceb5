"""The power (e^{uL} - 1)/u that all transformations here are made of, and its inverse.

Both keep all digits where the formula cancels, and stay finite where its parts overflow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from securefedyj.numerics.arrays import Array, Bools

# exp overflows a little above this.
_EXP_MAX = 700.0


def power(L: Array, u: Array) -> Array:
    """(e^{uL} - 1)/u, which is L at u = 0."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        z = u * L
        return choose(
            np.abs(z) < 1e-10,
            # Where z underflows or u = 0 the quotient is 0/0; two terms of the series are exact.
            lambda: L + L * z / 2,
            lambda: choose(
                z > _EXP_MAX,
                # e^z may overflow where e^z/u does not.
                lambda: np.sign(u) * np.exp(z - np.log(np.abs(u))),
                lambda: np.expm1(z) / u,
            ),
        )


def power_scaled(L: Array, u: Array, log_scale: Array) -> Array:
    """e^{log_scale} (e^{uL} - 1)/u for L >= 0, where the factors may overflow apart."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        z = u * L
        root = np.exp((z + log_scale) / 2)  # its square may overflow where the quotient does not
        return choose(
            z > 1,
            lambda: root * (-np.expm1(-z) / u) * root,
            lambda: np.where(L == 0, 0.0, np.exp(log_scale) * power(L, u)),
        )


def inverse_power(y: Array, u: Array, log_scale: Array | float = 0.0) -> Array:
    """The L with (e^{uL} - 1)/u = Y = y e^log_scale: log(1 + uY)/u, which is Y at u = 0."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        Y = y * np.exp(log_scale)
        z = u * Y
        return choose(
            np.abs(z) < 1e-10,
            lambda: Y - Y * z / 2,  # 0/0 at u = 0
            lambda: choose(
                z == np.inf,
                # uY may overflow where its logarithm does not.
                lambda: (np.log(np.abs(u)) + np.log(np.abs(y)) + log_scale) / u,
                lambda: np.log1p(z) / u,
            ),
        )


def choose(condition: Bools, if_true: Callable[[], Array], if_false: Callable[[], Array]) -> Array:
    """np.where that evaluates only the branches it needs."""
    if condition.all():
        return if_true()
    if not condition.any():
        return if_false()
    return np.where(condition, if_true(), if_false())
