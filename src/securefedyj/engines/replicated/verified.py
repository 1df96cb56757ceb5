"""A verified exchange: nobody accepts what one cheating party has falsified.

docs/protocol.md, section 8. Inputs are shared anew, with one limb to spare; products are checked
(`products`), bits are taken from the components by conjunctions (`circuits`), which each member
proves to be right (`gates`). `check` runs all of that, and everybody waits for the word of all
members; nothing is opened before. An opening waits for both holders of every component, which
send it in full.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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
    Public,
    Shared,
    SharedBits,
    Verifying,
    checked,
    same_shape,
)
from securefedyj.engines.replicated import circuits, products
from securefedyj.engines.replicated.gates import CHALLENGE_BYTES, Gates
from securefedyj.engines.replicated.inputs import Givers, share_as_member, share_as_outsider
from securefedyj.engines.replicated.keystream import Masks
from securefedyj.engines.replicated.products import Products
from securefedyj.engines.replicated.shares import (
    BITS,
    INTEGERS,
    Components,
    D,
    Member,
    Outsider,
    Ring,
)
from securefedyj.errors import InputError, Unverified
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import in_lockstep, play_round

_PROOF_ROUNDS = 2
_ACCEPTED = b"\x01"


class Spare(Additive):
    """Integers modulo 2^(64 * limbs) that are computed with one limb more, to be checked by."""

    __slots__ = ()

    @property
    def limbs(self) -> int:
        """How many 64-bit limbs each, without the one to spare."""
        return super().limbs - 1

    def without(self) -> Limbs:
        """The components without the highest limb: right, once products have been checked."""
        return self.components[:, :-1]

    def _public(self, value: Public) -> Limbs:
        return wide.resize(super()._public(value), self.limbs + 1)


class Role(Protocol):
    """What a party does in each step, in the committee or outside of it."""

    held: tuple[int, ...]

    async def share(self, values: Limbs) -> Components[np.uint64]:
        """Share the sum of all parties' values."""

    async def sum_of_products(
        self, x: Components[np.uint64], y: Components[np.uint64]
    ) -> Components[np.uint64]:
        """Multiply vectors side by side, and add up."""

    async def conjunction(
        self, x: Components[np.uint8], y: Components[np.uint8]
    ) -> Components[np.uint8]:
        """Multiply bits, packed."""

    async def check(self, accept: Callable[[], None]) -> None:
        """Raise unless everything since the last check is right, as all members say."""

    async def open(self, ring: Ring[D], x: Components[D]) -> NDArray[D]:
        """Reveal to every party."""


class VerifiedMember:
    """A member that keeps a record of what it computes, and proves it."""

    def __init__(self, member: Member, givers: Givers, peers: Sequence[str]) -> None:
        self.held = member.held
        self._member = member
        self._givers = givers
        self._peers = peers
        self._products = Products(member)
        self._gates = Gates()

    async def share(self, values: Limbs) -> Components[np.uint64]:
        """Share the sum of all inputs."""
        return await share_as_member(self._member, values, self._givers)

    async def sum_of_products(
        self, x: Components[np.uint64], y: Components[np.uint64]
    ) -> Components[np.uint64]:
        """Multiply, and keep what the check needs."""
        return await self._products.sum_of_products(x, y)

    async def conjunction(
        self, x: Components[np.uint8], y: Components[np.uint8]
    ) -> Components[np.uint8]:
        """Multiply bits, and keep what the proof needs."""
        term = BITS.local_product(x, y)
        plus, minus = self._member.draw(BITS, term.shape)
        term ^= plus
        term ^= minus
        payload = BITS.to_bytes(term)
        incoming = await self._member.among_members(Kind.CARRY, {-1: payload}, {+1: len(payload)})
        z = np.stack([term, BITS.from_bytes(incoming[+1], term.shape)])
        self._gates.record(x, y, plus, minus, z)
        return z

    async def check(self, accept: Callable[[], None]) -> None:
        """Check products and gates; then wait until all members have done so."""
        await in_lockstep(self._products.check(), self._prove())
        accept()
        await _hear_members(self._member.committee, dict.fromkeys(self._peers, _ACCEPTED))

    async def open(self, ring: Ring[D], x: Components[D]) -> NDArray[D]:
        """Reveal x, if both holders of the component that is lacking have the same."""
        return await self._member.open(ring, x, every=True)

    async def _prove(self) -> None:
        """Prove this member's gates, and check the proofs of the two others. Two rounds."""
        proof = self._gates.check(*self._member.keystreams())
        layout = proof.layout
        challenged = await self._member.among_members(
            Kind.CHECK,
            {+1: proof.challenge(), -1: proof.evaluations()},
            {-1: CHALLENGE_BYTES, +1: layout.evaluation_bytes},
        )
        proof.forget_evaluations()
        proved = await self._member.among_members(
            Kind.CHECK, {+1: proof.proof(challenged[-1])}, {-1: layout.proof_bytes}
        )
        if not proof.accepts(proved[-1], challenged[+1]):
            raise Unverified(
                "SFY-ENG-028",
                "A check has failed: the gates of a member are not what the protocol asks for. One "
                "of the members does not follow it. Nothing of the result was revealed, and there "
                "is none.",
            )


class VerifiedOutsider:
    """A party outside the committee: it gives inputs, and hears of checks and openings."""

    def __init__(self, name: str, outsider: Outsider, givers: Givers) -> None:
        self.held = outsider.held
        self._name = name
        self._outsider = outsider
        self._givers = givers

    async def share(self, values: Limbs) -> Components[np.uint64]:
        """Share this party's input."""
        return await share_as_outsider(self._name, self._outsider.committee, values, self._givers)

    async def sum_of_products(
        self, x: Components[np.uint64], y: Components[np.uint64]
    ) -> Components[np.uint64]:
        """Pass the round."""
        await play_round(Kind.PRODUCT, {}, {})
        return y[:, :, 0]

    async def conjunction(
        self, x: Components[np.uint8], y: Components[np.uint8]
    ) -> Components[np.uint8]:
        """Pass the round."""
        await play_round(Kind.CARRY, {}, {})
        return y

    async def check(self, accept: Callable[[], None]) -> None:
        """Wait until all members have checked everything."""
        await in_lockstep(products.pass_check(), _pass_proof())
        await _hear_members(self._outsider.committee, {})

    async def open(self, ring: Ring[D], x: Components[D]) -> NDArray[D]:
        """Add up the components, if all members say the same of them."""
        return await self._outsider.open(ring, x, every=True)


class Verified(Verifying):
    """One party's end of a verified exchange. Made by `Replicated.verified`.

    Rounds, with w = 64 * limbs: `share` 2 (1 without outsiders and helpers), `multiply` 1,
    `negative` 2 + ceil(log2(w - 2)), `bits` at most 1 + 2 ceil(log2(w - 1)), `below_powers` at
    most 3 + ceil(log2(w / 8)), `claim_below` at most ceil(log2(w)), `claim_zero` 2 + ceil(log2(w)),
    `check` 5, `open` and `open_bits` 1, `conjunction` 1, `verdict` ceil(log2(claims)).
    """

    def __init__(self, role: Role, masks: Masks, peers: Sequence[str]) -> None:
        self._role = role
        self._masks = masks
        self._peers = peers
        self._claims: list[AdditiveBits] = []
        self._unchecked = False

    async def agree(self, digest: bytes) -> None:
        """Compare a digest with all other parties."""
        await digests.exchange(self._peers, digest)

    async def share(self, values: Limbs | None, *, size: int, limbs: int) -> Shared:
        """Share the sum of all parties' values, with a limb to spare."""
        own = wide.resize(checked(values, size=size, limbs=limbs), limbs + 1)
        return Spare(await self._role.share(self._masks.hide(own)), self._role.held)

    async def sum_of_products(self, pairs: Sequence[tuple[Shared, Shared]]) -> Shared:
        """Multiply value by value, add up, and share the sum anew."""
        same_shape(pairs)
        x, y = (
            np.stack([spare(factor).components for factor in side], axis=2)
            for side in zip(*pairs, strict=True)
        )
        self._unchecked = True
        return Spare(await self._role.sum_of_products(x, y), self._role.held)

    async def negative(self, a: Shared) -> SharedBits:
        """Share 1 where a < 0."""
        return await circuits.top_bit(self._summands(a), self._conjunction)

    async def bits(self, a: Shared) -> SharedBits:
        """Share all bits of the two's complement values."""
        return await circuits.all_bits(self._summands(a), self._conjunction)

    async def below_powers(self, bits: SharedBits, step: int, most: int) -> SharedBits:
        """Compare by the bits that are at a power or above."""
        reached = await circuits.reached(additive_bits(bits), step, self._conjunction)
        return circuits.inverted(reached.planes(slice(0, most)))

    def claim(self, bits: SharedBits, values: NDArray[np.uint8]) -> None:
        """Claim that the bits have these values."""
        shared = additive_bits(bits)
        self._claims.append(circuits.joined([circuits.plus_public(shared, 1 - values)]))

    async def claim_zero(self, a: Shared) -> None:
        """Claim that all values are 0."""
        zero = await circuits.is_zero(self._summands(a), self._conjunction)
        self._claims.append(circuits.joined([zero]))

    async def claim_below(
        self, bits: SharedBits, bounds: Sequence[int], *, signed: bool = False
    ) -> None:
        """Claim that values are within public bounds."""
        planes = additive_bits(bits)
        if signed:  # -bound <= x < bound if and only if x, or -x - 1 if x < 0, is below the bound
            planes = circuits.folded(planes)
        below = await circuits.below(planes, bounds, self._conjunction)
        self._claims.append(circuits.joined([below]))

    async def settle(self) -> None:
        """Make one claim of all so far: that they all hold."""
        claims, self._claims = self._claims, []
        self._claims.append(await circuits.all_of(circuits.joined(claims), self._conjunction))

    async def verdict(self) -> SharedBits:
        """Share one bit: whether all claims hold."""
        await self.settle()
        (verdict,), self._claims = self._claims, []
        return verdict

    async def conjunction(self, a: SharedBits, b: SharedBits) -> SharedBits:
        """Share a AND b, bit by bit."""
        return await self._conjunction(additive_bits(a), additive_bits(b))

    def joined(self, parts: Sequence[SharedBits]) -> SharedBits:
        """One vector of the bits of some arrays, in order."""
        return circuits.joined([additive_bits(part) for part in parts])

    async def check(self, accept: Callable[[], None] = lambda: None) -> None:
        """Raise unless everything since the last check was computed right."""
        await self._role.check(accept)
        self._unchecked = False

    def held(self, bits: SharedBits) -> bytes:
        """The components of a vector of bits that this party holds, one after the other."""
        return additive_bits(bits).components.tobytes()

    def restored(self, data: bytes, size: int) -> SharedBits:
        """The vector of bits of which these are the components."""
        held = self._role.held
        if len(data) != len(held) * packed_size(size):
            raise InputError(
                "SFY-ENG-029", f"{len(data)} bytes are not what a party holds of {size} bits."
            )
        components = np.frombuffer(data, dtype=np.uint8).reshape(len(held), packed_size(size))
        return AdditiveBits(components, held, size=size)

    async def open(self, a: Shared) -> Limbs:
        """Reveal the values to every party."""
        self._must_be_checked()
        values = await self._role.open(INTEGERS, np.ascontiguousarray(spare(a).without()))
        return values.astype(np.uint64, copy=False)

    async def open_bits(self, a: SharedBits) -> NDArray[np.uint8]:
        """Reveal the bits to every party."""
        self._must_be_checked()
        return unpack(await self._role.open(BITS, additive_bits(a).components), a.shape[-1])

    def _must_be_checked(self) -> None:
        if self._unchecked:
            raise RuntimeError("Nothing may be opened before `check`.")

    def _summands(self, a: Shared) -> list[AdditiveBits]:
        return circuits.summands(spare(a).without(), self._role.held)

    async def _conjunction(self, a: AdditiveBits, b: AdditiveBits) -> AdditiveBits:
        self._unchecked = True
        product = await self._role.conjunction(a.components, b.components)
        return AdditiveBits(product, a.held, size=a.shape[-1])


def spare(value: Shared) -> Spare:
    """Return a value of this module; refuse one that was shared otherwise."""
    if not isinstance(additive(value), Spare):
        raise TypeError(f"{value!r} was not shared in a verified exchange.")
    return value  # type: ignore[return-value]


async def _hear_members(committee: Sequence[str], outgoing: dict[str, bytes]) -> None:
    """Wait for the word of all members that their checks have passed."""
    expected = {member: len(_ACCEPTED) for member in committee}
    if outgoing:  # of a member, to all others
        expected = {member: size for member, size in expected.items() if member in outgoing}
    for member, word in (await play_round(Kind.CHECK, outgoing, expected)).items():
        if word != _ACCEPTED:
            raise Unverified(
                "SFY-ENG-030", f"Party {member} does not say that its checks have passed."
            )


async def _pass_proof() -> None:
    for _ in range(_PROOF_ROUNDS):
        await play_round(Kind.CHECK, {}, {})
