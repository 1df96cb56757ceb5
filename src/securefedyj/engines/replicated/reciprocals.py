"""Sums of bits over the differences of their rows (docs/protocol.md, section 8; see `columns`).

For bits b at rows 0, ..., R - 1 (see `rows`), the prover needs at each row r the sum over all other
rows s of b_s / (r - s) in GF(2^8). The difference is the exclusive or of the rows' bytes: these
sums are the product of b and of h, with h_k = 1 / k and h_0 = 0, in the group algebra of the rows.
In terms of v = u + 1, of which the square is 0, a product takes 3 products of half the size in
place of 4. The lowest three generators are left as they are: eight rows are multiplied at once, by
a table of all sums of theirs.

Bits of 64 columns are a word, which is what everything acts on.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines.replicated import field
from securefedyj.engines.replicated.field import Elements

Places = tuple[Any, ...]


def reciprocal_sums(words: Elements) -> Elements:
    """Return for each row the sum over the others of bit / (row - other).

    Parameters
    ----------
    words
        Bits of the rows: (rows, words).

    Returns
    -------
    octets
        Eight rows each, and of these the bits of value 1, then those of value BETA, and so on:
        (rows / 8, 8, 8, words).
    """
    count, width = words.shape
    groups, halves = count // 8, _halves(count)
    places = words.reshape(*halves, 8, width).copy()
    _change_basis(places, len(halves))
    sums = field.chosen_sums(places.reshape(groups, 8, width)).reshape(-1, width)
    (_, first), *others = _plan(count)
    result: Elements = sums.take(first, axis=0, mode="clip").reshape(*halves, 64, width)
    scratch = np.empty((len(first) // 2, width), dtype=np.uint64)
    for to, chosen in others:
        part = scratch[: len(chosen)]
        sums.take(chosen, axis=0, mode="clip", out=part)
        result[to] ^= part.reshape(result[to].shape)
    _change_basis(result, len(halves))
    return result.reshape(groups, 8, 8, width)


def _halves(count: int) -> tuple[int, ...]:
    """One axis for each generator but the lowest three, the highest first."""
    return (2,) * ((count // 8).bit_length() - 1)


def _change_basis(values: NDArray[Any], axes: int) -> None:
    """From 1 and u to 1 and v = u + 1 in each of the first axes, or back again."""
    for axis in range(axes):
        before = (slice(None),) * axis
        values[*before, 0] ^= values[*before, 1]


@cache
def _plan(count: int) -> list[tuple[Places, NDArray[np.intp]]]:
    """What to add to which groups of rows, for each group of h: sums, by their number.

    v^S times v^T is 0 if S and T have a generator in common.
    """
    halves, groups = _halves(count), np.arange(count // 8)
    h = field.to_octets(field.power(field.POINTS[:count], 254)).reshape(*halves, 8)
    _change_basis(h, len(halves))
    row = np.arange(8)
    factors = h.reshape(-1, 8)[:, row[:, None] ^ row]  # group of h, row of the result, row of b
    bits = factors[:, None] >> row[:, None, None] & 1
    chosen = np.packbits(bits, axis=-1, bitorder="little").reshape(-1, 64)
    return [
        (
            _containing(group, halves),
            (256 * groups[groups & group == 0][:, None] + octets).reshape(-1),
        )
        for group, octets in enumerate(chosen)
    ]


def _containing(group: int, halves: Iterable[int]) -> Places:
    """Where all groups are that have the generators of this one."""
    axes = len(tuple(halves))
    return tuple(1 if group >> (axes - 1 - k) & 1 else slice(None) for k in range(axes))
