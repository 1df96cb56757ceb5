"""The next agreed file of a consortium: made from the file before, and compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from securefedyj.engines.registry import facts_of
from securefedyj.network.consortium.entries import ConsortiumError, Feature, PartyEntry
from securefedyj.network.consortium.file import WRITTEN, Consortium
from securefedyj.printable import in_words, printable, shown
from securefedyj.protocol.agreement import ENGINE
from securefedyj.tables.cells import suggestion


def successor(
    before: Consortium,
    *,
    add: Sequence[PartyEntry] = (),
    remove: Sequence[str] = (),
    renew: Sequence[PartyEntry] = (),
    features: Sequence[Feature] = (),
    drop: Sequence[str] = (),
    bounds: Sequence[Feature] = (),
    committee: Sequence[str] = (),
    **others: Any,
) -> Consortium:
    """The next file; raises ConsortiumError where it cannot follow from the one before.

    Parties with a new certificate (`renew`) keep their roles, and features with new `bounds` keep
    their units and notes; `features` are new ones. The committee is by default as before; if a
    member has left, as in a new file. `others` are other fields of `Consortium`. All fields that
    are not given stay.
    """
    for name in remove:
        before.party(name)
    for party in add:
        if party.name in before.party_names:
            raise ConsortiumError(
                "SFY-CON-029",
                f"{party.name!r} is already a party. If it has a new key, give --renew "
                f"{party.name}=CERT.pem.",
            )
    renewed = {party.name: replace(party, role=before.party(party.name).role) for party in renew}
    kept = [party for party in before.parties if party.name not in remove]
    parties = (*(renewed.get(party.name, party) for party in kept), *add)
    engine = others.get("engine", before.engine)
    names = {party.name for party in parties}
    if not committee and engine == before.engine == ENGINE and names.issuperset(before.committee):
        committee = before.committee
    return replace(
        before,
        parties=parties,
        committee=tuple(committee) or default_committee(parties, engine),
        features=(*_kept_features(before, drop, bounds), *features),
        **others,
    )


def _kept_features(
    before: Consortium, drop: Sequence[str], bounds: Sequence[Feature]
) -> Iterator[Feature]:
    known, changed = before.feature_names, {feature.name: feature for feature in bounds}
    for name in (*drop, *changed):
        if name not in known:
            raise ConsortiumError(
                "SFY-CON-030",
                f"{before.name!r} has no feature {shown(name)}{suggestion(name, known)}; "
                "--feature adds one.",
            )
    for feature in before.features:
        new = changed.get(feature.name, feature)
        if feature.name not in drop:
            yield replace(feature, lower=new.lower, upper=new.upper)


def default_committee(parties: Sequence[PartyEntry], engine: str = ENGINE) -> tuple[str, ...]:
    """Helpers before silos, but in the last places; all parties if the engine needs all.

    An outsider's input comes in three terms: the first member has one of them, the second two, the
    third one. So the first two together know all of it, and the last member knows, even together
    with another, only sums over several silos. Masks among the silos hide the rest; without them,
    the place decides.
    """
    if engine != ENGINE:
        return facts_of(engine).committee_of(tuple(party.name for party in parties))
    members = sorted(parties, key=lambda party: party.role != "helper")[:3]
    return tuple(p.name for p in sorted(members, key=lambda party: party.role == "helper"))


def differences(before: Consortium, after: Consortium) -> list[str]:
    """How a later file differs, in lines for those who have to agree on it."""
    lines = [f"{party} is new" for party in _only_in(after.parties, before.parties)]
    lines += [f"{party} is no longer a party" for party in _only_in(before.parties, after.parties)]
    known = {party.name: party for party in before.parties}
    for party in after.parties:
        if party.name in known and party.fingerprint != known[party.name].fingerprint:
            lines.append(f"{printable(party.name)} has another certificate: {party.fingerprint}")
        elif after.submitted and party.name in known and party.keys != known[party.name].keys:
            lines.append(f"{printable(party.name)} has other keys for submissions")
    if after.committee != before.committee:
        was = ", ".join(map(printable, before.committee))
        lines.append(f"the committee is {', '.join(map(printable, after.committee))}; was {was}")
    lines += [f"feature {name} is new" for name in _only_in(after.features, before.features)]
    lines += [f"feature {name} is left out" for name in _only_in(before.features, after.features)]
    earlier = {feature.name: feature for feature in before.features}
    for feature in after.features:
        old = earlier.get(feature.name, feature)
        if (feature.lower, feature.upper) != (old.lower, old.upper):
            lines.append(
                f"{printable(feature.name)} from {feature.lower:g} to {feature.upper:g}; was "
                f"{old.lower:g} to {old.upper:g}"
            )
        others = [key for key in Feature.__annotations__ if key not in ("lower", "upper", "note")]
        lines += _changes(old, feature, others, of=f"{printable(feature.name)}: ")
    lines += _changes(before, after, ("name", "engine", "submitted", "claimed_points", *WRITTEN))
    if before.hub != after.hub:
        lines.append("the hub has another address or certificate")
    return lines


def note_on_two_results(before: Consortium, after: Consortium) -> str:
    """What the results of both files reveal together; empty if the silos are the same."""
    old, new = ([silo.name for silo in one.silos] for one in (before, after))
    came, gone = [n for n in new if n not in old], [n for n in old if n not in new]
    if not (came or gone):
        return ""
    return (
        "Note: if the values of the other silos are the same as before, the difference of the two "
        "results can reveal the number, mean and variance of the values that came or left with "
        f"{in_words([*came, *gone])}. The ledger of each silo warns it before the run."
    )


def _changes(before: object, after: object, keys: Iterable[str], of: str = "") -> Iterator[str]:
    for key in keys:
        was, now = getattr(before, key), getattr(after, key)
        if was != now:
            yield f"{of}{key} is {shown(now)}; was {shown(was)}"


def _only_in(
    some: Sequence[PartyEntry | Feature], others: Sequence[PartyEntry | Feature]
) -> list[str]:
    known = {other.name for other in others}
    return [printable(one.name) for one in some if one.name not in known]
