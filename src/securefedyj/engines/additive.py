"""Shared values as sums of components. Each party holds some of them.

x = x_0 + x_1 + ... modulo 2^k, or the exclusive or of bits. A party keeps the components it holds
in one array, one after the other in its first axis, and knows their indices: all of them with
engine `clear` (there is one), two of three in a committee, none outside of it. Linear operations
act on each component alone; a public constant goes to component 0. The code is thus the same for
all, and a party with no components has an empty array that knows its shape.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from securefedyj import kernel
from securefedyj.engines.interface import Index, Public, Shared, SharedBits
from securefedyj.errors import InputError
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs

PackedBits: TypeAlias = NDArray[np.uint8]
"""Bits with eight neighbours of the last axis in a byte, the first in the lowest bit.

NumPy's bitwise loops use vector instructions: bytes cost what words cost, without their padding.
"""

Held: TypeAlias = tuple[int, ...]
"""The indices of the components that a party holds, in the order of its arrays."""


def packed_size(bits: int) -> int:
    """Return the number of bytes that hold this many bits."""
    return (bits + 7) // 8


def _same_holder(a: Held, b: Held) -> None:
    if a != b:
        raise InputError(
            "SFY-ENG-001", "These shared values belong to different parties or engines."
        )


class Additive(Shared):
    """Integers modulo 2^(64 * limbs), shared additively: an array (held, limbs, size)."""

    __slots__ = ("components", "held")
    _mismatch = "SFY-ENG-003"

    def __init__(self, components: Limbs, held: Held) -> None:
        self.components = components
        self.held = held

    @property
    def size(self) -> int:
        return int(self.components.shape[2])

    @property
    def limbs(self) -> int:
        return int(self.components.shape[1])

    def exact(self) -> Limbs:
        """The components, without limbs whose only purpose is a check."""
        return self.components

    def __add__(self, other: Shared | Public) -> "Additive":
        """Sum; a public constant goes to component 0."""
        return self._combined(wide.add, other)

    def __neg__(self) -> "Additive":
        return self._each(wide.negate)

    def __sub__(self, other: Shared | Public) -> "Additive":
        return self._combined(wide.subtract, other)

    def __mul__(self, factor: Public) -> "Additive":
        scalar = isinstance(factor, int | np.integer)
        checked = int(factor) if scalar else self._public(factor)
        return self._each(lambda x: wide.scale(x, checked))

    def __lshift__(self, bits: int) -> "Additive":
        return self._each(lambda x: wide.shift_left(x, bits))

    def __getitem__(self, index: Index) -> "Additive":
        chosen = self.components[:, :, index]
        if chosen.ndim != 3:
            raise TypeError(f"Index {self!r} by a slice or a vector of positions.")
        return type(self)(chosen, self.held)

    def _concatenated(self, others: Sequence[Shared]) -> "Additive":
        parts = [self._matching(other, same_size=False).components for other in others]
        return type(self)(np.concatenate([self.components, *parts], axis=2), self.held)

    def _each(self, operation: Callable[..., Limbs], *others: Limbs) -> "Additive":
        """The result of an operation on each component, and on those of others."""
        result = np.empty_like(self.components)
        for own, *parts in zip(result, self.components, *others, strict=True):
            own[:] = operation(*parts)
        return type(self)(result, self.held)

    def _combined(
        self, operation: Callable[[Limbs, Limbs], Limbs], other: Shared | Public
    ) -> "Additive":
        if isinstance(other, Shared):
            return self._each(operation, self._matching(other).components)
        constant = self._public(other)
        changed = self.components.copy()
        if 0 in self.held:
            k = self.held.index(0)
            changed[k] = operation(changed[k], constant)
        return type(self)(changed, self.held)

    def _matching(self, other: Shared, *, same_size: bool = True) -> "Additive":
        """Return the other operand, if its shape and its holder are those of this one."""
        operand = additive(other)
        if operand.limbs != self.limbs or (same_size and operand.size != self.size):
            raise InputError("SFY-ENG-002", f"{self!r} and {operand!r} do not go together.")
        _same_holder(self.held, operand.held)
        return operand

    def _public(self, value: Public) -> Limbs:
        known = self._checked(value)
        return wide.from_ints([known], self.limbs) if isinstance(known, int) else known


class AdditiveBits(SharedBits):
    """Bits, shared by exclusive or: an array (held, ...) with the shape of the bits, packed."""

    __slots__ = ("_size", "components", "held")

    def __init__(self, components: PackedBits, held: Held, *, size: int) -> None:
        self.components = components
        self.held = held
        self._size = size

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.components.shape[1:-1], self._size)

    def __getitem__(self, index: Any) -> "AdditiveBits":
        bits = unpack(self.components, self._size)
        if isinstance(index, np.ndarray) and index.dtype == bool and index.shape == self.shape:
            # The same as below, but NumPy is much slower where an axis comes before the mask.
            picked = bits.reshape(len(bits), index.size).compress(index.ravel(), axis=1)
        else:
            picked = bits[:, *(index if isinstance(index, tuple) else (index,))]
        if picked.ndim < 2:
            raise TypeError(f"Index {self!r} by something that gives an array, say a slice.")
        return AdditiveBits(pack(picked), self.held, size=picked.shape[-1])

    def like(self, components: PackedBits) -> "AdditiveBits":
        """Bits of the same holder, as many in the last axis."""
        return AdditiveBits(components, self.held, size=self._size)

    def __xor__(self, other: "AdditiveBits") -> "AdditiveBits":
        _same_holder(self.held, other.held)
        return self.like(self.components ^ other.components)

    def planes(self, index: slice | NDArray[np.integer[Any]]) -> "AdditiveBits":
        """Return some of the first axis of the bits, without unpacking."""
        return self.like(self.components[:, index])

    def with_planes(self, index: NDArray[np.integer[Any]], new: "AdditiveBits") -> "AdditiveBits":
        """Return the same with some of the first axis of the bits replaced."""
        changed = self.components.copy()
        changed[:, index] = new.components
        return self.like(changed)


def stack(parts: Sequence[AdditiveBits]) -> AdditiveBits:
    """Join along the first axis of the bits."""
    joined = np.concatenate([part.components for part in parts], axis=1)
    return parts[0].like(joined)


def pack(bits: NDArray[np.uint8]) -> PackedBits:
    """Pack eight bits of the last axis into a byte."""
    return np.packbits(bits, axis=-1, bitorder="little")


def unpack(packed: PackedBits, size: int) -> NDArray[np.uint8]:
    """Return the first `size` bits of the last axis."""
    return np.unpackbits(packed, axis=-1, count=size, bitorder="little")


def additive(value: Shared) -> Additive:
    """Return a value of this module; refuse one of another engine."""
    if not isinstance(value, Additive):
        raise TypeError(f"{value!r} belongs to another engine.")
    return value


def additive_bits(value: SharedBits) -> AdditiveBits:
    """Return a value of this module; refuse one of another engine."""
    if not isinstance(value, AdditiveBits):
        raise TypeError(f"{value!r} belongs to another engine.")
    return value


def bit_planes(values: Limbs) -> PackedBits:
    """Return the bits of all values, bit-sliced: row j has bit j of every value, packed."""
    limbs, size = values.shape
    if loops := kernel.loops():
        planes: PackedBits = np.empty((64 * limbs, packed_size(size)), dtype=np.uint8)
        loops.bit_planes(np.require(values, np.uint64, ["C", "A"]), limbs, size, planes)
        return planes
    octets = values.astype("<u8").view(np.uint8).reshape(limbs, size, 8)
    bits = np.unpackbits(octets, axis=-1, bitorder="little")
    return pack(bits.transpose(0, 2, 1).reshape(64 * limbs, size))
