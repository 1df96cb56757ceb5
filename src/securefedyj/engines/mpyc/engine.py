"""Engine `mpyc`: Shamir sharing among all parties, on the MPyC library.

docs/protocol.md, section 10. The paper's own choice: no committee, and private as long as fewer
than half of the parties collude. A secret is a polynomial of degree t = floor((K - 1) / 2) over a
prime field, and party i holds its value at i. The field is wider than the integers by a margin for
statistical masks. It is not a ring modulo 2^k: integers come out as with the other
engines as long as nothing that is opened, compared or taken apart overflows; sums on the way may.

Linear operations act on the shares here; whatever needs the peers is one call to MPyC, whose
runtime is handed in (see `runtime.py` beside this file). This module does not import the library.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

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
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs
from securefedyj.party.rounds import Delegation, delegate

R = TypeVar("R")

Residues: TypeAlias = NDArray[np.object_]
"""Elements of the prime field, as Python integers."""

STATISTICAL_SECURITY = 64
"""How many bits masks are wider than what they hide: what leaks has probability about 2^-64."""

OPTIONS = ("--no-prss", f"--sec-param={STATISTICAL_SECURITY}")
"""How MPyC is to be started.

Pseudo-random secret sharing takes binomial(K, t) keys, and for these wide fields it is slower
than messages even for three parties: its random bits cost a square root each.
"""

# Values compared at a time. A comparison of 256 bits handles 257 field elements for each value.
_BLOCK = 512


class Shamir(Shared):
    """Integers as polynomials over a prime field; this party's points on them."""

    __slots__ = ("_limbs", "prime", "residues")

    def __init__(self, residues: Residues, *, prime: int, limbs: int) -> None:
        self.residues = residues
        self.prime = prime
        self._limbs = limbs

    @property
    def size(self) -> int:
        """How many values."""
        return self.residues.size

    @property
    def limbs(self) -> int:
        """How many 64-bit limbs each."""
        return self._limbs

    def __add__(self, other: Shared | Public) -> "Shamir":
        """Sum; every party adds a public constant, for it moves the whole polynomial."""
        if isinstance(other, Shared):
            return self._with(self.residues + self._matching(other).residues)
        return self._with(self.residues + self._public(other))

    def __neg__(self) -> "Shamir":
        """Negative."""
        return self._with(-self.residues)

    def __mul__(self, factor: Public) -> "Shamir":
        """Product with public factors."""
        return self._with(self.residues * self._public(factor))

    def __lshift__(self, bits: int) -> "Shamir":
        """Product with 2^bits."""
        if bits < 0:
            raise ValueError(f"Cannot shift left by {bits} bits; the number must not be negative.")
        return self._with(self.residues * (1 << bits))

    def __getitem__(self, index: Index) -> "Shamir":
        """The values at a slice, or at an array of positions or of truth values."""
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
            raise ValueError(f"{self!r} and {operand!r} do not go together.")
        return operand

    def _public(self, value: Public) -> Any:
        """Return a public operand as one integer or a vector of them."""
        if isinstance(value, int | np.integer):
            wide.from_ints([int(value)], self._limbs)  # refuses one that does not fit
            return int(value)
        if isinstance(value, np.ndarray) and value.dtype == np.uint64:
            if value.shape == (self._limbs, self.size):
                return _integers(value)
            raise ValueError(f"A public vector of shape {value.shape} does not match {self!r}.")
        raise TypeError(
            f"A public operand is an int or limbs, not {type(value).__name__}; "
            "for the product of shared vectors use engine.multiply."
        )


class ShamirBits(SharedBits):
    """Bits as field elements 0 and 1, shared like integers."""

    __slots__ = ("limbs", "residues")

    def __init__(self, residues: Residues, *, limbs: int) -> None:
        self.residues = residues
        self.limbs = limbs  # tells the field

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.residues.shape

    def __getitem__(self, index: Any) -> "ShamirBits":
        """The bits at an index; see `SharedBits`."""
        picked = self.residues[index]
        if not isinstance(picked, np.ndarray):
            raise TypeError(f"Index {self!r} by something that gives an array, say a slice.")
        return ShamirBits(picked, limbs=self.limbs)


class Mpyc(Engine):
    """Shamir sharing over a prime field, against honest-but-curious parties.

    Parameters
    ----------
    mpc
        MPyC's runtime, connected to the peers.
    names
        Those of all parties, in the order that MPyC numbers them.
    """

    def __init__(self, mpc: Any, names: Sequence[str]) -> None:
        refuse_pairs(len(mpc.parties))
        self._mpc = mpc
        self._names = names

    async def agree(self, digest: bytes) -> None:
        """Compare a digest with all other parties: as numbers, shared and opened at once.

        As single numbers, not as an array, MPyC sends them without pickling.
        """
        digests.of_right_size(digest)
        # 320 bits hold 256 without a sign.
        secret = self._mpc.SecInt(320)(int.from_bytes(digest, "big"))
        opened = await delegate(lambda: self._mpc.output(self._mpc.input(secret)))
        said = (int(value).to_bytes(64, "big")[-digests.DIGEST_BYTES :] for value in opened)
        digests.compare(digest, dict(zip(self._names, said, strict=True)))

    async def share(self, values: Limbs | None, *, size: int, limbs: int) -> Shared:
        """Share the sum of all parties' values."""
        own = _integers(checked(values, size=size, limbs=limbs))
        if not size:
            return self._shared(own, limbs)
        # MPyC reduces the array in place: `own` is nobody else's.
        secret = self._mpc.SecInt(64 * limbs).array(own)
        dealt = await delegate(lambda: self._mpc.gather(self._mpc.input(secret)))
        return self._shared(sum(part.value for part in dealt), limbs)

    async def sum_of_products(self, pairs: Sequence[tuple[Shared, Shared]]) -> Shared:
        """Multiply all pairs at once, and add up."""
        size, limbs = same_shape(pairs)
        if not size:
            return pairs[0][0]
        factors = (
            self._secure(np.concatenate([_shamir(x).residues for x in side]), limbs)
            for side in zip(*pairs, strict=True)
        )
        products = self._shared(await self._result(self._mpc.np_multiply, *factors), limbs)
        total = products[:size]
        for k in range(1, len(pairs)):
            total += products[k * size : (k + 1) * size]
        return total

    async def negative(self, a: Shared) -> SharedBits:
        """Share 1 where a < 0: one secure comparison for each value."""

        def below_zero(secret: Any) -> Any:
            return self._mpc.np_sgn(secret, LT=True)

        blocks = await self._by_blocks(below_zero, _shamir(a).residues, a.limbs)
        return ShamirBits(np.concatenate([*blocks, _integers(wide.zeros(1, 0))]), limbs=a.limbs)

    async def bits(self, a: Shared) -> SharedBits:
        """Share all bits of the two's complement values."""
        width = 64 * a.limbs

        def low_bits(secret: Any) -> Any:
            return self._mpc.np_to_bits(secret, l=width)

        # Half the range higher, values are never negative and differ in the top bit only.
        raised = _shamir(a)._with(_shamir(a).residues + (1 << (width - 1)))
        none = np.empty((0, width), dtype=object)
        by_value = await self._by_blocks(low_bits, raised.residues, a.limbs)
        planes = np.concatenate([*by_value, none]).T
        planes[-1] = (1 - planes[-1]) % raised.prime
        return ShamirBits(planes, limbs=a.limbs)

    async def open(self, a: Shared) -> Limbs:
        """Reveal the values to every party."""
        return wide.from_ints(await self._opened(_shamir(a).residues, a.limbs), a.limbs)

    async def open_bits(self, a: SharedBits) -> NDArray[np.uint8]:
        """Reveal the bits to every party."""
        if not isinstance(a, ShamirBits):
            raise TypeError(f"{a!r} belongs to another engine.")
        opened = await self._opened(a.residues.ravel(), a.limbs)
        return np.array(opened, dtype=np.uint8).reshape(a.shape)

    def _shared(self, residues: Residues, limbs: int) -> Shamir:
        prime = self._mpc.SecInt(64 * limbs).field.modulus
        return Shamir(residues % prime, prime=int(prime), limbs=limbs)

    def _secure(self, residues: Residues, limbs: int) -> Any:
        """Return shares as MPyC's secure array, which may do with it what it likes."""
        kind = self._mpc.SecInt(64 * limbs)
        return kind.array(kind.field.array(residues.copy(), check=False))

    async def _result(self, operation: Callable[..., Any], *operands: Any) -> Residues:
        """Wait for an operation of MPyC; return this party's shares of its result."""
        shares = await delegate(lambda: self._mpc.gather(operation(*operands)))
        residues: Residues = shares.value
        return residues

    async def _by_blocks(
        self, operation: Callable[[Any], Any], residues: Residues, limbs: int
    ) -> list[Residues]:
        """Apply an operation of much memory to some values at a time."""
        return [
            await self._result(operation, self._secure(residues[start : start + _BLOCK], limbs))
            for start in range(0, residues.size, _BLOCK)
        ]

    async def _opened(self, residues: Residues, limbs: int) -> list[int]:
        if not residues.size:
            return []
        secret = self._secure(residues, limbs)
        return [int(value) for value in await delegate(lambda: self._mpc.output(secret))]


async def drive(program: Coroutine[Any, Any, R]) -> R:
    """Run a program for this engine under an event loop."""
    answers = None
    while True:
        try:
            request = program.send(answers)
        except StopIteration as stop:
            result: R = stop.value
            return result
        if not isinstance(request, Delegation):
            raise TypeError("A program may await operations of one engine only.")
        # All is started before anything is waited for: MPyC numbers messages by the order of calls.
        started = [start() for start in request.starts]
        answers = [await one for one in started]


def refuse_pairs(parties: int) -> None:
    """Raise unless there are enough parties for an honest majority."""
    if parties < 3:
        raise ValueError(
            f"Shamir sharing needs three parties or more, got {parties}: of two, one alone is not "
            "a minority, so the threshold is 0 and each share is the secret. With two silos use "
            "engine 'replicated' and a coordinator as the third party."
        )


def _integers(values: Limbs) -> Residues:
    integers = np.empty(values.shape[1], dtype=object)
    integers[:] = wide.to_ints(values)
    return integers


def _shamir(value: Shared) -> Shamir:
    if not isinstance(value, Shamir):
        raise TypeError(f"{value!r} belongs to another engine.")
    return value
