"""The values of every feature by side, measured from a reference amid them, for `likelihood`.

A side holds the values of a feature that are >= 0, or those that are < 0. Its reference is c, and
its values are kept as D / s, with D = log((1+|x|)/(1+|c|)) and s the largest |D|.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index

# Numbers in one block of rows: a handful of such arrays stays in the cache of a core.
BLOCK = 8192

# A sample of this size is enough to place the reference of a side amid its data.
_SAMPLE = 64

# Where the distances of a sample from its median are smaller than this, beside log(1+|c|), the
# difference of two logarithms would not keep their digits.
_CONCENTRATED = 0.01


class Block(NamedTuple):
    """Rows [start, stop) of the sides, and their D: shorter rows are padded with D = 0.

    Zeros add nothing to any sum, since R and its derivatives vanish at D = 0.
    """

    start: int
    stop: int
    D: Array


class Measure(NamedTuple):
    """The numbers of each row: its values, their reference, and their D divided by s."""

    n: Array
    size: Array  # s: the largest |D| before D was divided by it
    reference: Array  # |c|
    mean_D: Array
    lowest_D: Array
    highest_D: Array


class Sides:
    """All sides of all features, one in each row of the blocks.

    ``rows`` holds the values of one feature in each row, at least two distinct ones; NaN counts
    as missing. The array is taken over: distances D are written into it.
    """

    def __init__(self, rows: Array) -> None:
        n_features = len(rows)
        self.blocks: list[Block] = []
        features, signs, measures = [], [], []
        end = 0
        for feature, sign, values in _split_by_sign(rows):
            reference, concentrated = _references(values)
            for close in (False, True):
                picked = np.flatnonzero(concentrated == close)
                if not len(picked):
                    continue
                D = values if len(picked) == len(values) else values[picked]
                measures.append(_measure_from_reference(D, reference[picked], close))
                self.blocks.append(Block(end, end + len(D), D))
                end += len(D)
                features.append(feature[picked])
                signs.append(sign[picked])
        # Of each side:
        self.feature: Index = np.concatenate(features)
        self.sign: Array = np.concatenate(signs)
        self.measure = measure = Measure(*map(np.concatenate, zip(*measures, strict=True)))

        # Of each feature:
        self.one_sided: Bools = np.bincount(self.feature, minlength=n_features) == 1
        self.n: Array = sum_by(self.feature, measure.n, n_features)
        L_reference = np.log1p(measure.reference)
        alone = self.one_sided[self.feature]
        # A side that holds one value only has no extent, whatever its D was divided by.
        extent = np.where(measure.highest_D > measure.lowest_D, measure.size, 0.0)
        self.scale: Array = np.zeros(n_features)
        np.maximum.at(self.scale, self.feature, np.where(alone, 0.0, L_reference) + extent)

        # Of each side, in units of its feature's scale; a side that is alone is its own origin.
        self.origin: Array = np.where(alone, 0.0, L_reference / self.scale[self.feature])
        self.ratio: Array = extent / self.scale[self.feature]
        share = measure.n / self.n[self.feature]

        # Of each feature:
        self.mean_phi: Array = sum_by(
            self.feature, share * self.sign * (self.origin + self.ratio * measure.mean_D)
        )
        # The origin of the side that has more values, negative on the negative side.
        larger = np.zeros(n_features, dtype=np.intp)
        order = np.argsort(measure.n, kind="stable")
        larger[self.feature[order]] = order
        self.larger_origin: Array = (self.sign * self.origin)[larger]
        self.log_jacobian: Array = sum_by(
            self.feature, np.where(alone, measure.n * L_reference, 0.0)
        )


def sum_by(owner: Index, values: Array, size: int = 0) -> Array:
    """The sum of the values of each owner."""
    return np.asarray(np.bincount(owner, values, size), dtype=np.float64)


def _split_by_sign(rows: Array) -> Iterator[tuple[Index, Array, Array]]:
    """Rows of |x|, one per feature and sign, padded with NaN: (features, signs, rows)."""
    lowest, highest = np.min(rows, axis=1), np.max(rows, axis=1)  # NaN where one is missing
    # Zero is a fixed point of both sides: it joins whichever side there is.
    simple = (lowest >= 0) | (highest <= 0)
    if simple.any():
        kept = rows if simple.all() else rows[simple]
        sign = np.where(lowest[simple] >= 0, 1.0, -1.0)
        yield np.flatnonzero(simple), sign, np.abs(kept, out=kept)
    parts = [(j, *side) for j in np.flatnonzero(~simple) for side in _magnitudes(rows[j])]
    if rows.shape[1] > BLOCK:
        for part in parts:
            yield np.array([part[0]]), np.array([part[1]]), part[2].reshape(1, -1)
    elif parts:
        features, signs = (
            np.array([part[0] for part in parts]),
            np.array([part[1] for part in parts]),
        )
        padded = np.full((len(parts), max(len(part[2]) for part in parts)), np.nan)
        for row, part in zip(padded, parts, strict=True):
            row[: len(part[2])] = part[2]
        yield features, signs, padded


def _magnitudes(x: Array) -> Iterator[tuple[float, Array]]:
    """The magnitudes of one feature's values by sign, in place; missing values are left out."""
    present = len(x) - np.count_nonzero(np.isnan(x))
    negative = np.count_nonzero(x < 0)
    # Negative values first, missing values last, otherwise in any order.
    x.partition([k for k in (negative, present) if k < len(x)])
    if negative:
        if np.max(x[negative:present], initial=0.0) == 0:
            negative = present
        yield -1.0, np.abs(x[:negative], out=x[:negative])
    if negative < present:
        yield 1.0, x[negative:present]


def sample_of(rows: Array, size: int) -> Array:
    """That many columns, drawn at random but always alike: no order of the rows is special."""
    columns = rows.shape[1]
    if columns <= size:
        return rows
    drawn = np.random.default_rng(columns).integers(columns, size=size)
    return np.take(rows, np.sort(drawn), axis=1)


def _references(rows: Array) -> tuple[Array, Bools]:
    """A value amid each row, and whether most others are so close to it that logarithms cancel.

    The value is the median of a sample: where most values are equal it is one of them, and the few
    that differ are not lost in the rounding of the many.
    """
    sample = sample_of(rows, _SAMPLE)
    empty: Bools = np.all(np.isnan(sample), axis=1)
    if empty.any():  # of a row that is nearly all missing
        sample = np.where(empty[:, None], np.fmax.reduce(rows, axis=1)[:, None], sample)
    padded = bool(np.isnan(sample).any())
    reference = _lower_median(sample, padded)
    D = _distance(sample, reference[:, None], close=True)
    typical = _lower_median(np.abs(D), padded)
    return reference, typical < _CONCENTRATED * np.log1p(reference)


def _lower_median(rows: Array, padded: bool) -> Array:
    """The median of each row, or of two in the middle the lower one; NaN is left out."""
    ordered: Array = np.sort(rows, axis=1)  # NaN comes last
    if not padded:
        return ordered[:, (rows.shape[1] - 1) // 2].copy()
    present = rows.shape[1] - np.count_nonzero(np.isnan(rows), axis=1)
    middle: Array = ordered[np.arange(len(rows)), (present - 1) // 2]
    return middle


def _measure_from_reference(rows: Array, reference: Array, close: bool) -> Measure:
    """Turn rows of |x| into D / s, in place."""
    lowest, highest = np.fmin.reduce(rows, axis=1), np.fmax.reduce(rows, axis=1)
    low, high = (_distance(x, reference, close) for x in (lowest, highest))
    size = np.maximum(high, -low)
    size[size == 0] = 1.0  # a side that holds one value only
    padded = bool(np.isnan(rows[:, -1]).any())
    count, total = np.zeros(len(rows)), np.zeros(len(rows))
    for part, columns in blocks_of(rows.shape):
        block = rows[part, columns]
        _distance(block, reference[part, None], close, out=block)
        block /= size[part, None]
        count[part] += block.shape[1]
        if padded:
            missing = np.isnan(block)
            count[part] -= np.count_nonzero(missing, axis=1)
            block[missing] = 0.0
        total[part] += np.sum(block, axis=1)
    return Measure(count, size, reference, total / count, low / size, high / size)


def _distance(x: Array, reference: Array, close: bool, out: Array | None = None) -> Array:
    """log((1+x)/(1+c)); among close values from their difference, which is exact."""
    if not close:
        out = np.log1p(x, out=out)
        out -= np.log1p(reference)
        return out
    share = (x - reference) / (1 + reference)
    far = share < -0.5  # where 1 + share, the ratio, would lose its digits
    if far.any():
        logarithms = np.log1p(x) - np.log1p(reference)
        share = np.log1p(np.where(far, 0.0, share))
        return np.positive(np.where(far, logarithms, share), out=out)
    return np.log1p(share, out=out)


def blocks_of(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Row and column slices of blocks that fit the cache."""
    rows, columns = shape
    step = max(1, BLOCK // columns)
    for top in range(0, rows, step):
        for left in range(0, columns, BLOCK):
            yield slice(top, top + step), slice(left, left + BLOCK)
