"""What ExpYJ is compared with: scikit-learn as it was and as it is, and SciPy as it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy import optimize, stats
from sklearn.preprocessing import PowerTransformer

from securefedyj.numerics.arrays import Array


def naive_transform(x: Array, lmbda: float) -> Array:
    """Psi by its definition, as scikit-learn computed it when the paper was written."""
    y = np.empty_like(x)
    positive = x >= 0
    y[positive] = _naive_power(x[positive], lmbda)
    y[~positive] = -_naive_power(-x[~positive], 2 - lmbda)
    return y


def _naive_power(x: Array, u: float) -> Array:
    with np.errstate(all="ignore"):
        return np.log1p(x) if abs(u) < np.spacing(1.0) else (np.power(x + 1, u) - 1) / u


def naive_negative_log_likelihood(lmbda: float, x: Array) -> float:
    """-log L from the variance of the naive transform: -inf where float64 sees no variance."""
    with np.errstate(all="ignore"):
        log_variance = np.log(naive_transform(x, lmbda).var())
    phi = np.sum(np.sign(x) * np.log1p(np.abs(x)))
    return float(len(x) / 2 * log_variance - (lmbda - 1) * phi)


def brent(x: Array) -> float:
    """scikit-learn when the paper was written: Brent's method from the bracket (-2, 2).

    NaN where SciPy's bracketing gives up.
    """
    try:
        return float(optimize.brent(naive_negative_log_likelihood, args=(x,), brack=(-2, 2)))
    except (RuntimeError, ValueError):
        return float("nan")


def sklearn_today(x: Array) -> float:
    try:
        return float(PowerTransformer(standardize=False).fit(x.reshape(-1, 1)).lambdas_[0])
    except ValueError:
        return float("nan")


def scipy_today(x: Array) -> float:
    try:
        return float(stats.yeojohnson_normmax(x))
    except (RuntimeError, ValueError):
        return float("nan")


REFERENCES: dict[str, Callable[[Array], float]] = {
    "scikit-learn then (Brent)": brent,
    "scikit-learn today": sklearn_today,
    "SciPy today": scipy_today,
}


def fit(reference: str, x: Array) -> float:
    """lambda by a reference, without its warnings; NaN where it fails."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return REFERENCES[reference](x)
