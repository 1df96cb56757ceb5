"""Packets between two parties, by a bus that may lose, repeat and reorder them.

A packet says from which connection of the sender to which one of the receiver it goes, which place
its piece has in the stream between the two, and how much of the other direction has arrived. None
of it is trusted with anything: within the streams there is TLS.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

from securefedyj.errors import ProtocolError

MAX_BODY = 1 << 20
"""Bytes of a piece; FLARE's server holds a message whole."""

_HEAD = struct.Struct("!BBQQQQ")
_VERSION = 1


class Kind(IntEnum):
    """What a packet is for."""

    HELLO = 1  # we are there, and have received so much
    DATA = 2
    BYE = 3  # we leave


@dataclass(frozen=True)
class Packet:
    """One packet.

    Attributes
    ----------
    source
        The sender's connection; never 0.
    target
        The receiver's connection, as far as the sender knows; 0 if it does not.
    number
        Of the piece, or of the next one that there will be.
    received
        So many pieces of the other direction have arrived, without a gap.
    """

    kind: Kind
    source: int
    target: int
    number: int
    received: int
    body: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        head = (_VERSION, self.kind, self.source, self.target, self.number, self.received)
        return _HEAD.pack(*head) + self.body


def decode(data: bytes) -> Packet:
    """Read a packet; ProtocolError if it is none."""
    if not _HEAD.size <= len(data) <= _HEAD.size + MAX_BODY:
        raise ProtocolError("SFY-FLARE-001", f"A packet has {len(data)} bytes.")
    version, kind, source, target, number, received = _HEAD.unpack_from(data)
    if version != _VERSION or kind not in set(Kind) or source == 0:
        raise ProtocolError("SFY-FLARE-002", "A packet is not of our form.")
    return Packet(Kind(kind), source, target, number, received, data[_HEAD.size :])
