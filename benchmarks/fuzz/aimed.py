"""Families that aim at places in the numerics where a fit has gone wrong, or may."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.fuzz import oracle
from benchmarks.fuzz.families import FAMILIES, POOLED, Array, distinct, family, shape, size_of
from securefedyj import ExpYJ
from securefedyj.numerics.encoding import DECAYING, NEAR, NEAR_ZERO
from securefedyj.pooled.blocks import drawn

THRESHOLDS = (NEAR, DECAYING, NEAR_ZERO)
"""Where |u| L has one of these values, one formula takes over from another."""

# So many values decide where the reference of a side lies, chosen from so many rows.
SAMPLE, SAMPLED_FROM = 64, 1024


@family(FAMILIES)
def mirrored(rng: Generator) -> Array:
    """Values, and the same with the other sign but for rounding: lambda is 1 and the mean is 0."""
    a = shape(rng, size_of(rng)) * 10.0 ** rng.uniform(-3, 9)
    kind = rng.integers(4)
    if kind == 0:
        a = np.round(a)
    other = a.astype(np.float32).astype(np.float64) if kind < 3 else a * (1 + 1e-12 * rng.random())
    return distinct(np.concatenate([a, -other]))


@family(FAMILIES)
def mirrored_with_zeros(rng: Generator) -> Array:
    """The same, most of it zero."""
    x = mirrored(rng)
    zeros = np.zeros(int(len(x) * 10.0 ** rng.uniform(-1, 1.5)) + 1)
    return rng.permutation(np.concatenate([x, zeros]))


@family(FAMILIES)
def equal_values(rng: Generator) -> Array:
    """One value, again and again: small, large, or a timestamp in seconds up to nanoseconds."""
    kind = rng.integers(3)
    if kind == 0:
        c = np.floor(1.7e9 * 10.0 ** rng.integers(0, 10) * rng.uniform(0.5, 2))
    elif kind == 1:
        c = 2.0 ** rng.integers(-38, 98) * rng.choice([1, 1 + 2.0**-52, 1.5])
    else:
        c = 10.0 ** rng.uniform(-11, 29)
    return np.full(2 + int(rng.integers(40)), c * rng.choice([1, 1, -1]))


@family(FAMILIES)
def large_neighbours(rng: Generator) -> Array:
    """Values a few float spacings apart, where log(1+|x|) may not tell them from each other."""
    c = 2.0 ** rng.integers(3, 98) if rng.random() < 0.5 else 10.0 ** rng.uniform(1, 29)
    steps = rng.integers(0, 10.0 ** rng.uniform(0.4, 3), size=size_of(rng, 60))
    x: Array = distinct(c + np.spacing(c) * steps)
    return x * rng.choice([-1, 1])


def sampled_rows(n: int) -> NDArray[np.intp]:
    """The rows of a feature without missing values that the pooled fit takes a reference from."""
    rows = drawn(n, SAMPLED_FROM)
    return rows if len(rows) <= SAMPLE else rows[np.arange(SAMPLE) * len(rows) // SAMPLE]


def _bulk_and_outliers(rng: Generator, n: int) -> Array:
    """Two values that are close, and a third in more than half of the sampled rows."""
    b, e = 10.0 ** rng.uniform(-3, 6), 10.0 ** rng.uniform(-9, -1)
    share, far = 10.0 ** rng.uniform(-4, -1.5), 10.0 ** rng.uniform(1, 4.5)
    x = np.full(n, b)
    x[rng.random(n) < (share if rng.random() < 0.3 else 1 - share)] = b * (1 + e)
    outlier = rng.choice([b * (1 + e * far), b * (1 - e * far), b * far])
    x[rng.permutation(sampled_rows(n))[: int(rng.integers(33, SAMPLE + 1))]] = outlier
    return distinct(x * rng.choice([-1, 1]))


@family(FAMILIES)
def outliers_at_the_sample(rng: Generator) -> Array:
    """Outliers at the rows that the fixed sample picks, so that the reference is one of them."""
    return _bulk_and_outliers(rng, int(10.0 ** rng.uniform(2, 3.2)))


@family(POOLED)
def many_with_outliers_at_the_sample(rng: Generator) -> Array:
    """The same with so many rows that sums over them lose digits; the worst of four."""
    candidates = [_bulk_and_outliers(rng, int(rng.integers(65_537, 72_000))) for _ in range(4)]
    return max(candidates, key=_error_unflagged)


def _error_unflagged(x: Array) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = ExpYJ().fit(x[:, None])
    lmbda = float(fitted.lambdas_[0])
    return oracle.error(oracle.Sample.of(x), lmbda) if fitted.converged_[0] else 0.0


@family(FAMILIES)
def thresholds(rng: Generator) -> Array:
    """Values with |u| L exactly at a threshold, or next to it, at a lambda that the search visits.

    The others are such that lambda is close to it.
    """
    u, n = float(rng.choice([-4, -3, -2, -1, -0.5, 0.5, 1, 2, 3, 4])), size_of(rng, 100)
    largest = rng.choice(THRESHOLDS) / abs(u)
    y = np.expm1(u * largest * rng.choice([1, 1, 3])) / u * rng.random(n)
    at = np.expm1(np.array([t / abs(u) for t in THRESHOLDS]))
    x = rng.permutation(np.concatenate([np.expm1(np.log1p(u * y) / u), at]))
    for direction in (-np.inf, np.inf):
        some = rng.random(len(x)) < 0.1
        x[some] = np.nextafter(x[some], direction)
    # Bounds that are as tight as can be put the whole side at the threshold.
    if rng.random() < 0.7:
        edge = np.expm1(largest)
        x = np.append(x[x <= edge], [edge, edge / 2])
    x = x * rng.choice([-1, 1])
    if rng.random() < 0.3:
        x[: len(x) // 3] *= -1
    return distinct(x)
