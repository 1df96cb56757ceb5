"""The public points of a feature, against decimals one by one."""

from __future__ import annotations

from decimal import Decimal

import pytest

from securefedyj.errors import InputError
from securefedyj.numerics.grid import MOST_POINTS, points_of
from tests.refusals import refused


def significant(number: Decimal) -> int:
    return len(number.normalize().as_tuple().digits)


@pytest.mark.parametrize(
    ("lower", "upper", "resolution"),
    [(0.0, 1.0, "0.3"), (18.0, 120.0, "1"), (-1.5, 2.0, "0.05"), (0.1, 0.2, "0.001")],
)
def test_a_resolution_steps_from_the_lower_bound_to_the_upper_one(lower, upper, resolution):
    start, step, wanted = Decimal(repr(lower)), Decimal(resolution), []
    while start + len(wanted) * step <= Decimal(repr(upper)):
        wanted.append(float(start + len(wanted) * step))
    assert points_of(lower, upper, resolution, 0, "x").tolist() == wanted


@pytest.mark.parametrize(
    ("lower", "upper", "resolution", "digits", "finest"),
    [
        (0.5, 20.0, "", 2, "0.01"),
        (0.0123, 0.456, "", 3, "0.0001"),
        (-7.5, -0.02, "", 1, "0.01"),
        (-15.0, 150.0, "0.1", 2, ""),
        (0.0, 12000.0, "10", 2, ""),
        (900.0, 31000.0, "", 3, "1"),
    ],
)
def test_digits_give_all_decimals_with_that_many(lower, upper, resolution, digits, finest):
    finest = Decimal(resolution or finest)
    some = range(int(Decimal(repr(lower)) / finest) - 1, int(Decimal(repr(upper)) / finest) + 2)
    wanted = [
        float(number)
        for k in some
        if lower <= float(number := k * finest) <= upper and significant(number) <= digits
    ]
    assert points_of(lower, upper, resolution, digits, "x").tolist() == wanted


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((0.0, 1.0, "", 2), "SFY-NUM-019"),
        ((0.0, 1.0, "0.05", 2), "SFY-NUM-019"),
        ((0.0, 1.0, "0.00001", 0), "SFY-NUM-020"),
        ((1.0, 1e9, "", 5), "SFY-NUM-020"),
        ((0.1, 0.9, "1", 0), "SFY-NUM-020"),
        ((1e-30, 1e-29, "", 2), "SFY-NUM-018"),
        ((1.0, 1e30, "", 2), "SFY-NUM-018"),
    ],
)
def test_points_that_no_run_can_use_are_refused(arguments, code):
    lower, upper, resolution, digits = arguments
    with refused(code, InputError):
        points_of(lower, upper, resolution, digits, "x")


def test_as_many_points_as_are_allowed():
    assert len(points_of(0.0, float(MOST_POINTS - 1), "1", 0, "x")) == MOST_POINTS
