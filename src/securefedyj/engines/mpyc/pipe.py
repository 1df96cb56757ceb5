"""Messages between a party and the process that computes with MPyC for it, through a pipe.

They take turns. The party sends a question: work to begin, or bytes that a peer has sent. The
process computes as far as it can and answers with a turn. Nothing is pickled.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, BinaryIO, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

Residues: TypeAlias = NDArray[np.object_]
"""Elements of the prime field, as Python integers."""

HELD = 256
"""Bytes of memory that a waiting message takes in addition to its payload."""

_LENGTH = struct.Struct("!Q")


class Operation(IntEnum):
    """What MPyC computes; on one vector of shares, unless stated otherwise."""

    INPUT = 1
    """This party's integers become shares of the sum of all parties' integers."""
    MULTIPLY = 2
    """Two vectors."""
    NEGATIVE = 3
    """Shares of 1 where the integer is below zero, else of 0."""
    BITS = 4
    """Shares of all bits of integers that are not negative, one integer after the other."""
    OPEN = 5
    """The integers, modulo the prime."""
    ANNOUNCE = 6
    """One public integer of every party, in their order."""


class Work(msgspec.Struct, frozen=True, array_like=True):
    """An operation to begin. Its answer is a packed vector, after the prime of the field.

    The answer for no integers at all has none, and nothing is sent for it.
    """

    operation: Operation
    limbs: int
    operands: tuple[bytes, ...]
    """Packed vectors of the same size."""


class Piece(msgspec.Struct, frozen=True):
    """Bytes that a peer has sent."""

    sender: int
    data: bytes


Question: TypeAlias = Sequence[Work] | Piece
QUESTION = list[Work] | Piece


class Turn(msgspec.Struct, frozen=True):
    """The outcome of a question."""

    sent: list[bytes]
    """Bytes for each party, in their order."""
    lacking: list[int]
    """The parties whose messages are awaited."""
    answers: list[bytes] | None
    """The answers to all the work that was begun last; None until the last of them is there."""
    failure: str
    """Why MPyC cannot continue; empty if it can."""


def write(stream: BinaryIO, message: Question | Turn) -> None:
    """Send a message to the other end."""
    data = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read(stream: BinaryIO, kind: type[T] | Any) -> T:
    """Wait for a message; EOFError if the other end has closed the pipe."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    message: T = msgspec.msgpack.decode(_exactly(stream, length), type=kind)
    return message


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the other end of the pipe was closed")
    return data


def pack(residues: Residues, limbs: int) -> bytes:
    """Return field elements, or signed inputs, as bytes."""
    return b"".join(int(value).to_bytes(element_bytes(limbs), signed=True) for value in residues)


def unpack(data: bytes, limbs: int) -> Residues:
    """Return what `pack` was given."""
    width = element_bytes(limbs)
    residues = np.empty(len(data) // width, dtype=object)
    for k in range(len(residues)):
        residues[k] = int.from_bytes(data[k * width : (k + 1) * width], signed=True)
    return residues


def element_bytes(limbs: int) -> int:
    """Bytes of a field element, which has 66 bits more than the limbs, or of a signed input."""
    return 8 * limbs + 9
