"""Engine `clear`: the same results with NO SECRECY AT ALL.

docs/protocol.md, section 10. Every party sends its values to every other in the clear, and each
computes for itself. It is for tests, forecasts and experiments on data that everybody may see.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines import digests
from securefedyj.engines.additive import (
    Additive,
    AdditiveBits,
    additive,
    additive_bits,
    bit_planes,
    unpack,
)
from securefedyj.engines.interface import Engine, Shared, SharedBits, checked, same_shape
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import play_round


class Clear(Engine):
    """Everything in the clear: the one component of a "shared" value is the value.

    To agree and to share each takes a round, in which every party sends to all others; everything
    else takes none.
    """

    def __init__(self, name: str, parties: Sequence[str]) -> None:
        self._peers = [party for party in parties if party != name]

    async def agree(self, digest: bytes) -> None:
        await digests.exchange(self._peers, digest)

    async def share(self, values: Limbs | None, *, size: int, limbs: int) -> Shared:
        total = checked(values, size=size, limbs=limbs)
        payload = wide.to_bytes(total)
        outgoing = dict.fromkeys(self._peers, payload)
        expected = dict.fromkeys(self._peers, len(payload))
        for data in (await play_round(Kind.INPUT, outgoing, expected)).values():
            total = wide.add(total, wide.from_bytes(data, limbs))
        return _known(total)

    async def sum_of_products(self, pairs: Sequence[tuple[Shared, Shared]]) -> Shared:
        same_shape(pairs)
        a, b = (
            np.stack([_value(x) for x in factors], axis=1) for factors in zip(*pairs, strict=True)
        )
        return _known(wide.sum_of_products(a, b))

    async def negative(self, a: Shared) -> SharedBits:
        return AdditiveBits(bit_planes(_value(a)[-1:])[-1:], (0,), size=a.size)

    async def bits(self, a: Shared) -> SharedBits:
        return AdditiveBits(bit_planes(_value(a))[None], (0,), size=a.size)

    async def open(self, a: Shared) -> Limbs:
        return _value(a)

    async def open_bits(self, a: SharedBits) -> NDArray[np.uint8]:
        return unpack(additive_bits(a).components[0], a.shape[-1])


async def connect(
    name: str, parties: Sequence[str], committee: Sequence[str], silos: Sequence[str]
) -> Clear:
    """Return this party's engine."""
    return Clear(name, parties)


def _known(value: Limbs) -> Additive:
    return Additive(value[None], (0,))


def _value(a: Shared) -> Limbs:
    value: Limbs = additive(a).components[0]
    return value
