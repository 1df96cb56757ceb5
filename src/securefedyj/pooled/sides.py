"""The sides of every feature, each measured from a reference amid its values, for `likelihood`.

A side holds the values of a feature that are >= 0, or those that are < 0. Its reference is c, and
its values are seen as D / s, with D = log((1+|x|)/(1+|c|)) and s the largest |D|. For Box-Cox,
whose features are positive, D = log(x/c).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.elementary import log1p, log_ratio
from securefedyj.pooled.blocks import PIECE, Survey, Table, drawn

# Below this, log(1+x) is x.
TINY = 1e-290

# A sample of this size is enough to place the reference of a side amid its data.
_SAMPLE = 64

# Where the distances of a sample from its median are smaller than this, relative to log(1+|c|), the
# difference of two logarithms would not keep their digits.
_CONCENTRATED = 0.01

_HIGHEST_NEGATIVE = -float(np.finfo(np.float64).smallest_subnormal)


class Measure(NamedTuple):
    """The numbers of each side: its values, their reference, and their D divided by s."""

    n: Array
    size: Array  # s: the largest |D| before D was divided by it
    reference: Array  # |c|
    close: Bools  # whether D keeps the digits of the difference to c
    lowest_D: Array
    highest_D: Array


class Sides:
    """All sides of all features of a table, which have at least two distinct values each.

    Parameters
    ----------
    table, rows, survey
        The features, their number of rows and what was found out about them.
    box_cox
        Whether they are all positive, and D = log(x/c).

    Attributes
    ----------
    sample
        Some rows of the table, drawn at random, of shape (n_features, rows).
    """

    def __init__(self, table: Table, rows: int, survey: Survey, box_cox: bool = False) -> None:
        n_features, self.box_cox = table.n_features, box_cox
        # Zero is a fixed point of both sides: it joins whichever side there is.
        below, above = survey.negative > 0, survey.highest > 0
        self.one_sided: Bools = ~(below & above)
        # Of each side:
        self.feature: Index = np.repeat(np.arange(n_features), np.where(self.one_sided, 1, 2))
        first = np.diff(self.feature, prepend=-1) > 0
        f = self.feature
        self.sign: Array = np.where(below[f] & first, -1.0, 1.0)
        alone, negative = self.one_sided[f], self.sign < 0
        n = np.where(negative, survey.negative[f], survey.n[f] - survey.negative[f])
        n = np.where(alone, survey.n[f], n)
        self.complete: Bools = n == rows
        inner = np.where(negative, survey.highest_negative[f], survey.lowest_other[f])
        inner = np.where(alone, np.where(negative, survey.highest[f], survey.lowest[f]), inner)
        outer = np.where(negative, survey.lowest[f], survey.highest[f])
        self.least: Array = np.where(alone | negative, -np.inf, 0.0)
        self.most: Array = np.where(alone | ~negative, np.inf, _HIGHEST_NEGATIVE)
        samples, self.sample = self._samples(table, rows, n)
        samples[:, 0] = np.where(np.isnan(samples[:, 0]), outer, samples[:, 0])  # if nothing is
        magnitudes = np.abs(samples), np.abs(inner), np.abs(outer)
        self.measure = measure = _measure(*magnitudes, n, box_cox)

        # Of each feature:
        self.n: Array = survey.n.astype(np.float64)
        L_reference = np.log(measure.reference) if box_cox else np.log1p(measure.reference)
        # A side that holds one value only has no extent, whatever its D was divided by.
        extent = np.where(measure.highest_D > measure.lowest_D, measure.size, 0.0)
        self.scale: Array = np.zeros(n_features)
        np.maximum.at(self.scale, f, np.where(alone, 0.0, L_reference) + extent)

        # Of each side, in units of its feature's scale; a side that is alone is its own origin.
        self.origin: Array = np.where(alone, 0.0, L_reference / self.scale[f])
        self.ratio: Array = extent / self.scale[f]

        # Of each feature: the origin of the side that has more values, negative on the negative
        # side.
        larger = np.zeros(n_features, dtype=np.intp)
        order = np.argsort(n, kind="stable")
        larger[f[order]] = order
        self.larger_origin: Array = (self.sign * self.origin)[larger]
        self.log_jacobian: Array = sum_by(f, np.where(alone, n * L_reference, 0.0))

    def _samples(self, table: Table, rows: int, n: Integers) -> tuple[Array, Array]:
        """Values of each side, drawn at random, and NaN after them; and some rows of the table."""
        samples = np.full((len(n), _SAMPLE), np.nan)
        # Of a side that holds many rows, there are enough values among these.
        some = drawn(rows, 16 * _SAMPLE)
        rare = np.flatnonzero(4 * n < rows)
        ranks = {count: drawn(count, _SAMPLE) for count in set(n[rare].tolist())}
        seen = np.zeros(len(n), dtype=np.int64)
        read, parts = 0, []
        for chunk in table.chunks():
            parts.append(chunk[:, _within(some, read, chunk.shape[1])[1] - read])
            read += chunk.shape[1]
            for first in range(0, chunk.shape[1] if len(rare) else 0, PIECE):
                for side in rare:
                    values = chunk[self.feature[side], first : first + PIECE]
                    x = self._held_by(side, values)
                    places, here = _within(ranks[n[side]], seen[side], len(x))
                    samples[side, places] = x[here - seen[side]]
                    seen[side] += len(x)
        values = np.concatenate(parts, axis=1)
        complete = n == rows
        samples[complete, : len(some)] = _spread(values[self.feature[complete]])
        for side in np.flatnonzero((4 * n >= rows) & ~complete):
            x = _spread(self._held_by(side, values[self.feature[side]]))
            samples[side, : len(x)] = x
        return samples, values

    def _held_by(self, side: Any, values: Array) -> Array:
        """Those of the values of its feature that a side holds."""
        held: Array = values[(values >= self.least[side]) & (values <= self.most[side])]
        return held


def _spread(values: Array) -> Array:
    """A sample's worth of values along the last axis, or all if there are fewer."""
    n = values.shape[-1]
    return values if n <= _SAMPLE else values[..., np.arange(_SAMPLE) * n // _SAMPLE]


def sum_by(owner: Index, values: Array, size: int = 0) -> Array:
    """The sum of the values of each owner."""
    return np.asarray(np.bincount(owner, values, size), dtype=np.float64)


def _within(positions: Index, first: int, n: int) -> tuple[slice, Index]:
    """Which of the ordered positions are among n from the first one on, and these."""
    places = slice(*np.searchsorted(positions, (first, first + n)))
    return places, positions[places]


def _measure(samples: Array, lowest: Array, highest: Array, n: Integers, box_cox: bool) -> Measure:
    """The reference of each side, and what follows from it for its extremes."""
    if box_cox:
        reference, close = _lower_median(samples), np.ones(len(n), dtype=bool)
        low, high = log_ratio(lowest, reference), log_ratio(highest, reference)
    else:
        reference, close = _references(samples)
        ends = np.array([lowest, highest])
        low, high = np.where(
            close, distance_of_close(ends, reference), distance_of(ends, reference)
        )
    size = np.maximum(high, -low)
    size[size == 0] = 1.0  # a side that holds one value only
    return Measure(n.astype(np.float64), size, reference, close, low / size, high / size)


def _references(samples: Array) -> tuple[Array, Bools]:
    """A value amid each sample, and whether most others are so close to it that logarithms cancel.

    The value is the median: where most values are equal it is one of them, and the few that differ
    are not lost in the rounding of the many.
    """
    reference = _lower_median(samples)
    D = distance_of_close(samples, reference[:, None])
    typical = _lower_median(np.abs(D))
    return reference, typical < _CONCENTRATED * np.log1p(reference)


def _lower_median(rows: Array) -> Array:
    """The median of each row, or of two in the middle the lower one; NaN is left out."""
    ordered: Array = np.sort(rows, axis=1)  # NaN comes last
    present = rows.shape[1] - np.count_nonzero(np.isnan(rows), axis=1)
    middle: Array = ordered[np.arange(len(rows)), (present - 1) // 2]
    return middle


def logarithm(x: Array) -> Array:
    """log(1+x) for x >= -1/2; `log1p` has no digits of a subnormal number."""
    return np.where(np.abs(x) < TINY, x, log1p(x))


def distance_of(x: Array, reference: Array) -> Array:
    """log((1+x)/(1+c))"""
    return logarithm(x) - logarithm(reference)


def distance_of_close(x: Array, reference: Array) -> Array:
    """The same from the difference of x and c, which is exact where they are close."""
    share = (x - reference) / (1 + reference)
    far = share < -0.5  # where 1 + share, the ratio, would lose its digits
    return np.where(far, distance_of(x, reference), logarithm(np.where(far, 0.0, share)))
