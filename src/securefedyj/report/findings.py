"""What a reader should know of single features: which ones, why, and what to do about it.

Some of it follows from the result, and is the same for everybody. The rest is about a silo's own
rows, and is told on its own page alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from securefedyj.network.consortium import MINIMUM_VALUES
from securefedyj.numerics.arrays import Array, Bools
from securefedyj.protocol.result import Result
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.own import OwnRows

FEW_VALUES = MINIMUM_VALUES
"""The default of what a consortium agrees on, for the same reason: statistics of fewer values come
close to telling the values themselves."""
STEEP = 10.0


class Finding(NamedTuple):
    """Something about some features."""

    flag: str
    """In a word or two, for the table."""
    what: str
    """The features, as in "3 constant"."""
    chosen: Bools
    words: str
    amount: Array | None = None
    """A number beside each name."""


def findings(transcript: Transcript, result: Result, own: OwnRows | None) -> list[Finding]:
    """All that is to be told of the features; nothing that is true of none."""
    every = [*(() if own is None else _of_own(own, result)), *_of_all(transcript, result)]
    return [finding for finding in every if finding.chosen.any()]


def _of_own(own: OwnRows, result: Result) -> Iterator[Finding]:
    drawn = " among the rows that were drawn" * own.sampled
    yield Finding(
        "empty here",
        f"without values here{drawn}",
        (own.count == 0) & (result.n > 0),
        "Your table has none, and so had no part in λ. Is the column in it under another name, or "
        "are all its cells codes for missing values?",
    )
    yield Finding(
        "constant here",
        f"constant here{drawn}",
        own.constant & ~result.constant,
        "All your values are the same, those of the others are not. Perhaps the column means "
        "something else here, or was filled in.",
    )
    yield Finding(
        "shifted",
        "shifted against the consortium",
        own.shifted,
        "After the transformation your mean is so many standard deviations above (+) or below (−) "
        "that of all silos together, yours included. Patients may differ; so may units, devices, "
        "or codes for missing values.",
        own.shift,
    )


def _of_all(transcript: Transcript, result: Result) -> Iterator[Finding]:
    certainty = transcript.certainty()
    yield Finding(
        "at the edge",
        "at the edge",
        result.at_bound,
        "The best λ lies beyond the range that the agreed bounds admit, and λ is the edge of that "
        "range. Either the bounds are far wider than the values, and tighter ones would help; or "
        "nearly all values are the same.",
    )
    yield Finding(
        "λ beyond 10",
        f"with λ beyond {STEEP:g}",
        ~(np.abs(result.lmbda) <= STEEP) & ~result.constant,
        "The values differ by little beside 1 + |x|, so only an extreme λ bends them: such as "
        "values from 0 to 0.01, or from 990 to 1010. That may be as it should, but a value a "
        "little outside of those seen is transformed to an enormous number, and other software may "
        "fail. In another unit, or with a constant subtracted, λ would be ordinary.",
        result.lmbda,
    )
    yield Finding(
        "constant",
        "constant",
        result.constant & (result.n > 1),
        "All values at all silos are equal, as exactly as the agreed bounds let them be compared, "
        "and the mean tells which value that is.",
    )
    yield Finding(
        "not certain",
        "unresolved",
        ~certainty.resolved,
        "The values vary too little for their bounds, and λ may be wrong. Agree on bounds closer "
        "to the values, change the unit, or subtract a constant.",
    )
    yield Finding(
        "not certain",
        "with too few steps",
        certainty.resolved & ~certainty.narrowed,
        f"{transcript.agreement.max_steps} steps were too few to find λ to the promised precision. "
        "Agree on more steps, or change the unit.",
    )
    yield Finding(
        "few values",
        f"with fewer than {FEW_VALUES} values",
        (result.n < FEW_VALUES) & (result.n > 0),
        "Statistics of so few values come close to telling the values themselves. Leave such "
        "features out of the next run.",
    )
    yield Finding("no values", "without values", result.n == 0, "No silo has any; λ is set to 1.")
    yield Finding(
        "not for scikit-learn",
        "that to_sklearn() cannot carry",
        ~result.standardization.told_by(result.mean, result.var),
        "Mean and variance of the transformed feature do not fit float64, which scikit-learn "
        "computes with. What securefedyj.load returns transforms them, and so does "
        "securefedyj transform.",
    )
