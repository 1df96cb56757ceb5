"""What a hub serves: the consortia, and whom it knows by which certificate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from securefedyj.errors import InputError, code_of
from securefedyj.network import tls
from securefedyj.network.consortium import Consortium
from securefedyj.network.frames import Frame, Type
from securefedyj.network.identity import Identity, fingerprint, fingerprint_of_der
from securefedyj.network.rooms import Refused, Room
from securefedyj.party.messages import VERSION
from securefedyj.printable import shown
from securefedyj.strict import check_fields, parse

HELLO = 1 << 12  # bytes of the first frame


class NotAsAgreed(Refused):
    """Who says that it is a party of a room, and is refused; the others of the room are told."""

    def __init__(self, code: str, sentence: str, room: Room, name: str, for_others: str) -> None:
        super().__init__(code, sentence)
        self.room, self.name, self.for_others = room, name, for_others


class Served:
    """The consortia of a hub, and TLS for their parties.

    Attributes
    ----------
    rooms
        By the names of the consortia.
    tls
        For all connections. Who has left all files may still pass it, and is told by a sentence
        that it is not known.
    """

    def __init__(self, consortia: Sequence[Consortium], identity: Identity) -> None:
        if len({consortium.name for consortium in consortia}) != len(consortia):
            raise InputError(
                "SFY-HUB-008", "Two of the files have the same consortium name; rename one."
            )
        own = fingerprint(identity.certificate.read_text(encoding="ascii"))
        for consortium in consortia:
            check_own(consortium, own, identity.certificate)
        self.rooms = {consortium.name: Room(consortium) for consortium in consortia}
        self.tls = tls.context(
            identity, _certificates(consortia), server_side=True, kind=tls.AlertingContext
        )

    async def update(self, consortia: Sequence[Consortium]) -> tuple[list[Room], list[Room]]:
        """Serve these from now on; return the rooms that are new and those that are over.

        Who is there stays there, unless its file is gone or was agreed upon anew.
        """
        wanted = {consortium.name: consortium for consortium in consortia}
        over = []
        for name, room in list(self.rooms.items()):
            now = wanted.get(name)
            if now is not None and now.digest() == room.consortium.digest():
                room.consortium = now
                continue
            over.append(self.rooms.pop(name))
            await room.end(
                f"The hub does not serve {name!r} any more: its operator has taken the file away."
                if now is None
                else f"The hub has another consortium.toml of {name!r} now, whose digest begins "
                f"{now.digest()[:16]!r}: ask for it, and join with it."
            )
        new = [Room(wanted[name]) for name in wanted if name not in self.rooms]
        if new:
            pems = _certificates(room.consortium for room in new)
            self.tls.load_verify_locations(cadata=tls.joined(pems))
        self.rooms |= {room.consortium.name: room for room in new}
        return new, over

    def identified(self, hello: Frame, der: bytes | None) -> tuple[Room, str]:
        """Who this is: the name it claims must be that of its certificate."""
        actual = "none" if der is None else fingerprint_of_der(der)
        try:
            said = parse(hello.body, HELLO)
            names = {key: said[key] for key in ("consortium", "party")}
            wanted, name = check_fields(names, dict.fromkeys(names, str), "it").values()
        except (ValueError, KeyError, TypeError):
            raise Refused(
                "SFY-HUB-011", "The first frame does not say which party this is."
            ) from None
        room = self.rooms.get(wanted)
        if hello.type != Type.HELLO or room is None:
            raise Refused(
                "SFY-HUB-009",
                f"The hub does not serve a consortium named {shown(wanted)}; ask its operator to "
                "start it with our consortium.toml.",
            )
        known = {party.name: party.fingerprint for party in room.consortium.parties}
        if known.get(name) != actual:
            raise NotAsAgreed(
                "SFY-HUB-010",
                f"The certificate ({actual}) is not the one of party {shown(name)} in the hub's "
                f"file of {wanted!r}; it needs the same consortium.toml.",
                room,
                name,
                f"Somebody who says that it is {name} was refused: its certificate ({actual}) is "
                "not the one in the hub's file.",
            )
        try:
            check_same(room.consortium, said)
        except Refused as error:
            raise NotAsAgreed(
                code_of(error, "SFY-HUB-012"),
                str(error),
                room,
                name,
                f"Party {name} was refused. {error}",
            ) from None
        return room, name

    def owner(self, der: bytes) -> str:
        """The parties that a certificate belongs to, in any of the files."""
        actual = fingerprint_of_der(der)
        return ", ".join(
            f"{party.name} of {room.consortium.name!r}"
            for room in self.rooms.values()
            for party in room.consortium.parties
            if party.fingerprint == actual
        )

    def waiting_for(self, der: bytes) -> list[tuple[Room, str]]:
        """Who may be meant by an unknown certificate: its subject is not to be trusted, but known.

        A party that has made its key anew has the name of a party that is missing.
        """
        name = _subject(der)
        return [
            (room, name)
            for room in self.rooms.values()
            if name in room.tallies and name not in room.present
        ]


def check_own(consortium: Consortium, own: str, where: Path) -> None:
    """Refuse a file that names another hub than the one whose certificate is there."""
    if fingerprint(consortium.agreed_hub().certificate) != own:
        raise InputError(
            "SFY-HUB-005",
            f"{where} is not the hub's certificate in the file of {consortium.name!r}: no party "
            "would accept this hub.",
        )


def check_same(consortium: Consortium, said: dict[str, Any]) -> None:
    """Say early what the peers would find out; they do not rely on the hub for it."""
    version, digest = said.get("version", VERSION), str(said.get("digest", consortium.digest()))
    if version != VERSION:
        raise Refused(
            "SFY-HUB-006",
            f"This party speaks protocol version {shown(version)}, the hub speaks version "
            f"{VERSION}; install the same release everywhere.",
        )
    if digest != consortium.digest():
        raise Refused(
            "SFY-HUB-007",
            "This party's consortium.toml is not the hub's: its digest begins "
            f"{shown(digest[:16])}, the hub's {consortium.digest()[:16]!r}. Use the same file "
            "everywhere (`securefedyj check` shows the digest), and give the hub the new one if it "
            "has the old one.",
        )


def _certificates(consortia: Iterable[Consortium]) -> set[str]:
    return {party.certificate for one in consortia for party in one.parties}


def _subject(der: bytes) -> str:
    """The common name in a certificate of anybody; empty if there is none to be read."""
    try:
        names = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(
            NameOID.COMMON_NAME
        )
        return str(names[0].value) if names else ""
    except Exception:  # of several kinds: it is what a stranger sends
        return ""
