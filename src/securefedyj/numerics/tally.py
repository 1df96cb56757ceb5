"""How often each public point occurs in a silo's rows, and which values are no points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Integers
from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.passes import Source, over_blocks
from securefedyj.numerics.sums import values_outside


class Off(NamedTuple):
    """A value that is no point."""

    row: int
    """From 1."""
    value: float


@dataclass(frozen=True, repr=False)  # it counts values
class Tally:
    """What rows contain of each feature, in terms of its points."""

    rows: int
    counts: list[Integers]
    """How often each point of a feature occurs, or is the next one to a value."""
    outside: Integers
    """How many values are outside the bounds; these are not counted."""
    moved: Integers
    """How many values are no points."""
    farthest: Array
    """The greatest distance of a value from its point."""
    first: list[Off | None]
    """The first value that is no point."""

    @classmethod
    def of(cls, block: Array, points: Sequence[Array], domain: Domain) -> Tally:
        """Count some rows; of features without points, nothing."""
        outside = values_outside(block, domain)
        size = len(points)
        found = cls(len(block), [np.zeros(len(own), dtype=np.int64) for own in points], outside,
                    np.zeros(size, dtype=np.int64), np.zeros(size), [None] * size)  # fmt: skip
        for j, own in enumerate(points):
            if len(own):
                found._count(j, block[:, j], own, domain.lower[j], domain.upper[j])
        return found

    def _count(self, j: int, column: Array, points: Array, lower: float, upper: float) -> None:
        rows = np.flatnonzero((column >= lower) & (column <= upper))
        values = column[rows]
        after = np.searchsorted(points, values).clip(1, len(points) - 1)
        # Of two points at the same distance, the lower one.
        nearest = after - (values - points[after - 1] <= points[after] - values)
        distance = np.abs(values - points[nearest])
        self.counts[j][:] = np.bincount(nearest, minlength=len(points))
        self.moved[j] = np.count_nonzero(distance)
        if self.moved[j]:
            self.farthest[j] = distance.max()
            k = int(np.argmax(distance > 0))
            self.first[j] = Off(int(rows[k]) + 1, float(values[k]))

    def __add__(self, other: Tally) -> Tally:
        later = [one and Off(self.rows + one.row, one.value) for one in other.first]
        return Tally(
            self.rows + other.rows,
            [*map(add, self.counts, other.counts)],
            self.outside + other.outside,
            self.moved + other.moved,
            np.maximum(self.farthest, other.farthest),
            [one or two for one, two in zip(self.first, later, strict=True)],
        )


def tally_of(source: Source, points: Sequence[Array], domain: Domain) -> Tally:
    """Count all rows of a source, in one pass."""
    counted = partial(Tally.of, points=points, domain=domain)
    found: Tally | None = over_blocks(source, range(len(points)), counted, add)
    return found or counted(np.empty((0, len(points))))
