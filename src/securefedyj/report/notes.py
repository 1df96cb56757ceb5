"""What stands out about single features; templates/notes.html says why, and what to do about it.

Some of it follows from the result, and is the same for everybody. The rest comes from a silo's own
rows, and appears only on that silo's own page.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from securefedyj.network.consortium import Consortium
from securefedyj.numerics import yeojohnson
from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.protocol.result import Result
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.charts import distinguishable, skew

STEEP = 10
_LARGEST_DRAWN = 1e100
_LEAST_SHIFT, _LEAST_ERRORS = 0.5, 4.0


class FeatureValues(NamedTuple):
    """The values of one feature that are not missing and can be drawn."""

    before: Array
    after: Array

    @property
    def varies(self) -> bool:
        """Whether there is more to draw than one point."""
        spread = float(self.before.std()) if len(self.before) else 0.0
        return 0 < spread < np.inf and distinguishable(self.before)


class OwnRows:
    """Rows of a silo, or a sample of that number of rows, with the fit of all silos.

    The features are in the order of the agreement. NaN marks a missing value.
    """

    def __init__(self, values: Array, result: Result, rows: int | None = None) -> None:
        self.values, self._result = values, result
        self.rows = len(values) if rows is None else rows

    @property
    def sampled(self) -> bool:
        return self.rows > len(self.values)

    def column(self, j: int, most: int | None = None) -> FeatureValues:
        """The values of a feature; with `most`, from a sample of about that many rows."""
        step = 1 if most is None else max(1, len(self.values) // most)
        x = _present(self.values[::step, j])
        one = self._result.standardization.take(j)
        with np.errstate(all="ignore"):
            z = yeojohnson.standardize(x, self._result.lmbda[j], one)
        # Values that are not from the table of the run may become too large to draw.
        drawable = np.abs(z) < _LARGEST_DRAWN
        return FeatureValues(x[drawable], z[drawable])

    @cached_property
    def count(self) -> Integers:
        """The number of values of each feature."""
        count: Integers = np.count_nonzero(~np.isnan(self.values), axis=0)
        return count

    @cached_property
    def constant(self) -> Bools:
        """The features whose own values are equal up to rounding."""
        equal = [not distinguishable(_present(column)) for column in self.values.T]
        constant: Bools = np.array(equal, dtype=bool) & (self.count > 0)
        return constant

    @cached_property
    def shift(self) -> Array:
        """The distance of the own mean from that of all silos, in standard deviations of all.

        It is measured after the transformation, where a standard deviation means the same for every
        feature.
        """
        means = np.full(self.values.shape[1], np.nan)
        for j in np.flatnonzero(~self._result.constant).tolist():
            if len(after := self.column(j).after):
                means[j] = after.mean()
        return means

    @cached_property
    def shifted(self) -> Bools:
        """The features with a large shift, larger than chance explains."""
        chance = _LEAST_ERRORS / np.sqrt(np.maximum(self.count, 1))
        with np.errstate(invalid="ignore"):
            beyond: Bools = np.abs(self.shift) >= np.maximum(_LEAST_SHIFT, chance)
        return beyond

    @cached_property
    def skewness(self) -> Array:
        """The skewness of each feature before the transformation; 0 where it is not defined."""
        return np.array([skew(_present(column)) for column in self.values.T])


def _present(column: Array) -> Array:
    return column[~np.isnan(column)]


class Note(NamedTuple):
    """Something about some features; its words are in templates/notes.html."""

    kind: str
    chosen: Bools
    amount: Array | None = None  # a number next to each name


def notes_of(transcript: Transcript, result: Result, own: OwnRows | None) -> list[Note]:
    """All notes that apply to at least one feature."""
    certainty = transcript.certainty()
    notes = [
        Note("at the limit", result.at_bound),
        Note("steep", ~(np.abs(result.lmbda) <= STEEP) & ~result.constant, result.lmbda),
        Note("constant", result.constant & (result.n > 1)),
        Note("unresolved", ~certainty.resolved),
        Note("too few steps", certainty.resolved & ~certainty.narrowed),
        Note("few values", (result.n < Consortium.minimum_values) & (result.n > 0)),
        Note("no values", result.n == 0),
        Note("not for scikit-learn", ~result.standardization.told_by(result.mean, result.var)),
    ]
    if own is not None:
        notes = [
            Note("empty here", (own.count == 0) & (result.n > 0)),
            Note("constant here", own.constant & ~result.constant),
            Note("shifted", own.shifted, own.shift),
            *notes,
        ]
    return [note for note in notes if note.chosen.any()]
