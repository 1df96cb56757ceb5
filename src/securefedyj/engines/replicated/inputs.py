"""Inputs of a verified exchange: the same at both holders, and none of a helper.

docs/protocol.md, section 8.1, "share". The components of an outsider's input follow from keys, or
are compared by their holders, so no member can add anything to it. Both neighbours of a helper know
what it may send.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from securefedyj.engines.additive import Held
from securefedyj.engines.replicated import products
from securefedyj.engines.replicated.keystream import KEY_BYTES, Keystream, fresh_key
from securefedyj.engines.replicated.shares import INTEGERS, Integers, Member, Outsider
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import play_round

_KEYED = (0, 1)
"""The components of an outsider's input that are drawn from keys."""


class Givers(NamedTuple):
    """The parties that give inputs, other than members with data."""

    outsiders: Sequence[str]
    """Parties with data outside of the committee."""
    helpers: Sequence[str]
    """Members without data."""

    @property
    def to_check(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self.outsiders or self.helpers)


async def share_as_member(member: Member, values: Limbs, givers: Givers) -> Integers:
    """Share the sum of all inputs. Two rounds, or one where there is nothing to compare."""
    plus, minus = member.draw(INTEGERS, values.shape)
    own = wide.subtract(wide.add(values, plus), minus)
    payload = INTEGERS.to_bytes(own)
    sizes = sum(KEY_BYTES if i in _KEYED else len(payload) for i in member.held)
    incoming = await play_round(
        Kind.INPUT,
        {member.previous: payload},
        {member.following: len(payload), **dict.fromkeys(givers.outsiders, sizes)},
    )
    received = INTEGERS.from_bytes(incoming[member.following], values.shape)
    given = np.zeros((2, *values.shape), dtype=np.uint64)
    seen = [products.Hash(), products.Hash()]
    for outsider in givers.outsiders:
        for k, part in enumerate(_given(incoming[outsider], member.held, values.shape)):
            seen[k].update(INTEGERS.to_bytes(part))
            given[k] = wide.add(given[k], part)
    if givers.to_check:
        await _compare(
            member, givers, [one.digest() for one in seen], plus, wide.subtract(minus, received)
        )
    return np.stack([wide.add(own, given[0]), wide.add(received, given[1])])


async def share_as_outsider(
    name: str, outsider: Outsider, values: Limbs, givers: Givers
) -> Integers:
    """Share this party's input, if it has data; else pass the rounds."""
    if name in givers.outsiders:
        keys = {i: fresh_key() for i in _KEYED}
        rest = values
        for key in keys.values():
            rest = wide.subtract(rest, Keystream(key).draw(values.shape, INTEGERS.dtype))
        parts = {**keys, 2: INTEGERS.to_bytes(rest)}
        outgoing = {
            holder: parts[i] + parts[(i + 1) % 3] for i, holder in enumerate(outsider.committee)
        }
        await play_round(Kind.INPUT, outgoing, {})
    else:
        await outsider.pass_round(Kind.INPUT, KEY_BYTES + max(KEY_BYTES, values.nbytes))
    if givers.to_check:
        await outsider.pass_round(Kind.CHECK, products.HASH_BYTES)
    return np.empty((0, *values.shape), dtype=np.uint64)


async def _compare(
    member: Member, givers: Givers, seen: Sequence[bytes], plus: Limbs, of_helper: Limbs
) -> None:
    """Compare what outsiders gave with the other holders; and what helpers gave with zero.

    Member i sends the hash of component i to member i - 1. ``of_helper`` is G(k_{h+1}), as it
    follows from what member h = i + 1 has sent if its input is zero.
    """
    outgoing, expected = {}, {}
    if givers.outsiders:
        outgoing[-1] = seen[0]
        expected[+1] = products.HASH_BYTES
    if member.previous in givers.helpers:
        outgoing[+1] = products.hash_of(INTEGERS.to_bytes(plus))
    if member.following in givers.helpers:
        expected[-1] = products.HASH_BYTES
    incoming = await member.among_members(outgoing, expected)
    if givers.outsiders:
        products.must_agree(seen[1], incoming[+1], "the input of a party outside the committee")
    if member.following in givers.helpers:
        wanted = products.hash_of(INTEGERS.to_bytes(of_helper))
        products.must_agree(wanted, incoming[-1], "the input of a helper, which must be none,")


def _given(payload: bytes, held: Held, shape: tuple[int, ...]) -> list[Limbs]:
    """The components of an outsider's input that a member holds."""
    parts, start = [], 0
    for i in held:
        size = KEY_BYTES if i in _KEYED else 8 * int(np.prod(shape))
        data = payload[start : start + size]
        start += size
        parts.append(
            Keystream(data).draw(shape, INTEGERS.dtype)
            if i in _KEYED
            else INTEGERS.from_bytes(data, shape)
        )
    return parts
