"""Products that one cheating member cannot falsify (docs/protocol.md, section 8.1).

Integers have one limb more than they need. For every product z = x y (or sum of products) there is
another, c = a y, for a uniform a that no single member knows; both travel in one message. When all
of them have arrived everywhere, one factor t is opened, and rho = t x - a, which a hides. Then
t z - c - rho y = 0 if nothing is wrong. After SPDZ2k (CRYPTO 2018), and Eerikson and others (ITC
2020); docs/security-details.md, section 8, has the odds.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj import kernel
from securefedyj.engines.replicated.shares import INTEGERS, Integers, Member
from securefedyj.errors import Unverified
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind

HASH_BYTES = 32
Hash = hashlib.sha256


def hash_of(data: bytes) -> bytes:
    """Return the hash of some bytes, by which two members compare what both have."""
    return Hash(data).digest()


def must_agree(ours: bytes, theirs: bytes, what: str) -> None:
    """Raise unless both are the same; ``what`` does not depend on anything secret."""
    if not hmac.compare_digest(ours, theirs):
        raise Unverified(
            "SFY-ENG-025",
            f"A check has failed: {what} is not what the protocol asks for. One of the parties "
            "does not follow it. Nothing of the result was revealed, and there is none.",
        )


class _Factors(NamedTuple):
    """Components (held, limbs, terms, size), needed until their difference is opened."""

    x: Limbs
    a: Callable[[], tuple[Limbs, Limbs]]


class _Product(NamedTuple):
    """Components (held, limbs, terms, size), and (held, limbs, size) of the sums over terms."""

    y: Limbs
    z: Limbs
    c: Limbs


class Products:
    """The products of one member that are still to be checked."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._factors: list[_Factors] = []
        self._products: list[_Product] = []

    def __len__(self) -> int:
        """How many vectors of products were not checked yet."""
        return len(self._products)

    async def sum_of_products(self, x: Integers, y: Integers) -> Integers:
        """Multiply vectors side by side, of shape (held, limbs, terms, size), and add up."""
        a = self._member.set_aside(INTEGERS, x.shape[1:])
        local = [INTEGERS.local_product(factor, y) for factor in (x, a())]
        both = await self._member.reshare(INTEGERS, Kind.PRODUCT, np.concatenate(local, axis=1))
        z, c = np.split(both, 2, axis=2)
        self._factors.append(_Factors(x, a))
        self._products.append(_Product(y, z, c))
        return z

    async def check(self) -> None:
        """Raise unless all products since the last check are right."""
        factors, self._factors = self._factors, []
        products, self._products = self._products, []
        # A member waits for one other in a round of products. If it did not meet both, it might
        # reveal t to the third before that one has sent its products.
        shapes = repr([product.y.shape for product in products])
        await meet(self._member, hash_of(shapes.encode()), "the list of products")
        (t,) = (await open_random(self._member, 1)).tolist()
        rho = await self._open_differences(t, factors)
        await self._compare(
            _residue(t, product, own) for product, own in zip(products, rho, strict=True)
        )

    async def _open_differences(self, t: int, factors: list[_Factors]) -> list[Limbs]:
        """Open rho = t x - a, a component from one of its holders, its hash from the other.

        All members learn it. The factors are freed on the way: they are many.
        """
        kernel.give_back(sum(x.nbytes for x, _ in factors))
        sums, parts, other = [], [], Hash()
        while factors:
            x, a = factors.pop(0)
            own, others = (
                wide.subtract(_scaled(one, t), mask) for one, mask in zip(x, a(), strict=True)
            )
            sums.append(wide.add(own, others))
            parts.append(INTEGERS.to_bytes(own))
            other.update(INTEGERS.to_bytes(others))
        payload = b"".join(parts)
        del parts
        incoming = await self._member.among_members(
            {+1: payload, -1: other.digest()}, {-1: len(payload), +1: HASH_BYTES}
        )
        must_agree(hash_of(incoming[-1]), incoming[+1], "a masked factor")
        opened, start = [], 0
        for both in sums:
            end = start + both.nbytes
            third = INTEGERS.from_bytes(incoming[-1][start:end], both.shape)
            opened.append(wide.add(both, third))
            start = end
        return opened

    async def _compare(self, residues: Iterable[Limbs]) -> None:
        """Check that residues are 0: -(d_i + d_{i+1}), as a hash from i to i + 1, is d_{i+2}."""
        ours, theirs = Hash(), Hash()
        for own, other in residues:
            theirs.update(INTEGERS.to_bytes(wide.negate(wide.add(own, other))))
            ours.update(INTEGERS.to_bytes(other))
        incoming = await self._member.among_members({+1: theirs.digest()}, {-1: HASH_BYTES})
        must_agree(ours.digest(), incoming[-1], "a product")


async def meet(member: Member, word: bytes, what: str) -> None:
    """Wait for the same word from both other members: they have received all they waited for."""
    incoming = await member.among_members(
        dict.fromkeys((+1, -1), word), dict.fromkeys((+1, -1), len(word))
    )
    for theirs in incoming.values():
        must_agree(word, theirs, what)


async def open_random(member: Member, words: int) -> NDArray[np.uint64]:
    """Open uniform words, which nobody could know before. One round."""
    own, other = member.draw(INTEGERS, (words,))
    lacking = await member.among_members(
        {+1: INTEGERS.to_bytes(own), -1: INTEGERS.to_bytes(other)},
        dict.fromkeys((-1, +1), own.nbytes),
    )
    must_agree(lacking[-1], lacking[+1], "a random number")
    return own + other + INTEGERS.from_bytes(lacking[-1], own.shape)


def check_sizes(factors: int) -> tuple[int, ...]:
    """Bytes that a member sends to another in each round of `check`, for this many of factors."""
    return HASH_BYTES, 8, factors, HASH_BYTES


def _residue(t: int, product: _Product, rho: Limbs) -> Limbs:
    """Components of t z - c - sum of rho y."""
    return np.stack(
        [
            wide.subtract(wide.subtract(_scaled(z, t), c), wide.sum_of_products(rho, y))
            for y, z, c in zip(product.y, product.z, product.c, strict=True)
        ]
    )


def _scaled(x: Limbs, t: int) -> Limbs:
    return wide.scale(x.reshape(len(x), -1), t).reshape(x.shape)
