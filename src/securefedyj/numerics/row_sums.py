"""Sums of R and its derivatives over the distances D of every side: a pass of the pooled fit.

Sums over a piece are taken in LANES: the values at a place modulo LANES are added in order, and
then the lanes, by halves. The sums of the pieces are added in order, with what each addition loses
kept aside. So the bits of a sum depend on the values and their order alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.blocks import LANES
from securefedyj.numerics.distances import Distances, blocks_of
from securefedyj.numerics.elementary import exp, exponential, reduce_exponent
from securefedyj.numerics.survey import LOOPS, shared_out
from securefedyj.numerics.yeojohnson import phi_series

# Of r0, r1, r2, r0^2, r0 r1, r1^2, r0 r2 and D.
SUMS = 8

# e^z is as good as 0 below this, and a normal number above.
LEAST_EXPONENT = -700.0

# What NumPy takes for one value.
_SECONDS = 20e-9


class Exponents(NamedTuple):
    """What the D of each side are multiplied by, and the logarithm of what e^{uD} is divided by."""

    kappa: Array
    shift: Array
    one: Array  # e^-shift
    small: Bools  # where kappa is so small that series are summed

    @classmethod
    def of(cls, kappa: Array, shift: Array, small: Bools) -> Exponents:
        return cls(kappa, shift, exponential(np.maximum(-shift, LEAST_EXPONENT)), small)


def row_sums(distances: Iterable[Distances], chosen: Index, at: Exponents) -> Array:
    """The sums of each of the chosen sides, of shape (SUMS, len(chosen)).

    Where kappa is small, r0, r1, r2 are R, R' and R'', by their series. Elsewhere they are
    q0 = e^{uD} - 1, q1 = D e^{uD} and q2 = D^2 e^{uD}, divided by e^shift, in which R and its
    derivatives are linear.
    """
    total, lost = np.zeros((2, SUMS, len(chosen)))
    for part in distances:
        where = np.searchsorted(part.sides, chosen)
        sums = np.zeros((part.D.shape[1], SUMS, len(chosen)))
        values = len(where) * part.D[0].size
        if loops := LOOPS.after(_SECONDS * values):
            shared_out(sums.shape[0] * len(where), values, _work(loops, part, where, at, sums))
            loops.add(sums, total, lost)
        else:
            by_numpy(part.D, part.length, where, at, sums)
            add_by_numpy(sums, total, lost)
    result: Array = total + lost
    # q0 q2 = q1^2 - q2
    result[6] = np.where(at.small, result[6], result[5] - at.one * result[2])
    return result


def _work(
    loops: Any, part: Distances, where: Index, at: Exponents, sums: Array
) -> Callable[[int, int], None]:
    def work(first: int, last: int) -> None:
        loops.sums(part.D, part.length, where, *at, sums, first, last)

    return work


def add_by_numpy(summands: Array, total: Array, lost: Array) -> None:
    """Add one after the other to the total, and what rounding takes (Knuth) to what is lost."""
    for summand in summands:
        added = total + summand
        back = added - total
        lost += (total - (added - back)) + (summand - back)
        total[:] = added


def by_numpy(D: Array, length: Integers, where: Index, at: Exponents, sums: Array) -> None:
    """The sums over each piece, as the compiled loop takes them."""
    pieces = D.shape[1]
    for regime, terms in ((at.small, _series_terms), (~at.small, _exponential_terms)):
        for which in blocks_of(np.flatnonzero(regime), int(np.max(length))):
            sides = where[which]
            contiguous = sides[-1] - sides[0] == len(sides) - 1
            rows = slice(sides[0], sides[-1] + 1) if contiguous else sides
            kappa, shift, one = (column[which, None] for column in at[:3])
            lanes = np.zeros((pieces, SUMS, len(which), LANES))
            for piece, n in enumerate(np.max(length[sides], axis=0).tolist()):
                terms(D[rows, piece, :n], kappa, shift, one, lanes[piece])
            sums[:, :, which] = _folded(lanes)


def _series_terms(D: Array, kappa: Array, shift: Array, one: Array, lanes: Array) -> None:
    """R, R' and R'' by their series, where the closed forms cancel."""
    phi1, phi2, phi3 = phi_series(kappa * D)
    r0 = D * phi1
    r1 = D * D * (phi1 - phi2)
    r2 = D * D * D * (phi1 - 2 * phi2 + 2 * phi3)
    _write_lanes(r0 * r2, lanes[6])
    _write_common(r0, r1, r2, D, lanes)


def _exponential_terms(D: Array, kappa: Array, shift: Array, one: Array, lanes: Array) -> None:
    q0 = kappa * D
    if shift.any():
        q0 -= shift
    np.maximum(q0, LEAST_EXPONENT, out=q0)
    power, q1, q2 = (np.empty(D.shape) for _ in range(3))
    reduce_exponent(q0, power, q1, q2)
    exp(q0, q1, q2)
    q0 *= power
    np.multiply(D, q0, out=q1)
    np.multiply(D, q1, out=q2)
    q0 -= one
    _write_common(q0, q1, q2, D, lanes)


def _write_common(r0: Array, r1: Array, r2: Array, D: Array, lanes: Array) -> None:
    """The lanes of all but r0 r2. What is in r2 is lost."""
    for terms, out in ((r0, 0), (r1, 1), (r2, 2), (D, 7)):
        _write_lanes(terms, lanes[out])
    for a, b, out in ((r0, r0, 3), (r0, r1, 4), (r1, r1, 5)):
        _write_lanes(np.multiply(a, b, out=r2), lanes[out])


def _write_lanes(terms: Array, out: Array) -> None:
    """The sum of every lane of each row; NumPy adds in order along an axis that is not the last."""
    np.add.reduce(terms.reshape(len(terms), -1, LANES), axis=1, out=out)


def _folded(lanes: Array) -> Array:
    """The sums of all lanes, by halves."""
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    total: Array = lanes[..., 0]
    return total
