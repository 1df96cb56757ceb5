"""A silo's submission: one file, signed by the silo and sealed for the three members.

docs/protocol.md, section 13. The first line is a header, the second its signature; three sealed
parts follow. Component 2 stands behind a salt: without one, member 0 could test guesses of it.
"""

from __future__ import annotations

import datetime
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Meta

from securefedyj.engines.replicated.keystream import worthwhile
from securefedyj.errors import InputError
from securefedyj.network.consortium import Consortium
from securefedyj.network.keys import PrivateKeys, prefixed, sign, signed_by
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Integers
from securefedyj.printable import in_words, printable, shown
from securefedyj.protocol import submissions
from securefedyj.protocol.agreement import Agreement
from securefedyj.strict import Malformed, Record, convert, hexadecimal, parse

FORMAT: Literal["securefedyj submission"] = "securefedyj submission"
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
SIGNED, _PART, _MASK, _CONFIRM = (
    f"{FORMAT}: {what}" for what in ("header", "part", "mask", "confirmation")
)
_MEMBERS = range(3)
_SALT = 32
_KEY = 32
_SEALED = 48  # bytes that HPKE adds
MOST_HEAD = 1 << 15  # bytes; 254 confirmations take 17,000
_MOST_SIGNATURE = 200  # characters

Digest = Annotated[str, hexadecimal(32)]


class Header(Record, frozen=True):
    """What is public about a submission."""

    format: Literal["securefedyj submission"]
    version: Literal[1]
    consortium: str
    digest: Digest
    """Of the agreed file."""
    silo: str
    fingerprint: str
    date: Annotated[str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z\Z")]
    shares: tuple[Digest, Digest, Digest]
    """Hashes of the keys of components 0 and 1, and of component 2 behind its salt."""
    parts: tuple[Digest, Digest, Digest]
    """Hashes of the sealed parts."""
    nonce: Digest
    confirmations: tuple[Digest, ...]
    """Of the key that makes the masks with each other silo, in agreed order."""

    def fits(self, component: int, share: bytes, points: int) -> bool:
        """Whether this is the share that the silo has sealed, for this many points."""
        whole = len(share) == size_of(component, points)
        return whole and hashlib.sha256(share).hexdigest() == self.shares[component]


@dataclass(frozen=True, repr=False)
class Head:
    """A header and its signature, as they are in the file."""

    header: Header
    data: bytes
    """Both lines; a second one for the same agreed file proves that the silo is not honest."""

    @property
    def digest(self) -> bytes:
        """Of the header alone: a header has many signatures."""
        return hashlib.sha256(self.data.partition(b"\n")[0]).digest()


@dataclass(frozen=True, repr=False)
class Submission(Head):
    """A whole file, whose signature and parts have been checked."""

    parts: tuple[bytes, ...]
    """Sealed for each member."""


def make(consortium: Consortium, name: str, key: Path, counts: Integers) -> bytes:
    """The file of a silo with how often each point occurs there; each time another one."""
    agreement, digest, own = consortium.agreement(), consortium.digest(), consortium.party(name)
    silos = agreement.silos
    place = silos.index(name)
    others = [*silos[:place], *silos[place + 1 :]]
    private = PrivateKeys.read(key, own.public)
    masks = {}
    if worthwhile(agreement.parties, silos):
        for other in others:
            secret = private.mask.exchange(_public(consortium.party(other).public.mask))
            pair = sorted((name, other), key=silos.index)
            masks[other] = _derived(secret, bytes.fromhex(digest), _MASK, *pair)
    keys = list(masks.values())
    shares = submissions.share(submissions.masked(counts, keys[place:], keys[:place]))
    shares[2] = secrets.token_bytes(_SALT) + shares[2]
    parts = []
    for i, member in zip(_MEMBERS, agreement.committee, strict=True):
        sealing = _public(consortium.party(member).public.sealing)
        info = _info(digest, own.name, own.fingerprint, member, i)
        parts.append(SUITE.encrypt(shares[i] + shares[(i + 1) % 3], sealing, info=info))
    now = datetime.datetime.now(datetime.UTC)
    header = Header(
        format=FORMAT,
        version=1,
        consortium=consortium.name,
        digest=digest,
        silo=name,
        fingerprint=own.fingerprint,
        date=f"{now:%Y-%m-%dT%H:%M:%SZ}",
        shares=_hashes(shares),
        parts=_hashes(parts),
        nonce=secrets.token_hex(32),
        confirmations=tuple(_derived(one, None, _CONFIRM).hex() for one in keys),
    )
    line = msgspec.json.encode(header)
    signature = sign(key, SIGNED, line).hex().encode()
    return b"".join([line, b"\n", signature, b"\n", *parts])


def peek(data: bytes) -> Header:
    """The header of a file, which anybody may have written: nothing is checked but its form."""
    line, end, _ = data[:MOST_HEAD].partition(b"\n")
    try:
        if not end:
            raise Malformed("its first line does not end")
        return convert(parse(line), Header, "the header")
    except Malformed as error:
        raise InputError("SFY-SUB-001", f"This is not a submission: {error}.") from None


def read_head(data: bytes, consortium: Consortium) -> Head:
    """Header and signature at the beginning of a file, checked."""
    header = peek(data)
    about = f"The submission of {printable(header.silo)}"
    if header.digest != consortium.digest():
        raise InputError(
            "SFY-SUB-002",
            f"{about} is for another agreed file: for {shown(header.consortium)} with the digest "
            f"{header.digest}, and not for {consortium.digest()}. Ask for the one that was made "
            "for this file.",
        )
    silos = {party.name: party for party in consortium.silos}
    if header.silo not in silos or header.fingerprint != silos[header.silo].fingerprint:
        raise InputError(
            "SFY-SUB-003", f"{about} is from a stranger: no silo of the agreed file has its name "
            "and certificate."
        )  # fmt: skip
    certificate = silos[header.silo].certificate
    line, _, rest = data.partition(b"\n")
    signature = rest[:_MOST_SIGNATURE].partition(b"\n")[0]
    try:
        raw = bytes.fromhex(signature.decode("ascii"))
        signed = raw.hex().encode() == signature and rest[len(signature) :][:1] == b"\n"
    except ValueError:
        signed = False
    if not signed or not signed_by(certificate, raw, SIGNED, line):
        raise InputError(
            "SFY-SUB-004",
            f"{about} does not have the signature of {printable(header.silo)}: the file was "
            "changed, or another party has written it. Ask the silo to send its file again.",
        )
    agreement = consortium.agreement()
    masked = worthwhile(agreement.parties, agreement.silos)
    if len(header.confirmations) != (len(silos) - 1 if masked else 0):
        raise InputError(
            "SFY-SUB-005", f"{about} confirms {len(header.confirmations)} pairs of masks; the "
            "silo does not follow the protocol."
        )  # fmt: skip
    return Head(header, data[: len(line) + len(signature) + 2])


def read(data: bytes, consortium: Consortium) -> Submission:
    """A whole file, checked: signature, and the hashes of all parts."""
    head = read_head(data, consortium)
    parts, start = [], len(head.data)
    for size in part_sizes(consortium.agreement()):
        parts.append(data[start : start + size])
        start += size
    if start != len(data) or _hashes(parts) != head.header.parts:
        raise InputError(
            "SFY-SUB-006",
            f"The submission of {printable(head.header.silo)} was damaged on its way: its header "
            "is right, and the rest is not what that says. Ask the silo to send its file again.",
        )
    return Submission(head.header, head.data, tuple(parts))


def unseal(
    submission: Submission, consortium: Consortium, member: str, private: PrivateKeys
) -> dict[int, bytes]:
    """The shares in a member's part, by their components, as far as they fit the header.

    A share that is missing is with the other member that holds this component. If neither has it,
    the silo has sealed another.
    """
    i, header = consortium.committee.index(member), submission.header
    info = _info(header.digest, header.silo, header.fingerprint, member, i)
    try:
        part = SUITE.decrypt(submission.parts[i], private.sealing, info=info)
    except InvalidTag:
        return {}
    points, first, second = points_in(consortium.agreement()), i, (i + 1) % 3
    cut = size_of(first, points)
    found = {first: part[:cut], second: part[cut:]}
    return {one: share for one, share in found.items() if header.fits(one, share, points)}


def check_masks(headers: Mapping[str, Header], silos: Sequence[str]) -> None:
    """Refuse headers of all silos if two of these confirm different keys of their masks."""
    for place, name in enumerate(silos):
        for later, other in enumerate(silos[place + 1 :], place):
            if not headers[name].confirmations:
                return
            if headers[name].confirmations[later] != headers[other].confirmations[place]:
                raise InputError(
                    "SFY-SUB-007",
                    f"The masks of {printable(name)} and {printable(other)} do not cancel: one of "
                    "the two does not follow the protocol. Find out which, and agree on a new "
                    "file.",
                )


def digest_of(headers: Sequence[bytes]) -> bytes:
    """The digest of the digests of all headers, in agreed order."""
    return hashlib.sha256(prefixed(*headers)).digest()


def totals(
    heads: Sequence[Head], shares: Sequence[Mapping[int, bytes]], member: int, points: int
) -> submissions.Submissions:
    """What a member computes with: the sums of the shares that it holds of all silos."""
    held = []
    for one in (member, (member + 1) % 3):
        total = wide.zeros(submissions.LIMBS, points)
        for own in shares:
            part = own[one][_SALT:] if one == 2 else own[one]
            total = wide.add(total, submissions.component(one, part, points))
        held.append(total)
    headers = digest_of([head.digest for head in heads])
    return submissions.Submissions(headers, np.stack(held))


def points_in(agreement: Agreement) -> int:
    """How many points a submission counts."""
    return sum(map(len, agreement.points))


def part_sizes(agreement: Agreement) -> list[int]:
    """The size of each sealed part in bytes."""
    points = points_in(agreement)
    sizes = [size_of(i, points) for i in _MEMBERS]
    return [_SEALED + sizes[i] + sizes[(i + 1) % 3] for i in _MEMBERS]


def note_on_submission(consortium: Consortium) -> str:
    """Who sends what in a submitted run; empty for a live one."""
    agreement = consortium.agreement()
    if not agreement.submitted:
        return ""
    kilobytes = sum(part_sizes(agreement), 100 * len(agreement.silos)) / 1e3
    live = [name for name, given in zip(agreement.features, agreement.given, strict=True)
            if not given]  # fmt: skip
    then = (
        f"All silos also join: {in_words(live, 5)} {'has' if len(live) == 1 else 'have'} no points."
        if live
        else "Only the committee connects."
    )
    return (
        f"Submitted: each silo sends one file of about {max(kilobytes, 1):,.0f} kB, with how often "
        f"each of {points_in(agreement):,} points occurs there. {then}"
    )


def most_bytes(agreement: Agreement) -> int:
    """The largest file."""
    return MOST_HEAD + _MOST_SIGNATURE + sum(part_sizes(agreement))


def size_of(component: int, points: int) -> int:
    """Bytes of a share."""
    keyed = component in submissions.KEYED
    return _KEY if keyed else _SALT + submissions.POINT_BYTES * points


def _hashes(some: Sequence[bytes]) -> tuple[Digest, Digest, Digest]:
    first, second, third = (hashlib.sha256(one).hexdigest() for one in some)
    return first, second, third


def _info(digest: str, silo: str, fingerprint: str, member: str, index: int) -> bytes:
    """What a part is for: it opens for nothing else."""
    return prefixed(_PART, digest, silo, fingerprint, member, str(index))


def _derived(secret: bytes, salt: bytes | None, *info: str) -> bytes:
    return HKDF(SHA256(), _KEY, salt, prefixed(*info)).derive(secret)


def _public(key: bytes) -> X25519PublicKey:
    return X25519PublicKey.from_public_bytes(key)
