"""What parties may agree on: each function refuses, with a sentence, what they may not."""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from typing import Any

from securefedyj.engines.registry import ENGINES
from securefedyj.errors import code_of
from securefedyj.network.entries import ConsortiumError, Feature, Hub, PartyEntry
from securefedyj.network.identity import check_name, fingerprint
from securefedyj.numerics.encoding import LARGEST_BOUND, Domain
from securefedyj.printable import shown

_ROLES = ("silo", "helper")
_HOST = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]|[0-9A-Fa-f:.]+")
_PORT = re.compile("[0-9]{1,5}")
_LONGEST_NOTE = 2000


def check_number(key: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConsortiumError(
            "SFY-CON-001", f"{key} must be a whole number from {least} to {most}."
        )


def check_text(what: str, text: str) -> None:
    if not text or text != text.strip() or not text.isprintable() or len(text) > 200:
        raise ConsortiumError(
            "SFY-CON-002",
            f"{what} is {shown(text)}; it must have 1 to 200 printable characters and no space at "
            "either end.",
        )


def check_hub(hub: Hub) -> None:
    host, _, port = hub.address.rpartition(":")
    plain = bool(_HOST.fullmatch(host)) and len(host) <= 255 and _is_possible(host)
    if not plain or not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        raise ConsortiumError(
            "SFY-CON-003",
            f"the hub's address is {shown(hub.address)}; it must be HOST:PORT, such as "
            "hub.example.org:7443 or [2001:db8::1]:7443.",
        )
    _fingerprint_of(hub.certificate, "the hub")


def _is_possible(host: str) -> bool:
    """Whether an IPv6 address is one."""
    if ":" not in host:
        return True
    try:
        ipaddress.IPv6Address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _fingerprint_of(certificate: str, who: str) -> str:
    try:
        return fingerprint(certificate)
    except ValueError as error:
        raise ConsortiumError(
            code_of(error, "SFY-CON-013"), f"the certificate of {who}: {error}."
        ) from None


def check_parties(parties: tuple[PartyEntry, ...], hub: Hub | None) -> None:
    if len(parties) < 3:
        raise ConsortiumError(
            "SFY-CON-004",
            f"there are {len(parties)} parties, and three are the least: what two compute "
            'together each of them can undo. Add a party with the role "helper", such as '
            "a coordinator.",
        )
    _refuse_twice("party", [party.name for party in parties])
    owners = {} if hub is None else {_fingerprint_of(hub.certificate, "the hub"): "the hub"}
    for party in parties:
        try:
            check_name(party.name)
        except ValueError as error:
            raise ConsortiumError(code_of(error, "SFY-CON-020"), str(error)) from None
        _check_role(party)
        actual = _fingerprint_of(party.certificate, f"{party.name!r}")
        if party.fingerprint != actual:
            raise ConsortiumError(
                "SFY-CON-014",
                f"the fingerprint of {party.name!r} does not match its certificate, which has "
                f"{actual}; ask {party.name!r} by another way which of the two is right.",
            )
        if actual in owners:
            raise ConsortiumError(
                "SFY-CON-015",
                f"{party.name!r} and {owners[actual]} have the same certificate; each needs a "
                "key of its own (securefedyj keygen).",
            )
        owners[actual] = repr(party.name)
    if not any(party.role == "silo" for party in parties):
        raise ConsortiumError("SFY-CON-005", 'no party has the role "silo": nobody has data.')


def _check_role(party: PartyEntry) -> None:
    if party.role == "member":
        raise ConsortiumError(
            "SFY-CON-006",
            f'the role of {party.name!r} is "member", which is called "helper" now: a party '
            "without data. Change the word in the file, and give it to all again.",
        )
    if party.role not in _ROLES:
        raise ConsortiumError(
            "SFY-CON-007",
            f'the role of {party.name!r} is {shown(party.role)}; it must be "silo" (has data) or '
            '"helper" (has none).',
        )


def _refuse_twice(what: str, names: list[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ConsortiumError(
                "SFY-CON-016",
                f"there is more than one {what} named {shown(name)}; names must be distinct.",
            )


def check_engine(engine: str, *, verified: bool) -> None:
    networked = [name for name, facts in ENGINES.items() if facts.networked]
    if engine not in networked:
        raise ConsortiumError(
            "SFY-CON-008",
            f"the engine is {shown(engine)}; it must be {' or '.join(map(repr, networked))}.",
        )
    if verified and not ENGINES[engine].verifies:
        raise ConsortiumError(
            "SFY-CON-009",
            f"engine {engine!r} cannot verify a result: agree on verified = false (option "
            "--unverified), or on engine 'replicated'.",
        )


def check_committee(
    committee: tuple[str, ...], parties: tuple[PartyEntry, ...], engine: str
) -> None:
    names = {party.name for party in parties}
    if ENGINES[engine].committee_size is None:
        if committee != tuple(party.name for party in parties):
            raise ConsortiumError(
                "SFY-CON-017",
                f"the committee is {shown(list(committee))}; with engine {engine!r} all parties "
                f"compute, in their order: {', '.join(party.name for party in parties)}.",
            )
        return
    known = [name for name in committee if isinstance(name, str) and name in names]
    if len(committee) != 3 or len(set(known)) != 3:
        raise ConsortiumError(
            "SFY-CON-010",
            f"the committee is {shown(list(committee))}; it must be three distinct parties of "
            f"{', '.join(party.name for party in parties)}.",
        )


def _check_note(feature: Feature) -> None:
    """A note may have several lines; nothing in it may control a terminal."""
    lines = feature.note.replace("\t", " ").split("\n")
    if len(feature.note) > _LONGEST_NOTE or not all(line.isprintable() for line in lines):
        raise ConsortiumError(
            "SFY-CON-011",
            f"the note of feature {feature.name!r} is {shown(feature.note)}; it must have up to "
            f"{_LONGEST_NOTE} printable characters.",
        )


def check_features(features: tuple[Feature, ...]) -> None:
    if not features:
        raise ConsortiumError(
            "SFY-CON-012", "there is no feature; add a [[feature]] with name, lower and upper."
        )
    _refuse_twice("feature", [feature.name for feature in features])
    for feature in features:
        check_text("the name of a feature", feature.name)
        if feature.unit:
            check_text(f"the unit of feature {feature.name!r}", feature.unit)
        _check_note(feature)
        lower, upper = feature.lower, feature.upper
        bounded = math.isfinite(lower) and math.isfinite(upper)
        if not bounded or not -LARGEST_BOUND <= lower < upper <= LARGEST_BOUND:
            raise ConsortiumError(
                "SFY-CON-018",
                f"the bounds of feature {feature.name!r} are {lower!r} and {upper!r}; they must "
                "be numbers up to 2^100 with lower < upper.",
            )
    bounds = [(feature.lower, feature.upper) for feature in features]
    try:
        Domain.from_bounds(bounds, len(bounds)).check_usable([one.name for one in features])
    except ValueError as error:
        raise ConsortiumError(code_of(error, "SFY-CON-019"), str(error)) from None
