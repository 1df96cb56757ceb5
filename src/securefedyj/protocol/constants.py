"""The value of a constant feature, from y of all its values (docs/protocol.md, section 7).

A silo computes y from log(1 + |x|), rounded to float64, and most x share that logarithm with a
neighbour. Of those that have the y that was opened, the one with the fewest decimal digits is the
value. Where others have that y, they may be among the values: nobody can say that all are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.elementary import log1p
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo

_DIGITS = 17  # which tell all float64 apart
_CHANCE = 1e-6  # that a number of so few digits has the y of a value that is another
_STEPS = 8


class Constants(NamedTuple):
    value: Array
    certain: Bools
    """Whether no other value has the same y; next to a value of few digits, one may have it that is
    no further away than 2^-53 (1 + |x|), or than two units of the grid. Digits are few if a number
    with no more of them hardly has the y by chance."""


def constants(domain: Domain, n: Integers, y: Sequence[int], near: Array) -> Constants:
    """The values of features that have the same y, on the grid at lambda = 1, in all rows.

    ``near`` is about what they are.
    """
    if not len(near):
        return Constants(near, np.zeros(0, dtype=bool))
    rounded = [[float(f"{c:.{digits}e}") for digits in range(_DIGITS)] for c in near.tolist()]
    # An x that is half a unit of the last place of the logarithm away may have another one.
    size = np.abs(near)
    step = np.maximum(np.spacing(size), np.spacing(log1p(size)) * (1 + size) / 2)
    steps = near[:, None] + np.arange(-_STEPS, _STEPS + 1) * step[:, None]
    candidates = np.hstack([np.array(rounded), steps])
    fits = _have(candidates, domain, n, y)
    rows = np.arange(len(near))
    first = np.argmax(fits, axis=1)
    value = np.where(np.any(fits, axis=1), candidates[rows, first], near)
    unit = np.ldexp(1.0, -choose_encoding(domain, n, np.ones(len(n))).grid.astype(np.int32))
    size = np.abs(value)
    alike = np.maximum(2 * unit, np.spacing(log1p(size)) * (1 + size))
    few = 10.0 ** (first + 1) * alike <= _CHANCE * size
    unseen = np.where(few | (value == 0), np.maximum(2 * unit, 2.0**-53 * (1 + size)), 0.0)
    neighbours = np.stack([*_beyond(value, unseen), *_beyond(value, -unseen)], axis=1)
    alone = ~np.any(_have(neighbours, domain, n, y), axis=1)
    return Constants(value, np.any(fits, axis=1) & alone)


def _beyond(value: Array, distance: Array) -> tuple[Array, Array]:
    """The first two float64 that are further from the value."""
    far, toward = value + distance, np.copysign(np.inf, distance)
    further = np.where(np.abs(far - value) > np.abs(distance), far, np.nextafter(far, toward))
    return further, np.nextafter(further, toward)


def _have(candidates: Array, domain: Domain, n: Integers, y: Sequence[int]) -> Bools:
    """Which candidates for each feature are within its bounds and have its y."""
    p, each = candidates.shape
    feature = np.repeat(np.arange(p), each)
    domain, x = domain.take(feature), candidates.ravel()
    inside = (x >= domain.lower) & (x <= domain.upper)
    x = np.where(inside, x, domain.lower)
    one = np.ones(len(x))
    encoding = choose_encoding(domain, n[feature], one)
    most = np.maximum(encoding.positive.y_bits, encoding.negative.y_bits)
    silo = ArraySilo(x[None], domain, [""] * len(x))
    sums = silo.sums(np.arange(len(x)), one, encoding, 1 + int(most.max()) // 64)
    same = [own == y[j] for own, j in zip(wide.to_ints(sums.y), feature.tolist(), strict=True)]
    return np.array(same).reshape(p, each) & inside.reshape(p, each)
