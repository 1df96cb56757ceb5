"""The entries of the agreed file: parties, features, and the hub."""

from __future__ import annotations

from dataclasses import dataclass

from securefedyj.errors import InputError


class ConsortiumError(InputError):
    """An agreed file that parties cannot use; the sentence says why and what to do."""


@dataclass(frozen=True)
class PartyEntry:
    """A party of the consortium, and the certificate that it is known by.

    Its role is "silo" if it has data, and "helper" if it has none. Whether it is a member of the
    committee is another question, which `Consortium.committee` answers.
    """

    name: str
    role: str
    fingerprint: str
    certificate: str


@dataclass(frozen=True)
class Feature:
    """A column that all silos have, with the bounds of its values."""

    name: str
    lower: float
    upper: float
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Hub:
    """Where the hub listens, and its certificate."""

    address: str
    certificate: str

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])
