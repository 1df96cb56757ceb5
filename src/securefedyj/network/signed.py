"""MEMBER.result: the result of a submitted run, signed by a member for those who were offline.

docs/protocol.md, section 13.7. The first line is JSON; the others are those of transcript.jsonl.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from securefedyj.errors import InputError
from securefedyj.network.consortium import Consortium
from securefedyj.network.keys import sign, signed_by
from securefedyj.printable import in_words, shown
from securefedyj.protocol.schedule import Schedule
from securefedyj.protocol.transcript import MOST_BYTES, Origin, Transcript
from securefedyj.strict import Malformed, Record, convert, parse

MOST_RESULT = MOST_BYTES + (1 << 12)
"""Bytes of a file."""
ENOUGH = 2
"""Members that have to sign the same: of two, one is honest."""
_LABEL = "securefedyj result 1"


class ResultFileError(InputError):
    """A file that is no result of this run, or files that are not enough."""


class _Head(Record, frozen=True):
    """The first line."""

    result: Literal[1]
    member: str
    signature: Annotated[str, Meta(max_length=1000)]
    """In Base64."""


class SignedResult(NamedTuple):
    """A transcript, as text, that a member has signed."""

    member: str
    text: bytes

    @classmethod
    def read(cls, data: bytes, consortium: Consortium) -> SignedResult:
        """Read a file; raises ResultFileError unless a member has signed it for this run."""
        line, _, text = data.partition(b"\n")
        try:
            head = convert(parse(line, 1 << 12), _Head, "the first line")
            signature = base64.b64decode(head.signature, validate=True)
        except (Malformed, binascii.Error) as error:
            raise ResultFileError(
                "SFY-SUB-050", f"this is not a result that a member has signed: {error}."
            ) from None
        if head.member not in consortium.committee:
            raise ResultFileError(
                "SFY-SUB-051",
                f"{shown(head.member)} is not a member of the committee, which is "
                f"{in_words(consortium.committee)}.",
            )
        certificate = consortium.party(head.member).certificate
        if not signed_by(certificate, signature, *_parts(consortium, text)):
            raise ResultFileError(
                "SFY-SUB-052",
                f"{head.member} has not signed this for the agreed file that you have. Get the "
                "file again, and compare the digests of both agreed files (`securefedyj check`).",
            )
        return cls(head.member, text)


def sign_result(transcript: Transcript, consortium: Consortium, name: str, key: Path) -> bytes:
    """The file of a member; a run that has ended after its counts has a transcript, too."""
    text = transcript.to_text().encode()
    signature = base64.b64encode(sign(key, *_parts(consortium, text))).decode()
    head = msgspec.to_builtins(_Head(1, name, signature))
    return json.dumps(head).encode() + b"\n" + text


def most_signed(signed: Collection[SignedResult]) -> tuple[list[str], bytes]:
    """The most members that have signed the same, and what they have signed."""
    members: dict[bytes, list[str]] = {}
    for one in signed:
        members.setdefault(one.text, []).append(one.member)
    text = max(members, key=lambda text: len(members[text]), default=b"")
    return members.get(text, []), text


def agreed_result(signed: Collection[SignedResult], consortium: Consortium) -> Transcript:
    """The transcript that enough members have signed, if it passes the audit.

    Raises ResultFileError where there is none, and TooFewValues if that is how the run has ended.
    """
    members, text = most_signed(signed)
    if len(members) < ENOUGH:
        names = [one.member for one in signed]
        differ = " They have signed different results." * (len(names) > 1)
        raise ResultFileError(
            "SFY-SUB-053",
            f"{in_words(names)} signed a result, and {ENOUGH} members must have signed the same."
            f"{differ} Get the files of the others; the committee is "
            f"{in_words(consortium.committee)}.",
        )
    transcript = Transcript.from_text(text.splitlines())
    if (
        transcript.origin != Origin(consortium.name, consortium.digest())
        or transcript.agreement.to_bytes() != consortium.agreement().to_bytes()
    ):
        raise ResultFileError("SFY-SUB-054", "The members have signed the result of another run.")
    Schedule.of(transcript).check()
    checked = transcript.audit()
    if not checked.passed:
        raise ResultFileError(
            "SFY-SUB-055",
            f"The audit of this result does not pass: {checked.findings[0]}. It is not written. "
            "Tell your data-protection officer, and ask the members.",
        )
    return transcript


def _parts(consortium: Consortium, text: bytes) -> tuple[bytes | str, ...]:
    """What a member signs; the digest of all headers is part of the transcript."""
    return _LABEL, bytes.fromhex(consortium.digest()), hashlib.sha256(text).digest()
