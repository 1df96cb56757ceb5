"""What the engine asks of MPyC: a few operations on vectors of field elements.

The library may be in the same process (`Library`), or in another one that was started for it
(`child.py` beside this file); the engine does not know. This module does not import the library.
"""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines.mpyc import zero_test

Residues: TypeAlias = NDArray[np.object_]
"""Elements of the prime field, as Python integers."""


class Operation(IntEnum):
    """What can be asked for; each takes one vector of shares, unless it says something else."""

    INPUT = 1
    """This party's integers become shares of the sum of all parties'."""
    MULTIPLY = 2
    """Two vectors."""
    NEGATIVE = 3
    """Shares of 1 where the integer is below zero, else of 0."""
    BITS = 4
    """Shares of all bits of integers that are not negative, one integer after the other."""
    OPEN = 5
    """The integers, modulo the prime."""
    ANNOUNCE = 6
    """Every party's one integer, in their order."""


class Answer(NamedTuple):
    """A vector, and the prime of its field."""

    residues: Residues
    prime: int


class Ask(Protocol):
    """Begins an operation on integers of so many limbs."""

    def __call__(self, operation: Operation, limbs: int, *operands: Residues) -> Any:
        """Return what to wait for; what comes of it is an `Answer`.

        Of no integers at all the answer is empty, and nothing is sent.
        """


class Library:
    """MPyC in this process.

    Parameters
    ----------
    mpc
        Its runtime, connected to the peers.
    """

    def __init__(self, mpc: Any) -> None:
        zero_test.install(mpc)
        self._mpc = mpc

    def __call__(self, operation: Operation, limbs: int, *operands: Residues) -> Awaitable[Answer]:
        """Begin at once: MPyC numbers messages by the order of calls."""
        kind = self._mpc.SecInt(64 * limbs)
        prime = int(kind.field.modulus)
        if not operands[0].size:
            return _answer(None, lambda _: [], prime)
        begun, finish = self._begin(operation, kind, 64 * limbs, operands)
        return _answer(begun, finish, prime)

    def _begin(
        self, operation: Operation, kind: Any, width: int, operands: tuple[Residues, ...]
    ) -> tuple[Awaitable[Any], Callable[[Any], Any]]:
        """What to wait for, and what makes residues of it."""
        mpc = self._mpc
        match operation:
            case Operation.ANNOUNCE:
                secret = kind(int(operands[0][0]))
                return mpc.output(mpc.input(secret)), list
            case Operation.INPUT:
                # MPyC reduces an array in place.
                dealt = mpc.input(kind.array(operands[0].copy()))
                return mpc.gather(dealt), lambda parts: sum(part.value for part in parts)
        shares = [kind.array(kind.field.array(x.copy(), check=False)) for x in operands]
        match operation:
            case Operation.OPEN:
                return mpc.output(*shares), list
            case Operation.MULTIPLY:
                result = mpc.np_multiply(*shares)
            case Operation.NEGATIVE:
                result = mpc.np_sgn(*shares, LT=True)
            case Operation.BITS:
                result = mpc.np_to_bits(*shares, l=width)
        return mpc.gather(result), lambda shared: shared.value.ravel()


async def _answer(begun: Awaitable[Any] | None, finish: Callable[[Any], Any], prime: int) -> Answer:
    values = finish(None if begun is None else await begun)
    residues = np.empty(len(values), dtype=object)
    residues[:] = [int(value) % prime for value in values]
    return Answer(residues, prime)
