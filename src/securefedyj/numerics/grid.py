"""The points of public decimal grids: where quantiles are found, and what a feature can be."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Bools

STEPS = 1 << 24
"""Between the bounds, where no resolution was agreed on."""
_MOST_STEPS = 1 << 48
_MOST_PLACES = 22  # 10^22 is a float64
_WHOLE = 1 << 53  # and so are all integers up to this

MOST_POINTS = 1 << 16
"""Of a feature that is submitted: all values that it can have."""
MOST_DIGITS = 9
"""Significant digits; there are more than `MOST_POINTS` numbers of five in a single decade."""


class Grid(NamedTuple):
    """The points for quantiles: j is (start + j step) / divisor, and the last one is ``end``.

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
    if digits > _MOST_PLACES or last > _MOST_STEPS or max(abs(A), abs(A + last * B)) > _WHOLE:
        raise InputError(
            "SFY-NUM-015",
            f"resolution {resolution} of feature {j} is too fine for its bounds "
            f"({lower:g}, {upper:g}): agree on a coarser one, or on bounds with fewer digits",
        )
    return A, B, unit, last, (A + last * B) / unit


def points_of(lower: float, upper: float, resolution: str, digits: int, name: str) -> Array:
    """All points between the bounds, in ascending order: each the float64 nearest to a decimal.

    With a resolution they are lower + j resolution; with digits, the decimals with at most that
    many significant digits; with both, a power of 10 is the finest step of these.
    """
    if digits:
        points = _with_digits(lower, upper, resolution, digits, name)
    else:
        ends = np.array([lower], dtype=np.float64), np.array([upper], dtype=np.float64)
        grid = Grid.of(*ends, np.array([True]), [resolution])
        last = int(grid.last[0])
        _check_number(last + 1, name)
        points = grid.points(np.arange(last + 1.0)[:, None])[:, 0]
        points = points[points <= upper]
    _check_number(len(points), name)
    return points


def _with_digits(lower: float, upper: float, resolution: str, digits: int, name: str) -> Array:
    first, last = (Fraction(repr(float(bound))) for bound in (lower, upper))
    if resolution:
        finest = Decimal(resolution).normalize()
        lowest = finest.adjusted()
    elif first <= 0 <= last:
        finest = Decimal(0)
    else:
        finest = Decimal(1)
        lowest = _decade(min(abs(first), abs(last))) - digits + 1
    if finest.as_tuple().digits != (1,):
        raise InputError(
            "SFY-NUM-019",
            f"feature {name!r} has {digits} significant digits and the resolution "
            f"{resolution or 'none'}: with digits, a resolution is a power of 10, such as 0.01, "
            "and bounds that contain 0 need one.",
        )
    # In units of the finest step.
    unit = Fraction(10) ** -lowest
    least, most = ceil(first * unit), floor(last * unit)
    largest = max(abs(least), abs(most))
    if not -_MOST_PLACES <= lowest <= _MOST_PLACES or largest > _WHOLE:
        raise InputError(
            "SFY-NUM-018",
            f"the points of feature {name!r} have too many digits: agree on a coarser resolution, "
            "or on other bounds.",
        )
    # Decade by decade: all numbers with that many digits, and the same with a minus sign.
    decades = [np.arange(10**digits)]
    while (last_step := int(decades[-1][-1])) < largest:
        step = 10 ** (len(str(last_step)) - digits + 1)
        start = 10 ** len(str(last_step))
        _check_number(len(decades) * 9 * 10 ** (digits - 1), name)
        decades.append(np.arange(start, 10 * start, step))
    sizes = np.concatenate(decades)
    numbers = np.unique(np.concatenate([-sizes, sizes]))
    numbers = numbers[(numbers >= least) & (numbers <= most)].astype(np.float64)
    scale = float(10 ** abs(lowest))
    points: Array = numbers * scale if lowest > 0 else numbers / scale
    return points


def _decade(number: Fraction) -> int:
    """The exponent of the first significant digit."""
    exponent = len(str(number.numerator)) - len(str(number.denominator))
    return exponent if number >= Fraction(10) ** exponent else exponent - 1


def _check_number(count: int, name: str) -> None:
    if not 2 <= count <= MOST_POINTS:
        raise InputError(
            "SFY-NUM-020",
            f"feature {name!r} has {count} points between its bounds; there must be 2 to "
            f"{MOST_POINTS}: agree on a {'finer' if count < 2 else 'coarser'} resolution, or on "
            "other bounds.",
        )
