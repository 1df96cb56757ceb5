"""`securefedyj report`: a page about a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from securefedyj.cli.common import Help, option, read_transcript, tell
from securefedyj.cli.options import add_reading, reading_of

HELP = Help(
    "write a page about a run: its result, what it revealed, and plots of your own data",
    "securefedyj report result/transcript.jsonl --data rows.csv \\\n"
    "    --cost result/cost.json --provenance result/provenance.json \\\n"
    "    --output report.html",
    "With --data the page shows your own rows and should stay in your organization; nothing is "
    "sent.",
)


def add(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> None:
    from securefedyj.report import page
    from securefedyj.report.cost import read_cost, read_plan
    from securefedyj.report.results import Provenance
    from securefedyj.tables.silo_table import load_or_stream
    from securefedyj.tables.source import as_source

    transcript = read_transcript(options.transcript)
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
    page.write(options.output, transcript, values, cost, max(options.plots, 0), rows, known)
    tell(f"{options.output}: written." + ("" if values is None else " It shows your own data."))
