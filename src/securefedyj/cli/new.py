"""`securefedyj new`: the agreed file of a consortium."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from securefedyj.cli.common import OK, Commands, command, tell, wrapped
from securefedyj.network.consortium import (
    ENGINE,
    LEVELS_PER_EXCHANGE,
    MAX_INTERRUPTIONS,
    MAX_STEPS,
    MINIMUM_VALUES,
    RESULT_BITS,
    Consortium,
    Feature,
    Hub,
    PartyEntry,
)
from securefedyj.network.identity import fingerprint, read_certificate
from securefedyj.network.subtraction import note_on_silos


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
    parser.add_argument("--name", required=True, help="of the consortium")
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
        default=ENGINE,
        metavar="NAME",
        help="replicated: three members compute, and a result can be verified; mpyc: all parties "
        "compute, private unless a majority colludes, slower, with --unverified only "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--committee",
        metavar="A,B,C",
        help="its three members, who compute (default: the helpers and the first silos, a helper "
        "in the last place, where a member sees least)",
    )
    parser.add_argument(
        "--max-steps",
        type=int,
        default=MAX_STEPS,
        metavar="N",
        help="of the search for lambda: each halves how far it may be off, and tells a bit more of "
        "the data (default: %(default)s)",
    )
    parser.add_argument(
        "--result-bits",
        type=int,
        default=RESULT_BITS,
        metavar="N",
        help="to which mean and variance are opened, 8 to 44: more are more exact, and tell more "
        "of the data where a feature has few distinct values (default: %(default)s)",
    )
    parser.add_argument(
        "--levels-per-exchange",
        type=int,
        default=LEVELS_PER_EXCHANGE,
        metavar="N",
        help="steps of the search (levels) that are prepared at once; `plan` recommends a number "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--minimum-values",
        type=int,
        default=MINIMUM_VALUES,
        metavar="N",
        help="with fewer values of a feature over all silos, a run stops (default: %(default)s)",
    )
    parser.add_argument(
        "--max-interruptions",
        type=int,
        default=MAX_INTERRUPTIONS,
        metavar="N",
        help="after which a run ends: a party that interrupts again and again may be asking for "
        "more than the result (default: %(default)s)",
    )
    parser.add_argument(
        "--unverified",
        action="store_true",
        help="trust all members of the committee to compute as the protocol says; else a result is "
        "accepted only with a proof that it is right for the sums of the silos",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    silos = [_party(entry, "silo") for entry in options.silo]
    helpers = [_party(entry, "helper") for entry in options.helper]
    committee = _committee(silos, helpers)
    if options.committee:
        committee = options.committee.split(",")
    elif options.engine != ENGINE:
        committee = [party.name for party in (*silos, *helpers)]
    features = [_feature(entry) for entry in options.feature]
    if options.features is not None:
        features += _features_of(options.features)
    consortium = Consortium(
        name=options.name,
        hub=_hub(options),
        parties=(*silos, *helpers),
        committee=tuple(name.strip() for name in committee),
        features=tuple(features),
        max_steps=options.max_steps,
        result_bits=options.result_bits,
        levels_per_exchange=options.levels_per_exchange,
        minimum_values=options.minimum_values,
        max_interruptions=options.max_interruptions,
        verified=not options.unverified,
        engine=options.engine,
    )
    try:
        consortium.write(options.file)
    except FileExistsError:
        raise ValueError(f"{options.file} exists and is not overwritten; move it away.") from None
    tell(f"Wrote {options.file}; give the same file to all. Its digest:\n  {consortium.digest()}")
    for note in (_note_on_committee(consortium), note_on_silos(consortium)):
        if note:
            tell(wrapped(note))
    return OK


def _hub(options: argparse.Namespace) -> Hub | None:
    if (options.hub is None) != (options.hub_certificate is None):
        raise ValueError("--hub and --hub-certificate go together; give both or neither.")
    if options.hub is None:
        return None
    return Hub(options.hub, read_certificate(options.hub_certificate))


def _committee(silos: list[PartyEntry], helpers: list[PartyEntry]) -> list[str]:
    """Helpers before silos, but in the last places.

    An outsider's input comes in three terms: the first member has one of them, the second two,
    the third one. So the first two know all of it, and whoever is in the last place knows, even
    with another member, sums over several silos only. The masks among silos hide the rest; where
    there are none, or one of them fails, the place decides.
    """
    members = [*helpers, *silos][:3]
    return [party.name for party in sorted(members, key=lambda party: party.role == "helper")]


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


def _party(entry: str, role: str) -> PartyEntry:
    name, equals, path = entry.partition("=")
    if not equals:
        raise ValueError(f"{entry!r} must be NAME=CERT.pem, such as north=north.pem.")
    pem = read_certificate(Path(path))
    return PartyEntry(name, role, fingerprint(pem), pem)


def _feature(entry: str) -> Feature:
    try:
        name, lower, upper = entry.rsplit(":", 2)
        return Feature(name, float(lower), float(upper))
    except ValueError:
        raise ValueError(f"{entry!r} must be NAME:LOWER:UPPER, such as lactate:0:40.") from None


def _features_of(path: Path) -> list[Feature]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        missing = {"name", "lower", "upper"} - set(rows.fieldnames or ())
        if missing:
            raise ValueError(f"{path} has no column {sorted(missing)[0]!r}.")
        return [_feature_of(row, path, rows.line_num) for row in rows]


def _feature_of(row: dict[str, str], path: Path, line: int) -> Feature:
    try:
        lower, upper = float(row["lower"]), float(row["upper"])
    except (TypeError, ValueError):
        raise ValueError(f"{path}, line {line}: lower and upper must be numbers.") from None
    return Feature(row["name"], lower, upper, row.get("unit") or "", row.get("note") or "")
