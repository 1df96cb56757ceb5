"""`securefedyj new`: the agreed file of a consortium."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from securefedyj.cli.common import OK, Commands, command, tell, tell_differences, wrapped
from securefedyj.cli.entries import feature_of, features_of, party_of
from securefedyj.cli.plan import add_line, check_line
from securefedyj.errors import InputError
from securefedyj.network.consortium import (
    ENGINE,
    Consortium,
    Feature,
    HubEntry,
)
from securefedyj.network.consortium.succession import (
    Changes,
    default_committee,
    successor,
)
from securefedyj.network.identity import read_certificate
from securefedyj.network.subtraction import note_on_silos

AUTO = "auto"
_SETTINGS = (
    "max_steps",
    "result_bits",
    "minimum_values",
    "max_interruptions",
    "verified",
    "engine",
)
_WITH_FROM = {"add": "--add", "remove": "--remove", "renew": "--renew", "bounds": "--bounds",
              "drop": "--drop"}  # fmt: skip
# With more pairs of a feature and a lambda in one exchange, computing takes longer than a round.
_MOST_PAIRS = 1 << 15
_MPYC_LEVELS = 1  # its parties compute for far longer than messages take


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "new",
        "write the agreed file of a consortium",
        "securefedyj new consortium.toml --name sepsis --hub hub.example.org:7443 \\\n"
        "    --hub-certificate hub.pem --silo north=north.pem --silo south=south.pem \\\n"
        "    --helper coordinator=coordinator.pem \\\n"
        "    --feature lactate:0:40 --feature age:0:120",
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="the file to write; not overwritten"
    )
    parser.add_argument("--name", help="of the consortium")
    parser.add_argument(
        "--hub",
        metavar="HOST:PORT",
        help="where parties will reach the hub; without it, something else has to connect them, "
        "such as NVIDIA FLARE",
    )
    parser.add_argument(
        "--hub-certificate", type=Path, metavar="CERT.pem", help="of the hub; goes with --hub"
    )
    parser.add_argument(
        "--silo",
        action="append",
        default=[],
        metavar="NAME=CERT.pem",
        help="a party with data; once for each",
    )
    parser.add_argument(
        "--helper",
        action="append",
        default=[],
        metavar="NAME=CERT.pem",
        help="a party without data, such as a coordinator; once for each",
    )
    for option, earlier in (("silo", "--party"), ("helper", "--member")):
        # What the options were called before; scripts may still have them.
        parser.add_argument(
            earlier,
            dest=option,
            action="append",
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
    parser.add_argument(
        "--feature",
        action="append",
        default=[],
        metavar="NAME:LOWER:UPPER",
        help="a column and the bounds of its values; once for each",
    )
    parser.add_argument(
        "--features",
        type=Path,
        metavar="FILE.csv",
        help="the same as a table with the columns name, lower, upper, and if you like unit, note",
    )
    parser.add_argument(
        "--engine",
        metavar="NAME",
        help="replicated: three members compute, and a result can be verified; mpyc: all parties "
        "compute, private unless half of them collude, slower, with --unverified only "
        f"(default: {ENGINE})",
    )
    _add_succession(parser)
    parser.add_argument(
        "--committee",
        metavar="A,B,C",
        help="its three members, who compute (default: the helpers and the first silos, a helper "
        "in the last place, where a member sees least)",
    )
    parser.add_argument(
        "--max-steps",
        type=int,
        metavar="N",
        help="of the search for lambda: each halves how far it may be off, and tells a bit more of "
        f"the data (default: {Consortium.max_steps})",
    )
    parser.add_argument(
        "--result-bits",
        type=int,
        metavar="N",
        help="to which mean and variance are opened, 8 to 44: more are more exact, and tell more "
        f"of the data where a feature has few distinct values (default: {Consortium.result_bits})",
    )
    parser.add_argument(
        "--levels-per-exchange",
        type=_levels,
        metavar="N",
        help="steps of the search (levels) that are prepared at once (default: auto, which plans "
        "the run for the number of rows and the line below, and takes what it recommends)",
    )
    add_line(parser)
    parser.add_argument(
        "--minimum-values",
        type=int,
        metavar="N",
        help="with fewer values of a feature over all silos, a run stops "
        f"(default: {Consortium.minimum_values})",
    )
    parser.add_argument(
        "--max-interruptions",
        type=int,
        metavar="N",
        help="after which a run ends: a party that interrupts again and again may be asking for "
        f"more than the result (default: {Consortium.max_interruptions})",
    )
    parser.add_argument(
        "--unverified",
        dest="verified",
        action="store_false",
        default=None,
        help="trust all members of the committee to compute as the protocol says; else a result is "
        "accepted only with a proof that it is right for the sums of the silos",
    )
    parser.add_argument(
        "--verified", action="store_true", default=None, help="the default; with --from, again"
    )
    parser.set_defaults(run=run)


def _add_succession(parser: argparse.ArgumentParser) -> None:
    later = parser.add_argument_group("the next file of a consortium (docs/life.md)")
    later.add_argument(
        "--from",
        dest="before",
        type=Path,
        metavar="FILE",
        help="the file before: all that no other option changes is kept",
    )
    for option, metavar, words in (
        ("--add", "NAME=CERT.pem", "a silo that joins"),
        ("--remove", "NAME", "a party that leaves"),
        ("--renew", "NAME=CERT.pem", "a party whose key was made anew"),
        ("--bounds", "NAME:LOWER:UPPER", "other bounds of a feature"),
        ("--drop", "NAME", "a feature to leave out"),
    ):
        later.add_argument(
            option, action="append", default=[], metavar=metavar, help=f"{words}; once for each"
        )


def run(options: argparse.Namespace) -> int:
    before = None if options.before is None else Consortium.read(options.before)
    given = {key: getattr(options, key) for key in _SETTINGS if getattr(options, key) is not None}
    consortium = _first(options, given) if before is None else _next(before, options, given)
    levels, planned = options.levels_per_exchange, ""
    if levels == AUTO or (levels is None and before is None):
        levels, planned = _planned(consortium, options)
    if levels is not None:
        consortium = replace(consortium, levels_per_exchange=levels)
    try:
        consortium.write(options.file)
    except FileExistsError:
        raise InputError(
            "SFY-CLI-016", f"{options.file} exists and is not overwritten; move it away."
        ) from None
    tell(f"Wrote {options.file}; give the same file to all. Its digest:\n  {consortium.digest()}")
    if planned:
        tell(wrapped(planned))
    if before is not None:
        tell_differences(before, consortium, options.before)
        if before.name == consortium.name and before.digest() != consortium.digest():
            tell(wrapped(
                f"Note: both files have the name {before.name!r}, and a hub serves one of them: "
                "give --name, or take the earlier file away from the hub."
            ))  # fmt: skip
    for note in (_note_on_committee(consortium), note_on_silos(consortium)):
        if note:
            tell(wrapped(note))
    return OK


def _first(options: argparse.Namespace, given: dict[str, Any]) -> Consortium:
    for key, option in _WITH_FROM.items():
        if getattr(options, key):
            raise InputError(
                "SFY-CLI-017", f"{option} changes an earlier file; name it by --from FILE."
            )
    if not options.name:
        raise InputError("SFY-CLI-014", "A consortium needs a --name.")
    silos = [party_of(entry) for entry in options.silo]
    parties = (*silos, *(party_of(entry, "helper") for entry in options.helper))
    return Consortium(
        name=options.name,
        hub=_hub(options),
        parties=parties,
        committee=_asked(options) or default_committee(parties, given.get("engine", ENGINE)),
        features=tuple(_features(options)),
        **given,
    )


def _next(before: Consortium, options: argparse.Namespace, given: dict[str, Any]) -> Consortium:
    if options.name:
        given["name"] = options.name
    hub = _hub(options, before.hub)
    if hub is not None:
        given["hub"] = hub
    return successor(
        before,
        Changes(
            add=[
                *(party_of(entry) for entry in (*options.add, *options.silo)),
                *(party_of(entry, "helper") for entry in options.helper),
            ],
            remove=options.remove,
            renew=[party_of(entry) for entry in options.renew],
            features=_features(options),
            drop=options.drop,
            bounds=[feature_of(entry) for entry in options.bounds],
            committee=_asked(options),
            others=given,
        ),
    )


def _features(options: argparse.Namespace) -> list[Feature]:
    features = [feature_of(entry) for entry in options.feature]
    return features + ([] if options.features is None else features_of(options.features))


def _asked(options: argparse.Namespace) -> tuple[str, ...]:
    """The committee, if the user has named it."""
    return tuple(map(str.strip, options.committee.split(","))) if options.committee else ()


def _levels(text: str) -> int | str:
    if text != AUTO and not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor {AUTO}")
    return AUTO if text == AUTO else int(text)


def _planned(consortium: Consortium, options: argparse.Namespace) -> tuple[int, str]:
    """Levels for the rows and the line that were told, and a sentence about them."""
    from securefedyj.network.forecast import LEVELS, bytes_per_second, forecast

    check_line(options)
    if consortium.engine != ENGINE:
        return _MPYC_LEVELS, ""
    pairs = len(consortium.features)
    outlook = forecast(
        consortium,
        rows=options.rows,
        delay=options.delay_ms / 1e3,
        bytes_per_second=bytes_per_second(options.mbit),
        levels=[m for m in LEVELS if m == 1 or pairs * (2**m - 1) <= _MOST_PAIRS],
    )
    return outlook.recommended, (
        f"levels_per_exchange = {outlook.recommended}, planned for {options.rows:,} rows of each "
        f"silo and lines of {options.delay_ms:g} ms and {options.mbit:g} Mbit/s; "
        f"`plan --rows {options.rows}` tells more."
    )


def _hub(options: argparse.Namespace, before: HubEntry | None = None) -> HubEntry | None:
    address = None if before is None else before.address
    certificate = None if before is None else before.certificate
    if options.hub is not None:
        address = options.hub
    if options.hub_certificate is not None:
        certificate = read_certificate(options.hub_certificate)
    if (address is None) != (certificate is None):
        raise InputError(
            "SFY-CLI-015", "--hub and --hub-certificate go together; give both or neither."
        )
    return None if address is None or certificate is None else HubEntry(address, certificate)


def _note_on_committee(consortium: Consortium) -> str:
    """Where the helpers are in the committee; nothing if none is."""
    helpers = [party.name for party in consortium.parties if party.role == "helper"]
    inside = [name for name in consortium.committee if name in helpers]
    if not inside or consortium.engine != ENGINE:
        return ""
    members, names = ", ".join(consortium.committee), " and ".join(inside)
    if list(consortium.committee[-len(inside) :]) == inside:
        come = "comes" if len(inside) == 1 else "come"
        return f"The committee is {members}: {names} {come} last, where a helper sees least."
    return (
        f"Note: the committee is {members}. In the last place {names} would see less, should two "
        "members collude."
    )
