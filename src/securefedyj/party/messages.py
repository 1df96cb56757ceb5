"""What parties send each other, byte by byte in docs/protocol.md, section 3.

The header keeps its form in all versions, so that the version can always be read.
"""

import struct
from dataclasses import dataclass, field
from enum import IntFlag

from securefedyj.errors import ProtocolError
from securefedyj.printable import printable

VERSION = 4
SESSION_BYTES = 16

_HEADER = struct.Struct("!4sHHI16sHHQ")
_MAGIC = b"SFYJ"


class Kind(IntFlag):
    """The step of the protocol that a message belongs to.

    When several steps share a round, their messages travel as one and the kind is the union.
    """

    HELLO = 1
    STOP = 2
    KEY = 4
    INPUT = 8
    PRODUCT = 16
    SUMMAND = 32
    CARRY = 64
    OPENING = 128
    DIGEST = 256
    CHECK = 512
    STREAM = 1024

    def __str__(self) -> str:
        """The names of the steps, as they stand in error messages."""
        return "+".join(str(kind.name) for kind in self) or "nothing"


@dataclass(slots=True)
class Message:
    """One message of one round from one party to another."""

    version: int
    session: bytes
    sender: str
    recipient: str
    round: int
    kind: Kind
    payload: bytes = field(repr=False)

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        names = self.sender.encode() + self.recipient.encode()
        return _HEADER.size + len(names) + len(self.payload)

    def refused(self, code: str, why: str) -> ProtocolError:
        """The error of a message that breaks the rules."""
        sender = printable(self.sender, 64)
        return ProtocolError(
            code, f"The message {self.kind} of round {self.round} from {sender} {why}"
        )

    def to_bytes(self) -> bytes:
        """Return the message as it stands on the wire."""
        sender, recipient = self.sender.encode(), self.recipient.encode()
        lengths = len(sender), len(recipient), len(self.payload)
        header = _HEADER.pack(_MAGIC, self.version, self.kind, self.round, self.session, *lengths)
        return b"".join((header, sender, recipient, self.payload))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Message":
        """Read one whole message; anything else is a `ProtocolError`."""
        if len(data) < _HEADER.size or not data.startswith(_MAGIC):
            raise ProtocolError(
                "SFY-MSG-013", f"{len(data)} bytes arrived that do not begin with our header."
            )
        _, version, kind, turn, session, *lengths = _HEADER.unpack_from(data)
        if len(data) != _HEADER.size + sum(lengths):
            raise ProtocolError(
                "SFY-MSG-014",
                f"A message announced {_HEADER.size + sum(lengths)} bytes and has {len(data)}.",
            )
        sender_end = _HEADER.size + lengths[0]
        recipient_end = sender_end + lengths[1]
        try:
            sender = data[_HEADER.size : sender_end].decode()
            recipient = data[sender_end:recipient_end].decode()
        except UnicodeDecodeError:
            raise ProtocolError(
                "SFY-MSG-015", "A message names a party in something that is not UTF-8."
            ) from None
        return cls(version, session, sender, recipient, turn, Kind(kind), data[recipient_end:])
