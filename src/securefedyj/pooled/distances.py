"""The distances D / s of the values of every side, and what a pass of the pooled fit sums of them.

Sums are taken over each piece of a table and then added up in order, with what each addition loses
kept aside. So the bits of a sum depend on the values and their order alone, and on whether the
kernel or NumPy takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from securefedyj import kernel
from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.elementary import exponential, log_ratio
from securefedyj.numerics.yeojohnson import quotient_series
from securefedyj.pooled.blocks import LANES, PIECE, Table
from securefedyj.pooled.sides import Sides, distance_of, distance_of_close, logarithm

# Of r0, r1, r2, r0^2, r0 r1, r1^2, r0 r2, D, r3, r1 r2 and r0 r3.
SUMS = 11

# e^z is as good as 0 below this, and a normal number above.
LEAST_EXPONENT = -700.0

# How the kernel takes log(x/c): in place of whether values are close to their reference.
_RATIO = 2

# The struct yardstick of kernel.h.
_YARDSTICK = np.dtype(
    [
        *((name, "<i8") for name in ("position", "complete", "close")),
        *((name, "<f8") for name in ("least", "most", "reference", "log_reference", "size")),
    ]
)


class Distances(NamedTuple):
    """D / s of some sides in some pieces, the values of each side and piece next to each other.

    They end with zeros, which add nothing to any sum: R and its derivatives vanish at D = 0.
    """

    sides: Index
    D: Array  # (sides, pieces, width)
    length: Integers  # (sides, pieces): how many count, a multiple of LANES


def distances(table: Table, sides: Sides, chosen: Index) -> Iterator[Distances]:
    """The distances of the chosen sides, in one pass over the table.

    They take its memory: where nothing is missing and no feature has two sides, its chunks are
    written over.
    """
    measure, reference = sides.measure, sides.measure.reference[chosen]
    features, position = np.unique(sides.feature[chosen], return_inverse=True)
    yardsticks = np.empty(len(chosen), dtype=_YARDSTICK)
    yardsticks["position"], yardsticks["complete"] = position, sides.complete[chosen]
    yardsticks["least"], yardsticks["most"] = sides.least[chosen], sides.most[chosen]
    yardsticks["close"] = _RATIO if sides.box_cox else measure.close[chosen]
    yardsticks["size"] = measure.size[chosen]
    yardsticks["reference"], yardsticks["log_reference"] = reference, logarithm(reference)
    alone = len(features) == len(chosen) and bool(sides.complete[chosen].all())
    for chunk in table.take(features).chunks():
        chunk = np.require(chunk, requirements=["C", "A"])
        rows = chunk.shape[1]
        width = min(PIECE, -(-rows // LANES) * LANES)
        shape = len(chosen), -(-rows // width), width
        D = chunk.reshape(shape) if alone and rows % width == 0 else np.empty(shape)
        length = np.empty(shape[:2], dtype=np.int64)
        if loops := kernel.loops():
            fixed = chunk, rows, yardsticks, D, shape[1], width, length
            kernel.shared_out(length.size, D.size, partial(loops.distances, *fixed))
        else:
            _measured(chunk, yardsticks, D, length)
        yield Distances(chosen, D, length)


def _measured(chunk: Array, yardsticks: Any, D: Array, length: Integers) -> None:
    """The distances by NumPy."""
    width = D.shape[2]
    for k, piece in np.ndindex(*length.shape):
        by = yardsticks[k]
        x = chunk[by["position"], piece * width : (piece + 1) * width]
        x = np.abs(x[(x >= by["least"]) & (x <= by["most"])])
        distance = (distance_of, distance_of_close, log_ratio)[by["close"]]
        D[k, piece, : len(x)] = distance(x, by["reference"]) / by["size"]
        D[k, piece, len(x) :] = 0.0
        length[k, piece] = -(-len(x) // LANES) * LANES


def row_sums(
    parts: Iterable[Distances], chosen: Index, kappa: Array, shift: Array, small: Bools
) -> Array:
    """The sums of each of the chosen sides, of shape (SUMS, len(chosen)).

    D is multiplied by kappa, and e^{uD} is divided by e^shift. Where kappa is small, r0 to r3 are R
    and its derivatives, by their series. Elsewhere they are q0 = e^{uD} - 1, q1 = D e^{uD},
    q2 = D^2 e^{uD} and q3 = D^3 e^{uD}, in which R and its derivatives are linear.
    """
    one = exponential(np.maximum(-shift, LEAST_EXPONENT))  # e^-shift
    at = np.array([kappa, shift, one, small])
    total, lost = np.zeros((2, len(chosen), SUMS))
    for part in parts:
        where = np.searchsorted(part.sides, chosen)
        pieces, width = part.D.shape[1:]
        sums = np.zeros((len(chosen), pieces, SUMS))
        if loops := kernel.loops():
            fixed = part.D, pieces, width, part.length, where, at, sums
            work = len(chosen) * pieces * width
            kernel.shared_out(len(chosen) * pieces, work, partial(loops.row_sums, *fixed))
            loops.added_pieces(sums, pieces, total, lost)
            continue
        for k, piece in np.ndindex(*sums.shape[:2]):
            some = slice(part.length[where[k], piece])
            sums[k, piece] = _sums(part.D[where[k], piece, some], *at[:, k])
        for summand in sums.swapaxes(0, 1):
            added = total + summand
            back = added - total
            lost += (total - (added - back)) + (summand - back)  # what rounding takes (Knuth)
            total = added
    result = np.ascontiguousarray((total + lost).T)
    # q0 q2 = q1^2 - q2 and q0 q3 = q1 q2 - q3.
    result[6] = np.where(small, result[6], result[5] - one * result[2])
    result[10] = np.where(small, result[10], result[9] - one * result[8])
    return result


def _sums(D: Array, kappa: float, shift: float, one: float, small: float) -> list[float]:
    """The sums over a piece by NumPy."""
    if small:
        h0, h1, h2, h3 = quotient_series(kappa * D)
        r0, r1, r2, r3 = D * h0, D**2 * h1, D**3 * h2, D**4 * h3
    else:
        e = exponential(np.maximum(kappa * D - shift, LEAST_EXPONENT))
        r0, r1, r2, r3 = e - one, D * e, D * (D * e), D * (D * (D * e))
    terms = r0, r1, r2, r0 * r0, r0 * r1, r1 * r1, r0 * r2, D, r3, r1 * r2, r0 * r3
    return [float(np.sum(term)) for term in terms]
