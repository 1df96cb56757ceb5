"""What two parties say to each other on their channel: records, written and strictly read.

    GREETING  first of all: version of the protocol, digest of the agreed file, clock
    READY     ready for a new session: fresh random bytes
    BEGIN     all are ready: the session that follows, and what the sender has of the transcript
    HANDOVER  what the receiver lacks of the transcript
    MESSAGE   one message of the session
    DONE      the whole transcript is here, with this digest
    KEPT      all have said the same DONE, and the result is written
    ALIVE     nothing new
    LEAVE     about to go, for an error or not
    END       the run has ended for good

A record is a type and a body (`tls.RawRecord`). The body is a JSON object with exactly the fields
of the class below, a message of the protocol (docs/protocol.md, section 3), or empty. What comes
when is the business of `sessions`.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from securefedyj import strict
from securefedyj.errors import ProtocolError, code_of
from securefedyj.network.transport import tls
from securefedyj.party.messages import SESSION_BYTES, VERSION, Message

RANDOM_BYTES = 32
"""Of each party, in READY."""
DIGEST_BYTES = 32
_MOST_REVEALS = 1 << 31
_MOST_BYTES = 4096
_MOST_VERSION = 1 << 16


class Kind(IntEnum):
    """What a record on a channel is about."""

    GREETING = 1
    READY = 2
    BEGIN = 3
    MESSAGE = 4
    DONE = 5
    ALIVE = 6
    LEAVE = 7
    HANDOVER = 8
    KEPT = 9
    END = 10


@dataclass(frozen=True)
class Greeting:
    """The first record of a channel, in both directions."""

    version: int
    digest: str
    clock: float


@dataclass(frozen=True)
class OtherVersion:
    """A greeting of another version of the protocol, of which nothing else can be understood."""

    version: int


@dataclass(frozen=True)
class Ready:
    """The sender is ready for a new session."""

    random: str


@dataclass(frozen=True)
class Begin:
    """The sender has heard READY from everybody, and has so many reveals with this digest."""

    session: str
    reveals: int
    digest: str
    finished: bool
    """Whether nothing is left to open."""
    sending: bool
    """Whether it has sent its part of the next opening."""
    repeated: bool
    """Whether it has made openings again, as many as may be."""
    accepted: int
    """The number of the final opening of which it holds its part; 0 if it holds none."""
    computed: str
    """The session in which that was computed; zeros if it holds none."""


@dataclass(frozen=True)
class Handover:
    """For a session: the lines of the transcript from a number on, which two parties have."""

    session: str
    first: int
    lines: list[str]
    """Each a line of the file transcript.jsonl."""


@dataclass(frozen=True)
class Delivery:
    """One message of the session."""

    message: Message


@dataclass(frozen=True)
class Done:
    """The sender has the whole transcript, and the result that follows from it."""

    digest: str


@dataclass(frozen=True)
class Kept:
    """The sender has heard the same DONE from all, and has written the result."""


@dataclass(frozen=True)
class Alive:
    """The sender is there, and has nothing new to say."""


@dataclass(frozen=True)
class Leave:
    """The sender is about to go."""

    failed: bool = False
    """Whether for an error, of which its own user is told."""


@dataclass(frozen=True)
class End:
    """For the sender this run has ended for good."""

    unverified: bool
    """Whether that is because the result could not be verified."""


AnyRecord = (
    Greeting
    | OtherVersion
    | Ready
    | Begin
    | Handover
    | Delivery
    | Done
    | Kept
    | Alive
    | Leave
    | End
)

_FIELDS: dict[Kind, dict[str, type | tuple[type, ...]]] = {
    Kind.GREETING: {"version": int, "digest": str, "clock": strict.NUMBER},
    Kind.READY: {"random": str},
    Kind.BEGIN: {
        "session": str,
        "reveals": int,
        "digest": str,
        "finished": bool,
        "sending": bool,
        "repeated": bool,
        "accepted": int,
        "computed": str,
    },
    Kind.HANDOVER: {"session": str, "first": int, "lines": list},
    Kind.DONE: {"digest": str},
    Kind.LEAVE: {"failed": bool},
    Kind.END: {"unverified": bool},
}
_EMPTY: dict[Kind, Kept | Alive] = {
    Kind.KEPT: Kept(),
    Kind.ALIVE: Alive(),
}


_KINDS: dict[type[AnyRecord], Kind] = {
    Greeting: Kind.GREETING,
    OtherVersion: Kind.GREETING,
    Ready: Kind.READY,
    Begin: Kind.BEGIN,
    Handover: Kind.HANDOVER,
    Done: Kind.DONE,
    Kept: Kind.KEPT,
    Alive: Kind.ALIVE,
    Leave: Kind.LEAVE,
    End: Kind.END,
}


def write(record: AnyRecord) -> tls.RawRecord:
    """The record as it travels."""
    if isinstance(record, Delivery):
        return tls.RawRecord(Kind.MESSAGE, record.message.to_bytes())
    kind = _KINDS[type(record)]
    return tls.RawRecord(kind, b"" if kind in _EMPTY else json.dumps(vars(record)).encode())


def read(peer: str, record: tls.RawRecord) -> AnyRecord:
    """What a peer says; ProtocolError, in a sentence that names the peer, if it is not a record."""
    if record.type == Kind.MESSAGE:
        return Delivery(_message(peer, record.body))
    try:
        return _read_body(Kind(record.type), record.body)
    except (ValueError, OverflowError):
        raise ProtocolError(
            "SFY-JOIN-044", f"Party {peer} sent a record of type {record.type} we cannot read."
        ) from None


def _read_body(kind: Kind, body: bytes) -> AnyRecord:
    if kind in _EMPTY:
        if body:
            raise strict.Malformed(f"{kind.name} has no content")
        return _EMPTY[kind]
    # The channel bounds the size of records, and only one kind may use all of that.
    content = strict.parse(body, tls.MAX_RECORD if kind == Kind.HANDOVER else _MOST_BYTES)
    if kind == Kind.GREETING and (version := _other_version(content)) is not None:
        return OtherVersion(version)
    fields = strict.check_fields(content, _FIELDS[kind], kind.name)
    if kind == Kind.GREETING:
        digest = _hexadecimal(fields["digest"], DIGEST_BYTES)
        return Greeting(fields["version"], digest, _finite(fields["clock"]))
    if kind == Kind.READY:
        return Ready(_hexadecimal(fields["random"], RANDOM_BYTES))
    if kind == Kind.DONE:
        return Done(_hexadecimal(fields["digest"], DIGEST_BYTES))
    if kind == Kind.LEAVE:
        return Leave(fields["failed"])
    if kind == Kind.END:
        return End(fields["unverified"])
    session = _hexadecimal(fields["session"], SESSION_BYTES)
    if kind == Kind.HANDOVER:
        lines = strict.check_items(fields["lines"], str, "lines")
        return Handover(session, _count(fields["first"]), lines)
    digest = _hexadecimal(fields["digest"], DIGEST_BYTES)
    reveals = _count(fields["reveals"])
    finished, sending, repeated = (fields[name] for name in ("finished", "sending", "repeated"))
    accepted, computed = _count(fields["accepted"]), _hexadecimal(fields["computed"], SESSION_BYTES)
    return Begin(session, reveals, digest, finished, sending, repeated, accepted, computed)


def _other_version(content: Any) -> int | None:
    """The version of a greeting, if it is not ours; other versions may have other fields."""
    version = content.get("version") if isinstance(content, dict) else None
    other = type(version) is int and version != VERSION and 0 <= version < _MOST_VERSION
    return version if other else None


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise strict.Malformed("a clock shows a finite number")
    return float(number)


def _count(number: int) -> int:
    if not 0 <= number <= _MOST_REVEALS:
        raise strict.Malformed("nobody has revealed less than nothing, or so much")
    return number


def _hexadecimal(text: str, size: int) -> str:
    """The text, if it is that many bytes: of a fixed length, so that joined they stay apart."""
    if not re.fullmatch(f"[0-9a-f]{{{2 * size}}}", text):
        raise strict.Malformed(f"{size} bytes are {2 * size} hexadecimal digits")
    return text


def _message(peer: str, body: bytes) -> Message:
    try:
        return Message.from_bytes(body)
    except ProtocolError as error:
        raise ProtocolError(
            code_of(error, "SFY-JOIN-045"), f"Party {peer} sent no message of the protocol: {error}"
        ) from None
