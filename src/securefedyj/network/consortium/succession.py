"""The next agreed file of a consortium, from the one before: who came, who left, what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from securefedyj.engines.registry import facts_of
from securefedyj.network.consortium.entries import ConsortiumError, Feature, PartyEntry
from securefedyj.network.consortium.file import Consortium
from securefedyj.printable import in_words, printable, shown
from securefedyj.protocol.agreement import ENGINE
from securefedyj.tables.cells import suggestion


@dataclass(frozen=True)
class Changes:
    """What is to be otherwise than before; all else is kept."""

    add: Sequence[PartyEntry] = ()
    remove: Sequence[str] = ()
    renew: Sequence[PartyEntry] = ()
    """Parties by their new certificates; their roles stay."""
    features: Sequence[Feature] = ()
    """Those that come besides."""
    drop: Sequence[str] = ()
    bounds: Sequence[Feature] = ()
    """Features by their new bounds; their units and notes stay."""
    committee: Sequence[str] = ()
    """By default as before; where a member has left, as in a new file."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Any other entries of `Consortium`, by their names."""


def successor(before: Consortium, changes: Changes) -> Consortium:
    """The next file; raises ConsortiumError where it cannot follow from the one before."""
    for name in changes.remove:
        before.party(name)
    for party in changes.add:
        if any(party.name == known.name for known in before.parties):
            raise ConsortiumError(
                "SFY-CON-029",
                f"{party.name!r} is a party already. If its key was made anew, say --renew "
                f"{party.name}=CERT.pem.",
            )
    renewed = {
        party.name: replace(party, role=before.party(party.name).role) for party in changes.renew
    }
    kept = [party for party in before.parties if party.name not in changes.remove]
    parties = (*(renewed.get(party.name, party) for party in kept), *changes.add)
    engine = changes.others.get("engine", before.engine)
    return replace(
        before,
        parties=parties,
        committee=tuple(changes.committee) or _committee_after(before, parties, engine),
        features=_features_after(before, changes),
        **changes.others,
    )


def default_committee(parties: Sequence[PartyEntry], engine: str = ENGINE) -> tuple[str, ...]:
    """Helpers before silos, but in the last places; with an engine that needs all, all.

    An outsider's input comes in three terms: the first member has one of them, the second two,
    the third one. So the first two know all of it, and whoever is in the last place knows, even
    with another member, sums over several silos only. The masks among silos hide the rest; where
    there are none, or one of them fails, the place decides.
    """
    if engine != ENGINE:
        return facts_of(engine).committee_of(tuple(party.name for party in parties))
    members = sorted(parties, key=lambda party: party.role != "helper")[:3]
    return tuple(p.name for p in sorted(members, key=lambda party: party.role == "helper"))


def _committee_after(
    before: Consortium, parties: Sequence[PartyEntry], engine: str
) -> tuple[str, ...]:
    names = {party.name for party in parties}
    if engine == before.engine == ENGINE and names.issuperset(before.committee):
        return before.committee
    return default_committee(parties, engine)


def _features_after(before: Consortium, changes: Changes) -> tuple[Feature, ...]:
    known = [feature.name for feature in before.features]
    for name in (*changes.drop, *(feature.name for feature in changes.bounds)):
        if name not in known:
            raise ConsortiumError(
                "SFY-CON-030",
                f"{before.name!r} has no feature {shown(name)}{suggestion(name, known)}; "
                "--feature adds one.",
            )
    bounds = {feature.name: (feature.lower, feature.upper) for feature in changes.bounds}
    kept = []
    for feature in before.features:
        lower, upper = bounds.get(feature.name, (feature.lower, feature.upper))
        if feature.name not in changes.drop:
            kept.append(replace(feature, lower=lower, upper=upper))
    return (*kept, *changes.features)


def differences(before: Consortium, after: Consortium) -> list[str]:
    """What a later file has otherwise, in lines for those who have to agree on it."""
    lines = [f"{party} is new" for party in _only_in(after.parties, before.parties)]
    lines += [f"{party} is no party any more" for party in _only_in(before.parties, after.parties)]
    known = {party.name: party for party in before.parties}
    for party in after.parties:
        if party.name in known and party.fingerprint != known[party.name].fingerprint:
            lines.append(f"{printable(party.name)} has another certificate: {party.fingerprint}")
    if after.committee != before.committee:
        was = ", ".join(map(printable, before.committee))
        lines.append(f"the committee is {', '.join(map(printable, after.committee))}; was {was}")
    lines += [f"feature {name} is new" for name in _only_in(after.features, before.features)]
    lines += [f"feature {name} is left out" for name in _only_in(before.features, after.features)]
    earlier = {feature.name: feature for feature in before.features}
    for feature in after.features:
        was_one = earlier.get(feature.name, feature)
        if (feature.lower, feature.upper) != (was_one.lower, was_one.upper):
            lines.append(
                f"{printable(feature.name)} from {feature.lower:g} to {feature.upper:g}; was "
                f"{was_one.lower:g} to {was_one.upper:g}"
            )
    for key in ("name", "engine", "max_steps", "result_bits", "levels_per_exchange",
                "minimum_values", "max_interruptions", "verified"):  # fmt: skip
        old, new = getattr(before, key), getattr(after, key)
        if old != new:
            lines.append(f"{key} is {shown(new)}; was {shown(old)}")
    if before.hub != after.hub:
        lines.append("the hub is another one, or has another certificate")
    return lines


def note_on_two_results(before: Consortium, after: Consortium) -> str:
    """What the results of both files tell together; nothing where the silos are the same."""
    old, new = ([silo.name for silo in one.silos] for one in (before, after))
    came, gone = [n for n in new if n not in old], [n for n in old if n not in new]
    if not (came or gone):
        return ""
    return (
        "Note: where the other silos' values are as they were, the difference of the results of "
        "both files can tell the number, mean and variance of the values that came or left with "
        f"{in_words([*came, *gone])}. The ledger of each silo warns it before the run."
    )


def _only_in(
    some: Sequence[PartyEntry | Feature], others: Sequence[PartyEntry | Feature]
) -> list[str]:
    known = {other.name for other in others}
    return [printable(one.name) for one in some if one.name not in known]
