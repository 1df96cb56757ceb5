"""Circuits over shared bits, by conjunctions alone (docs/protocol.md, sections 8 and 8.1).

Every conjunction goes through the `Product` that is passed in, which may keep a record of it.
Generate g says that a carry starts in a stretch of positions, propagate p that one passes through.
Neighbouring stretches combine by (g, p) o (g', p') = (g xor p g', p p'), the higher one first. Each
stage is one round of shared products, bit-sliced over all values.

Bits come as planes: the axis after that of the components is the position, the lowest first.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines.additive import (
    AdditiveBits,
    Held,
    PackedBits,
    bit_planes,
    pack,
    packed_size,
    stack,
    unpack,
)
from securefedyj.engines.replicated.keystream import Keystream
from securefedyj.numerics.wide import Limbs

_WORD = np.dtype("<u8")

Product: TypeAlias = Callable[[AdditiveBits, AdditiveBits], Coroutine[Any, Any, AdditiveBits]]


def summands(x: Limbs, held: Held) -> list[AdditiveBits]:
    """The bits of the components of integers (held, limbs, size), shared without a message."""
    _, limbs, size = x.shape
    parts = []
    for component in range(3):
        planes: PackedBits = np.zeros((len(held), 64 * limbs, packed_size(size)), dtype=np.uint8)
        if component in held:
            k = held.index(component)
            planes[k] = bit_planes(x[k])
        parts.append(AdditiveBits(planes, held, size=size))
    return parts


async def carry_save(
    parts: list[AdditiveBits], product: Product
) -> tuple[AdditiveBits, AdditiveBits]:
    """Two integers of three with the same sum: bits at all positions, and carries into 1 and up.

    The second has one plane less, because position 0 has no carry. One round, a gate per carry.
    The parts, which are large, are freed.
    """
    a, b, c = parts
    parts.clear()
    bits, low = a ^ b ^ c, slice(0, a.shape[0] - 1)
    factors = (a ^ c).planes(low), (b ^ c).planes(low)
    del a, b
    return bits, (await product(*factors)) ^ c.planes(low)


async def top_bit(parts: list[AdditiveBits], product: Product) -> AdditiveBits:
    """The highest bit of the sum of three integers: the sign. About 4 gates per position."""
    bits, carries = await carry_save(parts, product)
    upper, low = bits.planes(slice(1, None)), slice(0, carries.shape[0] - 1)
    propagate = upper ^ carries
    highest = propagate.like(propagate.components[:, -1].copy())
    factors = upper.planes(low), carries.planes(low)
    del bits, upper, carries
    generate = await product(*factors)
    del factors
    both = _of_positions(generate, propagate.planes(low))
    del generate, propagate
    return highest ^ await carry_out(both, product)


def _of_positions(generate: AdditiveBits, propagate: AdditiveBits) -> AdditiveBits:
    """What `carry_out` takes."""
    return generate.like(np.stack([generate.components, propagate.components], axis=1))


async def all_bits(parts: list[AdditiveBits], product: Product) -> AdditiveBits:
    """All planes of the sum of three integers. About 5 gates per position."""
    bits, carries = await carry_save(parts, product)
    lowest, upper = bits.planes(slice(0, 1)), bits.planes(slice(1, None))
    del bits
    return stack([lowest, await sum_bits(upper, carries, product, sparing=True)])


async def is_zero(parts: list[AdditiveBits], product: Product) -> AdditiveBits:
    """1 where the sum of three integers is 0. Three gates per position.

    a + b = 0 if and only if a_0 xor b_0 = 0 and a_j xor b_j = a_{j-1} or b_{j-1} for j > 0: as long
    as all lower bits of the sum are 0, a carry comes from where a or b has a 1.
    """
    a, b = await carry_save(parts, product)  # b begins at position 1
    low = slice(0, b.shape[0] - 1)
    inner = a.planes(slice(1, -1))
    either = inner ^ b.planes(low) ^ await product(inner, b.planes(low))
    before = stack([a.planes(slice(0, 1)), either])
    equal = stack([a.planes(slice(0, 1)), a.planes(slice(1, None)) ^ b ^ before])
    return await all_of(inverted(equal), product)


async def reached(planes: AdditiveBits, step: int, product: Product) -> AdditiveBits:
    """Whether integers reach 2^step, 2^(2 step), ...: whether a bit there or above is 1.

    The integers are not negative. ``step`` is a power of 2, and divides the number of planes.
    """
    stretches = planes.shape[0] // step - 1
    some = planes.planes(slice(step, None))
    while some.shape[0] > stretches:  # neighbours, until there is one plane of each stretch
        some = await disjunction(
            some.planes(slice(0, None, 2)), some.planes(slice(1, None, 2)), product
        )
    for upper, lower, _ in _few_rounds(stretches):  # from the highest stretch down
        here, above = stretches - 1 - upper[::-1], stretches - 1 - lower[::-1]
        either = await disjunction(some.planes(here), some.planes(above), product)
        some = some.with_planes(here, either)
    return some


def folded(planes: AdditiveBits) -> AdditiveBits:
    """x where an integer x is not negative, and -x - 1 where it is. Its highest bit is 0."""
    return planes.like(planes.components ^ planes.components[:, -1:])


async def below(planes: AdditiveBits, bounds: Sequence[int], product: Product) -> AdditiveBits:
    """Planes that are all 1 where unsigned integers are below their positive, public bounds.

    From the top, the first position at which an integer and its bound differ decides: "below" is
    generated where the bound has the 1, and passed on where they are equal. Positions that no bound
    reaches must be 0, and those below the last 1 of all bounds do not matter. About two gates for
    each position between.
    """
    low = min((bound & -bound).bit_length() for bound in bounds) - 1
    high = max(bound.bit_length() for bound in bounds)
    public = np.array(
        [[bound >> j & 1 for bound in bounds] for j in range(low, high)], dtype=np.uint8
    )
    unequal = plus_public(planes.planes(slice(low, high)), public)
    generate = unequal.like(unequal.components & pack(public))
    decided = await carry_out(_of_positions(generate, inverted(unequal)), product)
    less = decided.like(decided.components[:, None])
    return stack([inverted(planes.planes(slice(high, None))), less])


async def all_of(planes: AdditiveBits, product: Product) -> AdditiveBits:
    """The conjunction of all planes: a single plane."""
    while (half := planes.shape[0] // 2) > 0:
        both = await product(planes.planes(slice(0, half)), planes.planes(slice(half, 2 * half)))
        planes = stack([both, planes.planes(slice(2 * half, None))])
    return planes


def random_sums(vector: AdditiveBits, keystream: Keystream) -> AdditiveBits:
    """64 planes of one bit: the sum of each of 64 random subsets of a vector.

    Bit j of the n-th word that is drawn says whether the n-th bit belongs to subset j.
    """
    bits = unpack(vector.components, vector.shape[0])
    words = keystream.draw(vector.shape, _WORD)
    sums = np.array([np.bitwise_xor.reduce(words[own == 1]) for own in bits], dtype=_WORD)
    return separated(AdditiveBits(sums.view(np.uint8).reshape(-1, 8), vector.held, size=64), 1)


async def disjunction(a: AdditiveBits, b: AdditiveBits, product: Product) -> AdditiveBits:
    return a ^ b ^ await product(a, b)


def joined(vectors: list[AdditiveBits]) -> AdditiveBits:
    """One vector of the bits of some arrays, in order."""
    held = vectors[0].held
    bits = [
        unpack(one.components, one.shape[-1]).reshape(len(held), int(np.prod(one.shape)))
        for one in vectors
    ]
    together = np.concatenate(bits, axis=1)
    return AdditiveBits(pack(together), held, size=together.shape[1])


def separated(vector: AdditiveBits, size: int) -> AdditiveBits:
    """The planes of `size` bits each that `joined` has made into one vector."""
    held, (total,) = vector.held, vector.shape
    bits = unpack(vector.components, total).reshape(len(held), total // max(1, size), size)
    return AdditiveBits(pack(bits), held, size=size)


def inverted(bits: AdditiveBits) -> AdditiveBits:
    return plus_public(bits, np.ones(bits.shape, dtype=np.uint8))


def plus_public(bits: AdditiveBits, public: NDArray[np.uint8]) -> AdditiveBits:
    """Add public bits: to component 0."""
    changed = bits.components.copy()
    if 0 in bits.held:
        changed[bits.held.index(0)] ^= pack(public)
    return bits.like(changed)


async def carry_out(carries: AdditiveBits, product: Product) -> AdditiveBits:
    """Return the carries out of the highest stretch, in ceil(log2(stretches)) rounds.

    Only these are wanted, so each stage halves the number of stretches. The axes of ``carries`` are
    generate and propagate, the stretches, and the values.
    """
    parts = carries.components
    while (count := parts.shape[2]) > 1:
        paired = count - count % 2
        lower, higher = parts[:, :, 0:paired:2], parts[:, :, 1:paired:2]
        passed = np.broadcast_to(higher[:, 1:], lower.shape)  # propagate of the higher one
        combined = (await product(carries.like(passed), carries.like(lower))).components
        combined[:, 0] ^= higher[:, 0]
        if paired < count:
            combined = np.concatenate([combined, parts[:, :, paired:]], axis=2)
        parts = combined
    return carries.like(parts[:, 0, 0])


Stage: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]
"""Positions whose stretch takes in a lower one, the top of that one, and where more is below it."""


async def sum_bits(
    a: AdditiveBits, b: AdditiveBits, product: Product, *, sparing: bool = False
) -> AdditiveBits:
    """Return all planes of a + b from those of a and b.

    In 1 + ceil(log2(width - 1)) rounds; or, sparing gates, in almost twice as many with half of the
    gates or less.
    """
    low = slice(0, a.shape[0] - 1)
    bits, factors = a ^ b, (a.planes(low), b.planes(low))
    del a, b
    propagate = bits.planes(low)
    generate = await product(*factors)
    del factors
    for upper, lower, further in (_few_gates if sparing else _few_rounds)(propagate.shape[0]):
        inner = upper[further]  # the propagate of the lowest stretch is never asked for
        products = await product(
            stack([propagate.planes(upper), propagate.planes(inner)]),
            stack([generate.planes(lower), propagate.planes(lower[further])]),
        )
        started = products.planes(slice(len(upper)))
        generate = generate.with_planes(upper, generate.planes(upper) ^ started)
        if len(inner):
            propagate = propagate.with_planes(inner, products.planes(slice(len(upper), None)))
    return stack([bits.planes(slice(0, 1)), bits.planes(slice(1, None)) ^ generate])


def _few_rounds(count: int) -> Iterator[Stage]:
    """Sklansky's prefix tree.

    At each stage the upper half of every block of 2 * half positions takes in the highest position
    of the lower half. A plane may serve many others: copies cost nothing here, so Sklansky's tree
    is better than Kogge and Stone's, with half the products in the same depth.
    """
    positions, half = np.arange(count), 1
    while half < count:
        upper = positions[positions // half % 2 == 1]
        yield upper, upper // half * half - 1, upper >= 2 * half
        half *= 2


def _few_gates(count: int) -> Iterator[Stage]:
    """Brent and Kung's prefix tree.

    First blocks of 2, 4, 8, ... positions are combined, each in its highest position. Then, from
    the largest blocks down, the middle of each takes in all that is below.
    """
    half = 1
    while 2 * half <= count:
        ends = np.arange(2 * half - 1, count, 2 * half)
        yield ends, ends - half, ends >= 2 * half
        half *= 2
    while half > 1:
        half //= 2
        middles = np.arange(3 * half - 1, count, 2 * half)
        if len(middles):
            yield middles, middles - half, np.zeros(len(middles), dtype=bool)
