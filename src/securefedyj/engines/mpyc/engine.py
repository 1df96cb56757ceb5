"""Engine `mpyc`: Shamir sharing among all parties, on the MPyC library.

docs/protocol.md, section 10. The paper's own choice: no committee, and private as long as fewer
than half of the parties collude. A secret is a polynomial of degree t = floor((K - 1) / 2) over a
prime field, and party i holds its value at i. The field is wider than the integers by a margin for
statistical masks. It is not a ring modulo 2^k: integers come out as with the other
engines as long as nothing that is opened, compared or taken apart overflows; sums on the way may.

Linear operations act on the shares here. For all others the party asks MPyC, in another process
(`party.py`). This module does not import the library.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines import digests
from securefedyj.engines.interface import (
    Engine,
    Index,
    Public,
    Shared,
    SharedBits,
    checked,
    same_shape,
)
from securefedyj.engines.mpyc.pipe import Operation, Residues, Work, element_bytes, pack, unpack
from securefedyj.errors import InputError
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs
from securefedyj.party.rounds import delegate

BLOCK = 512
"""Values compared at a time.

A comparison of 256 bits handles 257 field elements for each value.
"""


class Shamir(Shared):
    """Integers as polynomials over a prime field; this party's points on them."""

    __slots__ = ("_limbs", "prime", "residues")
    _mismatch = "SFY-ENG-015"

    def __init__(self, residues: Residues, *, prime: int, limbs: int) -> None:
        self.residues = residues
        self.prime = prime
        self._limbs = limbs

    @property
    def size(self) -> int:
        return self.residues.size

    @property
    def limbs(self) -> int:
        return self._limbs

    def __add__(self, other: Shared | Public) -> "Shamir":
        """Sum; every party adds a public constant, for it moves the whole polynomial."""
        if isinstance(other, Shared):
            return self._with(self.residues + self._matching(other).residues)
        return self._with(self.residues + self._public(other))

    def __neg__(self) -> "Shamir":
        return self._with(-self.residues)

    def __mul__(self, factor: Public) -> "Shamir":
        return self._with(self.residues * self._public(factor))

    def __lshift__(self, bits: int) -> "Shamir":
        if bits < 0:
            raise InputError(
                "SFY-ENG-013", f"Cannot shift left by {bits} bits; the number must not be negative."
            )
        return self._with(self.residues * (1 << bits))

    def __getitem__(self, index: Index) -> "Shamir":
        picked = self.residues[index]
        if not isinstance(picked, np.ndarray) or picked.ndim != 1:
            raise TypeError(f"Index {self!r} by a slice or a vector of positions.")
        return self._with(picked)

    def _concatenated(self, others: Sequence[Shared]) -> "Shamir":
        parts = [self._matching(other, same_size=False).residues for other in others]
        return self._with(np.concatenate([self.residues, *parts]))

    def _with(self, residues: Residues) -> "Shamir":
        return Shamir(residues % self.prime, prime=self.prime, limbs=self._limbs)

    def _matching(self, other: Shared, *, same_size: bool = True) -> "Shamir":
        """Return the other operand, if it is of the same field and size."""
        operand = _shamir(other)
        if operand.prime != self.prime or (same_size and operand.size != self.size):
            raise InputError("SFY-ENG-014", f"{self!r} and {operand!r} do not go together.")
        return operand

    def _public(self, value: Public) -> Any:
        """Return a public operand as one integer or a vector of them."""
        known = self._checked(value)
        if isinstance(known, int):
            wide.from_ints([known], self._limbs)  # refuses one that does not fit
            return known
        return _integers(known)


class ShamirBits(SharedBits):
    """Bits as field elements 0 and 1, shared like integers."""

    __slots__ = ("limbs", "residues")

    def __init__(self, residues: Residues, *, limbs: int) -> None:
        self.residues = residues
        self.limbs = limbs  # determines the field

    @property
    def shape(self) -> tuple[int, ...]:
        return self.residues.shape

    def __getitem__(self, index: Any) -> "ShamirBits":
        picked = self.residues[index]
        if not isinstance(picked, np.ndarray):
            raise TypeError(f"Index {self!r} by something that gives an array, say a slice.")
        return ShamirBits(picked, limbs=self.limbs)


class Mpyc(Engine):
    """Shamir sharing over a prime field, against honest-but-curious parties.

    ``names`` are those of all parties, in the order that MPyC numbers them.
    """

    def __init__(self, names: Sequence[str]) -> None:
        refuse_pairs(len(names))
        self._names = names

    async def agree(self, digest: bytes) -> None:
        """Compare a digest with all other parties: as numbers, shared and opened at once."""
        digests.of_right_size(digest)
        own = np.array([int.from_bytes(digest, "big")], dtype=object)
        # 320 bits hold 256 without a sign.
        opened, _ = await self._asked(Operation.ANNOUNCE, 5, own)
        said = (int(value).to_bytes(64, "big")[-digests.DIGEST_BYTES :] for value in opened)
        digests.compare(digest, dict(zip(self._names, said, strict=True)))

    async def compared(self) -> None:
        """Wait until every party has what was opened before: each has to share a zero first.

        An opening takes the shares of t others, always the same, so some parties could be ahead of
        others by several openings. After a loss, more would be repeated than is allowed.
        """
        await self._asked(Operation.INPUT, 1, np.zeros(1, dtype=object))

    async def share(self, values: Limbs | None, *, size: int, limbs: int) -> Shared:
        own = _integers(checked(values, size=size, limbs=limbs))
        return await self._shared(Operation.INPUT, limbs, own)

    async def sum_of_products(self, pairs: Sequence[tuple[Shared, Shared]]) -> Shared:
        """Multiply all pairs at once, and add up."""
        size, limbs = same_shape(pairs)
        factors = (
            np.concatenate([_shamir(x).residues for x in side]) for side in zip(*pairs, strict=True)
        )
        products = await self._shared(Operation.MULTIPLY, limbs, *factors)
        total = products[:size]
        for k in range(1, len(pairs)):
            total += products[k * size : (k + 1) * size]
        return total

    async def negative(self, a: Shared) -> SharedBits:
        """Share 1 where a < 0: one secure comparison for each value."""
        below = await self._by_blocks(Operation.NEGATIVE, _shamir(a).residues, a.limbs)
        return ShamirBits(below, limbs=a.limbs)

    async def bits(self, a: Shared) -> SharedBits:
        width = 64 * a.limbs
        # Half the range higher, values are never negative and differ in the top bit only.
        raised = _shamir(a)._with(_shamir(a).residues + (1 << (width - 1)))
        by_value = await self._by_blocks(Operation.BITS, raised.residues, a.limbs)
        planes = by_value.reshape(-1, width).T.copy()
        planes[-1] = (1 - planes[-1]) % raised.prime
        return ShamirBits(planes, limbs=a.limbs)

    async def open(self, a: Shared) -> Limbs:
        return wide.from_ints(await self._opened(_shamir(a).residues, a.limbs), a.limbs)

    async def open_bits(self, a: SharedBits) -> NDArray[np.uint8]:
        if not isinstance(a, ShamirBits):
            raise TypeError(f"{a!r} belongs to another engine.")
        opened = await self._opened(a.residues.ravel(), a.limbs)
        return np.array(opened, dtype=np.uint8).reshape(a.shape)

    async def _asked(
        self, operation: Operation, limbs: int, *operands: Residues
    ) -> tuple[Residues, int]:
        """Let MPyC work; return the answer, and the prime of its field."""
        work = Work(operation, limbs, tuple(pack(operand, limbs) for operand in operands))
        prime, *_ = answer = unpack(await delegate(lambda: work), limbs)
        return answer[1:], prime

    async def _shared(self, operation: Operation, limbs: int, *operands: Residues) -> Shamir:
        residues, prime = await self._asked(operation, limbs, *operands)
        return Shamir(residues, prime=prime, limbs=limbs)

    async def _by_blocks(self, operation: Operation, residues: Residues, limbs: int) -> Residues:
        """Apply an operation of much memory to some values at a time."""
        blocks = [residues[:0]]
        for start in range(0, residues.size, BLOCK):
            block = residues[start : start + BLOCK]
            blocks.append((await self._asked(operation, limbs, block))[0])
        return np.concatenate(blocks)

    async def _opened(self, residues: Residues, limbs: int) -> list[int]:
        """Open integers, which may be negative."""
        opened, prime = await self._asked(Operation.OPEN, limbs, residues)
        return [value - prime if value > prime // 2 else value for value in opened]


async def connect(
    name: str, parties: Sequence[str], committee: Sequence[str], silos: Sequence[str]
) -> Mpyc:
    """Return this party's engine; all parties compute."""
    return Mpyc(parties)


def most_ahead(size: int, limbs: int, parties: int) -> int:
    """Bytes that one party sends another while integers are dealt with, at most.

    To compare integers or to take them apart, MPyC sends a few field elements for each of their
    bits. Measured: of K parties about K / 2 + 1.5 to compare them; 8 to take them apart with K = 3,
    and 11 with K = 10. This is twice as much. It handles `BLOCK` integers of each width that occurs
    at a time, and all parties wait for each other in between: none is ahead by more than a block.
    All are shared, multiplied and opened at once, with an element for each bit at most.
    """
    element, elements = element_bytes(limbs), 2 * (8 + parties // 2)
    at_once = min(size, (limbs + 1) * BLOCK)
    return (1 << 20) + element * 64 * limbs * (elements * at_once + size)


def refuse_pairs(parties: int) -> None:
    """Raise unless there are enough parties for an honest majority."""
    if parties < 3:
        raise InputError(
            "SFY-ENG-012",
            f"Shamir sharing needs three parties or more, got {parties}: of two, one alone is not "
            "a minority, so the threshold is 0 and each share is the secret. With two silos use "
            "engine 'replicated' and a coordinator as the third party.",
        )


def _integers(values: Limbs) -> Residues:
    integers = np.empty(values.shape[1], dtype=object)
    integers[:] = wide.to_ints(values)
    return integers


def _shamir(value: Shared) -> Shamir:
    if not isinstance(value, Shamir):
        raise TypeError(f"{value!r} belongs to another engine.")
    return value
