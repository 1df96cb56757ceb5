"""Engine `replicated`: three computing members, private unless two of them collude.

docs/protocol.md, section 8. Each operation is played by the `role` of a party: in the committee or
outside of it, verified or not.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefedyj import kernel
from securefedyj.engines import digests
from securefedyj.engines.additive import (
    Additive,
    AdditiveBits,
    additive,
    additive_bits,
    packed_size,
    unpack,
)
from securefedyj.engines.interface import (
    Engine,
    Public,
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
from securefedyj.engines.replicated.shares import BITS, INTEGERS, Committee, Member, Outsider, Ring
from securefedyj.engines.replicated.verified import VerifiedMember, VerifiedOutsider
from securefedyj.errors import InputError
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import all_compared, in_lockstep, play_round


class Replicated(Engine):
    """Replicated secret sharing over Z_{2^k}, against honest-but-curious parties.

    Made by `connect`, which agrees on keys. ``role`` is what this party does in each operation, and
    ``masks`` what it adds to its inputs. Section 9 has the rounds of each operation.
    """

    _kind: type[Additive] = Additive
    _limbs_to_spare = 0

    def __init__(
        self,
        role: Member | Outsider | VerifiedMember | VerifiedOutsider,
        masks: Masks,
        parties: Sequence[str],
        name: str,
        silos: Sequence[str],
    ) -> None:
        self._role: Any = role
        self._masks = masks
        self._peers = [party for party in parties if party != name]
        self._name = name
        self._silos = silos

    async def agree(self, digest: bytes) -> None:
        await digests.exchange(self._peers, digest)

    async def share(self, values: Limbs | None, *, size: int, limbs: int) -> Shared:
        own = wide.resize(checked(values, size=size, limbs=limbs), limbs + self._limbs_to_spare)
        return self._kind(await self._role.share(self._masks.hide(own)), self._role.held)

    async def sum_of_products(self, pairs: Sequence[tuple[Shared, Shared]]) -> Shared:
        same_shape(pairs)
        x, y = (
            np.stack([self._own(factor).components for factor in side], axis=2)
            for side in zip(*pairs, strict=True)
        )
        return self._kind(await self._role.sum_of_products(x, y), self._role.held)

    async def open(self, a: Shared) -> Limbs:
        values = await self._open(INTEGERS, np.ascontiguousarray(self._own(a).exact()))
        return np.asarray(values, dtype=np.uint64)

    async def open_bits(self, a: SharedBits) -> NDArray[np.uint8]:
        return unpack(await self._open(BITS, additive_bits(a).components), a.shape[-1])

    async def _open(self, ring: Ring[Any], x: NDArray[Any]) -> Any:
        return await self._role.open(ring, x)

    async def _conjunction(self, a: AdditiveBits, b: AdditiveBits) -> AdditiveBits:
        return a.like(await self._role.conjunction(a.components, b.components))

    def _own(self, value: Shared) -> Additive:
        """Refuse a value that was shared by another engine, or not for this exchange."""
        if not isinstance(own := additive(value), self._kind):
            raise TypeError(f"{value!r} was not shared in a verified exchange.")
        return own

    def verified(self) -> Verifying:
        role = self._role
        committee = role.committee
        givers = Givers(
            [silo for silo in self._silos if silo not in committee],
            [member for member in committee if member not in self._silos],
        )
        if isinstance(role, Member):
            return Verified(self, VerifiedMember(role, givers, self._peers))
        return Verified(self, VerifiedOutsider(self._name, role, givers))

    async def compared(self) -> None:
        """Wait for the second holder of every component that was opened."""
        await all_compared()

    async def negative(self, a: Shared) -> SharedBits:
        """Share 1 where a < 0: the top bit of the sum of two integers, each known to some."""
        held = self._role.held
        carries, highest = (
            AdditiveBits(planes, held, size=a.size)
            for planes in await self._role.nibbles(additive(a).components)
        )
        return highest ^ await circuits.carry_out(carries, self._conjunction)

    async def bits(self, a: Shared) -> SharedBits:
        first, second = (
            AdditiveBits(planes, self._role.held, size=a.size)
            for planes in await self._role.summands(additive(a).components)
        )
        return await circuits.sum_bits(first, second, self._conjunction)


class Spare(Additive):
    """Integers modulo 2^(64 * limbs) that are computed with one limb more, to be checked by."""

    __slots__ = ()

    @property
    def limbs(self) -> int:
        return super().limbs - 1

    def exact(self) -> Limbs:
        """The components without the highest limb: right, once products have been checked."""
        return self.components[:, :-1]

    def _public(self, value: Public) -> Limbs:
        return wide.resize(super()._public(value), self.limbs + 1)


class Verified(Replicated, Verifying):
    """A verified exchange, made by `Replicated.verified`. Section 9.1 has the rounds."""

    _kind = Spare
    _limbs_to_spare = 1

    def __init__(self, engine: Replicated, role: VerifiedMember | VerifiedOutsider) -> None:
        super().__init__(role, engine._masks, engine._peers, engine._name, engine._silos)
        self._engine = engine
        self._claims: list[AdditiveBits] = []
        self._seed = b""
        self._unchecked = False

    async def compared(self) -> None:
        """Nothing comes late: an opening waits for both holders of every component."""

    async def share(self, values: Limbs | None, *, size: int, limbs: int) -> Shared:
        if self._seed:
            raise RuntimeError("Nothing may be shared after `challenge`.")
        return await super().share(values, size=size, limbs=limbs)

    async def sum_of_products(self, pairs: Sequence[tuple[Shared, Shared]]) -> Shared:
        self._unchecked = True
        return await super().sum_of_products(pairs)

    async def _conjunction(self, a: AdditiveBits, b: AdditiveBits) -> AdditiveBits:
        self._unchecked = True
        return await super()._conjunction(a, b)

    async def negative(self, a: Shared) -> SharedBits:
        return await circuits.top_bit(self._summands(a), self._conjunction)

    async def bits(self, a: Shared) -> SharedBits:
        return await circuits.all_bits(self._summands(a), self._conjunction)

    async def below_powers(self, bits: SharedBits, step: int, most: int) -> SharedBits:
        """Compare by the bits that are at a power or above."""
        reached = await circuits.reached(additive_bits(bits), step, self._conjunction)
        return circuits.inverted(reached.planes(slice(0, most)))

    async def announced(self, digest: bytes | None) -> bytes:
        members = [one for one in self._engine._role.committee if one in self._peers]
        outgoing = {} if digest is None else dict.fromkeys(self._peers, digest)
        incoming = await play_round(
            Kind.DIGEST, outgoing, dict.fromkeys(members, digests.DIGEST_BYTES)
        )
        said = list(
            incoming.values()
        )  # two of three members are honest; none where rounds are counted
        known = digest or max(said, key=said.count, default=bytes(digests.DIGEST_BYTES))
        digests.compare(known, incoming)
        return known

    def given(self, components: Limbs | None, *, size: int, limbs: int) -> Shared:
        held, all_limbs = self._role.held, limbs + self._limbs_to_spare
        own = np.empty((len(held), all_limbs, size), dtype=np.uint64)
        for part, component in zip(own, () if components is None else components, strict=True):
            part[:] = wide.resize(checked(component, size=size, limbs=limbs), all_limbs)
        return self._kind(own, held)

    def claim(self, bits: SharedBits, values: NDArray[np.uint8]) -> None:
        shared = additive_bits(bits)
        self._claims.append(circuits.plus_public(shared, 1 - values))

    async def claim_zero(self, a: Shared) -> None:
        self._claims.append(await circuits.is_zero(self._summands(a), self._conjunction))

    async def claim_below(
        self, bits: SharedBits, bounds: Sequence[int], *, signed: bool = False
    ) -> None:
        planes = additive_bits(bits)
        if signed:  # -bound <= x < bound if and only if x, or -x - 1 if x < 0, is below the bound
            planes = circuits.folded(planes)
        self._claims.append(await circuits.below(planes, bounds, self._conjunction))

    async def challenge(self) -> None:
        self._seed = await self._role.challenge()

    async def verdict(self) -> SharedBits:
        """1 if each of 64 random subsets of all claims has an even number that do not hold."""
        false, self._claims = circuits.inverted(circuits.joined(self._claims)), []
        odd = circuits.random_sums(false, Keystream(self._seed))
        return circuits.joined([await circuits.all_of(circuits.inverted(odd), self._conjunction)])

    async def conjunction(self, a: SharedBits, b: SharedBits) -> SharedBits:
        return await self._conjunction(additive_bits(a), additive_bits(b))

    def joined(self, parts: Sequence[SharedBits]) -> SharedBits:
        return circuits.joined([additive_bits(part) for part in parts])

    def separated(self, vector: SharedBits, size: int) -> SharedBits:
        return circuits.separated(additive_bits(vector), size)

    async def check(self, accept: Callable[[], None] = lambda: None) -> None:
        await self._role.check(accept)
        self._unchecked = False

    def held(self, bits: SharedBits) -> bytes:
        """The components of a vector of bits that this party holds, one after the other."""
        return additive_bits(bits).components.tobytes()

    def restored(self, data: bytes, size: int) -> SharedBits:
        """The vector of bits that has these components."""
        held = self._role.held
        if len(data) != len(held) * packed_size(size):
            raise InputError(
                "SFY-ENG-029", f"{len(data)} bytes are not what a party holds of {size} bits."
            )
        components = np.frombuffer(data, dtype=np.uint8).reshape(len(held), packed_size(size))
        return AdditiveBits(components, held, size=size)

    async def _open(self, ring: Ring[Any], x: NDArray[Any]) -> Any:
        """Reveal x, if both holders of every component send the same."""
        if self._unchecked:
            raise RuntimeError("Nothing may be opened before `check`.")
        return await self._engine._role.open(ring, x, every=True)

    def _summands(self, a: Shared) -> list[AdditiveBits]:
        kernel.give_back(self._own(a).components.nbytes)
        return circuits.summands(self._own(a).exact(), self._role.held)


async def connect(
    name: str,
    parties: Sequence[str],
    committee: Committee,
    silos: Sequence[str] | None = None,
) -> Replicated:
    """Agree on keys with the other parties, in one round; return this party's engine.

    All parties and the committee, the three that compute, are in the agreed order. ``silos`` are
    those with data, whose inputs are masked among each other; None for all parties.
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
