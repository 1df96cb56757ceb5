"""Engine `replicated`: three computing members, private unless two of them collude.

docs/protocol.md, section 8.
"""

from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines import digests
from securefedyj.engines.additive import (
    Additive,
    AdditiveBits,
    additive,
    additive_bits,
    unpack,
)
from securefedyj.engines.interface import (
    Engine,
    Shared,
    SharedBits,
    Verifying,
    checked,
    same_shape,
)
from securefedyj.engines.replicated import circuits
from securefedyj.engines.replicated.inputs import Givers
from securefedyj.engines.replicated.keystream import (
    KEY_BYTES,
    Keystream,
    Masks,
    agree_on_masks,
    fresh_key,
    worthwhile,
)
from securefedyj.engines.replicated.shares import (
    BITS,
    INTEGERS,
    Committee,
    Member,
    Outsider,
)
from securefedyj.engines.replicated.verified import Verified, VerifiedMember, VerifiedOutsider
from securefedyj.errors import InputError
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import all_compared, in_lockstep, play_round


class Replicated(Engine):
    """Replicated secret sharing over Z_{2^k}, against honest-but-curious parties.

    Made by `connect`, which agrees on keys. Rounds (section 9), with w = 64 * limbs: `agree` 1,
    `share` 1, `multiply` 1, `negative` 2 + ceil(log2(w / 4)), `bits` 2 + ceil(log2(w - 1)), `open`
    and `open_bits` 1.

    Parameters
    ----------
    role
        What this party does as a member, or outside of the committee.
    masks
        What it adds to its inputs.
    parties
        All parties, in the agreed order.
    name
        This one.
    silos
        Those with data.
    """

    def __init__(
        self,
        role: Member | Outsider,
        masks: Masks,
        parties: Sequence[str],
        name: str,
        silos: Sequence[str],
    ) -> None:
        self._role = role
        self._masks = masks
        self._name = name
        self._peers = [party for party in parties if party != name]
        self._silos = silos

    def verified(self) -> Verifying:
        """Begin a verified exchange."""
        role = self._role
        committee = role.committee
        givers = Givers(
            [silo for silo in self._silos if silo not in committee],
            [member for member in committee if member not in self._silos],
        )
        checked_role = (
            VerifiedMember(role, givers, self._peers)
            if isinstance(role, Member)
            else VerifiedOutsider(self._name, role, givers)
        )
        return Verified(checked_role, self._masks, self._peers)

    async def agree(self, digest: bytes) -> None:
        """Compare a digest with all other parties."""
        await digests.exchange(self._peers, digest)

    async def compared(self) -> None:
        """Wait for the second holder of every component that was opened."""
        await all_compared()

    async def share(self, values: Limbs | None, *, size: int, limbs: int) -> Shared:
        """Share the sum of all parties' values."""
        masked = self._masks.hide(checked(values, size=size, limbs=limbs))
        return Additive(await self._role.share(masked), self._role.held)

    async def sum_of_products(self, pairs: Sequence[tuple[Shared, Shared]]) -> Shared:
        """Multiply value by value, add up, and share the sum anew."""
        size, limbs = same_shape(pairs)
        x, y = (
            np.stack([additive(factor).components for factor in side], axis=2)
            for side in zip(*pairs, strict=True)
        )
        total = await self._role.multiply(INTEGERS, Kind.PRODUCT, x, y)
        held = self._role.held
        return Additive(total.reshape(len(held), limbs, size), held)

    async def negative(self, a: Shared) -> SharedBits:
        """Share 1 where a < 0: the top bit of the sum of two integers, each known to some."""
        carries, highest = await self._role.nibbles(additive(a).components)
        carry = await circuits.carry_out(
            carries, lambda x, y: self._role.multiply(BITS, Kind.CARRY, x, y)
        )
        return AdditiveBits(highest ^ carry, self._role.held, size=a.size)

    async def bits(self, a: Shared) -> SharedBits:
        """Share all bits of the two's complement values."""
        first, second = (
            AdditiveBits(planes, self._role.held, size=a.size)
            for planes in await self._role.summands(additive(a).components)
        )
        return await circuits.sum_bits(first, second, self._conjunction)

    async def open(self, a: Shared) -> Limbs:
        """Reveal the values to every party."""
        values = await self._role.open(INTEGERS, additive(a).components)
        return values.astype(np.uint64, copy=False)

    async def open_bits(self, a: SharedBits) -> NDArray[np.uint8]:
        """Reveal the bits to every party."""
        return unpack(await self._role.open(BITS, additive_bits(a).components), a.shape[-1])

    async def _conjunction(self, a: AdditiveBits, b: AdditiveBits) -> AdditiveBits:
        product = await self._role.multiply(BITS, Kind.CARRY, a.components, b.components)
        return AdditiveBits(product, a.held, size=a.shape[-1])


async def connect(
    name: str,
    parties: Sequence[str],
    committee: Committee,
    silos: Sequence[str] | None = None,
) -> Replicated:
    """Agree on keys with the other parties, in one round; return this party's engine.

    Parameters
    ----------
    name
        This party.
    parties
        All parties, in the agreed order.
    committee
        The three that compute, in the agreed order. The others share inputs and see openings.
    silos
        Those that have data, whose inputs are masked among each other; None for all parties.
    """
    if len(set(committee)) != 3 or not set(committee) <= set(parties):
        raise InputError(
            "SFY-ENG-023", f"The committee must be three of {list(parties)}, got {list(committee)}."
        )
    if silos is not None and not set(silos) <= set(parties):
        raise InputError(
            "SFY-ENG-024", f"The silos must be some of {list(parties)}, got {list(silos)}."
        )
    outsiders = [party for party in parties if party not in committee]
    masked = [party for party in parties if silos is None or party in silos]
    role: Coroutine[Any, Any, Member | Outsider] = (
        _join(committee.index(name), committee, outsiders)
        if name in committee
        else _attach(committee)
    )
    if not worthwhile(parties, masked):
        return Replicated(await role, Masks(), parties, name, masked)
    known_role, masks = await in_lockstep(role, agree_on_masks(name, masked))
    return Replicated(known_role, masks, parties, name, masked)


async def _join(index: int, committee: Committee, outsiders: Sequence[str]) -> Member:
    """Send k_{i+1} to member i + 1; receive k_i from member i - 1, and keys of outsiders."""
    following, previous = committee[(index + 1) % 3], committee[(index - 1) % 3]
    masked_with = outsiders if index < 2 else ()
    key = fresh_key()
    incoming = await play_round(
        Kind.KEY, {following: key}, dict.fromkeys([previous, *masked_with], KEY_BYTES)
    )
    keystreams = {index: Keystream(incoming[previous]), (index + 1) % 3: Keystream(key)}
    inputs = [Keystream(incoming[outsider]) for outsider in masked_with]
    return Member(index, committee, keystreams, outsiders, inputs)


async def _attach(committee: Committee) -> Outsider:
    """Send a key each to members 0 and 1."""
    keys = {member: fresh_key() for member in committee[:2]}
    await play_round(Kind.KEY, keys, {})
    return Outsider(committee, [Keystream(key) for key in keys.values()])
