"""What two parties send each other on their channel: records, read strictly.

docs/protocol.md, section 12.1, has the table; `sessions` decides what may come when.
"""

from __future__ import annotations

import json
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from securefedyj import strict
from securefedyj.errors import ProtocolError, code_of
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import Release
from securefedyj.party.messages import SESSION_BYTES, VERSION, Message
from securefedyj.strict import hexadecimal

RANDOM_BYTES, DIGEST_BYTES = 32, 32
NO_SESSION = "00" * SESSION_BYTES
"""In place of a session."""
_MOST_REVEALS = 1 << 31
_MOST_BYTES = 4096
_MOST_VERSION = 1 << 16


Count: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST_REVEALS)]
Digest: TypeAlias = Annotated[str, hexadecimal(DIGEST_BYTES)]
SessionId: TypeAlias = Annotated[str, hexadecimal(SESSION_BYTES)]
Version: TypeAlias = Annotated[int, Meta(ge=0, lt=_MOST_VERSION)]


class Greeting(strict.Record, frozen=True):
    """The first record of a channel, in both directions."""

    version: Version
    digest: Digest  # of the agreed file
    clock: strict.Finite
    release: Release


class OtherVersion(strict.Record, frozen=True, forbid_unknown_fields=False):
    """A greeting of another protocol version, which may have any other fields."""

    version: Version
    release: Release = ""


class Ready(strict.Record, frozen=True):
    """The sender is ready for a new session."""

    random: Annotated[str, hexadecimal(RANDOM_BYTES)]


class Begin(strict.Record, frozen=True):
    """The sender has received READY from all peers; this is what it has of the transcript."""

    session: SessionId  # the session that follows
    reveals: Count
    digest: Digest  # of all these reveals
    finished: bool  # whether nothing is left to open
    sending: bool  # whether it has sent its part of the next opening
    repeated: bool  # whether it has repeated as many openings as it may
    accepted: Count  # the number of the final opening that it holds its part of
    computed: SessionId  # the session that computed this part

    def ahead_of(self, start: Begin) -> int:
        """How many openings after a starting point this party has sent; they are repeated."""
        return max(0, self.reveals + self.sending - start.reveals)


class Handover(strict.Record, frozen=True):
    """The part of the transcript that the receiver lacks in this session."""

    session: SessionId
    first: Count
    lines: list[str]  # lines of the file transcript.jsonl


class Done(strict.Record, frozen=True):
    """The sender has the whole transcript, and the result that follows from it."""

    digest: Digest


class Kept(strict.Record, frozen=True):
    """The sender has received the same DONE from all peers, and has written the result."""


class Alive(strict.Record, frozen=True):
    """The sender is there."""


class Leave(strict.Record, frozen=True):
    """The sender is about to leave."""

    failed: bool  # whether because of an error, which it shows to its own user


class End(strict.Record, frozen=True):
    """This run has ended for good at the sender."""

    unverified: bool  # whether because the result could not be verified


AnyRecord: TypeAlias = (
    Greeting | OtherVersion | Ready | Begin | Message | Done | Alive | Leave | Handover | Kept | End
)
_IN_ORDER = (Greeting, Ready, Begin, Message, Done, Alive, Leave, Handover, Kept, End)
TYPES: dict[int, type[AnyRecord]] = dict(enumerate(_IN_ORDER, start=1))
"""The class of a record, by its type on the wire."""
NUMBERS = {kind: number for number, kind in TYPES.items()} | {OtherVersion: 1}


def write(record: AnyRecord) -> tls.RawRecord:
    """The record as it travels."""
    number = NUMBERS[type(record)]
    if isinstance(record, Message):
        return tls.RawRecord(number, record.to_bytes())
    fields = msgspec.structs.asdict(record)
    return tls.RawRecord(number, json.dumps(fields).encode() if fields else b"")


def read(peer: str, record: tls.RawRecord) -> AnyRecord:
    """The record from a peer; ProtocolError, in a sentence that names the peer, if it is none."""
    try:
        kind, body = TYPES[record.type], record.body
        if kind is Message:
            return Message.from_bytes(body)
        if kind in (Kept, Alive):
            if body:
                raise strict.Malformed(f"{kind.__name__} has no content")
            return kind()
        # The channel bounds the size of records, and only one kind may use all of that.
        content = strict.parse(body, tls.MAX_RECORD if kind is Handover else _MOST_BYTES)
        if kind is Greeting:
            other = strict.convert(content, OtherVersion, kind.__name__)
            if other.version != VERSION:
                return other
        return strict.convert(content, kind, kind.__name__)
    except ProtocolError as error:
        raise ProtocolError(
            code_of(error, "SFY-JOIN-045"), f"Party {peer} sent no message of the protocol: {error}"
        ) from None
    except (KeyError, ValueError, OverflowError):
        raise ProtocolError(
            "SFY-JOIN-044",
            f"Party {peer} sent a record of type {record.type} we cannot read.",
        ) from None
