"""Families of features, from ordinary to malicious; each is a function of a random generator.

A family says in one sentence what it tries. Its values are finite float64; the number of values
is drawn, small as a rule since most errors need few values, and large where only many show them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Family = Callable[[Generator], Array]

FAMILIES: dict[str, Family] = {}
"""By name, for the pooled fit and for the federated one."""
POOLED: dict[str, Family] = {}
"""For the pooled fit only."""
MANY_ROWS: dict[str, Family] = {}
"""Features of 70,000 to 4 million values: only a few of them, for the pooled fit."""


def family(table: dict[str, Family]) -> Callable[[Family], Family]:
    def add(function: Family) -> Family:
        table[function.__name__] = function
        return function

    return add


def size_of(rng: Generator, most: int = 200) -> int:
    return int(2 * (most / 2) ** rng.random())


def shape(rng: Generator, n: int) -> Array:
    """Values around 1, of one of several distributions."""
    kind = rng.integers(6)
    if kind == 0:
        return rng.normal(size=n)
    if kind == 1:
        return rng.lognormal(sigma=rng.uniform(0.1, 3), size=n)
    if kind == 2:
        return -rng.gamma(rng.uniform(0.2, 5), size=n)
    if kind == 3:
        return rng.uniform(-1, 1, size=n)
    if kind == 4:
        return rng.standard_t(rng.uniform(1, 5), size=n)
    return rng.exponential(size=n)


def distinct(x: Array) -> Array:
    """At least two distinct values: a constant has no optimum."""
    if np.all(x == x[0]):
        x = x.copy()
        x[0] = np.nextafter(x[0], np.inf) if x[0] else 1e-290  # whose square is still a number
    return x


@family(FAMILIES)
def ordinary(rng: Generator) -> Array:
    """Normal, lognormal, gamma, uniform, Student and exponential values around 1."""
    return distinct(shape(rng, size_of(rng)))


@family(FAMILIES)
def any_scale(rng: Generator) -> Array:
    """The same, times a power of ten from 1e-300 to 1e300."""
    x = np.clip(shape(rng, size_of(rng, 100)), -1e7, 1e7)
    return distinct(x * 10.0 ** rng.uniform(-300, 300))


@family(FAMILIES)
def narrow(rng: Generator) -> Array:
    """Values close to each other and far from 0: 1e6 give or take 0.2%, and far narrower."""
    center = rng.choice([-1, 1]) * 10.0 ** rng.uniform(-3, 12)
    return distinct(center * (1 + 10.0 ** rng.uniform(-16, -1) * shape(rng, size_of(rng))))


@family(FAMILIES)
def shifted_normal(rng: Generator) -> Array:
    """A large constant plus a normal variable: temperatures, years, timestamps."""
    return distinct(10.0 ** rng.uniform(0, 13) + 10.0 ** rng.uniform(-4, 1) * rng.normal(size=50))


@family(FAMILIES)
def two_values(rng: Generator) -> Array:
    """Two distinct values, one of them often rare."""
    n = size_of(rng, 2000)
    low, high = np.sort(shape(rng, 2) * 10.0 ** rng.uniform(-10, 10))
    x = np.full(n, low)
    x[: rng.integers(1, n)] = high
    return distinct(x)


@family(FAMILIES)
def neighbours(rng: Generator) -> Array:
    """Values that are a few units of the last place apart."""
    x = np.full(size_of(rng), rng.choice([-1, 1]) * 10.0 ** rng.uniform(-9, 9))
    for _ in range(int(rng.integers(1, 6))):
        some = rng.random(len(x)) < rng.uniform(0.1, 0.9)
        x[some] = np.nextafter(x[some], rng.choice([-np.inf, np.inf]))
    return distinct(x)


@family(FAMILIES)
def ties(rng: Generator) -> Array:
    """Counts and codes: few distinct values, zeros above all."""
    x = rng.poisson(rng.uniform(0.01, 4), size=size_of(rng, 1000)).astype(float)
    return distinct(x * rng.choice([1.0, 0.1, -1.0, 1000.0]))


@family(FAMILIES)
def one_outlier(rng: Generator) -> Array:
    """A narrow bulk and one value far away, on either side."""
    x = 10.0 * (1 + 10.0 ** rng.uniform(-9, -1) * rng.normal(size=size_of(rng, 400)))
    x[0] = rng.choice([-1, 1]) * 10.0 ** rng.uniform(-3, 8)
    return distinct(x)


@family(FAMILIES)
def outliers(rng: Generator) -> Array:
    """A bulk and some values far away on both sides."""
    x = shape(rng, size_of(rng, 400)) * 10.0 ** rng.uniform(-6, 3)
    some = rng.random(len(x)) < rng.uniform(0.005, 0.2)
    x[some] += rng.choice([-1, 1], size=some.sum()) * 10.0 ** rng.uniform(-3, 9, size=some.sum())
    return distinct(x)


@family(FAMILIES)
def tiny_and_large(rng: Generator) -> Array:
    """Two bulks whose scales differ by up to 1e60."""
    x = np.abs(shape(rng, size_of(rng)))
    x[rng.random(len(x)) < rng.uniform(0.05, 0.95)] *= 10.0 ** -rng.uniform(3, 60)
    return distinct(x)


@family(FAMILIES)
def tiny(rng: Generator) -> Array:
    """Values tiny against the default bounds."""
    return distinct(shape(rng, size_of(rng)) * 10.0 ** rng.uniform(-16, -4))


@family(FAMILIES)
def huge(rng: Generator) -> Array:
    """Values up to 2^99, of one sign or of both."""
    return distinct(np.clip(shape(rng, size_of(rng)), -9, 9) * 2.0 ** rng.uniform(20, 96))


@family(FAMILIES)
def both_sides(rng: Generator) -> Array:
    """Two narrow clusters, one on each side of 0."""
    n = size_of(rng)
    x = 10.0 ** rng.uniform(-3, 6) * (1 + 10.0 ** rng.uniform(-8, 0) * rng.normal(size=n))
    other = rng.random(n) < rng.uniform(0.01, 0.99)
    x[other] *= -(10.0 ** rng.uniform(-3, 3))
    return distinct(x)


@family(FAMILIES)
def zeros_and_a_tail(rng: Generator) -> Array:
    """Mostly 0, as pixels and gene counts are."""
    x = rng.lognormal(sigma=2, size=size_of(rng, 1000))
    x[rng.random(len(x)) < rng.uniform(0.5, 0.999)] = 0.0
    return distinct(x * rng.choice([-1, 1]))


@family(FAMILIES)
def few_values(rng: Generator) -> Array:
    """Two to five values of any kind."""
    return distinct(shape(rng, int(rng.integers(2, 6))) * 10.0 ** rng.uniform(-9, 9))


@family(FAMILIES)
def integers(rng: Generator) -> Array:
    """Whole numbers: ages, years, laboratory values."""
    low = rng.integers(-10, 2000)
    return distinct(rng.integers(low, low + rng.integers(2, 300), size=size_of(rng)).astype(float))


@family(FAMILIES)
def sorted_rows(rng: Generator) -> Array:
    """Ordinary values in ascending order, or with every other one from another distribution."""
    x = np.sort(shape(rng, size_of(rng, 1000)))
    if rng.random() < 0.5:
        x[:: int(rng.integers(2, 20))] = shape(rng, 1)[0] * 10.0 ** rng.uniform(-9, 9)
    return distinct(x)


@family(FAMILIES)
def missing(rng: Generator) -> Array:
    """Values with NaN at random, in stripes, or nearly everywhere."""
    x = shape(rng, size_of(rng, 400) + 4)
    kind = rng.integers(3)
    if kind == 0:
        x[rng.random(len(x)) < rng.uniform(0.01, 0.9)] = np.nan
    elif kind == 1:
        x[:: int(rng.integers(1, 5)) + 1] = np.nan
    else:
        x[2:] = np.nan
    x[:2] = [1.0, 2.5]
    return x


def _many(rng: Generator) -> int:
    return int(70_000 * (4_000_000 / 70_000) ** rng.random() ** 2)


@family(MANY_ROWS)
def many_ordinary(rng: Generator) -> Array:
    """Ordinary values, rounded so that the oracle need not look at each of a million."""
    return np.round(shape(rng, _many(rng)), 3)


@family(MANY_ROWS)
def many_striped(rng: Generator) -> Array:
    """Every k-th row from another distribution."""
    x = np.round(rng.lognormal(size=_many(rng)), 3)
    stripe = int(rng.choice([2, 4, 8, 16, 32]))
    x[::stripe] *= 10.0 ** rng.uniform(-60, 3)
    if rng.random() < 0.3:
        x[::stripe] = 0.0
        x[stripe] = 5.55e-17
    return distinct(x)


@family(MANY_ROWS)
def many_narrow_with_outliers(rng: Generator) -> Array:
    """A narrow bulk and a few outliers among 300,000 values and more."""
    steps = np.round(1000 * rng.normal(size=max(300_000, _many(rng)))) / 1000
    x = 10.0 * (1 + 10.0 ** rng.uniform(-9, -2) * steps)
    x[: int(rng.integers(1, 5))] = rng.choice([-1.0, 1e-3, 30.0, 1e6])
    if rng.random() < 0.5:
        rng.shuffle(x)
    return distinct(x)


@family(MANY_ROWS)
def many_sorted(rng: Generator) -> Array:
    """Ordinary values in ascending order."""
    return np.sort(np.round(shape(rng, _many(rng)), 3))
