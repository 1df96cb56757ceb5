"""The agreed file as a whole: read within bounds, checked and written."""

from __future__ import annotations

import datetime
import hashlib
import json
import tomllib
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta

from securefedyj.engines.registry import ENGINES
from securefedyj.errors import InputError, code_of
from securefedyj.network.consortium.entries import (
    ConsortiumError,
    Feature,
    HubEntry,
    PartyEntry,
    check_text,
)
from securefedyj.network.consortium.toml_text import parsed, write_table
from securefedyj.network.identity import fingerprint, validity
from securefedyj.numerics.resolution import steps_wanted
from securefedyj.numerics.search import promised
from securefedyj.printable import in_words, shown
from securefedyj.protocol.agreement import (
    ENGINE,
    Agreement,
    ProtocolParameters,
    bounds_of,
    check_values,
    refuse_twice,
)
from securefedyj.strict import Malformed, convert

FORMAT = 1
REHEARSAL = " (rehearsal)"
"""How the name of a rehearsal ends."""
T = TypeVar("T")

WRITTEN = ("max_steps", "result_bits", "levels_per_exchange", "minimum_values",
           "max_interruptions", "verified")  # fmt: skip
"""Fields that the file has under their own names, besides those that `to_toml` writes first."""

FEWEST_VALUES = 5
"""The least minimum_values where quantiles are agreed on."""


@dataclass(frozen=True, kw_only=True)
class Consortium(ProtocolParameters):
    """Everything public that the parties have agreed on.

    What the protocol needs of it is an `Agreement`, which checks its part of the fields.
    """

    name: str
    hub: HubEntry | None
    parties: tuple[PartyEntry, ...]
    features: tuple[Feature, ...]
    max_interruptions: Annotated[int, Meta(ge=0, le=1000)] = 5
    rehearses: bool = False
    """Whether all rows are made up; no file says so, and the digest is that of no file."""

    def __post_init__(self) -> None:
        """Refuse what parties may not agree on, beyond what the protocol refuses."""
        check_values(self, Consortium)
        check_text("the name of the consortium", self.name)
        networked = [name for name, facts in ENGINES.items() if facts.networked]
        if self.engine not in networked:
            raise ConsortiumError(
                "SFY-CON-008",
                f"the engine is {shown(self.engine)}; it must be "
                f"{' or '.join(map(repr, networked))}.",
            )
        if len(self.parties) < 3:
            raise ConsortiumError(
                "SFY-CON-004",
                f"a consortium needs at least 3 parties, not {len(self.parties)}: if two compute "
                'together, each can undo it. Add a party with the role "helper", such as a '
                "coordinator.",
            )
        if not self.features:
            raise ConsortiumError(
                "SFY-CON-012", "there is no feature; add a [[feature]] with name, lower and upper."
            )
        refuse_twice("feature", self.feature_names)
        for one in (self.hub, *self.features, *self.parties):
            if one is not None:
                one.check()
        owners = {} if self.hub is None else {fingerprint(self.hub.certificate): "the hub"}
        for party in self.parties:
            other = owners.setdefault(party.fingerprint, repr(party.name))
            if other != repr(party.name):
                raise ConsortiumError(
                    "SFY-CON-015",
                    f"{party.name!r} and {other} have the same certificate; each needs a key of "
                    "its own (securefedyj keygen).",
                )
        agreement = self.agreement()
        agreement.check()
        needed = {*self.committee, *agreement.silos} if self.submitted else ()
        if lacking := [one.name for one in self.parties if one.name in needed and not one.keys]:
            raise ConsortiumError(
                "SFY-CON-042",
                f"{in_words(lacking, 5)} {'has' if len(lacking) == 1 else 'have'} no keys for "
                "submissions, which each silo and each member of the committee needs. `securefedyj "
                "keygen NAME --renew` adds them to NAME.pem; agree on a file with them "
                "(`securefedyj new`, for a party of an earlier file with --renew).",
            )
        if agreement.asked.ranked.any() and self.minimum_values < FEWEST_VALUES:
            raise ConsortiumError(
                "SFY-CON-038",
                f"minimum_values is {self.minimum_values}; where quantiles are agreed on it must "
                f"be at least {FEWEST_VALUES}, since a quantile is the value of one row.",
            )

    @classmethod
    def read(cls, path: Path | str) -> Consortium:
        """Read and check the file; a `ConsortiumError` names the file and what is wrong."""
        try:
            return _from_toml(parsed(path))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConsortiumError(
                "SFY-CON-026",
                f"{path} is not a TOML file in UTF-8: {error}. Give the whole file that "
                "`securefedyj new` wrote.",
            ) from None
        except (Malformed, InputError) as error:
            raise ConsortiumError(code_of(error, "SFY-CON-027"), f"{path}: {error}") from None

    def write(self, path: Path | str) -> None:
        """Write the file; an existing one is not overwritten."""
        with open(path, "x", encoding="utf-8") as file:
            file.write(self.to_toml())

    def to_toml(self) -> str:
        head = {"format": FORMAT, "name": self.name}
        if self.engine != ENGINE:  # earlier releases know the default, and not the word
            head["engine"] = self.engine
        head["committee"] = self.committee
        if self.submitted:
            head |= {"submitted": True, "claimed_points": self.claimed_points}
        tables = [("", head | {key: getattr(self, key) for key in WRITTEN})]
        if self.hub is not None:
            tables.append(("[hub]", asdict(self.hub)))
        # Earlier releases do not know the keys, which only a submitted run needs.
        parties = [one if self.submitted else replace(one, keys="") for one in self.parties]
        tables += [("[[party]]", _given(party)) for party in parties]
        tables += [("[[feature]]", _given(feature)) for feature in self.features]
        return "\n".join(write_table(*table) for table in tables)

    def rehearsal(self) -> Consortium:
        """The same for a run with made-up rows, in which all parties are online."""
        name = f"{self.name}{REHEARSAL}"
        return replace(self, name=name, rehearses=True, submitted=False)

    @property
    def silos(self) -> tuple[PartyEntry, ...]:
        """The parties with data."""
        return tuple(party for party in self.parties if party.role == "silo")

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @property
    def units(self) -> dict[str, str]:
        """The units of features by their names."""
        return {feature.name: feature.unit for feature in self.features}

    @property
    def party_names(self) -> tuple[str, ...]:
        return tuple(party.name for party in self.parties)

    def note_on_steps(self) -> str:
        """A warning if the search may need more steps for some bounds; otherwise empty."""
        domain = self.agreement().domain
        too_few = steps_wanted(domain, promised(self.max_steps)) > self.max_steps
        few = [self.features[j].name for j in np.flatnonzero(too_few)]
        if not few:
            return ""
        enough = int(steps_wanted(domain).max())
        return (
            f"Note: the bounds of {in_words(few, 5)} are so narrow that {self.max_steps} steps are "
            f"probably too few. Agree on max_steps = {enough}, or on another unit."
        )

    def agreed_hub(self) -> HubEntry:
        """The hub; raises ConsortiumError if something else connects the parties."""
        if self.hub is None:
            raise ConsortiumError(
                "SFY-CON-025",
                f"{self.name!r} has no [hub]: something else connects its parties, such as NVIDIA "
                "FLARE. To use a hub, agree on a file with one (`securefedyj new --hub`).",
            )
        return self.hub

    def places_of(self, names: Collection[str]) -> list[int]:
        """The places of features that a silo leaves out."""
        if strangers := sorted(set(names) - set(self.feature_names)):
            raise ConsortiumError(
                "SFY-CON-060",
                f"{shown(strangers[0])} is not a feature of {self.name!r}, so it cannot be left "
                f"out; the features are {in_words(self.feature_names, 12)}.",
            )
        return [j for j, name in enumerate(self.feature_names) if name in names]

    def party(self, name: str) -> PartyEntry:
        if name in self.party_names:
            return self.parties[self.party_names.index(name)]
        raise ConsortiumError(
            "SFY-CON-021",
            f"{name!r} is not a party of {self.name!r}; the parties are "
            f"{', '.join(self.party_names)}.",
        )

    def party_with(self, certificate: str) -> PartyEntry:
        """The party with a certificate, which is in PEM form."""
        own = fingerprint(certificate)
        for party in self.parties:
            if party.fingerprint == own:
                return party
        raise ConsortiumError(
            "SFY-CON-022",
            f"No party of {self.name!r} has this certificate ({own}). Use the key that the file "
            "names, or agree on a file with the new certificate.",
        )

    def check_clock(self, moment: float) -> None:
        """Refuse a time, in seconds since 1970, at which TLS would reject a certificate."""
        now = datetime.datetime.fromtimestamp(moment, datetime.UTC)
        owners = {} if self.hub is None else {"the hub": self.hub.certificate}
        owners |= {party.name: party.certificate for party in self.parties}
        for owner, pem in owners.items():
            begin, end = validity(pem)
            if not begin <= now <= end:
                raise ConsortiumError(
                    "SFY-CON-028",
                    f"The clock of this machine says {now:%Y-%m-%d %H:%M} UTC, and the certificate "
                    f"of {owner} is valid from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}. Set "
                    "the clock; if it is right, agree on a file with a new certificate.",
                )

    def canonical(self) -> bytes:
        """All that affects the result and its secrecy, in one form.

        This leaves out the notes, and the hub: nobody has to trust it, and it may move.
        """
        content = {
            "format": FORMAT,
            "name": self.name,
            "agreement": self.agreement().to_json(),
            "parties": [[p.name, p.role, p.fingerprint] for p in self.parties],
            "units": list(self.units.values()),
            "max_interruptions": self.max_interruptions,
        }
        if self.rehearses:
            content["rehearses"] = True
        if self.submitted:
            content["keys"] = [party.keys for party in self.parties]
        return json.dumps(content, sort_keys=True).encode()

    def digest(self) -> str:
        """SHA-256 of the canonical form, in hexadecimal digits."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def agreement(self) -> Agreement:
        """The parameters of the protocol."""
        bounds = [(feature.lower, feature.upper) for feature in self.features]
        methods = tuple(feature.methods for feature in self.features)
        return Agreement(
            **{name: getattr(self, name) for name in ProtocolParameters.__annotations__},
            features=self.feature_names,
            domain=bounds_of(bounds, self.feature_names, methods),
            methods=methods,
            resolution=tuple(feature.resolution for feature in self.features),
            digits=tuple(feature.digits for feature in self.features),
            rounded=tuple(feature.round for feature in self.features),
            parties=self.party_names,
            helpers=tuple(party.name for party in self.parties if party.role == "helper"),
        )


def _from_toml(data: dict[str, Any]) -> Consortium:
    if "format" not in data:
        raise ConsortiumError(
            "SFY-CON-023",
            "this is not an agreed file, which `securefedyj new` writes; give that one.",
        )
    if (found := data.pop("format")) != FORMAT:
        raise ConsortiumError(
            "SFY-CON-024",
            f"the format is {shown(found)}, and this release reads format {FORMAT}; install the "
            "release that wrote the file.",
        )
    own = {field.name for field in fields(Consortium)} - {"parties", "features", "rehearses"}
    known = own | {"party", "feature"}
    if unknown := sorted(data.keys() - known):
        raise Malformed(
            f"the file has an unknown field {shown(unknown[0])}; it may have "
            f"{', '.join(sorted(known | {'format'}))}."
        )
    sections = {
        "hub": convert(data.pop("hub"), HubEntry, "[hub]") if "hub" in data else None,
        "parties": _section(data.pop("party", []), PartyEntry, "[[party]]"),
        "features": _section(data.pop("feature", []), Feature, "[[feature]]"),
    }
    return convert(data | sections, Consortium, "the file")


def _section(entries: Any, kind: type[T], head: str) -> list[T]:
    numbered = enumerate(convert(entries, list[Any], head), 1)
    return [convert(entry, kind, f"{head} number {number}") for number, entry in numbered]


def _given(entry: PartyEntry | Feature) -> dict[str, Any]:
    """The fields of a section, without those that are as by default, such as no unit."""
    own = [(field, getattr(entry, field.name)) for field in fields(entry)]
    return {field.name: value for field, value in own if value != field.default}
