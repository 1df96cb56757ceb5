"""The rounds and bytes of a program, found by running its text on shapes alone.

A party outside the committee computes with empty arrays that know their shape, and knows how many
bytes a member sends in each round. So it can run a program by itself: nothing is computed or sent.
"""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines.interface import Engine
from securefedyj.engines.replicated.engine import Replicated
from securefedyj.engines.replicated.keystream import Masks
from securefedyj.engines.replicated.shares import BITS, Components, D, Integers, Outsider, Ring
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import Round, play_round

_PEER, _MEMBERS, _SILO = "peer", ("first", "second", "third"), "silo"


class RoundCost(NamedTuple):
    """One round of a program."""

    kind: Kind
    size: int
    """Payload bytes of its largest message."""


def count_rounds(
    program: Callable[[Engine], Coroutine[Any, Any, Any]],
    integer: int = 0,
    bits: Iterable[int] = (),
) -> list[RoundCost]:
    """Run a program with an engine that counts; return its rounds in order.

    Each party outside the committee has data, and each member has none, which takes the most.

    Parameters
    ----------
    integer
        What every integer opens to.
    bits
        What the bits of each opening are; 0 for those after the last one.
    """
    role = _Counting(integer, bits)
    running = program(Replicated(role, Masks(), [_PEER], "", [_SILO]))
    rounds: list[RoundCost] = []
    try:
        request = running.send(None)
        while True:
            if isinstance(request, Round):
                rounds.append(RoundCost(request.kind, request.expected.get(_PEER, 0)))
            request = running.send({})
    except StopIteration:
        return rounds


class _Counting(Outsider):
    """Expects of a single peer what it knows to be sent."""

    def __init__(self, integer: int, bits: Iterable[int]) -> None:
        super().__init__(_MEMBERS, [])
        self._integer, self._bits = integer, iter(bits)

    async def pass_round(self, kind: Kind, sent: int) -> None:
        await play_round(kind, {}, {_PEER: sent})

    async def share(self, values: Limbs) -> Integers:
        await self.pass_round(Kind.INPUT, values.nbytes)
        return np.empty((0, *values.shape), dtype=np.uint64)

    async def open(self, ring: Ring[D], x: Components[D], *, every: bool = False) -> NDArray[D]:
        await self.pass_round(Kind.OPENING, 2 * ring.size(x))
        opened = np.zeros(x.shape[1:], ring.dtype)
        if ring is BITS:
            opened[:] = -next(self._bits, 0) & 0xFF
        else:
            opened[0] = self._integer
        return opened
