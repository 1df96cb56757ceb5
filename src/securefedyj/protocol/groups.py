"""Features that share a ring (docs/protocol.md, section 6.2), and the integers that leave it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Index, Integers
from securefedyj.numerics.wide import Limbs

# Fewer pairs than these are not worth a ring of their own width.
WORTHWHILE = 512


def groups_by_width(limbs: Integers, least: int) -> Iterator[tuple[int, Index]]:
    """Ring widths with the features that use them, narrowest first.

    A group of fewer than ``least`` features joins the next wider one: what it would save in
    bytes, it would cost in operations.
    """
    if len(limbs) and np.all(limbs == limbs[0]):
        yield int(limbs[0]), np.arange(len(limbs))
        return
    waiting = np.empty(0, dtype=np.intp)
    widths = np.unique(limbs)
    for width in widths:
        waiting = np.concatenate([waiting, np.flatnonzero(limbs == width)])
        if len(waiting) >= least or width == widths[-1]:
            yield int(width), np.sort(waiting)
            waiting = np.empty(0, dtype=np.intp)


def shifted(a: Limbs, bits: Integers) -> Limbs:
    """a * 2^bits, of each value its own."""
    if len(bits) and np.all(bits == bits[0]):  # as a rule
        return wide.shift_left(a, int(bits[0]))
    result = np.empty_like(a)
    for some in np.unique(bits).tolist():
        these = bits == some
        result[:, these] = wide.shift_left(a[:, these], some)
    return result


def integers(bits: NDArray[np.uint8], low: Integers, *, signed: bool) -> list[int]:
    """The integers with these bits, shifted right by ``low``; those below were not opened."""
    width = len(bits)
    data = np.packbits(bits.T, axis=1, bitorder="little")
    values = [int.from_bytes(row.tobytes(), "little") for row in data]
    return [
        (value - (1 << width) if signed and value >> (width - 1) else value) >> int(shift)
        for value, shift in zip(values, low, strict=True)
    ]
