"""What the moments of values within their bounds can be, exactly or rounded outward.

All is in integers on the grid of the encoding at lambda*: y of the bounds as a silo computes it,
and from there what n such integers can add up to. docs/protocol.md, section 7.2, lists the rules;
none of them can be broken by rows that a silo admits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.encoding import DIGIT, Domain, choose_encoding, is_decaying
from securefedyj.numerics.sums import ArraySilo

# float64 keeps the order of y up to its last digits: bounds are taken with 2^-40 to spare.
_SURE_BITS = 40
# Values with the same y at lambda = 0 may differ by a few units at lambda = 1, not by so many.
_SAME = 16
_FLOAT64_BITS = 53


class Interval(NamedTuple):
    """All integers from ``low`` to ``high``: one that was opened without its last bits."""

    low: int
    high: int

    @classmethod
    def of(cls, opened: int, shift: int) -> Interval:
        """The integers that are ``opened`` without their last bits."""
        return cls(opened << shift, (opened + 1 << shift) - 1)

    @property
    def exact(self) -> bool:
        return self.low == self.high


class Reach(NamedTuple):
    """One feature at its lambda*: what y of a value can be, on the grid."""

    n: int
    lowest: int
    """y of the lower bound."""
    highest: int
    slack: int
    """By how much y of another value may be beyond these, by rounding."""
    steps: tuple[int, int]
    """Residuals are multiples of this, on the positive and on the negative side."""
    constants: tuple[int, int]
    """What is added to residuals of a decaying side, else 0."""

    def largest_V(self, S_y: Interval) -> int:
        """At most this, given S_y: n values have it that are all at one bound or the other."""
        a, b = self.n * (self.lowest - self.slack), self.n * (self.highest + self.slack)
        S = min(max((a + b) // 2, S_y.low), S_y.high)
        half, width = self.n // 2, self.highest - self.lowest + 2 * self.slack
        return min((b - S) * (S - a), half * (self.n - half) * width * width)

    def admits_S_y(self, S_y: Interval) -> bool:
        a, b = self.lowest - self.slack, self.highest + self.slack
        return S_y.low <= self.n * b and self.n * a <= S_y.high

    def integers_exist(self, V: Interval, S_y: int) -> bool:
        """Whether n integers with this sum can have such a V: n divides V + S_y^2.

        V is the least where the integers differ by one at most: r (n - r) with r = S_y mod n.
        """
        r = S_y % self.n
        least = max(V.low, r * (self.n - r))
        return least + (-S_y * S_y - least) % self.n <= V.high

    def is_a_value(self, y: int) -> bool:
        """Whether y can be that of a single value: a residual has the bits of a float64."""
        side = 0 if y >= 0 else 1
        step = self.steps[side]
        residuals = (abs(y), abs(y) - self.constants[side])
        return any(
            not r % step and _significant_bits(r // step) <= _FLOAT64_BITS for r in residuals
        )

    def largest_constant_V(self) -> int:
        """At most this if all values have the same y at lambda = 0."""
        half = self.n // 2
        return half * (self.n - half) * _SAME * _SAME


def _significant_bits(integer: int) -> int:
    return (integer // (integer & -integer)).bit_length() if integer else 0


def bounds_of_y(domain: Domain, n: Integers, lmbda: Array) -> tuple[list[int], list[int]]:
    """y of the lower and of the upper bound of each feature, as a silo computes it."""
    encoding = choose_encoding(domain, n, lmbda)
    every = np.arange(len(lmbda))
    most = np.maximum(encoding.positive.y_bits, encoding.negative.y_bits)
    limbs = 1 + int(most.max(initial=0)) // 64
    names = [str(j) for j in every]
    lowest, highest = (
        wide.to_ints(ArraySilo(x[None], domain, names).sums(every, lmbda, encoding, limbs).y)
        for x in (domain.lower, domain.upper)
    )
    return lowest, highest


def reach_of(domain: Domain, n: Integers, lmbda: Array) -> list[Reach]:
    """What each feature can reach at its lambda*."""
    encoding = choose_encoding(domain, n, lmbda)
    sides = (encoding.positive, encoding.negative)
    constants = [
        _constants(u, is_decaying(L, u), encoding.grid)
        for L, u in ((domain.L_positive, lmbda), (domain.L_negative, 2 - lmbda))
    ]
    steps = [[1 << DIGIT * (spare // DIGIT) for spare in side.spare.tolist()] for side in sides]
    slack = [
        [2 * step + (1 << max(bits - _SURE_BITS, 0)) for step, bits in zip(*both, strict=True)]
        for both in zip(steps, (side.y_bits.tolist() for side in sides), strict=True)
    ]
    columns = (n.tolist(), *bounds_of_y(domain, n, lmbda), map(max, *slack))
    pairs = (zip(*steps, strict=True), zip(*constants, strict=True))
    return [Reach(*row) for row in zip(*columns, *pairs, strict=True)]


def _constants(u: Array, decaying: Bools, grid: Integers) -> list[int]:
    """1/|u| on the grid where a side is decaying."""
    return [
        round(Fraction(1 / abs(a)) * (1 << f)) if decays else 0
        for a, decays, f in zip(u.tolist(), decaying.tolist(), grid.tolist(), strict=True)
    ]
