"""`securefedyj report`: a page about a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from securefedyj.cli.common import (
    OK,
    Commands,
    add_reading,
    command,
    dialect_of,
    missing_values,
    read_transcript,
    tell,
)
from securefedyj.cli.site import add_site_of_table, fill_reading_from_site


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "report",
        "write a page about a run: its result, what it revealed, and plots of your own data",
        "securefedyj report result/transcript.jsonl --data rows.csv \\\n"
        "    --cost result/cost.json --provenance result/provenance.json \\\n"
        "    --output report.html",
        "With --data the page shows your own rows and should stay in your organization; nothing is "
        "sent.",
    )
    parser.add_argument(
        "transcript", type=Path, metavar="TRANSCRIPT", help="a transcript.jsonl of a run"
    )
    parser.add_argument("--data", type=Path, metavar="TABLE", help="your own table, to be drawn")
    parser.add_argument("--cost", type=Path, metavar="FILE", help="the cost of the run, as JSON")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="what `plan --json` had printed")
    parser.add_argument(
        "--provenance", type=Path, metavar="FILE", help="the provenance.json of the run"
    )
    parser.add_argument(
        "--plots",
        type=int,
        default=30,
        metavar="N",
        help="draw so many features at most (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the page (default: %(default)s)",
    )
    add_reading(parser)
    add_site_of_table(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
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
        fill_reading_from_site(options, options.data)
        features = transcript.agreement.features
        _, census = load_or_stream(
            as_source(options.data, features, missing_values(options), dialect_of(options)), 0
        )
        values, rows = census.sample, census.rows
    known = None if options.provenance is None else Provenance.read(options.provenance)
    page.write(options.output, transcript, values, cost, max(options.plots, 0), rows, known)
    tell(f"{options.output}: written." + ("" if values is None else " It shows your own data."))
    return OK
