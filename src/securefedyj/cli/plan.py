"""`securefedyj plan`: what a run will cost."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from securefedyj.cli.display import tell
from securefedyj.cli.options import Commands, command, flag, option
from securefedyj.errors import InputError
from securefedyj.network.consortium import ENGINE, Consortium
from securefedyj.network.forecast import DELAY_MS, MBIT, Outlook, bytes_per_second, forecast

KNOWN = """\
Only engine 'replicated' has forecasts. Measured for 'mpyc', with 30 steps, levels 1 and all
parties on a machine with two cores: 650 to 720 rounds, each at least as long as a message
takes; for each feature, with 3 parties 2 to 7 seconds and 3 MB that a party sends, with 5
parties 8 to 15 seconds and 7 MB."""

NOT_VERIFIED = "NOT verified: one cheating member of the committee can falsify the result"


def add(commands: Commands) -> None:
    summary = "forecast the cost of a run from the agreed file alone"
    example = "securefedyj plan consortium.toml --rows 50000 --delay-ms 30 --mbit 50"
    parser = command(commands, "plan", run, summary, example)
    option(parser, "file", "FILE", "agreed file, consortium.toml", Path)
    add_line(parser)
    flag(parser, "--json", "print JSON")


def add_line(parser: argparse.ArgumentParser) -> None:
    """Add the options that a run is planned for: rows, and the line between parties."""
    option(parser, "--rows", "N", "number of rows per silo", int, 10_000)
    option(parser, "--delay-ms", "MS", "milliseconds from party to party", float, DELAY_MS)
    option(parser, "--mbit", "N", "bandwidth of a party's line in Mbit/s", float, MBIT)


def outlook_of(consortium: Consortium, options: argparse.Namespace, **more: Any) -> Outlook | None:
    """The forecast for the rows and the line of the options; None for other engines."""
    if options.rows < 1 or not options.delay_ms >= 0 or not options.mbit > 0:
        raise InputError(
            "SFY-CLI-018", "--rows and --mbit must be positive, and --delay-ms not negative."
        )
    if consortium.engine != ENGINE:
        return None
    line = {"delay": options.delay_ms / 1e3, "bytes_per_second": bytes_per_second(options.mbit)}
    return forecast(consortium, rows=options.rows, **line, **more)


def run(options: argparse.Namespace) -> None:
    consortium = Consortium.read(options.file)
    outlook = outlook_of(consortium, options, compare=True)
    if outlook is None:
        tell(json.dumps({"engine": consortium.engine, "known": KNOWN}) if options.json else KNOWN)
        return
    if options.json:
        levels = [one._asdict() for one in outlook.forecasts]
        without = outlook.unverified
        print(json.dumps({"levels": levels, "ring_bits": outlook.ring_bits,
                          "recommended": outlook.recommended, "verified": consortium.verified,
                          "unverified": without and without._asdict()}))  # fmt: skip
        return
    print(
        f"{len(consortium.features)} features, {len(consortium.parties)} parties, "
        f"{options.rows} rows each; {options.delay_ms:g} ms, {options.mbit:g} Mbit/s"
    )
    print(f"{'levels':>8} {'rounds':>8} {'MB sent':>10} {'seconds':>9}")
    for one in outlook.forecasts:
        print(f"{one.levels:>8} {one.rounds:>8} {one.megabytes:>10.2f} {one.seconds:>9.1f}")
    print("Levels: steps of the search in one exchange. MB sent: by the party that sends")
    print("most. Seconds: if each party has a machine like this one.")
    print(f"Rings of {', '.join(map(str, outlook.ring_bits))} bits.")
    print(f"Recommended: levels_per_exchange = {outlook.recommended}; the file has "
          f"{consortium.levels_per_exchange}.")  # fmt: skip
    print(_what_verification_adds(outlook))
    if note := consortium.note_on_steps():
        tell(note)


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
