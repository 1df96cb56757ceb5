"""What two parties say to each other on their channel: records, written and strictly read.

    GREETING  first of all: version of the protocol, digest of the agreed file, clock
    READY     ready for a new session: fresh random bytes, number of reveals so far
    BEGIN     all are ready: the session that follows, and the digest of what all have revealed
    MESSAGE   one message of the session
    DONE      the result is here
    ALIVE     nothing new
    LEAVE     about to go

A record is a type and a body (`tls.Record`). The body is a JSON object with exactly the fields of
the class below, a message of the protocol (docs/protocol.md, section 3), or empty. What comes when
is the business of `sessions`.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from securefedyj import strict
from securefedyj.errors import ProtocolError
from securefedyj.network import tls
from securefedyj.party.messages import SESSION_BYTES, VERSION, Message

RANDOM_BYTES = 32
"""Of each party, in READY."""
DIGEST_BYTES = 32


class Kind(IntEnum):
    """What a record on a channel is about."""

    GREETING = 1
    READY = 2
    BEGIN = 3
    MESSAGE = 4
    DONE = 5
    ALIVE = 6
    LEAVE = 7


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
    reveals: int


@dataclass(frozen=True)
class Begin:
    """The sender has heard READY from everybody, and goes on from that many reveals."""

    session: str
    reveals: int
    digest: str


@dataclass(frozen=True)
class Delivery:
    """One message of the session."""

    message: Message


@dataclass(frozen=True)
class Done:
    """The sender has the result."""


@dataclass(frozen=True)
class Alive:
    """The sender is there, and has nothing new to say."""


@dataclass(frozen=True)
class Leave:
    """The sender is about to go."""


AnyRecord = Greeting | OtherVersion | Ready | Begin | Delivery | Done | Alive | Leave

_FIELDS: dict[Kind, dict[str, type | tuple[type, ...]]] = {
    Kind.GREETING: {"version": int, "digest": str, "clock": strict.NUMBER},
    Kind.READY: {"random": str, "reveals": int},
    Kind.BEGIN: {"session": str, "reveals": int, "digest": str},
}
_EMPTY: dict[Kind, Done | Alive | Leave] = {
    Kind.DONE: Done(),
    Kind.ALIVE: Alive(),
    Kind.LEAVE: Leave(),
}


def write(record: AnyRecord) -> tls.Record:
    """The record as it travels."""
    match record:
        case Greeting():
            return _with_json(Kind.GREETING, asdict(record))
        case OtherVersion():
            return _with_json(Kind.GREETING, asdict(record))
        case Ready():
            return _with_json(Kind.READY, asdict(record))
        case Begin():
            return _with_json(Kind.BEGIN, asdict(record))
        case Delivery(message):
            return tls.Record(Kind.MESSAGE, message.to_bytes())
        case Done():
            return tls.Record(Kind.DONE, b"")
        case Alive():
            return tls.Record(Kind.ALIVE, b"")
        case Leave():
            return tls.Record(Kind.LEAVE, b"")


def read(peer: str, record: tls.Record) -> AnyRecord:
    """What a peer says; ProtocolError, in a sentence that names the peer, if it is not a record."""
    if record.type == Kind.MESSAGE:
        return Delivery(_message(peer, record.body))
    try:
        return _read_body(Kind(record.type), record.body)
    except (ValueError, OverflowError):
        raise ProtocolError(
            f"Party {peer} sent a record of type {record.type} we cannot read."
        ) from None


def _with_json(kind: Kind, content: dict[str, Any]) -> tls.Record:
    return tls.Record(kind, json.dumps(content).encode())


def _read_body(kind: Kind, body: bytes) -> AnyRecord:
    if kind in _EMPTY:
        if body:
            raise strict.Malformed(f"{kind.name} has no content")
        return _EMPTY[kind]
    content = strict.parse(body)
    if kind == Kind.GREETING and (version := _other_version(content)) is not None:
        return OtherVersion(version)
    fields = strict.check_fields(content, _FIELDS[kind], kind.name)
    if kind == Kind.GREETING:
        return Greeting(fields["version"], fields["digest"], _finite(fields["clock"]))
    reveals = _count(fields["reveals"])
    if kind == Kind.READY:
        return Ready(_hexadecimal(fields["random"], RANDOM_BYTES), reveals)
    session = _hexadecimal(fields["session"], SESSION_BYTES)
    return Begin(session, reveals, _hexadecimal(fields["digest"], DIGEST_BYTES))


def _other_version(content: Any) -> int | None:
    """The version of a greeting, if it is not ours; other versions may have other fields."""
    version = content.get("version") if isinstance(content, dict) else None
    return version if type(version) is int and version != VERSION else None


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise strict.Malformed("a clock shows a finite number")
    return float(number)


def _count(number: int) -> int:
    if number < 0:
        raise strict.Malformed("nobody has revealed less than nothing")
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
        raise ProtocolError(f"Party {peer} sent no message of the protocol: {error}") from None
