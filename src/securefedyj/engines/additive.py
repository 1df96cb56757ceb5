"""Shared values as sums of components, of which a party holds some.

x = x_0 + x_1 + ... modulo 2^k, or the exclusive or of bits. A party keeps the components it holds
by their index: all of them with engine `clear` (there is one), two of three in a committee, none
outside of it. Linear operations act on each component alone; a public constant goes to
component 0. The code is thus the same for all, and a party with no components has a
placeholder that knows its shape.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from securefedyj import limbs as wide
from securefedyj.engines.interface import Index, Public, Shared, SharedBits
from securefedyj.limbs import Limbs

PackedBits: TypeAlias = NDArray[np.uint8]
"""Bits with eight neighbours of the last axis in a byte, the first in the lowest bit.

NumPy's bitwise loops use vector instructions: bytes cost what words cost, without their padding.
"""


def packed_size(bits: int) -> int:
    """Return the number of bytes for so many bits."""
    return (bits + 7) // 8


def _same_holder(a: Mapping[int, Any], b: Mapping[int, Any]) -> None:
    if a.keys() != b.keys():
        raise ValueError("These shared values belong to different parties or engines.")


class Additive(Shared):
    """Integers modulo 2^(64 * limbs), shared additively."""

    __slots__ = ("_limbs", "_size", "components")

    def __init__(self, components: Mapping[int, Limbs], *, size: int, limbs: int) -> None:
        self.components = components
        self._size = size
        self._limbs = limbs

    @property
    def size(self) -> int:
        """How many values."""
        return self._size

    @property
    def limbs(self) -> int:
        """How many 64-bit limbs each."""
        return self._limbs

    def __add__(self, other: Shared | Public) -> "Additive":
        """Sum; a public constant goes to component 0."""
        if isinstance(other, Shared):
            mate = self._mate(other)
            return self._map(lambda i, x: wide.add(x, mate.components[i]))
        constant = self._public(other)
        return self._map(lambda i, x: wide.add(x, constant) if i == 0 else x)

    def __neg__(self) -> "Additive":
        """Negative."""
        return self._map(lambda _, x: wide.negate(x))

    def __sub__(self, other: Shared | Public) -> "Additive":
        """Difference."""
        if isinstance(other, Shared):
            mate = self._mate(other)
            return self._map(lambda i, x: wide.subtract(x, mate.components[i]))
        constant = self._public(other)
        return self._map(lambda i, x: wide.subtract(x, constant) if i == 0 else x)

    def __mul__(self, factor: Public) -> "Additive":
        """Product with public factors."""
        scalar = isinstance(factor, int | np.integer)
        checked = int(factor) if scalar else self._public(factor)
        return self._map(lambda _, x: wide.scale(x, checked))

    def __lshift__(self, bits: int) -> "Additive":
        """Product with 2^bits."""
        return self._map(lambda _, x: wide.shift_left(x, bits))

    def __getitem__(self, index: Index) -> "Additive":
        """The values at a slice, or at an array of positions or of truth values."""
        picked = np.arange(self._size)[index]
        if picked.ndim != 1:
            raise TypeError(f"Index {self!r} by a slice or a vector of positions.")
        chosen = {i: x[:, index] for i, x in self.components.items()}
        return Additive(chosen, size=picked.size, limbs=self._limbs)

    def _concatenated(self, others: Sequence[Shared]) -> "Additive":
        mates = [self._mate(other, same_size=False) for other in others]
        vectors = {
            i: np.concatenate([x, *(mate.components[i] for mate in mates)], axis=1)
            for i, x in self.components.items()
        }
        size = self._size + sum(mate.size for mate in mates)
        return Additive(vectors, size=size, limbs=self._limbs)

    def _map(self, operation: Callable[[int, Limbs], Limbs]) -> "Additive":
        changed = {i: operation(i, x) for i, x in self.components.items()}
        return Additive(changed, size=self._size, limbs=self._limbs)

    def _mate(self, other: Shared, *, same_size: bool = True) -> "Additive":
        """Return the other operand if it can stand beside this one."""
        mate = additive(other)
        if mate.limbs != self._limbs or (same_size and mate.size != self._size):
            raise ValueError(f"{self!r} and {mate!r} do not go together.")
        _same_holder(self.components, mate.components)
        return mate

    def _public(self, value: Public) -> Limbs:
        """Return a public operand as limbs."""
        if isinstance(value, int | np.integer):
            return wide.from_ints([int(value)], self._limbs)
        if isinstance(value, np.ndarray) and value.dtype == np.uint64:
            if value.shape == (self._limbs, self._size):
                return value
            raise ValueError(f"A public vector of shape {value.shape} does not match {self!r}.")
        raise TypeError(
            f"A public operand is an int or limbs, not {type(value).__name__}; "
            "for the product of shared vectors use engine.multiply."
        )


class AdditiveBits(SharedBits):
    """Bits, shared by exclusive or."""

    __slots__ = ("_shape", "components")

    def __init__(self, components: Mapping[int, PackedBits], *, shape: tuple[int, ...]) -> None:
        self.components = components
        self._shape = shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, unpacked."""
        return self._shape

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The shape of each component."""
        return (*self._shape[:-1], packed_size(self._shape[-1]))

    def __getitem__(self, index: Any) -> "AdditiveBits":
        """The bits at an index; see `SharedBits`."""
        # A view of no memory: what shape the index gives, without the bits.
        shape = np.broadcast_to(np.uint8(0), self._shape)[index].shape
        if not shape:
            raise TypeError(f"Index {self!r} by something that gives an array, say a slice.")
        picked = {i: pack(unpack(x, self._shape)[index]) for i, x in self.components.items()}
        return AdditiveBits(picked, shape=shape)

    def __xor__(self, other: "AdditiveBits") -> "AdditiveBits":
        """Sum modulo 2."""
        _same_holder(self.components, other.components)
        sums = {i: x ^ other.components[i] for i, x in self.components.items()}
        return AdditiveBits(sums, shape=self._shape)

    def planes(self, index: slice | NDArray[np.integer[Any]]) -> "AdditiveBits":
        """Return some of the first axis, without unpacking."""
        picked = {i: x[index] for i, x in self.components.items()}
        whole = range(self._shape[0])
        count = len(whole[index]) if isinstance(index, slice) else len(index)
        return AdditiveBits(picked, shape=(count, *self._shape[1:]))

    def with_planes(self, index: NDArray[np.integer[Any]], new: "AdditiveBits") -> "AdditiveBits":
        """Return the same with some of the first axis replaced."""
        changed = {i: x.copy() for i, x in self.components.items()}
        for i, x in changed.items():
            x[index] = new.components[i]
        return AdditiveBits(changed, shape=self._shape)


def stack(parts: Sequence[AdditiveBits]) -> AdditiveBits:
    """Join along the first axis."""
    joined = {i: np.concatenate([p.components[i] for p in parts]) for i in parts[0].components}
    count = sum(part.shape[0] for part in parts)
    return AdditiveBits(joined, shape=(count, *parts[0].shape[1:]))


def pack(bits: NDArray[np.uint8]) -> PackedBits:
    """Pack eight bits of the last axis into a byte."""
    return np.packbits(bits, axis=-1, bitorder="little")


def unpack(packed: PackedBits, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the bits of the given shape."""
    return np.unpackbits(packed, axis=-1, count=shape[-1], bitorder="little")


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
    """Return the bits of all values, bit-sliced: row j has bit j of every value, packed.

    Eight bytes, one of each of eight values, are one 8x8 matrix of bits in a word; it is transposed
    by three swaps (Warren, Hacker's Delight, section 7-3). Nothing is unpacked on the way.
    """
    limbs, size = values.shape
    groups = packed_size(size)
    padded = np.zeros((limbs, 8 * groups), dtype="<u8")
    padded[:, :size] = values
    octets = padded.view(np.uint8).reshape(limbs, groups, 8, 8)  # limb, group, value, byte
    matrices = np.ascontiguousarray(octets.transpose(0, 3, 1, 2)).view("<u8")
    for shift, mask in _SWAPS:
        swapped = (matrices ^ (matrices >> shift)) & mask
        matrices ^= swapped ^ (swapped << shift)
    rows = matrices.view(np.uint8).reshape(limbs, 8, groups, 8)  # limb, byte, group, bit
    return np.ascontiguousarray(rows.transpose(0, 1, 3, 2)).reshape(64 * limbs, groups)


_SWAPS = [
    (np.uint64(7), np.uint64(0x00AA_00AA_00AA_00AA)),
    (np.uint64(14), np.uint64(0x0000_CCCC_0000_CCCC)),
    (np.uint64(28), np.uint64(0x0000_0000_F0F0_F0F0)),
]
