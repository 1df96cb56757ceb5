"""ExpYJ and scikit-learn's PowerTransformer on the same data: which fit is better, which faster."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import PowerTransformer

from securefedyj import ExpYJ
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.likelihood import log_likelihood

SAME = 1e-6
"""Log-likelihoods that differ by no more than this are the same but for rounding."""

REPEATS = 3
"""Fits that are timed; the shortest counts."""


@dataclass(frozen=True)
class Comparison:
    """Two fits of the same data. `gain` is our log-likelihood less scikit-learn's."""

    X: Array
    names: list[str]
    ours: ExpYJ
    theirs: PowerTransformer
    our_seconds: float
    their_seconds: float
    gain: Array
    constant: NDArray[np.bool_]

    @property
    def different(self) -> list[int]:
        """The features where one fit is better than the other, the clearest cases first."""
        order = np.argsort(-np.abs(self.gain), kind="stable")
        return [int(j) for j in order if abs(self.gain[j]) > SAME]

    @property
    def alike(self) -> list[int]:
        """The other features, by rising lambda, without those that are constant."""
        alike = (np.abs(self.gain) <= SAME) & ~self.constant
        return [int(j) for j in np.argsort(self.ours.lambdas_) if alike[j]]


def compare_breast_cancer() -> Comparison:
    """Ordinary data: the two fits are the same."""
    data = load_breast_cancer()
    return compare(data.data, [str(name) for name in data.feature_names])


def compare_digits() -> Comparison:
    """Pixels that are nearly always empty: some optima are beyond the bounds of SciPy's search."""
    data = load_digits()
    return compare(data.data, [f"column {j} ({n})" for j, n in enumerate(data.feature_names)])


def compare(X: Array, names: list[str]) -> Comparison:
    """Fit both in turn, in this process, and time them."""
    ours, theirs = ExpYJ(), PowerTransformer(method="yeo-johnson")
    our_seconds, their_seconds = np.inf, np.inf
    with warnings.catch_warnings():
        # Some versions of scikit-learn warn where they overflow; the table says more.
        warnings.simplefilter("ignore")
        for _ in range(REPEATS):
            our_seconds = min(our_seconds, _seconds(lambda: ours.fit(X)))
            their_seconds = min(their_seconds, _seconds(lambda: theirs.fit(X)))
    constant = np.ptp(X, axis=0) == 0
    gain = np.zeros(len(names))
    for j in np.flatnonzero(~constant):
        better, other = ours.lambdas_[j], theirs.lambdas_[j]
        gain[j] = log_likelihood(X[:, j], better) - log_likelihood(X[:, j], other)
    return Comparison(X, names, ours, theirs, our_seconds, their_seconds, gain, constant)


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
