"""A table becomes blocks of values, as `compiled.sums` takes them, and S_phi.

Zeros are left out: they add nothing to any sum.
"""

from __future__ import annotations

import numpy as np
from numba import types

from securefedyj.numerics.compiled.residuals import inner, kept, log1p
from securefedyj.numerics.compiled.sums import BLOCK, LANES


@inner
def _swap(block):
    """Move the smallest value above 0 to the front, and the largest behind it."""
    smallest = largest = 0
    for i in range(len(block)):
        if block[i] > 0.0 and (block[i] < block[smallest] or block[smallest] == 0.0):
            smallest = i
        if block[i] > block[largest]:
            largest = i
    block[0], block[smallest] = block[smallest], block[0]
    if largest == 0:
        largest = smallest
    if len(block) > 1 and largest > 0:
        block[1], block[largest] = block[largest], block[1]


@inner
def _arrange_feature(x, phi_scale, values, sizes, phi):
    """Write the blocks of one feature, whose sizes are known, and S_phi."""
    work, above, below = np.empty(BLOCK), 0, sizes[0]
    for first in range(0, len(x), BLOCK):
        some = x[first : first + BLOCK]
        L = work[: len(some)]
        for i in range(len(some)):
            L[i] = log1p(abs(some[i]))
        for i in range(len(some)):
            if some[i] > 0.0:
                values[above] = L[i]
                above += 1
            elif some[i] < 0.0:
                values[below] = L[i]
                below += 1
    begin = 0
    for side in range(2):
        end = begin + sizes[side]
        for first in range(begin, end, BLOCK):
            block = values[first : min(first + BLOCK, end)]
            low = high = 0
            for i in range(len(block)):
                integer = np.int64(np.rint(block[i] * phi_scale))
                low += integer & (2**31 - 1)
                high += integer >> 31
            phi[0] += (1 - 2 * side) * low
            phi[1] += (1 - 2 * side) * high
            _swap(block)
        begin = end


@kept(
    types.int64(
        types.Array(types.float64, 2, "C", readonly=True),  # or not: either will do
        *[types.Array(types.float64, 1, "C", readonly=True)] * 3,
        types.float64[:, ::1],
        types.int64[:, ::1],
        types.int64[::1],
        types.int64[:, ::1],
    )
)
def arrange(x, lower, upper, phi_scale, values, sizes, count, phi):
    """Write the blocks of some features; return how many values are outside their bounds.

    Parameters
    ----------
    x : array of shape (features, rows)
        NaN is missing.
    lower, upper, phi_scale : arrays of shape (features,)
        Bounds, and 2^phi_grid.
    values, sizes : arrays of shape (features, room) and (features, 2)
        As `write_sums` takes them. The values are zeros so far, with room for those of x and for
        `LANES` more of each sign.
    count, phi : arrays of shape (features,) and (features, 2)
        How many values there are; S_phi in two digits of 31 bits, zeros so far.
    """
    outside = 0
    for j in range(len(x)):
        positive = negative = present = beyond = 0
        for i in range(x.shape[1]):
            value = x[j, i]
            positive += 1 if value > 0.0 else 0
            negative += 1 if value < 0.0 else 0
            present += 1 if value == value else 0
            beyond += 1 if value < lower[j] or value > upper[j] else 0
        outside += beyond
        if not beyond:
            count[j] = present
            sizes[j, 0] = -(-positive // LANES) * LANES
            sizes[j, 1] = -(-negative // LANES) * LANES
            _arrange_feature(x[j], phi_scale[j], values[j], sizes[j], phi[j])
    return outside
