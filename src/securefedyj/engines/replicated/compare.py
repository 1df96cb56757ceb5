"""Bits of A + B: carry trees over generate and propagate (docs/protocol.md, section 8).

Generate g says that a carry starts in a stretch of positions, propagate p that one passes through.
At one position they are a b and a xor b. Neighbouring stretches combine by
(g, p) o (g', p') = (g xor p g', p p'), the higher one first. Each stage is one round of
shared products, bit-sliced over all values. No carry comes into the lowest stretch.

Bits come as planes: the axis after that of the components is the position, the lowest first.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import numpy as np

from securefedyj.engines.additive import AdditiveBits, PackedBits, stack

Product: TypeAlias = Callable[[AdditiveBits, AdditiveBits], Coroutine[Any, Any, AdditiveBits]]
PlaneProduct: TypeAlias = Callable[[PackedBits, PackedBits], Coroutine[Any, Any, PackedBits]]


async def carry_out(carries: PackedBits, product: PlaneProduct) -> PackedBits:
    """Return the one plane of carries out of the highest stretch, in ceil(log2(stretches)) rounds.

    Only this one is wanted, so each stage halves the number of stretches. The axes are those of the
    components, of generate and propagate, of the stretches, and of the packed values.
    """
    while (count := carries.shape[2]) > 1:
        paired = count - count % 2
        lower, higher = carries[:, :, 0:paired:2], carries[:, :, 1:paired:2]
        combined = await product(higher[:, 1:], lower)  # propagate of the higher one times both
        combined[:, 0] ^= higher[:, 0]
        if paired < count:
            combined = np.concatenate([combined, carries[:, :, paired:]], axis=2)
        carries = combined
    return carries[:, 0, 0]


async def all_bits(
    a: AdditiveBits, b: AdditiveBits, product: Product, *, sparing: bool = False
) -> AdditiveBits:
    """Return all planes of a + b from those of a and b.

    In 1 + ceil(log2(width - 1)) rounds; or, sparing gates, in almost twice as many with half of the
    gates or less.
    """
    width = a.shape[0]
    low = slice(0, width - 1)
    propagate = a ^ b
    generate = await product(a.planes(low), b.planes(low))
    tree = _few_gates if sparing else _few_rounds
    carries = await tree(generate, propagate.planes(low), product)
    upper = propagate.planes(slice(1, None)) ^ carries
    return stack([propagate.planes(slice(0, 1)), upper])


async def _few_rounds(
    generate: AdditiveBits, propagate: AdditiveBits, product: Product
) -> AdditiveBits:
    """Return the carries out of every position (Sklansky's prefix tree).

    At each stage the upper half of every block of 2 * half positions takes in the carry of the
    highest position of the lower half. A plane may serve many others: copies cost nothing here,
    so Sklansky's tree is better than Kogge and Stone's, with half the products in the same depth.
    """
    positions = np.arange(generate.shape[0])
    half = 1
    while half < positions.size:
        upper = positions[positions // half % 2 == 1]
        inner = upper[upper >= 2 * half]  # the lowest block's propagate is never asked for
        products = await product(
            stack([propagate.planes(upper), propagate.planes(inner)]),
            stack(
                [
                    generate.planes(upper // half * half - 1),
                    propagate.planes(inner // half * half - 1),
                ]
            ),
        )
        started, passed = (
            products.planes(slice(len(upper))),
            products.planes(slice(len(upper), None)),
        )
        generate = generate.with_planes(upper, generate.planes(upper) ^ started)
        propagate = propagate.with_planes(inner, passed)
        half *= 2
    return generate


async def _few_gates(
    generate: AdditiveBits, propagate: AdditiveBits, product: Product
) -> AdditiveBits:
    """Return the carries out of every position (Brent and Kung's prefix tree).

    First blocks of 2, 4, 8, ... positions are combined, each in its highest position. Then, from
    the largest blocks down, the middle of each takes in all that is below.
    """
    count, half = generate.shape[0], 1
    while 2 * half <= count:
        ends = np.arange(2 * half - 1, count, 2 * half)
        inner = ends[1:]  # the lowest block's propagate is never asked for
        products = await product(
            stack([propagate.planes(ends), propagate.planes(inner)]),
            stack([generate.planes(ends - half), propagate.planes(inner - half)]),
        )
        started = generate.planes(ends) ^ products.planes(slice(len(ends)))
        generate = generate.with_planes(ends, started)
        propagate = propagate.with_planes(inner, products.planes(slice(len(ends), None)))
        half *= 2
    while half > 1:
        half //= 2
        middles = np.arange(3 * half - 1, count, 2 * half)
        if len(middles):
            lower = generate.planes(middles - half)
            started = generate.planes(middles) ^ await product(propagate.planes(middles), lower)
            generate = generate.with_planes(middles, started)
    return generate
