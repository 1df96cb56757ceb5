"""What a party and the process that computes for it say to each other, through a pipe.

They take turns. The party sends a question, which is work to begin or what a peer has sent; the
process goes as far as it can, and answers with a turn. Both are lists of byte strings, with
their lengths in front. Nothing is pickled.
"""

import struct
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from securefedyj.engines.mpyc.operations import Answer, Operation, Residues

HELD = 256
"""Bytes of memory for a message of a peer that waits, besides what is in it."""

_COUNT = struct.Struct("!I")
_LENGTH = struct.Struct("!Q")
_WORK = struct.Struct("!BHB")  # operation, limbs, operands


class Work(NamedTuple):
    """An operation to begin."""

    operation: Operation
    limbs: int
    operands: tuple[Residues, ...]


class Turn(NamedTuple):
    """What has come of a question."""

    sent: Sequence[bytes]
    """Bytes for each party, in their order."""
    lacking: Sequence[int]
    """The parties that something is waited for."""
    answers: Sequence[Answer] | None
    """What has come of all the work that was to begin; None as long as it goes on."""
    failure: str
    """A sentence, if it cannot go on."""


def write(stream: BinaryIO, parts: Sequence[bytes]) -> None:
    """Write byte strings that the other end reads as one list."""
    lengths = (_LENGTH.pack(len(part)) for part in parts)
    stream.write(b"".join([_COUNT.pack(len(parts)), *lengths, *parts]))
    stream.flush()


def read(stream: BinaryIO) -> list[bytes]:
    """Read such a list; raises EOFError if the other end has left."""
    (count,) = _COUNT.unpack(_exactly(stream, _COUNT.size))
    lengths = [_LENGTH.unpack(_exactly(stream, _LENGTH.size))[0] for _ in range(count)]
    return [_exactly(stream, length) for length in lengths]


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the other end of the pipe was closed")
    return data


def pack_work(work: Work) -> bytes:
    operands = [_pack(operand, work.limbs) for operand in work.operands]
    return _WORK.pack(work.operation, work.limbs, len(operands)) + b"".join(operands)


def unpack_work(data: bytes) -> Work:
    operation, limbs, count = _WORK.unpack_from(data)
    operands = data[_WORK.size :]
    size = len(operands) // count  # all are of the same size
    vectors = (_unpack(operands[k * size : (k + 1) * size], limbs) for k in range(count))
    return Work(Operation(operation), limbs, tuple(vectors))


def pack_answer(answer: Answer, limbs: int) -> bytes:
    """The prime first."""
    return _LENGTH.pack(limbs) + answer.prime.to_bytes(_width(limbs)) + _pack(*answer[:1], limbs)


def unpack_answer(data: bytes) -> Answer:
    (limbs,) = _LENGTH.unpack_from(data)
    prime, *_ = vector = _unpack(data[_LENGTH.size :], limbs)
    return Answer(vector[1:], prime)


def pack_turn(turn: Turn, limbs: Sequence[int]) -> list[bytes]:
    """As byte strings; the answers are to work on so many limbs."""
    answers = turn.answers
    packed = [pack_answer(*one) for one in zip(answers or (), limbs, strict=False)]
    lacking = bytes(index in turn.lacking for index in range(len(turn.sent)))
    done = bytes([answers is not None])
    return [turn.failure.encode(), done, lacking, *turn.sent, *packed]


def unpack_turn(parts: Sequence[bytes]) -> Turn:
    failure, done, lacking, *rest = parts
    sent, answers = rest[: len(lacking)], rest[len(lacking) :]
    return Turn(
        sent,
        [index for index, lacks in enumerate(lacking) if lacks],
        [unpack_answer(answer) for answer in answers] if done == b"\1" else None,
        failure.decode(),
    )


def _width(limbs: int) -> int:
    """Bytes of a field element, which has 66 bits more than the limbs, or of a signed input."""
    return 8 * limbs + 9


def _pack(residues: Residues, limbs: int) -> bytes:
    return b"".join(int(value).to_bytes(_width(limbs), signed=True) for value in residues)


def _unpack(data: bytes, limbs: int) -> Residues:
    width = _width(limbs)
    residues = np.empty(len(data) // width, dtype=object)
    for k in range(len(residues)):
        residues[k] = int.from_bytes(data[k * width : (k + 1) * width], signed=True)
    return residues
