"""The sections of the agreed file: the hub, the parties and the features."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from securefedyj.errors import InputError
from securefedyj.network.identity import check_name, fingerprint, read_public
from securefedyj.network.keys import PublicKeys, public_keys
from securefedyj.numerics.encoding import LARGEST_BOUND
from securefedyj.printable import shown
from securefedyj.protocol.methods import YEO_JOHNSON, Methods, methods_of

_ROLES = ("silo", "helper")
_ADDRESS = re.compile(
    r"([\w.-]{1,255}|\[[0-9A-Fa-f:.]+(%[\w.-]{1,99})?\]|[0-9A-Fa-f:.]{1,99}):[0-9]{1,5}"
)
_LONGEST_NOTE = 2000


class ConsortiumError(InputError):
    """An agreed file that parties cannot use; the message says why and what to do."""


@dataclass(frozen=True)
class HubEntry:
    """Where the hub listens, and its certificate."""

    address: str
    certificate: str

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def check(self) -> None:
        try:
            valid = _ADDRESS.fullmatch(self.address) is not None and 0 < self.port < 65536
            if valid and ":" in self.host:
                ipaddress.IPv6Address(self.host)
        except ValueError:
            valid = False
        if not valid:
            raise ConsortiumError(
                "SFY-CON-003",
                f"the hub's address is {shown(self.address)}; it must be HOST:PORT, such as "
                "hub.example.org:7443 or [2001:db8::1]:7443.",
            )
        fingerprint_of(self.certificate, "the hub")


@dataclass(frozen=True)
class PartyEntry:
    """A party of the consortium, whose role is "silo" (has data) or "helper" (has none)."""

    name: str
    role: str
    fingerprint: str
    certificate: str
    keys: str = ""
    """The public keys for submissions, signed by the certificate's key, in Base64."""

    @classmethod
    def read(cls, name: str, role: str, path: Path) -> PartyEntry:
        """A party with what is in its file NAME.pem."""
        certificate, keys = read_public(path)
        return cls(name, role, fingerprint(certificate), certificate, keys)

    def check(self) -> None:
        check_name(self.name)
        if self.role == "member":
            raise ConsortiumError(
                "SFY-CON-006",
                f'the role of {self.name!r} is "member", which is now called "helper": a party '
                "without data. Change the word in the file, and give it to all parties again.",
            )
        if self.role not in _ROLES:
            raise ConsortiumError(
                "SFY-CON-007",
                f'the role of {self.name!r} is {shown(self.role)}; it must be "silo" (has data) '
                'or "helper" (has none).',
            )
        actual = fingerprint_of(self.certificate, f"{self.name!r}")
        if self.fingerprint != actual:
            raise ConsortiumError(
                "SFY-CON-014",
                f"the fingerprint of {self.name!r} does not match its certificate, which has "
                f"{actual}; ask {self.name!r} by another channel which of the two is right.",
            )
        if self.keys:
            self.public  # noqa: B018, refuses what is wrong

    @property
    def public(self) -> PublicKeys:
        """The keys for submissions."""
        return public_keys(self.keys, self.certificate, self.fingerprint, self.name)


@dataclass(frozen=True)
class Feature:
    """A column that all silos have, with the bounds of its values and what is fitted to it."""

    name: str
    lower: float
    upper: float
    unit: str = ""
    note: str = ""
    method: str = YEO_JOHNSON
    """One method, or several with commas between them."""
    quantiles: str = ""
    """Those of `quantiles`, or instead of the quartiles those of `robust`, with commas."""
    resolution: str = ""
    """The distance between points, such as "0.01": those of quantiles, and of a submission."""
    digits: int = 0
    """How many digits of the points of a submission are significant; 0 for all."""
    round: bool = False
    """Whether a silo submits the point next to each value; otherwise a value must be a point."""

    @property
    def methods(self) -> Methods:
        """The methods of the feature, each with its quantiles."""
        return methods_of(self.name, self.method, self.quantiles)

    def check(self) -> None:
        check_text("the name of a feature", self.name)
        if self.unit:
            check_text(f"the unit of feature {self.name!r}", self.unit)
        # A note may have several lines; nothing in it may control a terminal.
        lines = self.note.replace("\t", " ").split("\n")
        if len(self.note) > _LONGEST_NOTE or not all(line.isprintable() for line in lines):
            raise ConsortiumError(
                "SFY-CON-011",
                f"the note of feature {self.name!r} is {shown(self.note)}; it must have up to "
                f"{_LONGEST_NOTE} printable characters.",
            )
        if not -LARGEST_BOUND <= self.lower < self.upper <= LARGEST_BOUND:
            raise ConsortiumError(
                "SFY-CON-018",
                f"the bounds of feature {self.name!r} are {self.lower!r} and {self.upper!r}; they "
                "must be numbers up to 2^100 with lower < upper.",
            )
        if max(len(self.method), len(self.quantiles)) > _LONGEST_NOTE:
            raise ConsortiumError(
                "SFY-CON-040", f"the methods of feature {self.name!r} are too long to read."
            )
        self.methods  # noqa: B018, refuses what is wrong


def check_text(what: str, text: str) -> None:
    """Refuse a name or unit that is empty, long, or not visible."""
    if not text or text != text.strip() or not text.isprintable() or len(text) > 200:
        raise ConsortiumError(
            "SFY-CON-002",
            f"{what} is {shown(text)}; it must have 1 to 200 printable characters and no space at "
            "either end.",
        )


def fingerprint_of(certificate: str, owner: str) -> str:
    """The fingerprint of a certificate in PEM form; an error names its owner."""
    try:
        return fingerprint(certificate)
    except InputError as error:
        raise ConsortiumError(error.code, f"the certificate of {owner}: {error}") from None
