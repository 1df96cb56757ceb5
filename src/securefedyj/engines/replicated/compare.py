"""Bits of A + B from shared bits of A and B: carry trees over generate and propagate.

At position j, generate g = a b says that a carry starts there and propagate p = a xor b that one
passes through. Neighbouring stretches combine by (g, p) o (g', p') = (g xor p g', p p'), the higher
one first. Each level is one round of shared products, bit-sliced over all values.

Bits come as planes: the first axis is the position, the lowest first.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import numpy as np

from securefedyj.engines.additive import AdditiveBits, stack
from securefedyj.rounds import together

Product: TypeAlias = Callable[[AdditiveBits, AdditiveBits], Coroutine[Any, Any, AdditiveBits]]


async def top_bit(a: AdditiveBits, b: AdditiveBits, product: Product) -> AdditiveBits:
    """Return the plane of the highest bit of a + b, in 1 + ceil(log2(width - 1)) rounds.

    Only the carry into the top is wanted, so each level halves the number of stretches.
    """
    low = slice(0, a.shape[0] - 1)
    top = slice(a.shape[0] - 1, None)
    propagate = a ^ b
    generate = await product(a.planes(low), b.planes(low))
    carry = await _carry_out(generate, propagate.planes(low), product)
    return propagate.planes(top) ^ carry


async def _carry_out(
    generate: AdditiveBits, propagate: AdditiveBits, product: Product
) -> AdditiveBits:
    """Return the one plane of carries out of the highest position."""
    while (count := generate.shape[0]) > 1:
        paired = count - count % 2
        lower, upper = slice(0, paired, 2), slice(1, paired, 2)
        unpaired = slice(paired, None)
        # No carry comes in from below, so propagate of the lowest stretch is never asked for.
        started, passed = await together(
            product(propagate.planes(upper), generate.planes(lower)),
            product(propagate.planes(slice(3, paired, 2)), propagate.planes(slice(2, paired, 2))),
        )
        unused = propagate.planes(slice(0, 1))
        generate = stack([generate.planes(upper) ^ started, generate.planes(unpaired)])
        propagate = stack([unused, passed, propagate.planes(unpaired)])
    return generate


async def all_bits(a: AdditiveBits, b: AdditiveBits, product: Product) -> AdditiveBits:
    """Return all planes of a + b, in as many rounds as `top_bit`."""
    width = a.shape[0]
    low = slice(0, width - 1)
    propagate = a ^ b
    generate = await product(a.planes(low), b.planes(low))
    carries = await _all_carries(generate, propagate.planes(low), product)
    upper = propagate.planes(slice(1, None)) ^ carries
    return stack([propagate.planes(slice(0, 1)), upper])


async def _all_carries(
    generate: AdditiveBits, propagate: AdditiveBits, product: Product
) -> AdditiveBits:
    """Return the carries out of every position (Sklansky's prefix tree).

    At each level the upper half of every block of 2 * half positions takes in the carry of the
    highest position of the lower half. A plane may serve many others: copies cost nothing here,
    so Sklansky's tree is better than Kogge and Stone's, with half the products in the same depth.
    """
    positions = np.arange(generate.shape[0])
    half = 1
    while half < positions.size:
        upper = positions[positions // half % 2 == 1]
        inner = upper[upper >= 2 * half]  # the lowest block's propagate is never asked for
        started, passed = await together(
            product(propagate.planes(upper), generate.planes(upper // half * half - 1)),
            product(propagate.planes(inner), propagate.planes(inner // half * half - 1)),
        )
        generate = generate.with_planes(upper, generate.planes(upper) ^ started)
        propagate = propagate.with_planes(inner, passed)
        half *= 2
    return generate
