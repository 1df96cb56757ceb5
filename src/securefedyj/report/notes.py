"""What stands out about single features: which ones, why, and what to do about it.

Some of it follows from the result, and is the same for everybody. The rest comes from a silo's own
rows, and appears on that silo's own page alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from securefedyj.network.consortium import Consortium
from securefedyj.numerics import yeojohnson
from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.protocol.result import Result
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.charts import distinguishable, skew

_LARGEST_DRAWN = 1e100
_LEAST_SHIFT, _LEAST_ERRORS = 0.5, 4.0
_STEEP = 10.0


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
    """Rows of a silo, or a sample of them, features in the order of the agreement.

    Parameters
    ----------
    values
        NaN marks a missing value.
    result
        The fit of all silos.
    rows
        The number of all rows, if the values are a sample.
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
        x = self.values[::step, j]
        x = x[~np.isnan(x)]
        one = self._result.standardization.take(j)
        with np.errstate(all="ignore"):
            z = yeojohnson.standardize(x, self._result.lmbda[j], one)
        # Another table than that of the run may be transformed to numbers that nobody can draw.
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
        return np.array(
            [
                len(x := column[~np.isnan(column)]) > 0 and not distinguishable(x)
                for column in self.values.T
            ],
            dtype=bool,
        )

    @cached_property
    def shift(self) -> Array:
        """The distance of the own mean from that of all silos, in standard deviations of all.

        It is measured after the transformation, where a standard deviation means the same for every
        feature.
        """
        means = np.full(self.values.shape[1], np.nan)
        for j in range(len(means)):
            after = self.column(j).after
            if len(after) and not self._result.constant[j]:
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
        skewness = np.zeros(self.values.shape[1])
        for j, x in enumerate(self.values.T):
            x = x[~np.isnan(x)]
            if len(x) > 2 and 0 < np.ptp(x) < np.inf:
                skewness[j] = skew(x)
        return skewness


class Note(NamedTuple):
    """Something about some features."""

    flag: str
    """A word or two, for the table."""
    what: str
    """Describes the features, as in "3 constant"."""
    chosen: Bools
    words: str
    amount: Array | None = None
    """A number next to each name."""


def notes_of(transcript: Transcript, result: Result, own: OwnRows | None) -> list[Note]:
    """All notes that apply to at least one feature."""
    every = [*(() if own is None else _of_own(own, result)), *_of_all(transcript, result)]
    return [note for note in every if note.chosen.any()]


def _of_own(own: OwnRows, result: Result) -> Iterator[Note]:
    drawn = " among the sampled rows" * own.sampled
    yield Note(
        "empty here",
        f"without values here{drawn}",
        (own.count == 0) & (result.n > 0),
        "Your table has no values of these features, so it had no part in their λ. Does it have "
        "the column under another name, or are all its cells codes for missing values?",
    )
    yield Note(
        "constant here",
        f"constant here{drawn}",
        own.constant & ~result.constant,
        "All your values are equal; those of the other silos are not. Perhaps the column means "
        "something else here, or someone filled it in.",
    )
    yield Note(
        "shifted",
        "shifted against the consortium",
        own.shifted,
        "The number says how many standard deviations your mean after the transformation lies "
        "above (+) or below (−) the mean of all silos, yours included. Patients may differ; so may "
        "units, devices, or codes for missing values.",
        own.shift,
    )


def _of_all(transcript: Transcript, result: Result) -> Iterator[Note]:
    certainty = transcript.certainty()
    yield Note(
        "search hit its limit",
        "where the search hit its limit",
        result.at_bound,
        "The best λ lies outside the range that the agreed bounds allow, so λ is the end of that "
        "range. Either the bounds are far wider than the values, and tighter bounds would help; or "
        "nearly all values are equal.",
    )
    yield Note(
        "λ beyond 10",
        f"with λ beyond {_STEEP:g}",
        ~(np.abs(result.lmbda) <= _STEEP) & ~result.constant,
        "The values differ by little compared with 1 + |x|, so only an extreme λ bends them: for "
        "example values from 0 to 0.01, or from 990 to 1010. That may be right, but a value "
        "slightly outside the range of these is transformed to an enormous number, and other "
        "software may fail. In another unit, or with a constant subtracted, λ would be ordinary.",
        result.lmbda,
    )
    yield Note(
        "constant",
        "constant",
        result.constant & (result.n > 1),
        "All values at all silos are equal, as precisely as the agreed bounds allow to compare "
        "them, and the mean reveals that value.",
    )
    yield Note(
        "not certain",
        "unresolved",
        ~certainty.resolved,
        "The values vary too little for their bounds, and λ may be wrong. Agree on tighter bounds, "
        "change the unit, or subtract a constant.",
    )
    yield Note(
        "not certain",
        "with too few steps",
        certainty.resolved & ~certainty.narrowed,
        f"{transcript.agreement.max_steps} steps were not enough to find λ to the promised "
        "precision. Agree on more steps, or change the unit.",
    )
    yield Note(
        "few values",
        f"with fewer than {Consortium.minimum_values} values",
        (result.n < Consortium.minimum_values) & (result.n > 0),
        "Statistics of this few values nearly reveal the values themselves. Leave such features "
        "out of the next run.",
    )
    yield Note(
        "no values",
        "without values",
        result.n == 0,
        "No silo has values of these features; λ is set to 1.",
    )
    yield Note(
        "not for scikit-learn",
        "that to_sklearn() cannot carry",
        ~result.standardization.told_by(result.mean, result.var),
        "Mean and variance of the transformed feature do not fit into float64, which scikit-learn "
        "uses. The transformer that securefedyj.load returns handles them, and so does the command "
        "securefedyj transform.",
    )
