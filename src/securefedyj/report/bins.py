"""Into which bars a silo's values are sorted, so that a histogram of them can be read.

Three things spoil one with bars of equal width between the least and the greatest value: a long
tail, which squeezes all others into one bar; values that heap on few points, which fall beside the
bars' middles; and counts or rounded values, of which neighbouring bars get one point more or less.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array

MOST = 30
_TAIL = 0.01  # of the values, on either side
_WORTH_CUTTING = 2.0  # times as wide as what is left
_MOST_DISTINCT = 4000  # more are no grid that one could see
_MOST_HEAPS = 24
_CLOSE, _TIGHT = 1 / 60, 1 / 30  # of the width of the chart
_WIDEST_BAR = 1 / 14
_ROUNDING = 1e-9  # of the largest value
_SMALLEST = 1e-200

_Bars = tuple[Array, Array, Array]
"""Where each begins and ends, and the width that it stands for."""


class Bins(NamedTuple):
    """Bars from left to right, and how many values lie beyond them."""

    left: Array
    right: Array
    share: Array
    """Of all values, in each bar."""
    density: Array
    below: int
    above: int


def binned(values: Array) -> Bins:
    """The bars of finite values; a single one if they are the same up to rounding."""
    if not distinguishable(values):
        middle = np.array([float(values.mean())])
        half = np.maximum(0.5, 1e-3 * np.abs(middle))
        return Bins(middle - half, middle + half, np.ones(1), 1 / (2 * half), 0, 0)
    low, high = window(values)
    inside = values[(values >= low) & (values <= high)]
    left, right, width = _around_heaps(inside) or _even(inside)
    place = np.searchsorted(left, inside, side="right") - 1
    share = np.bincount(place, minlength=len(left)) / len(values)
    below, above = int(np.sum(values < low)), int(np.sum(values > high))
    return Bins(left, right, share, share / width, below, above)


def distinguishable(values: Array) -> bool:
    """Whether the values differ by more than rounding: else no bars could tell them apart."""
    if len(values) == 0:
        return False
    return bool(np.ptp(values) > max(_ROUNDING * np.abs(values).max(), _SMALLEST))


def window(values: Array) -> tuple[float, float]:
    """All values, or nearly all where a tail would take most of the width."""
    low, high = float(values.min()), float(values.max())
    first, last = np.quantile(values, (_TAIL, 1 - _TAIL))
    margin = 0.25 * (last - first)
    near, far = max(low, first - margin), min(high, last + margin)
    kept = values[(values >= near) & (values <= far)]
    if high - low < _WORTH_CUTTING * (far - near) or not distinguishable(kept):
        return low, high
    return near, far


def _around_heaps(values: Array) -> _Bars | None:
    """One bar for each heap; None where there are no heaps.

    A heap stands for all values up to the middle between it and the next one, so its density can be
    compared with a curve. Its bar is narrower where heaps are few, or they would look like one.
    """
    points = np.unique(values)
    width = points[-1] - points[0]
    starts = np.flatnonzero(np.diff(points) > _CLOSE * width) + 1
    heaps = np.split(points, starts) if 0 < len(starts) < _MOST_HEAPS else []
    if not heaps or max(heap[-1] - heap[0] for heap in heaps) > _TIGHT * width:
        return None
    first = np.array([heap[0] for heap in heaps])
    last = np.array([heap[-1] for heap in heaps])
    half = (first[1:] - last[:-1]) / 2
    # Beside a gap, and at the ends, a heap stands for about as much as the others.
    usual = float(np.median(half))
    before, after = np.append(usual, half), np.append(half, usual)
    before, after = (np.minimum(side, 1.5 * usual) for side in (before, after))
    most = _WIDEST_BAR * width
    drawn = [np.minimum(side, most / 2) for side in (before, after)]
    return first - drawn[0], last + drawn[1], last - first + before + after


def _even(values: Array) -> _Bars:
    """Bars of one width; where the values lie on a grid, each has as many of its points."""
    low, high = float(values.min()), float(values.max())
    bars = min(MOST, max(8, ceil(sqrt(len(values)))))
    edges: Array = np.linspace(low, high, bars + 1)
    if (step := _grid(values)) is not None:
        points = round((high - low) / step) + 1
        each = ceil(points / bars)
        edges = low - step / 2 + step * each * np.arange(ceil(points / each) + 1.0)
    return edges[:-1], edges[1:], np.diff(edges)


def _grid(values: Array) -> float | None:
    """The distance of which all distances are multiples, such as 1 of counts."""
    points = np.unique(values)
    if not 2 < len(points) <= _MOST_DISTINCT:
        return None
    step = float(np.diff(points).min())
    multiples = (points - points[0]) / step
    if multiples[-1] > 1e6 or np.abs(multiples - np.round(multiples)).max() > 1e-3:
        return None
    return step
