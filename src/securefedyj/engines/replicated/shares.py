"""Replicated secret sharing among three members, and the messages it takes.

docs/protocol.md, section 8. After Araki, Furukawa, Lindell, Nof and Ohara, "High-throughput
semi-honest secure three-party computation with an honest majority", CCS 2016. Member i holds the
components x_i and x_{i+1} and the keys k_i and k_{i+1} (indices modulo 3). The ring is Z_{2^k} for
integers and Z_2 for bits; the formulas are the same.

Everything sent, except openings, is masked by keystream that the receiver cannot draw, and that is
used once. All of it is drawn before the round's messages are sent, so that two holders of a key
draw in the same order, whatever else shares the round. Openings are sent as they are: given the
value, the components are any that sum to it, each as likely as another.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines.additive import Held, PackedBits, bit_planes, packed_size
from securefedyj.engines.replicated import nibbles
from securefedyj.engines.replicated.keystream import Keystream
from securefedyj.errors import ProtocolError
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import play_round

D = TypeVar("D", np.uint64, np.uint8)
Components: TypeAlias = NDArray[D]
"""One after the other: x_i and x_{i+1} at member i, none outside."""
Pair: TypeAlias = Components[D] | tuple[NDArray[D], NDArray[D]]
"""Both that a member holds."""
Integers: TypeAlias = Components[np.uint64]
Bits: TypeAlias = Components[np.uint8]
"""Packed."""
Committee: TypeAlias = Sequence[str]


@dataclass(frozen=True)
class Ring(Generic[D]):
    """Vectors of ring elements, as arrays."""

    dtype: np.dtype[D]
    add: Callable[[NDArray[D], NDArray[D]], NDArray[D]]
    subtract: Callable[[NDArray[D], NDArray[D]], NDArray[D]]
    local_product: Callable[[Pair[D], Pair[D]], NDArray[D]]
    """A member's part of a product: x_i y_i + x_i y_{i+1} + x_{i+1} y_i of what it holds."""

    def to_bytes(self, x: NDArray[D]) -> bytes:
        """Return the elements in memory order, little-endian."""
        return x.astype(self.dtype, copy=False).tobytes()

    def from_bytes(self, data: bytes, shape: tuple[int, ...]) -> NDArray[D]:
        return np.frombuffer(data, self.dtype).reshape(shape)

    def size(self, x: "Components[D]") -> int:
        """How many bytes one component of shared elements has."""
        return self.dtype.itemsize * math.prod(x.shape[1:])


# Bracketed so that two products do the work of three.


def _local_product_of_integers(x: Pair[np.uint64], y: Pair[np.uint64]) -> Limbs:
    """The sum over several products, which lie side by side in the axis after that of the limbs."""
    own, other = y
    factors = np.concatenate([wide.add(own, other), own], axis=1)
    return wide.sum_of_products(np.concatenate(x, axis=1), factors)


def _local_product_of_bits(x: Pair[np.uint8], y: Pair[np.uint8]) -> PackedBits:
    own, other = y
    product: PackedBits = x[0] & (own ^ other)
    product ^= x[1] & own
    return product


INTEGERS = Ring(np.dtype("<u8"), wide.add, wide.subtract, _local_product_of_integers)
BITS = Ring(np.dtype("u1"), np.bitwise_xor, np.bitwise_xor, _local_product_of_bits)


class Member:
    """Member i of the committee, with the keystreams of k_i and k_{i+1}.

    ``outsiders`` are the names of the parties outside. ``inputs`` are, at members 0 and 1, the
    keystreams that outsiders mask their inputs with.
    """

    def __init__(
        self,
        index: int,
        committee: Committee,
        keystreams: Mapping[int, Keystream],
        outsiders: Sequence[str],
        inputs: Sequence[Keystream],
    ) -> None:
        # The components and keys that this member holds: i and i + 1.
        self._own, self._other = index, (index + 1) % 3
        self.held: Held = (self._own, self._other)
        self.committee = committee
        self.following = committee[self._other]
        self.previous = committee[(index - 1) % 3]
        self._keystreams = keystreams
        self._outsiders = outsiders
        self._inputs = inputs

    async def share(self, values: Limbs) -> Integers:
        """Share the sum of all inputs: x_i = own input + alpha_i goes to member i - 1.

        An outsider's input comes in three terms: members 0 and 1 draw theirs and add them before
        they send; the third is sent to both members that hold component 2.
        """
        own = wide.add(values, self._zero(INTEGERS, values.shape))
        for keystream in self._inputs:
            own = wide.add(own, keystream.draw(values.shape, INTEGERS.dtype))
        payload = INTEGERS.to_bytes(own)
        senders = [self.following, *(self._outsiders if 2 in self.held else ())]
        incoming = await play_round(
            Kind.INPUT, {self.previous: payload}, dict.fromkeys(senders, len(payload))
        )
        shares = self._received(INTEGERS, incoming, own)
        for outsider in senders[1:]:
            third = shares[self.held.index(2)]
            third[:] = wide.add(third, INTEGERS.from_bytes(incoming[outsider], values.shape))
        return shares

    async def sum_of_products(self, x: Integers, y: Integers) -> Integers:
        """Multiply vectors side by side, of shape (held, limbs, terms, size), and add up.

        z_i = x_i y_i + x_i y_{i+1} + x_{i+1} y_i + alpha_i goes to member i - 1.
        """
        return await self.reshare(INTEGERS, Kind.PRODUCT, INTEGERS.local_product(x, y))

    async def conjunction(self, x: Bits, y: Bits) -> Bits:
        return await self.reshare(BITS, Kind.CARRY, BITS.local_product(x, y))

    async def summands(self, x: Integers) -> tuple[Bits, Bits]:
        """Share the bits of A = x_0 + x_1, which member 0 knows, and of B = x_2.

        B needs no message: members 1 and 2 both know it, so its bits are shared as (0, 0, B).
        A takes one: see `_deal`.
        """
        _, limbs, size = x.shape
        shape = (64 * limbs, packed_size(size))
        dealt = await self._deal(lambda: bit_planes(wide.add(x[0], x[1])), shape)
        a, b = np.zeros((2, 2, *shape), dtype=np.uint8)
        for k, i in enumerate(self.held):
            if i in dealt:
                a[k] = dealt[i]
            if i == 2:
                b[k] = bit_planes(x[k])
        return a, b

    async def nibbles(self, x: Integers) -> tuple[Bits, Bits]:
        """Share what the nibbles of A + B carry, with A and B as in `summands`. Two rounds.

        Member 0 shares a table of A, as (t_0, t_1, 0). Members 2 and 1 read t_0 and t_1 at B;
        what they read sums to the carries, and is shared again like products.
        """
        _, limbs, size = x.shape
        shape = nibbles.table_shape(limbs, size)
        table = await self._deal(lambda: nibbles.thresholds(wide.add(x[0], x[1])), shape)
        # The table is large: keep no view of it, and free it before the round.
        highest = np.zeros((2, shape[1]), dtype=np.uint8)
        for k, i in enumerate(self.held):
            highest[k] = nibbles.top(x[k]) if i == 2 else table[i][-1]
        if 2 in self.held:
            held, always = (1, 0x00) if 1 in self.held else (0, 0xFF)
            b = x[self.held.index(2)]
            carries = nibbles.carries(table[held][:-1], b, always=always)
        else:
            carries = np.zeros(nibbles.carries_shape(limbs, size), dtype=np.uint8)
        del table
        return await self.reshare(BITS, Kind.CARRY, carries), highest

    async def open(self, ring: Ring[D], x: Components[D], *, every: bool = False) -> NDArray[D]:
        """Reveal x: to every party the components that it lacks.

        Member i + 1 lacks x_i, member i - 1 lacks x_{i+1}, parties outside lack both. This member
        lacks x_{i+2}, which both others have.
        """
        own, other = (ring.to_bytes(component) for component in x)
        outgoing = {self.following: own, self.previous: other}
        outgoing.update(dict.fromkeys(self._outsiders, own + other))
        lacking = (self._own + 2) % 3
        senders = {self.previous: (lacking,), self.following: (lacking,)}
        enough = len(senders) if every else 1
        opened = await _collect(outgoing, senders, size=len(own), enough=enough)
        both = ring.add(x[0], x[1])
        return ring.add(both, ring.from_bytes(opened[lacking], both.shape))

    async def _deal(
        self, known: Callable[[], PackedBits], shape: tuple[int, ...]
    ) -> Mapping[int, PackedBits]:
        """Share bits that member 0 knows, as (r, bits xor r, 0); return what is not 0.

        r is from k_0, which members 0 and 2 hold; member 1 is sent its component.
        """
        shares = {}
        if 0 in self.held:
            shares[0] = self._keystreams[0].draw(shape, BITS.dtype)
        if self._own == 0:
            shares[1] = known()
            shares[1] ^= shares[0]
            await play_round(Kind.SUMMAND, {self.following: BITS.to_bytes(shares[1])}, {})
        elif self._own == 1:
            incoming = await play_round(Kind.SUMMAND, {}, {self.previous: math.prod(shape)})
            shares[1] = BITS.from_bytes(incoming[self.previous], shape)
        else:
            await play_round(Kind.SUMMAND, {}, {})
        return shares

    async def reshare(self, ring: Ring[D], kind: Kind, term: NDArray[D]) -> Components[D]:
        """Share the sum of all members' terms: own term + alpha_i goes to member i - 1."""
        own = ring.add(term, self._zero(ring, term.shape))
        payload = ring.to_bytes(own)
        incoming = await play_round(kind, {self.previous: payload}, {self.following: len(payload)})
        return self._received(ring, incoming, own)

    def _zero(self, ring: Ring[D], shape: tuple[int, ...]) -> NDArray[D]:
        """Return alpha_i = G(k_i) - G(k_{i+1}); the three of them sum to zero."""
        plus, minus = self.draw(ring, shape)
        return ring.subtract(plus, minus)

    def draw(self, ring: Ring[D], shape: tuple[int, ...]) -> tuple[NDArray[D], NDArray[D]]:
        """Return G(k_i) and G(k_{i+1}): components of what no single member knows."""
        own, other = (self._keystreams[i].draw(shape, ring.dtype) for i in self.held)
        return own, other

    def set_aside(
        self, ring: Ring[D], shape: tuple[int, ...]
    ) -> Callable[[], tuple[NDArray[D], NDArray[D]]]:
        """Return what `draw` would, as what draws it each time that it is needed."""
        own, other = (self._keystreams[i].set_aside(shape, ring.dtype) for i in self.held)
        return lambda: (own(), other())

    def keystreams(self) -> tuple[Keystream, Keystream]:
        """Those of k_i and of k_{i+1}."""
        return self._keystreams[self._own], self._keystreams[self._other]

    async def among_members(
        self, outgoing: Mapping[int, bytes], expected: Mapping[int, int], kind: Kind = Kind.CHECK
    ) -> Mapping[int, bytes]:
        """Play a round between members: +1 is member i + 1, -1 is member i - 1."""
        names = {+1: self.following, -1: self.previous}
        incoming = await play_round(
            kind,
            {names[to]: payload for to, payload in outgoing.items()},
            {names[of]: size for of, size in expected.items()},
        )
        return {of: incoming[names[of]] for of in expected}

    def _received(
        self, ring: Ring[D], incoming: Mapping[str, bytes], own: NDArray[D]
    ) -> Components[D]:
        """Return component i, and component i + 1 as member i + 1 sent it."""
        return np.array([own, ring.from_bytes(incoming[self.following], own.shape)])


class Outsider:
    """A party outside the committee: it gives inputs and receives openings.

    It passes all other rounds, and knows how many bytes members send in them. ``inputs`` are the
    keystreams in common with members 0 and 1.
    """

    held: Held = ()

    def __init__(self, committee: Committee, inputs: Sequence[Keystream]) -> None:
        self.committee = committee
        self._inputs = inputs

    async def pass_round(self, kind: Kind, sent: int) -> None:
        """Pass a round in which a member sends this many bytes to another one, at most."""
        await play_round(kind, {}, {})

    async def share(self, values: Limbs) -> Integers:
        """Send x - r_0 - r_1 to members 1 and 2; member 0 draws r_0, member 1 draws r_1."""
        rest = values
        for keystream in self._inputs:
            rest = wide.subtract(rest, keystream.draw(values.shape, INTEGERS.dtype))
        holders = [self.committee[1], self.committee[2]]
        await play_round(Kind.INPUT, dict.fromkeys(holders, INTEGERS.to_bytes(rest)), {})
        return np.empty((0, *values.shape), dtype=np.uint64)

    async def sum_of_products(self, x: Integers, y: Integers) -> Integers:
        total = y[:, :, 0]
        await self.pass_round(Kind.PRODUCT, INTEGERS.size(total))
        return total

    async def conjunction(self, x: Bits, y: Bits) -> Bits:
        await self.pass_round(Kind.CARRY, BITS.size(y))
        return y

    async def summands(self, x: Integers) -> tuple[Bits, Bits]:
        planes = np.empty((0, 64 * x.shape[1], packed_size(x.shape[2])), dtype=np.uint8)
        await self.pass_round(Kind.SUMMAND, BITS.size(planes))
        return planes, planes

    async def nibbles(self, x: Integers) -> tuple[Bits, Bits]:
        _, limbs, size = x.shape
        carries = np.empty((0, *nibbles.carries_shape(limbs, size)), dtype=np.uint8)
        await self.pass_round(Kind.SUMMAND, math.prod(nibbles.table_shape(limbs, size)))
        await self.pass_round(Kind.CARRY, BITS.size(carries))
        return carries, carries[:, 0, 0]

    async def open(self, ring: Ring[D], x: Components[D], *, every: bool = False) -> NDArray[D]:
        """Add up the components; every member sends the two that it holds."""
        shape, size = x.shape[1:], ring.size(x)
        senders = {member: (i, (i + 1) % 3) for i, member in enumerate(self.committee)}
        enough = len(senders) if every else 2
        opened = await _collect({}, senders, size=size, enough=enough)
        first, second, third = (ring.from_bytes(opened[i], shape) for i in range(3))
        return ring.add(ring.add(first, second), third)


async def _collect(
    outgoing: Mapping[str, bytes], senders: Mapping[str, Held], *, size: int, enough: int
) -> Mapping[int, bytes]:
    """Play the round of an opening; return the components that came, by their index.

    Each peer is sent what it lacks. Each sender sends some components, of ``size`` bytes, one after
    the other; ``enough`` senders suffice for all components.
    """
    taken: dict[int, tuple[str, bytes]] = {}

    def take(peer: str, payload: bytes) -> None:
        for k, index in enumerate(senders[peer]):
            part = payload[k * size : (k + 1) * size]
            first, known = taken.setdefault(index, (peer, part))
            if part != known:
                raise ProtocolError(
                    "SFY-ENG-026",
                    f"Parties {first} and {peer} sent different parts of one opening: one of the "
                    "two does not follow the protocol, and what was opened cannot be relied on. "
                    "Find out which before you try again.",
                )

    expected = {peer: size * len(held) for peer, held in senders.items()}
    incoming = await play_round(Kind.OPENING, outgoing, expected, enough=enough, late=take)
    for peer, payload in incoming.items():
        take(peer, payload)
    return {index: part for index, (_, part) in taken.items()}
