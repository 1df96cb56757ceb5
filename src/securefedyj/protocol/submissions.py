"""Submitted counts: their shares, and what a member computes with (docs/protocol.md, section 13).

A silo shares how often each point occurs, over the integers: c = s_0 + s_1 + s_2. Components 0 and
1 are drawn from keys, and component 2 is the rest. Member i of the committee holds s_i and s_{i+1}.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from securefedyj.engines.replicated.keystream import Keystream, fresh_key
from securefedyj.errors import InputError
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Integers
from securefedyj.numerics.weighed import LIMBS as LIMBS
from securefedyj.numerics.weighed import WeighedPoints
from securefedyj.numerics.wide import Limbs
from securefedyj.protocol.agreement import Agreement

POINT_BYTES = 16
"""Of component 2, for each point."""
_SHARE_BITS, _MASK_BITS = 125, 118
KEYED = (0, 1)
"""The components that are drawn from keys."""


class Submissions(NamedTuple):
    """What a member computes with: the sums of all silos' components that it holds."""

    headers: bytes
    """The digest of the headers of all silos."""
    held: Limbs
    """Its two components of the total counts, (2, 3 limbs, all points in agreed order)."""

    def weighed(self, agreement: Agreement) -> WeighedPoints:
        """The points of each question, with the counts of its feature."""
        column, sizes = agreement.asked.column.tolist(), list(map(len, agreement.points))
        if self.held.shape != (2, LIMBS, sum(sizes)):
            raise InputError(
                "SFY-RUN-016",
                f"there are counts of {self.held.shape[-1]} points for an agreement with "
                f"{sum(sizes)}.",
            )
        own = np.split(self.held, np.cumsum(sizes)[:-1].tolist(), axis=2)
        points = [agreement.points[j] for j in column]
        return WeighedPoints(agreement.asked.domain, points, [own[j] for j in column])

    def __repr__(self) -> str:
        """Shape only."""
        return f"<Submissions: counts of {self.held.shape[2]} points>"


def masked(counts: Integers, added: Sequence[bytes], subtracted: Sequence[bytes]) -> Limbs:
    """A silo's counts with masks, which cancel in the sum over all silos.

    ``added`` are the keys in common with silos after this one, ``subtracted`` those with silos
    before it.
    """
    hidden = wide.from_digits(counts[None], 62, LIMBS)
    for keys, apply in ((added, wide.add), (subtracted, wide.subtract)):
        for key in keys:
            hidden = apply(hidden, _drawn(key, len(counts), _MASK_BITS))
    return hidden


def share(counts: Limbs) -> list[bytes]:
    """Fresh shares of counts: the keys of components 0 and 1, and component 2."""
    keys = [fresh_key() for _ in KEYED]
    rest = counts
    for i, key in enumerate(keys):
        rest = wide.subtract(rest, component(i, key, counts.shape[1]))
    low = np.ascontiguousarray(rest[:2].T, dtype="<u8")
    return [*keys, low.tobytes()]


def component(i: int, part: bytes, size: int) -> Limbs:
    """Component i of the counts of this many points, from its key, or for i = 2 from its bytes."""
    if i in KEYED:
        return _drawn(part, size, _SHARE_BITS)
    if len(part) != POINT_BYTES * size:
        raise InputError(
            "SFY-RUN-013",
            f"{len(part)} bytes are not the counts of {size} points: the submission is not for "
            "this agreed file. Ask the silo to submit again.",
        )
    low = np.frombuffer(part, dtype="<u8").reshape(size, 2).T
    return wide.resize(low.astype(np.uint64), LIMBS)


def held_by(
    agreement: Agreement, shares: Iterable[Sequence[bytes]], headers: bytes
) -> dict[str, Submissions]:
    """What each member holds of what silos have shared, for a run in one process."""
    size = sum(map(len, agreement.points))
    totals = [wide.zeros(LIMBS, size) for _ in range(3)]
    for parts in shares:
        totals = [wide.add(a, component(i, parts[i], size)) for i, a in enumerate(totals)]
    return {
        name: Submissions(headers, np.stack([totals[i], totals[(i + 1) % 3]]))
        for i, name in enumerate(agreement.committee)
    }


def _drawn(key: bytes, size: int, bits: int) -> Limbs:
    """Uniform numbers below 2^bits, from the beginning of a keystream."""
    drawn = np.zeros((LIMBS, size), dtype=np.uint64)
    drawn[:2] = Keystream(key).draw((size, 2), np.dtype("<u8")).T
    drawn[1] &= np.uint64((1 << (bits - 64)) - 1)
    return drawn
