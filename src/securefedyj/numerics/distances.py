"""The distances D / s of the values of every side, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.blocks import LANES, PIECE, Table
from securefedyj.numerics.sides import Sides, distance, distance_of_close, logarithm
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


def distances(table: Table, sides: Sides, chosen: Index) -> Iterator[Distances]:
    """The distances of the chosen sides, in one pass over the table, the memory of which they take.

    Where nothing is missing and no feature has two sides, a chunk of the table is written over.
    """
    features, position = np.unique(sides.feature[chosen], return_inverse=True)
    for chunk in table.take(features).chunks():
        yield _of_chunk(chunk, position, sides, chosen)


def _of_chunk(chunk: Array, position: Index, sides: Sides, chosen: Index) -> Distances:
    rows = chunk.shape[1]
    width = min(PIECE, -(-rows // LANES) * LANES)
    shape = len(chosen), -(-rows // width), width
    in_place = rows % width == 0 and bool(sides.complete[chosen].all())
    D = chunk.reshape(shape) if in_place else np.empty(shape)
    count = np.full(shape[:2], width)
    measure = sides.measure
    if loops := LOOPS.after(_SECONDS * rows * len(chosen)):
        columns: tuple[Array | Bools, ...] = (
            sides.complete,
            sides.least,
            sides.most,
            measure.reference,
            logarithm(measure.reference),
            measure.size,
            measure.close,
        )
        arguments = [column[chosen] for column in columns]
        shared_out(
            count.size,
            rows * len(chosen),
            lambda first, last: loops.distances(chunk, position, *arguments, D, count, first, last),
        )
    else:
        if in_place:
            np.abs(D, out=D)
        else:
            _magnitudes(chunk, position, sides, chosen, D, count)
        for close in (False, True):
            which = np.flatnonzero(measure.close[chosen] == close)
            _to_distances(D, which, count, sides, chosen, close)
    return Distances(chosen, D, -(-count // LANES) * LANES)


def _magnitudes(
    chunk: Array, position: Index, sides: Sides, chosen: Index, D: Array, count: Integers
) -> None:
    """Write |x| of the values of each side and piece, then the reference; and count them."""
    width = D.shape[2]
    D[:] = sides.measure.reference[chosen, None, None]
    least, most = sides.least[chosen, None], sides.most[chosen, None]
    for piece in range(D.shape[1]):
        values = chunk[position, piece * width : (piece + 1) * width]
        belongs = (values >= least) & (values <= most)
        count[:, piece] = n = np.count_nonzero(belongs, axis=1)
        D[:, piece][np.arange(width) < n[:, None]] = np.abs(values[belongs])


def _to_distances(
    D: Array, which: Index, count: Integers, sides: Sides, chosen: Index, close: bool
) -> None:
    """Replace |x| by D / s, in blocks that fit the cache."""
    for part, piece in blocks_of(which, D.shape):
        n = np.max(count[part, piece])
        reference = sides.measure.reference[chosen[part], None]
        x = D[part, piece, :n]
        x = distance_of_close(x, reference) if close else distance(x, reference)
        D[part, piece, :n] = x / sides.measure.size[chosen[part], None]
        D[part, piece, n:] = 0.0


def blocks_of(which: Index, shape: tuple[int, ...]) -> Iterator[tuple[Index, int]]:
    """Some of the given sides, and a piece, at a time: as much as fits the cache."""
    _, pieces, width = shape
    step = max(1, PIECE // width)
    for piece in range(pieces):
        for first in range(0, len(which), step):
            yield which[first : first + step], piece
