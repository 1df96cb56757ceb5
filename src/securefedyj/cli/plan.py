"""`securefedyj plan`: what a run will cost."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from securefedyj.cli.common import NOT_VERIFIED, OK, Commands, command, tell
from securefedyj.errors import InputError
from securefedyj.network.consortium import ENGINE, Consortium
from securefedyj.network.forecast import DELAY_MS, MBIT, Outlook, bytes_per_second, forecast

KNOWN = """\
A plan is made for engine 'replicated' only. What is known of 'mpyc', for 30 steps and
levels 1 with all parties on a machine with two cores: 650 to 720 rounds, each at least
as long as a message takes; for each feature, with 3 parties 2 to 7 seconds, and 3 MB that a
party sends, with 5 parties 8 to 15 seconds and 7 MB."""


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "plan",
        "say what a run will cost, from the agreed file alone",
        "securefedyj plan consortium.toml --rows 50000 --delay-ms 30 --mbit 50",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a consortium.toml")
    add_line(parser)
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(run=run)


def add_line(parser: argparse.ArgumentParser) -> None:
    """Add the options that a run is planned for: rows, and the line between parties."""
    parser.add_argument(
        "--rows", type=int, default=10_000, metavar="N", help="of each silo (default: %(default)s)"
    )
    parser.add_argument(
        "--delay-ms",
        type=float,
        default=DELAY_MS,
        metavar="MS",
        help="milliseconds from party to party (default: %(default)g)",
    )
    parser.add_argument(
        "--mbit",
        type=float,
        default=MBIT,
        metavar="N",
        help="Mbit per second of a party's line (default: %(default)g)",
    )


def check_line(options: argparse.Namespace) -> None:
    if options.rows < 1 or not options.delay_ms >= 0 or not options.mbit > 0:
        raise InputError(
            "SFY-CLI-018", "--rows and --mbit must be positive, and --delay-ms not negative."
        )


def run(options: argparse.Namespace) -> int:
    check_line(options)
    consortium = Consortium.read(options.file)
    if consortium.engine != ENGINE:
        tell(json.dumps({"engine": consortium.engine, "known": KNOWN}) if options.json else KNOWN)
        return OK
    outlook = forecast(
        consortium,
        rows=options.rows,
        delay=options.delay_ms / 1e3,
        bytes_per_second=bytes_per_second(options.mbit),
        compare=True,
    )
    if options.json:
        levels = [one._asdict() for one in outlook.forecasts]
        without = outlook.unverified
        print(json.dumps({"levels": levels, "ring_bits": outlook.ring_bits,
                          "recommended": outlook.recommended, "verified": consortium.verified,
                          "unverified": without and without._asdict()}))  # fmt: skip
        return OK
    print(
        f"{len(consortium.features)} features, {len(consortium.parties)} parties, "
        f"{options.rows} rows each; {options.delay_ms:g} ms, {options.mbit:g} Mbit/s"
    )
    print(f"{'levels':>8} {'rounds':>8} {'MB sent':>10} {'seconds':>9}")
    for one in outlook.forecasts:
        print(f"{one.levels:>8} {one.rounds:>8} {one.megabytes:>10.2f} {one.seconds:>9.1f}")
    print("Levels are the steps of the search in one exchange.")
    print(f"Rings of {', '.join(map(str, outlook.ring_bits))} bits. MB are those of the party that")
    print("sends most, seconds those of parties that each have a machine like this one.")
    print(f"Recommended: levels_per_exchange = {outlook.recommended}; the file has "
          f"{consortium.levels_per_exchange}.")  # fmt: skip
    print(_what_verification_adds(outlook))
    if note := consortium.note_on_steps():
        tell(note)
    return OK


def _what_verification_adds(outlook: Outlook) -> str:
    without = outlook.unverified
    if without is None:
        return NOT_VERIFIED
    (verified,) = (one for one in outlook.forecasts if one.levels == without.levels)
    rounds = verified.rounds - without.rounds
    megabytes = round(verified.megabytes - without.megabytes, 2) + 0.0  # not -0.0
    seconds = max(0.0, verified.seconds - without.seconds)  # measured
    return (
        f"With {without.levels} levels, verifying the result adds {rounds} rounds, "
        f"{megabytes:.2f} MB and {seconds:.1f} seconds."
    )
