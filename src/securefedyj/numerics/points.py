"""All values that a feature can have, where every silo records it by the same public decimals."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.grid import Grid

MOST_POINTS = 1 << 16
MOST_DIGITS = 9
"""Significant digits; there are more than `MOST_POINTS` numbers of five in a single decade."""
_MOST_PLACES = 22  # 10^22 is a float64
_WHOLE = 1 << 53  # and so are all integers up to this


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
            "SFY-NUM-016",
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
    # Decade by decade: all numbers of so many digits, and the same with a minus sign.
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
            "SFY-NUM-017",
            f"feature {name!r} has {count} points between its bounds; there must be 2 to "
            f"{MOST_POINTS}: agree on a {'finer' if count < 2 else 'coarser'} resolution, or on "
            "other bounds.",
        )
