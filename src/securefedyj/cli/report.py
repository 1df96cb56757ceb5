"""After a run: `securefedyj report`, a page about it, and `securefedyj audit`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from securefedyj.cli.display import FAILED, OK, tell
from securefedyj.cli.options import Commands, add_reading, command, flag, option, reading_of
from securefedyj.errors import InputError, code_of
from securefedyj.protocol.transcript import Transcript

_EXAMPLE = """\
securefedyj report result/transcript.jsonl --data rows.csv \\
    --cost result/cost.json --provenance result/provenance.json \\
    --output report.html"""


def add(commands: Commands) -> None:
    summary = "write a page about a run: its result, what it revealed, and plots of your own data"
    more = (
        "With --data the page shows your own rows and should stay in your organization; nothing is "
        "sent."
    )
    parser = command(commands, "report", write_page, summary, _EXAMPLE, more)
    for name, metavar, words in (
        ("transcript", "TRANSCRIPT", "transcript.jsonl of a run"),
        ("--data", "TABLE", "your own table, to plot"),
        ("--cost", "FILE", "cost.json of the run"),
        ("--plan", "FILE", "output of `securefedyj plan --json`"),
        ("--provenance", "FILE", "provenance.json of the run"),
    ):
        option(parser, name, metavar, words, Path)
    option(parser, "--plots", "N", "maximum number of features to plot", int, 30)
    option(parser, "--output", "FILE", "file for the page", Path, Path("report.html"))
    add_reading(parser)
    summary = "check that a run revealed nothing that does not follow from its result"
    example = "securefedyj audit result/transcript.jsonl"
    more = (
        "Prints what was revealed to whom. The exit code is 0 if the transcript passes and 1 if "
        "it does not."
    )
    parser = command(commands, "audit", audit, summary, example, more)
    option(parser, "transcript", "FILE", "transcript.jsonl of a run", Path)
    flag(parser, "--json", "print the findings as JSON")


def audit(options: argparse.Namespace) -> int:
    """Whether all that a run revealed follows from its result."""
    found = _read_transcript(options.transcript).audit()
    if options.json:
        tell(json.dumps({"passed": found.passed, "findings": found.findings,
                         "verdict": found.verdict}))  # fmt: skip
    else:
        tell(found.statement())
    return OK if found.passed else FAILED


def write_page(options: argparse.Namespace) -> None:
    from securefedyj.report import page
    from securefedyj.report.cost import read_cost, read_plan
    from securefedyj.report.results import Provenance
    from securefedyj.tables.silo_table import load_or_stream
    from securefedyj.tables.source import as_source

    transcript = _read_transcript(options.transcript)
    cost = {}
    if options.plan is not None:
        levels = transcript.agreement.levels_per_exchange
        cost["plan"] = read_plan(options.plan, levels)
    if options.cost is not None:
        cost["this run"] = read_cost(options.cost)
    values, rows = None, None
    if options.data is not None:
        features, reading = transcript.agreement.features, reading_of(options, options.data)
        _, census = load_or_stream(as_source(options.data, features, *reading), 0)
        values, rows = census.sample, census.rows
    known = None if options.provenance is None else Provenance.read(options.provenance)
    shown = {"cost": cost, "plots": max(options.plots, 0), "rows": rows, "provenance": known}
    page.write(options.output, transcript, values, **shown)
    tell(f"{options.output}: written." + ("" if values is None else " It shows your own data."))


def _read_transcript(path: Path) -> Transcript:
    """The transcript of a run; an error names the file."""
    try:
        return Transcript.read(path)
    except IsADirectoryError:
        raise InputError(
            "SFY-CLI-004", f"{path}: this is a folder; give its transcript.jsonl"
        ) from None
    except ValueError as error:
        raise InputError(code_of(error, "SFY-CLI-005"), f"{path}: {error}") from None
