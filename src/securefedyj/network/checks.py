"""What parties may agree on: each function refuses, with a sentence, what they may not."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from securefedyj.network.entries import ConsortiumError, Feature, Hub, PartyEntry
from securefedyj.network.identity import check_name, fingerprint
from securefedyj.numerics.encoding import LARGEST_BOUND, Domain

_ROLES = ("silo", "helper")
_LONGEST_HOST = 253  # characters, as names of hosts may have
_LONGEST_REMARK = 1000  # characters of a unit or a note
_LONGEST_QUOTE = 200


def check_number(key: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConsortiumError(f"{key} must be a whole number from {least} to {most}.")


def check_text(what: str, text: str) -> None:
    if not text or text != text.strip() or not text.isprintable() or len(text) > 200:
        raise ConsortiumError(
            f"{what} is {_quoted(text)}; it must have 1 to 200 printable characters and no space "
            "at either end."
        )


def check_remark(what: str, text: str) -> None:
    """Refuse control characters: they could repaint a terminal that shows the text."""
    if not text.isprintable() or len(text) > _LONGEST_REMARK:
        raise ConsortiumError(
            f"{what} is {_quoted(text)}; it must have printable characters only, and at most "
            f"{_LONGEST_REMARK} of them, on one line."
        )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}...")


def check_hub(hub: Hub) -> None:
    host, _, port = hub.address.rpartition(":")
    plain = host and host.isprintable() and " " not in host and len(host) <= _LONGEST_HOST
    number = port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536
    if not (plain and number):
        raise ConsortiumError(
            f"the hub's address is {_quoted(hub.address)}; it must be HOST:PORT, such as "
            "hub.example.org:7443."
        )
    _fingerprint_of(hub.certificate, "the hub")


def _fingerprint_of(certificate: str, who: str) -> str:
    try:
        return fingerprint(certificate)
    except ValueError as error:
        raise ConsortiumError(f"the certificate of {who}: {error}.") from None


def check_parties(parties: tuple[PartyEntry, ...], hub: Hub) -> None:
    if len(parties) < 3:
        raise ConsortiumError(
            f"there are {len(parties)} parties, and three are the least: what two compute "
            'together each of them can undo. Add a party with the role "helper", such as '
            "a coordinator."
        )
    _refuse_twice("party", [party.name for party in parties])
    owners = {_fingerprint_of(hub.certificate, "the hub"): "the hub"}
    for party in parties:
        try:
            check_name(party.name)
        except ValueError as error:
            raise ConsortiumError(str(error)) from None
        _check_role(party)
        actual = _fingerprint_of(party.certificate, f"{party.name!r}")
        if party.fingerprint != actual:
            raise ConsortiumError(
                f"the fingerprint of {party.name!r} does not match its certificate, which has "
                f"{actual}; ask {party.name!r} by another way which of the two is right."
            )
        if actual in owners:
            raise ConsortiumError(
                f"{party.name!r} and {owners[actual]} have the same certificate; each needs a "
                "key of its own (securefedyj keygen)."
            )
        owners[actual] = repr(party.name)
    if not any(party.role == "silo" for party in parties):
        raise ConsortiumError('no party has the role "silo": nobody has data.')


def _check_role(party: PartyEntry) -> None:
    if party.role == "member":
        raise ConsortiumError(
            f'the role of {party.name!r} is "member", which is called "helper" now: a party '
            "without data. Change the word in the file, and give it to all again."
        )
    if party.role not in _ROLES:
        raise ConsortiumError(
            f'the role of {party.name!r} is {party.role!r}; it must be "silo" (has data) or '
            '"helper" (has none).'
        )


def _refuse_twice(what: str, names: list[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ConsortiumError(
                f"there is more than one {what} named {name!r}; names must be distinct."
            )


def check_committee(committee: tuple[str, ...], parties: tuple[PartyEntry, ...]) -> None:
    names = {party.name for party in parties}
    known = [name for name in committee if isinstance(name, str) and name in names]
    if len(committee) != 3 or len(set(known)) != 3:
        raise ConsortiumError(
            f"the committee is {list(committee)}; it must be three distinct parties of "
            f"{', '.join(party.name for party in parties)}."
        )


def check_features(features: tuple[Feature, ...]) -> None:
    if not features:
        raise ConsortiumError("there is no feature; add a [[feature]] with name, lower and upper.")
    _refuse_twice("feature", [feature.name for feature in features])
    for feature in features:
        check_text("the name of a feature", feature.name)
        check_remark(f"the unit of feature {feature.name!r}", feature.unit)
        check_remark(f"the note on feature {feature.name!r}", feature.note)
        lower, upper = feature.lower, feature.upper
        bounded = math.isfinite(lower) and math.isfinite(upper)
        if not bounded or not -LARGEST_BOUND <= lower < upper <= LARGEST_BOUND:
            raise ConsortiumError(
                f"the bounds of feature {feature.name!r} are {lower!r} and {upper!r}; they must "
                "be numbers up to 2^100 with lower < upper."
            )
    bounds = [(feature.lower, feature.upper) for feature in features]
    try:
        Domain.from_bounds(bounds, len(bounds)).check_usable([one.name for one in features])
    except ValueError as error:
        raise ConsortiumError(str(error)) from None
