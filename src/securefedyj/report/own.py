"""A silo's own rows, before and after the transformation: what its page says and draws of them."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from securefedyj.numerics import yeojohnson
from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.protocol.result import Result
from securefedyj.report.bins import distinguishable

# Values beyond this cannot be drawn.
_LARGEST_DRAWN = 1e100
_LEAST_SHIFT, _LEAST_ERRORS = 0.5, 4.0


class Column(NamedTuple):
    """The values of one feature that are there and can be drawn."""

    before: Array
    after: Array

    @property
    def varies(self) -> bool:
        """Whether there is more to draw than one point."""
        spread = float(self.before.std()) if len(self.before) else 0.0
        return 0 < spread < np.inf and distinguishable(self.before)


class OwnRows:
    """Rows of a silo, or a sample of them, features in the order of the agreement.

    Parameters
    ----------
    values
        NaN where a value is missing.
    result
        The fit of all silos.
    rows
        How many there are in all, if the values are a sample.
    """

    def __init__(self, values: Array, result: Result, rows: int | None = None) -> None:
        self.values, self._result = values, result
        self.rows = len(values) if rows is None else rows

    @property
    def sampled(self) -> bool:
        return self.rows > len(self.values)

    def column(self, j: int, most: int | None = None) -> Column:
        """Of a feature; with `most`, about so many rows at most."""
        step = 1 if most is None else max(1, len(self.values) // most)
        x = self.values[::step, j]
        x = x[~np.isnan(x)]
        one = self._result.standardization.take(j)
        with np.errstate(all="ignore"):
            z = yeojohnson.standardize(x, self._result.lmbda[j], one)
        # A table of something else may be transformed to numbers that nobody can draw.
        drawable = np.abs(z) < _LARGEST_DRAWN
        return Column(x[drawable], z[drawable])

    @cached_property
    def count(self) -> Integers:
        """How many values of each feature are here."""
        there: Integers = np.count_nonzero(~np.isnan(self.values), axis=0)
        return there

    @cached_property
    def constant(self) -> Bools:
        """The features whose values here do not differ, up to rounding."""
        return np.array(
            [
                len(x := column[~np.isnan(column)]) > 0 and not distinguishable(x)
                for column in self.values.T
            ],
            dtype=bool,
        )

    @cached_property
    def shift(self) -> Array:
        """How far the mean here is from that of all silos, in standard deviations of all.

        After the transformation, where a standard deviation means the same for every feature.
        """
        means = np.full(self.values.shape[1], np.nan)
        for j in range(len(means)):
            after = self.column(j).after
            if len(after) and not self._result.constant[j]:
                means[j] = after.mean()
        return means

    @cached_property
    def shifted(self) -> Bools:
        """The features that are shifted by much, and by more than chance would do."""
        chance = _LEAST_ERRORS / np.sqrt(np.maximum(self.count, 1))
        with np.errstate(invalid="ignore"):
            beyond: Bools = np.abs(self.shift) >= np.maximum(_LEAST_SHIFT, chance)
        return beyond

    @cached_property
    def skewness(self) -> Array:
        """Of each feature before; 0 where it is not defined."""
        skewness = np.zeros(self.values.shape[1])
        for j, x in enumerate(self.values.T):
            x = x[~np.isnan(x)]
            if len(x) > 2 and 0 < np.ptp(x) < np.inf:
                skewness[j] = skew(x)
        return skewness


def skew(x: Array) -> float:
    """By scaled distances, whose powers neither overflow nor vanish; 0 where there are none."""
    distance = x - x.mean()
    largest = np.abs(distance).max()
    if largest == 0:
        return 0.0
    distance /= largest
    return float(np.mean(distance**3) / np.mean(distance**2) ** 1.5)
