"""What a secure program may do, whatever the engine (docs/protocol.md, section 6).

A program is an `async` function that all parties run alike, each with its own engine:

    total = await engine.share(own_values, size=2, limbs=4)
    product = await engine.multiply(total[:1], total[1:])
    return await engine.open_bits(await engine.negative(product - 10))

Arithmetic on shared values is local; what is awaited takes rounds. A shared value shows
its shape and nothing else; the only way to a number is `open` or `open_bits`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from securefedyj.errors import InputError
from securefedyj.numerics.wide import Limbs, from_ints
from securefedyj.party.rounds import in_lockstep

Public: TypeAlias = int | Limbs
"""One public integer for all values, or a vector of them of the same shape."""

Index: TypeAlias = slice | NDArray[np.integer[Any]] | NDArray[np.bool_]


class Secret:
    """A value that must not be looked at: no truth, no order, no iteration, no pickle."""

    __slots__ = ()
    __array_ufunc__ = None  # so that `array + shared` asks the shared value

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"{self!r} is secret: only the engine's open operations reveal a value.")

    def __array__(self, *_: object, **__: object) -> NDArray[Any]:
        self._refuse()

    __bool__ = __iter__ = __contains__ = __reduce_ex__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse


class Shared(Secret, ABC):
    """A shared vector of `size` integers modulo 2^(64 * limbs), in two's complement."""

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """How many values."""

    @property
    @abstractmethod
    def limbs(self) -> int:
        """How many 64-bit limbs each."""

    @abstractmethod
    def __add__(self, other: "Shared | Public") -> "Shared":
        """Sum with a shared or public vector, or a public integer."""

    @abstractmethod
    def __neg__(self) -> "Shared": ...

    @abstractmethod
    def __mul__(self, factor: Public) -> "Shared":
        """Product with public factors; for shared ones see `Engine.multiply`."""

    @abstractmethod
    def __lshift__(self, bits: int) -> "Shared":
        """Product with 2^bits."""

    @abstractmethod
    def __getitem__(self, index: Index) -> "Shared":
        """The values at a slice, or at an array of positions or of truth values."""

    _mismatch: str
    """The code of an error about a public vector of another shape."""

    def _checked(self, value: Public) -> int | Limbs:
        """Return a public operand, or refuse it."""
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, np.ndarray) and value.dtype == np.uint64:
            if value.shape == (self.limbs, self.size):
                return value
            raise InputError(
                self._mismatch, f"A public vector of shape {value.shape} does not match {self!r}."
            )
        raise TypeError(
            f"A public operand is an int or limbs, not {type(value).__name__}; "
            "for the product of shared vectors use engine.multiply."
        )

    @abstractmethod
    def _concatenated(self, others: "Sequence[Shared]") -> "Shared":
        """This vector followed by others; see `concatenate`."""

    def __sub__(self, other: "Shared | Public") -> "Shared":
        return -(-self + other)

    def __radd__(self, other: Public) -> "Shared":
        return self + other

    def __rsub__(self, other: Public) -> "Shared":
        return -self + other

    def __rmul__(self, factor: Public) -> "Shared":
        return self * factor

    def __repr__(self) -> str:
        """Shape only."""
        return f"<{type(self).__name__}: {self.size} integers of {64 * self.limbs} bits>"


class SharedBits(Secret, ABC):
    """A shared array of bits."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(size,) for signs; (64 * limbs, size) for all bits, the lowest first."""

    @abstractmethod
    def __getitem__(self, index: Any) -> "SharedBits":
        """The bits at any index that a NumPy array of this shape takes and that gives an array."""

    def __repr__(self) -> str:
        """Shape only."""
        return f"<{type(self).__name__}: bits of shape {self.shape}>"


def concatenate(vectors: Sequence[Shared]) -> Shared:
    """Return one shared vector of all values, in order."""
    return vectors[0]._concatenated(vectors[1:])


class Engine(ABC):
    """One party's end of a secure computation."""

    @abstractmethod
    async def agree(self, digest: bytes) -> None:
        """Compare 32 public bytes with all parties; `ProtocolError` if anybody has others.

        As the first branch of `in_lockstep` it takes no round of its own next to `share`, and
        nothing that was shared is used before the digests have been compared.
        """

    async def compared(self) -> None:  # noqa: B027 (where nothing comes late)
        """Wait until all that was opened has arrived from all its senders, and was the same.

        Only then may another opening depend on it: a party that received another value would open
        other bits than the others do.
        """

    @abstractmethod
    async def share(self, values: Limbs | None, *, size: int, limbs: int) -> Shared:
        """Share the sum of all parties' values.

        A party without values passes None and counts as zeros; nobody learns which parties these
        are. The shape is public, and the same at all parties.
        """

    async def multiply(self, a: Shared, b: Shared) -> Shared:
        """Multiply value by value."""
        return await self.sum_of_products([(a, b)])

    @abstractmethod
    async def sum_of_products(self, pairs: Sequence[tuple[Shared, Shared]]) -> Shared:
        """The sum of a * b over some pairs, value by value; it may cost less than the products."""

    @abstractmethod
    async def negative(self, a: Shared) -> SharedBits:
        """Share 1 where a < 0, and 0 elsewhere."""

    @abstractmethod
    async def bits(self, a: Shared) -> SharedBits:
        """Share all bits of the two's complement values; position first, then value."""

    async def measure(
        self, a: Shared, count: int, step: int, most: int
    ) -> tuple[SharedBits, SharedBits]:
        """Share how large the first ``count`` values are, none of them negative, and all bits.

        They are compared with 2^step, 2^(2 step), ..., 2^(most step); ``step`` is a power of 2.
        Returns 1 for each power and value where that is below, power first; and what `bits` gives.
        """
        powers = from_ints([1 << step * (k + 1) for k in range(most)], a.limbs)
        below = concatenate([a[:count]] * most) - np.repeat(powers, count, axis=1)
        return await in_lockstep(self.negative(below), self.bits(a))

    def verified(self) -> "Verifying":
        """Begin an exchange in which nobody can cheat; ValueError if the engine cannot do that."""
        raise InputError("SFY-ENG-006", "This engine cannot verify what it computes.")

    @abstractmethod
    async def open(self, a: Shared) -> Limbs:
        """Reveal the values to every party."""

    @abstractmethod
    async def open_bits(self, a: SharedBits) -> NDArray[np.uint8]:
        """Reveal the bits to every party."""


class Verifying(Engine):
    """A verified exchange: what is opened is right, or nobody accepts it.

    Values are shared again. Claims about shared bits are kept, and their verdict, whether all of
    them hold, is a shared bit itself. Nothing can be opened before `check`, except what is held
    since an earlier one.
    """

    @abstractmethod
    async def announced(self, digest: bytes | None) -> bytes:
        """32 public bytes that all members know, at every party; `ProtocolError` if they differ."""

    @abstractmethod
    def given(self, components: Limbs | None, *, size: int, limbs: int) -> Shared:
        """A vector whose components the members hold already: of this one, (2, limbs, size).

        A party outside the committee passes None.
        """

    @abstractmethod
    def claim(self, bits: SharedBits, values: NDArray[np.uint8]) -> None:
        """Claim that the bits have these public values."""

    @abstractmethod
    async def claim_zero(self, a: Shared) -> None:
        """Claim that all values are 0."""

    @abstractmethod
    async def claim_below(
        self, bits: SharedBits, bounds: Sequence[int], *, signed: bool = False
    ) -> None:
        """Claim 0 <= value < bound for all values; if signed, -bound <= value < bound.

        ``bits`` are all bits of the values, as `bits` gives them; each value has its own bound.
        """

    @abstractmethod
    async def below_powers(self, bits: SharedBits, step: int, most: int) -> SharedBits:
        """Compare values that are not negative, given by all their bits, as `measure` does."""

    @abstractmethod
    async def challenge(self) -> None:
        """Open the random numbers that claims are combined by, after all inputs were shared.

        Who knew them before could make up inputs whose false claims cancel.
        """

    @abstractmethod
    async def verdict(self) -> SharedBits:
        """Share one bit: whether all claims hold."""

    @abstractmethod
    async def conjunction(self, a: SharedBits, b: SharedBits) -> SharedBits:
        """Share a AND b, bit by bit; both have the same shape."""

    @abstractmethod
    def joined(self, parts: Sequence[SharedBits]) -> SharedBits:
        """One vector of the bits of some arrays, in order."""

    @abstractmethod
    def separated(self, vector: SharedBits, size: int) -> SharedBits:
        """A vector of bits as an array with `size` bits in each row."""

    @abstractmethod
    async def check(self, accept: Callable[[], None] = lambda: None) -> None:
        """Raise `Unverified` unless everything since the last check was computed right.

        A party that computes calls ``accept`` when its own checks have passed, before it says so
        to the others.
        """

    @abstractmethod
    def held(self, bits: SharedBits) -> bytes:
        """This party's part of a vector of bits: by itself, it reveals nothing."""

    @abstractmethod
    def restored(self, data: bytes, size: int) -> SharedBits:
        """The vector of this many bits, from `held`; it opens to the right bits, or to an error.

        A party that holds nothing passes no bytes.
        """


def same_shape(pairs: Sequence[tuple[Shared, Shared]]) -> tuple[int, int]:
    """Return the size and limbs of all factors; refuse factors that differ."""
    size, limbs = pairs[0][0].size, pairs[0][0].limbs
    for a, b in pairs:
        if not (size, limbs) == (a.size, a.limbs) == (b.size, b.limbs):
            raise InputError(
                "SFY-ENG-008", f"Cannot multiply {a!r} by {b!r}, and add up {size} integers."
            )
    return size, limbs


def checked(values: Limbs | None, *, size: int, limbs: int) -> Limbs:
    """Return a party's input: zeros if it has none, and refused if it has another shape."""
    if values is None:
        return np.zeros((limbs, size), dtype=np.uint64)
    if values.shape != (limbs, size) or values.dtype != np.uint64:
        raise InputError(
            "SFY-ENG-007",
            f"The input is {values.dtype} of shape {values.shape}; "
            f"the parties agreed on uint64 of shape {(limbs, size)}.",
        )
    return values
