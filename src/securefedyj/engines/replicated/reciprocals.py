"""Sums of bits over the differences of their rows (docs/protocol.md, section 8; see `columns`).

For bits b at rows 0, ..., R - 1 (see `rows`), the prover needs at each row i the sum over all other
rows k of b_k / (i - k) in GF(2^8). The difference is the exclusive or of the rows' bytes: these
sums are the product of b and h, with h_k = 1 / k and h_0 = 0, in the group algebra of the rows. It
has a generator u for each bit of a row, with u^2 = 1. In terms of v = u + 1, of which the square is
0, three products of half the size make one; by u it would be four. The lowest generators are left
as they are: some rows are multiplied at once, by a table of all sums of theirs.

Bits of 64 columns are a word, which is what everything acts on.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines.replicated import field
from securefedyj.engines.replicated.field import Elements

_GROUP = 4
"""Rows to multiply at once. A table of all sums has 2^4 of them."""


def reciprocal_sums(words: Elements) -> Elements:
    """Return for each row the sum over the others of bit / (row - other).

    Parameters
    ----------
    words
        Bits of the rows: (rows, words).

    Returns
    -------
    bits
        Of groups of some rows, first the bits of value 1, then those of value BETA, and so on:
        (groups, 8, rows of a group, words).
    """
    count, width = words.shape
    halves = _halves(count)
    places = words.reshape(*halves, _GROUP, width).copy()
    _change_basis(places, len(halves))
    sums = field.chosen_sums(places.reshape(-1, _GROUP, width)).reshape(-1, width)
    (_, first), *others = _plan(count)
    result: Elements = sums.take(first, axis=0, mode="clip").reshape(*halves, -1, width)
    scratch = np.empty((len(first) // 2, width), dtype=np.uint64)
    for to, chosen in others:
        some, part = result[to], scratch[: len(chosen)]
        sums.take(chosen, axis=0, mode="clip", out=part)
        some ^= part.reshape(some.shape)
    _change_basis(result, len(halves))
    return result.reshape(-1, 8, _GROUP, width)


def _halves(count: int) -> tuple[int, ...]:
    """One axis for each generator but the lowest, the highest first."""
    return (2,) * ((count // _GROUP).bit_length() - 1)


def _change_basis(values: NDArray[Any], axes: int) -> None:
    """From 1 and u to 1 and v = u + 1 in each of the first axes, or back again."""
    for axis in range(axes):
        low, high = np.moveaxis(values, axis, 0)
        low ^= high


@cache
def _plan(count: int) -> list[tuple[Any, NDArray[np.intp]]]:
    """For each group of h: to which groups of rows to add what, by the number of the sum.

    Where two products of generators v have one in common, their product is 0.
    """
    halves, row, groups = _halves(count), np.arange(_GROUP), np.arange(count // _GROUP)
    h = field.to_octets(field.power(field.POINTS[:count], 254)).reshape(*halves, _GROUP)
    _change_basis(h, len(halves))
    factors = h.reshape(-1, 1, _GROUP)[:, :, row[:, None] ^ row]
    bits = factors >> np.arange(8).reshape(8, 1, 1) & 1
    chosen = (bits.astype(np.intp) << row).sum(axis=-1).reshape(len(groups), -1)
    plan = []
    for group, sums in enumerate(chosen):
        generators = f"{group:0{len(halves)}b}"
        to = tuple(1 if one == "1" else slice(None) for one in generators)
        of = groups[groups & group == 0]
        plan.append((to, ((of[:, None] << _GROUP) + sums).ravel()))
    return plan
