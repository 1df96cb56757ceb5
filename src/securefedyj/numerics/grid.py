"""The points among which a quantile is found: lower + j resolution, as float64."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Bools

STEPS = 1 << 24
"""Between the bounds, where no resolution was agreed on."""
_MOST_STEPS = 1 << 48
_MOST_DIGITS = 22  # 10^22 is a float64
_WHOLE = 1 << 53  # and so are all integers up to this


class Grid(NamedTuple):
    """Point j of a feature is (start + j step) / divisor, and the last one is ``end``.

    With an agreed resolution all three are integers: each point is the float64 that is nearest to
    a decimal number.
    """

    start: Array
    step: Array
    divisor: Array
    last: Array
    """The number of the last point."""
    end: Array

    @classmethod
    def of(
        cls, lower: Array, upper: Array, ranked: Bools, resolution: Sequence[str] | None
    ) -> Grid:
        """The points between bounds; of features that have none, the numbers mean nothing."""
        ones = np.ones(len(lower))
        grid = cls(lower.copy(), (upper - lower) / STEPS, ones, STEPS * ones, upper.copy())
        for j, text in enumerate(resolution or ()):
            if text and ranked[j]:
                own = _decimal(lower[j], upper[j], text, j)
                for part, value in zip(grid, own, strict=True):
                    part[j] = value
        return grid

    def points(self, numbers: Array) -> Array:
        """The points with these numbers, one feature to a column."""
        found: Array = (self.start + numbers * self.step) / self.divisor
        return np.where(numbers >= self.last, self.end, np.minimum(found, self.end))


def _decimal(lower: float, upper: float, resolution: str, j: int) -> tuple[float, ...]:
    """Start, step, divisor, last and end of the grid of a decimal resolution."""
    first, step = Decimal(repr(float(lower))), Decimal(resolution)
    digits = max(0, *(-int(part.as_tuple().exponent) for part in (first.normalize(), step)))
    last = ceil((Fraction(float(upper)) - Fraction(first)) / Fraction(step))
    unit = 10**digits
    A, B = int(first * unit), int(step * unit)
    if digits > _MOST_DIGITS or last > _MOST_STEPS or max(abs(A), abs(A + last * B)) > _WHOLE:
        raise InputError(
            "SFY-NUM-015",
            f"resolution {resolution} of feature {j} is too fine for its bounds "
            f"({lower:g}, {upper:g}): agree on a coarser one, or on bounds with fewer digits",
        )
    return A, B, unit, last, (A + last * B) / unit
