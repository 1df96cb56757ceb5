"""`securefedyj new`: the agreed file of a consortium."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from securefedyj.cli.check import add_line, outlook_of, tell_differences
from securefedyj.cli.display import tell, wrapped
from securefedyj.cli.features import feature_of, read_features, value_of
from securefedyj.cli.options import Commands, command, option, repeated
from securefedyj.errors import InputError
from securefedyj.network.consortium import ENGINE, Consortium, HubEntry, PartyEntry
from securefedyj.network.consortium.succession import default_committee, successor
from securefedyj.network.identity import read_certificate
from securefedyj.network.repeats import note_on_silos
from securefedyj.network.submission import note_on_submission

AUTO = "auto"
# With more pairs of a feature and a lambda in one exchange, computing takes longer than a round.
_MOST_PAIRS = 1 << 15
_MPYC_LEVELS = 1  # its parties compute for far longer than messages take

_EXAMPLE = """\
securefedyj new consortium.toml --name sepsis --hub hub.example.org:7443 \\
    --hub-certificate hub.pem --silo north=north.pem --silo south=south.pem \\
    --helper coordinator=coordinator.pem \\
    --feature lactate:0:40 --feature age:0:120"""
# What the parties agree on besides names: fields of `Consortium`, which has bounds and defaults.
_TERMS = {
    "engine": "replicated: three parties compute, and a result can be verified; mpyc: all parties "
    "compute, private unless half of them collude, slower, requires --unverified",
    "max_steps": "maximum number of steps in the search for lambda; each step halves the "
    "uncertainty, and reveals one more bit of the data",
    "result_bits": "precision of mean and variance, 8 to 44 bits; a higher precision reveals more "
    "of features with few distinct values",
    "minimum_values": "stop a run if a feature has fewer values over all silos",
    "claimed_points": "in a submitted run, verify that no count is negative, for features with at "
    "most this many points",
    "max_interruptions": "end a run after more interruptions; a party that keeps interrupting may "
    "be asking for more than the result",
}
# What is fitted to a feature: fields of `Feature`.
_METHODS = {
    "method": (
        "NAME=METHOD",
        "yeo-johnson (the default), box-cox, standard, robust, quantiles, or several with commas",
    ),
    "quantiles": ("NAME=Q,Q", "quantiles to find, from 0 to 1"),
    "resolution": ("NAME=STEP", "distance of the points of quantiles, and of a submission"),
    "digits": ("NAME=N", "number of significant digits of the points of a submission"),
    "round": ("NAME=true", "submit the point next to each value; otherwise a value must be one"),
}
# Two options for one field, of which the first has the default.
_EITHER = (
    ("verified", True, "--verified", "accept a result only with a proof that it is right"),
    ("verified", False, "--unverified", "trust the committee to follow the protocol"),
    ("submitted", False, "--live", "all silos stay online during a run"),
    ("submitted", True, "--submitted", "silos submit features with resolution or digits once, by "
     "`securefedyj submit`"),
)  # fmt: skip
_CHANGES = {
    "add": ("NAME=CERT.pem", "silo that joins"),
    "remove": ("NAME", "party that leaves"),
    "renew": ("NAME=CERT.pem", "party with a new key"),
    "bounds": ("NAME:LOWER:UPPER", "feature with new bounds"),
    "drop": ("NAME", "feature to leave out"),
}


def add(commands: Commands) -> None:
    summary = "write the agreed file of a consortium"
    parser = command(commands, "new", run, summary, _EXAMPLE)
    option(parser, "file", "FILE", "file to write; not overwritten", Path)
    option(parser, "--name", "NAME", "name of the consortium")
    words = "address of the hub; without a hub, a framework such as NVIDIA FLARE connects parties"
    option(parser, "--hub", "HOST:PORT", words)
    option(parser, "--hub-certificate", "CERT.pem", "certificate of the hub", Path)
    repeated(parser, "--silo", "NAME=CERT.pem", "party with data")
    repeated(parser, "--helper", "NAME=CERT.pem", "party without data, such as a coordinator")
    for dest, earlier in (("silo", "--party"), ("helper", "--member")):  # scripts may have them
        hidden = argparse.SUPPRESS
        parser.add_argument(earlier, dest=dest, action="append", default=hidden, help=hidden)
    repeated(parser, "--feature", "NAME:LOWER:UPPER", "column, and the bounds of its values")
    words = "table of features with the columns name, lower, upper, and optionally unit and note"
    option(parser, "--features", "FILE.csv", words, Path)
    for name, (metavar, words) in _METHODS.items():
        repeated(parser, f"--{name}", metavar, words)
    later = parser.add_argument_group("the next file of a consortium (docs/life.md)")
    words = "earlier file; entries that other options do not change are kept"
    option(later, "--from", "FILE", words, Path, dest="before")
    for name, (metavar, words) in _CHANGES.items():
        repeated(later, f"--{name}", metavar, words)
    words = (
        "the three computing parties (default: the helpers and the first silos; a helper comes "
        "last, where a member sees least)"
    )
    option(parser, "--committee", "A,B,C", words)
    for name, words in _TERMS.items():
        default = getattr(Consortium, name)
        kind, metavar = (int, "N") if isinstance(default, int) else (str, "NAME")
        name = f"--{name.replace('_', '-')}"
        option(parser, name, metavar, f"{words} (default: {default})", kind)
    words = (
        "number of search steps (levels) in one exchange (default: auto, which takes what `plan` "
        "recommends for the rows and the line below)"
    )
    option(parser, "--levels-per-exchange", "N", words, _levels)
    for dest, value, name, words in _EITHER:
        words += " (the default)" * (value == getattr(Consortium, dest))
        parser.add_argument(name, dest=dest, action="store_const", const=value, help=words)
    add_line(parser)


def run(options: argparse.Namespace) -> None:
    before = None if options.before is None else Consortium.read(options.before)
    consortium = _with_methods(_agreed(before, options), options)
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
    notes = [planned]
    if before is not None:
        tell_differences(before, consortium, options.before)
        if before.name == consortium.name and before.digest() != consortium.digest():
            notes.append(
                f"Note: both files have the name {before.name!r}, and a hub serves only one of "
                "them: give --name, or take the earlier file away from the hub."
            )
    notes += [note(consortium) for note in (note_on_submission, _note_on_committee, note_on_silos)]
    for note in notes:
        if note:
            tell(wrapped(note))


def _agreed(before: Consortium | None, options: argparse.Namespace) -> Consortium:
    """What the options say, as the first file of a consortium or as the one after another."""
    change = next((name for name in _CHANGES if getattr(options, name)), None)
    if before is None and change:
        raise InputError(
            "SFY-CLI-017", f"--{change} changes an earlier file; name it by --from FILE."
        )
    if before is None and not options.name:
        raise InputError("SFY-CLI-014", "A consortium needs a --name.")
    given = {name: value for name in (*_TERMS, "verified")
             if (value := getattr(options, name)) is not None}  # fmt: skip
    given["hub"] = _hub(options, None if before is None else before.hub)
    parties = [_party(entry) for entry in (*options.add, *options.silo)]
    parties += [_party(entry, "helper") for entry in options.helper]
    features = [feature_of(entry) for entry in options.feature]
    if options.features is not None:
        features += read_features(options.features)
    committee = tuple(map(str.strip, options.committee.split(","))) if options.committee else ()
    if before is not None:
        return successor(
            before,
            name=options.name or before.name,
            add=parties,
            remove=options.remove,
            renew=[_party(entry) for entry in options.renew],
            features=features,
            drop=options.drop,
            bounds=[feature_of(entry) for entry in options.bounds],
            committee=committee,
            **given,
        )
    return Consortium(
        name=options.name,
        parties=tuple(parties),
        committee=committee or default_committee(parties, given.get("engine", ENGINE)),
        features=tuple(features),
        **given,
    )


def _with_methods(consortium: Consortium, options: argparse.Namespace) -> Consortium:
    """What the options say is fitted to each feature, and whether these are submitted."""
    given: dict[str, dict[str, Any]] = {}
    for field in _METHODS:
        for entry in getattr(options, field):
            name, equals, value = entry.rpartition("=")
            if not equals or name not in consortium.feature_names:
                raise InputError(
                    "SFY-CLI-021",
                    f"--{field} {entry!r} must be NAME=VALUE, with the name of a feature.",
                )
            given.setdefault(name, {})[field] = value_of(field, value, f"--{field} {entry!r}")
    features = tuple(replace(one, **given.get(one.name, {})) for one in consortium.features)
    submitted = consortium.submitted if options.submitted is None else options.submitted
    return replace(consortium, features=features, submitted=submitted)


def _party(entry: str, role: str = "silo") -> PartyEntry:
    """A party, from NAME=CERT.pem."""
    name, equals, path = entry.partition("=")
    if not equals:
        raise InputError(
            "SFY-CLI-006", f"{entry!r} must be NAME=CERT.pem, such as north=north.pem."
        )
    return PartyEntry.read(name, role, Path(path))


def _levels(text: str) -> int | str:
    if text != AUTO and not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor {AUTO}")
    return AUTO if text == AUTO else int(text)


def _planned(consortium: Consortium, options: argparse.Namespace) -> tuple[int, str]:
    """Levels for the rows and the line of the options, and a sentence about them."""
    from securefedyj.network.forecast import LEVELS

    pairs = len(consortium.features)
    levels = [m for m in LEVELS if m == 1 or pairs * (2**m - 1) <= _MOST_PAIRS]
    outlook = outlook_of(consortium, options, levels=levels)
    if outlook is None:
        return _MPYC_LEVELS, ""
    return outlook.recommended, (
        f"levels_per_exchange = {outlook.recommended}, planned for {options.rows:,} rows per silo "
        f"and lines of {options.delay_ms:g} ms and {options.mbit:g} Mbit/s; `plan --rows "
        f"{options.rows}` shows more."
    )


def _hub(options: argparse.Namespace, before: HubEntry | None) -> HubEntry | None:
    address = options.hub if before is None or options.hub is not None else before.address
    certificate = None if before is None else before.certificate
    if options.hub_certificate is not None:
        certificate = read_certificate(options.hub_certificate)
    if (address is None) != (certificate is None):
        raise InputError(
            "SFY-CLI-015", "--hub and --hub-certificate go together; give both or neither."
        )
    return None if certificate is None else HubEntry(address, certificate)


def _note_on_committee(consortium: Consortium) -> str:
    """Where the helpers are in the committee; empty if none is."""
    committee = consortium.committee
    inside = [name for name in committee if consortium.party(name).role == "helper"]
    if not inside or consortium.engine != ENGINE:
        return ""
    members, names = ", ".join(committee), " and ".join(inside)
    if list(committee[-len(inside) :]) == inside:
        come = "comes" if len(inside) == 1 else "come"
        return f"The committee is {members}: {names} {come} last, where a helper sees least."
    return (
        f"Note: the committee is {members}. In the last place {names} would see less if two "
        "members colluded."
    )
