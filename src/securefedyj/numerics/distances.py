"""The distances D / s of the values of every side, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.blocks import LANES, PIECE, Table
from securefedyj.numerics.sides import Sides, distance_of, distance_of_close, logarithm
from securefedyj.numerics.survey import LOOPS, shared_out

# What NumPy takes for one value.
_SECONDS = 30e-9


class Distances(NamedTuple):
    """D / s of some sides in some pieces, the values of each side and piece next to each other.

    They end with zeros, which add nothing to any sum: R and its derivatives vanish at D = 0.
    """

    sides: Index
    D: Array  # (sides, pieces, width)
    length: Integers  # (sides, pieces): the zeros after so many, a multiple of LANES, are left out


class Yardstick(NamedTuple):
    """Which values each side holds, and how their distances are measured."""

    complete: Bools
    least: Array
    most: Array
    close: Bools
    reference: Array
    log_reference: Array
    size: Array


def distances(table: Table, sides: Sides, chosen: Index) -> Iterator[Distances]:
    """The distances of the chosen sides, in one pass over the table.

    They take its memory: where nothing is missing and no feature has two sides, its chunks are
    written over.
    """
    measure = sides.measure
    yardstick = Yardstick(
        sides.complete[chosen],
        sides.least[chosen],
        sides.most[chosen],
        measure.close[chosen],
        measure.reference[chosen],
        logarithm(measure.reference[chosen]),
        measure.size[chosen],
    )
    features, position = np.unique(sides.feature[chosen], return_inverse=True)
    for chunk in table.take(features).chunks():
        yield Distances(chosen, *_of_chunk(chunk, position, yardstick))


def _of_chunk(chunk: Array, position: Index, by: Yardstick) -> tuple[Array, Integers]:
    rows = chunk.shape[1]
    width = min(PIECE, -(-rows // LANES) * LANES)
    shape = len(position), -(-rows // width), width
    in_place = rows % width == 0 and bool(by.complete.all())
    D = chunk.reshape(shape) if in_place else np.empty(shape)
    length = np.empty(shape[:2], dtype=np.int64)
    if loops := LOOPS.after(_SECONDS * rows * len(position)):
        shared_out(
            length.size,
            rows * len(position),
            lambda first, last: loops.distances(chunk, position, *by, D, length, first, last),
        )
    else:
        by_numpy(chunk, position, by, D, length)
    return D, length


def by_numpy(chunk: Array, position: Index, by: Yardstick, D: Array, length: Integers) -> None:
    """What the compiled loop does."""
    pieces, width = D.shape[1:]
    for piece in range(pieces):
        values = chunk[position, piece * width : (piece + 1) * width]
        if by.complete.all():
            n = np.full(len(D), values.shape[1])
            np.abs(values, out=D[:, piece, : values.shape[1]])
        else:
            belongs = (values >= by.least[:, None]) & (values <= by.most[:, None])
            n = np.count_nonzero(belongs, axis=1)
            held = values.take(np.flatnonzero(belongs))  # faster than by a mask
            D[:, piece][np.arange(width) < n[:, None]] = np.abs(held)
        length[:, piece] = -(-n // LANES) * LANES
        for which in (np.flatnonzero(by.close == close) for close in (False, True)):
            for some in blocks_of(which, int(np.max(n))):
                _measure(D[:, piece], some, by, n[some])


def _measure(D: Array, sides: Index, by: Yardstick, n: Integers) -> None:
    """Replace the first n |x| of some sides, which are all close or all not, by D / s."""
    most = np.max(n)
    x, reference = D[sides, :most], by.reference[sides, None]
    if np.min(n) < most:
        x = np.where(np.arange(most) < n[:, None], x, reference)
    distance = distance_of_close(x, reference) if by.close[sides[0]] else distance_of(x, reference)
    D[sides, :most] = distance / by.size[sides, None]
    D[sides, most:] = 0.0


def blocks_of(sides: Index, values: int) -> Iterator[Index]:
    """Some of the sides at a time: as many as fit the cache, with so many values each."""
    step = max(1, round(PIECE / max(1, values)))
    for first in range(0, len(sides), step):
        yield sides[first : first + step]
