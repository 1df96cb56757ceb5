"""The agreed file, `consortium.toml`: public, and the same at every party.

format = 1
name = "sepsis-2026"
engine = "replicated"              # or "mpyc": all parties compute, and it is not verified
committee = ["north", "south", "coordinator"]
max_steps = 30                     # of the search for lambda
result_bits = 24                   # mean and variance are opened about so far
levels_per_exchange = 4            # a level is one step of the search
minimum_values = 30
max_interruptions = 5              # a run that is interrupted more often ends
verified = true                    # whatever one member does, no wrong result is accepted

[hub]                              # optional: something else may connect the parties
address = "hub.example.org:7443"
certificate = "-----BEGIN CERTIFICATE-----..."

[[party]]
name = "north"
role = "silo"                      # or "helper": has no data
fingerprint = "sha256:..."
certificate = "-----BEGIN CERTIFICATE-----..."

[[feature]]
name = "lactate"
lower = 0.0
upper = 40.0
unit = "mmol/L"                    # optional, as is note
"""

from __future__ import annotations

import datetime
import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.errors import code_of
from securefedyj.files import TooLarge
from securefedyj.network import checks, toml
from securefedyj.network.entries import ConsortiumError, Feature, Hub, PartyEntry
from securefedyj.network.identity import fingerprint, validity
from securefedyj.network.toml import get, refuse_unknown, write_table
from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.resolution import steps_wanted
from securefedyj.numerics.search import promised
from securefedyj.printable import printable, shown
from securefedyj.protocol.agreement import (
    FEWEST_BITS,
    MOST_BITS,
    MOST_LEVELS,
    MOST_STEPS,
    Agreement,
)
from securefedyj.strict import Malformed

__all__ = ["Consortium", "ConsortiumError", "Feature", "Hub", "PartyEntry"]

FORMAT = 1
ENGINE = "replicated"
MAX_STEPS, RESULT_BITS, LEVELS_PER_EXCHANGE, MINIMUM_VALUES, MAX_INTERRUPTIONS = 30, 24, 4, 30, 5


@dataclass(frozen=True)
class Consortium:
    """Everything public that the parties have agreed on."""

    name: str
    hub: Hub | None
    parties: tuple[PartyEntry, ...]
    committee: tuple[str, ...]
    features: tuple[Feature, ...]
    max_steps: int = MAX_STEPS
    result_bits: int = RESULT_BITS
    levels_per_exchange: int = LEVELS_PER_EXCHANGE
    minimum_values: int = MINIMUM_VALUES
    max_interruptions: int = MAX_INTERRUPTIONS
    verified: bool = True
    engine: str = ENGINE

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def read(cls, path: Path | str) -> Consortium:
        """Read and check the file; a `ConsortiumError` names the file and what is wrong."""
        try:
            return _from_toml(toml.read(path))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConsortiumError(
                code_of(error, "SFY-CON-026"), f"{path} is not a TOML file: {error}."
            ) from None
        except (Malformed, ConsortiumError, TooLarge) as error:
            raise ConsortiumError(code_of(error, "SFY-CON-027"), f"{path}: {error}") from None

    def write(self, path: Path | str) -> None:
        """Write the file; an existing one is not overwritten."""
        with open(path, "x", encoding="utf-8") as file:
            file.write(self.to_toml())

    def to_toml(self) -> str:
        blocks = [
            write_table(
                "",
                {"format": FORMAT, "name": self.name}
                # Earlier releases know the default, and not the word.
                | ({} if self.engine == ENGINE else {"engine": self.engine})
                | {"committee": list(self.committee)}
                | {key: getattr(self, key) for key in (*_NUMBERS, "verified")},
            ),
            *([] if self.hub is None else [write_table("[hub]", vars(self.hub))]),
            *(write_table("[[party]]", vars(party)) for party in self.parties),
            *(write_table("[[feature]]", _entries(feature)) for feature in self.features),
        ]
        return "\n".join(blocks)

    @property
    def silos(self) -> tuple[PartyEntry, ...]:
        """The parties with data."""
        return tuple(party for party in self.parties if party.role == "silo")

    def note_on_steps(self) -> str:
        """What to say where the steps can hardly suffice for the bounds; nothing otherwise."""
        domain = self.agreement().domain
        too_few = steps_wanted(domain, promised(self.max_steps)) > self.max_steps
        few = [self.features[j].name for j in np.flatnonzero(too_few)]
        if not few:
            return ""
        more = f" and {len(few) - 5} more" if len(few) > 5 else ""
        names = f"{', '.join(map(printable, few[:5]))}{more}"
        enough = int(steps_wanted(domain).max())
        return (
            f"Note: {self.max_steps} steps can hardly suffice for {names}, "
            f"whose bounds are so small. Agree on max_steps = {enough}, or on another unit."
        )

    def agreed_hub(self) -> Hub:
        """The hub, where it is the hub that connects the parties."""
        if self.hub is None:
            raise ConsortiumError(
                "SFY-CON-025",
                f"{self.name!r} has no [hub]: its parties meet by something else, such as NVIDIA "
                "FLARE. To meet at a hub, agree on a file with one (`securefedyj new --hub`).",
            )
        return self.hub

    def party(self, name: str) -> PartyEntry:
        """The party of that name."""
        for party in self.parties:
            if party.name == name:
                return party
        raise ConsortiumError(
            "SFY-CON-021",
            f"{name!r} is not a party of {self.name!r}; the parties are "
            f"{', '.join(party.name for party in self.parties)}.",
        )

    def party_with(self, certificate: str) -> PartyEntry:
        """The party that is known by a certificate in PEM form."""
        own = fingerprint(certificate)
        for party in self.parties:
            if party.fingerprint == own:
                return party
        raise ConsortiumError(
            "SFY-CON-022",
            f"No party of {self.name!r} has this certificate ({own}): was the key made anew "
            "after the file was agreed upon?",
        )

    def check_clock(self, moment: float) -> None:
        """Refuse a time, in seconds since 1970, at which TLS would refuse a certificate."""
        now = datetime.datetime.fromtimestamp(moment, datetime.UTC)
        owners = {} if self.hub is None else {"the hub": self.hub.certificate}
        for owner, pem in (
            owners | {party.name: party.certificate for party in self.parties}
        ).items():
            begin, end = validity(pem)
            if not begin <= now <= end:
                raise ConsortiumError(
                    "SFY-CON-028",
                    f"The clock of this machine says {now:%Y-%m-%d %H:%M} UTC, and the certificate "
                    f"of {owner} is valid from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}. Set "
                    "the clock; if it is right, agree on a file with a new certificate.",
                )

    def canonical(self) -> bytes:
        """All that matters to the result and to its secrecy, in one form.

        Not in it: the hub, which is trusted with nothing and may move, and the notes.
        """
        content = {
            "format": FORMAT,
            "name": self.name,
            "agreement": self.agreement().to_json(),
            "parties": [[p.name, p.role, p.fingerprint] for p in self.parties],
            "units": [feature.unit for feature in self.features],
            "max_interruptions": self.max_interruptions,
        }
        return json.dumps(content, sort_keys=True).encode()

    def digest(self) -> str:
        """SHA-256 of the canonical form, in hexadecimal digits."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def agreement(self) -> Agreement:
        """The parameters of the protocol."""
        bounds = [(feature.lower, feature.upper) for feature in self.features]
        return Agreement(
            features=tuple(feature.name for feature in self.features),
            domain=Domain.from_bounds(bounds, len(bounds)),
            parties=tuple(party.name for party in self.parties),
            committee=self.committee,
            engine=self.engine,
            max_steps=self.max_steps,
            levels_per_exchange=self.levels_per_exchange,
            minimum_values=self.minimum_values,
            result_bits=self.result_bits,
            helpers=tuple(party.name for party in self.parties if party.role == "helper"),
            verified=self.verified,
        )


def _entries(feature: Feature) -> dict[str, Any]:
    """What the file says of a feature; an empty unit or note is left out."""
    return {key: value for key, value in vars(feature).items() if value != ""}


_NUMBERS = {
    "max_steps": (MAX_STEPS, 1, MOST_STEPS),
    "result_bits": (RESULT_BITS, FEWEST_BITS, MOST_BITS),
    "levels_per_exchange": (LEVELS_PER_EXCHANGE, 1, MOST_LEVELS),
    "minimum_values": (MINIMUM_VALUES, 0, 2**31),
    "max_interruptions": (MAX_INTERRUPTIONS, 0, 1000),
}


# Reading: types and keys.


def _from_toml(data: dict[str, Any]) -> Consortium:
    if "format" not in data:
        raise ConsortiumError(
            "SFY-CON-023",
            "this is not an agreed file, such as `securefedyj new` writes; give that one.",
        )
    if data["format"] != FORMAT:
        raise ConsortiumError(
            "SFY-CON-024",
            f"the format is {shown(data['format'])}, and this release reads format {FORMAT}; "
            "install the release that wrote the file.",
        )
    words = {"format", "name", "engine", "hub", "party", "committee", "feature", "verified"}
    keys = {*words, *_NUMBERS}
    refuse_unknown("the file", data, keys)
    parties = get(data, "party", list, "the file")
    features = get(data, "feature", list, "the file")
    return Consortium(
        name=get(data, "name", str, "the file"),
        hub=_read_hub(get(data, "hub", dict, "the file")) if "hub" in data else None,
        parties=tuple(_read_party(entry, number) for number, entry in enumerate(parties, 1)),
        committee=tuple(get(data, "committee", list, "the file")),
        features=tuple(_read_feature(entry, number) for number, entry in enumerate(features, 1)),
        **{key: data.get(key, default) for key, (default, _, _) in _NUMBERS.items()},
        verified=get({"verified": True, **data}, "verified", bool, "the file"),
        engine=get({"engine": ENGINE, **data}, "engine", str, "the file"),
    )


def _read_hub(entry: dict[str, Any]) -> Hub:
    refuse_unknown("[hub]", entry, {"address", "certificate"})
    return Hub(*(get(entry, key, str, "[hub]") for key in ("address", "certificate")))


def _read_party(entry: dict[str, Any], number: int) -> PartyEntry:
    where = f"[[party]] number {number}"
    keys = ("name", "role", "fingerprint", "certificate")
    refuse_unknown(where, entry, set(keys))
    return PartyEntry(*(get(entry, key, str, where) for key in keys))


def _read_feature(entry: dict[str, Any], number: int) -> Feature:
    where = f"[[feature]] number {number}"
    refuse_unknown(where, entry, {"name", "lower", "upper", "unit", "note"})
    return Feature(
        get(entry, "name", str, where),
        float(get(entry, "lower", (int, float), where)),
        float(get(entry, "upper", (int, float), where)),
        get({"unit": "", **entry}, "unit", str, where),
        get({"note": "", **entry}, "note", str, where),
    )


def _check(consortium: Consortium) -> None:
    """Refuse what parties may not agree on."""
    checks.check_text("the name of the consortium", consortium.name)
    if consortium.hub is not None:
        checks.check_hub(consortium.hub)
    checks.check_parties(consortium.parties, consortium.hub)
    checks.check_engine(consortium.engine, verified=consortium.verified)
    checks.check_committee(consortium.committee, consortium.parties, consortium.engine)
    checks.check_features(consortium.features)
    for key, (_, least, most) in _NUMBERS.items():
        checks.check_number(key, getattr(consortium, key), least, most)
