"""After a run: `securefedyj transform` uses its result; `report` and `audit` describe it."""

from __future__ import annotations

import argparse
import json
import warnings
from functools import partial
from pathlib import Path

from securefedyj.cli.display import FAILED, OK, Display, tell
from securefedyj.cli.options import Commands, add_reading, command, flag, option, reading_of
from securefedyj.errors import InputError, code_of
from securefedyj.network.consortium import Consortium
from securefedyj.protocol.transcript import Transcript

_EXAMPLE = """\
securefedyj report result/transcript.jsonl --data rows.csv \\
    --cost result/cost.json --provenance result/provenance.json \\
    --output report.html"""
_FOUND_BY = {"median": "the quantile 0.5", "mean": "the method standard"}
_BECAME = {"clip": "replaced by the bound", "keep": "transformed as they are"}


def add(commands: Commands) -> None:
    summary = "apply the transformation of a run to a table"
    example = "securefedyj transform result/parameters.json rows.csv --output gaussian.csv"
    more = (
        "Features are found by name; all other columns stay as they are. Missing values become "
        "empty cells (CSV) or null (Parquet)."
    )
    parser = command(commands, "transform", transform, summary, example, more)
    option(parser, "parameters", "PARAMETERS", "parameters.json of a run", Path)
    words = "CSV, Excel, Parquet (docs/tables.md), or a folder of such files"
    option(parser, "table", "TABLE", words, Path)
    words = "the new table, in the same format; for a folder, a folder with files of the same names"
    option(parser, "--output", "OUT", words, Path, required=True)
    flag(parser, "--force", "replace OUT if it exists")
    flag(parser, "--inverse", "undo the transformation")
    parser.add_argument(
        "--impute",
        choices=("median", "mean"),
        help="replace missing values by the median or mean of all silos, where the run found it, "
        "and change nothing else",
    )
    parser.add_argument(
        "--outside",
        choices=("error", "clip", "keep"),
        help="what to do with values outside the agreed bounds: write no table (error, the "
        "default), replace them by the bound (clip), or transform them as they are (keep)",
    )
    add_reading(parser)
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
        ("--consortium", "FILE", "agreed file of the run, for the units of features"),
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


def transform(options: argparse.Namespace) -> None:
    from securefedyj import parameters
    from securefedyj.estimators import FrozenColumns
    from securefedyj.estimators.columns import OUTSIDE
    from securefedyj.tables.transforming import listed, transform_table

    if options.inverse and options.impute:
        raise InputError(
            "SFY-CLI-022", "--inverse cannot make values missing again: leave out --impute."
        )
    if options.inverse and options.outside:
        raise InputError(
            "SFY-CLI-019",
            "--outside is about the values of a run, which --inverse restores: leave one out.",
        )
    missing, dialect = reading_of(options, options.table)
    read = parameters.read(options.parameters)
    fitted, domain = read.estimator(), read.agreement.domain
    if options.impute:
        if not isinstance(fitted, FrozenColumns) or not fitted.changed(options.impute).any():
            raise InputError(
                "SFY-CLI-023",
                f"{options.parameters}: the run found no {options.impute} of any column. Agree on "
                f"{_FOUND_BY[options.impute]} (docs/methods.md).",
            )
        fitted.set_params(use=options.impute)
    display = Display()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        # The columns were found by their names already, and values outside are counted below.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.filterwarnings("ignore", message=f"Values of .* {OUTSIDE}")
        try:
            done = transform_table(
                options.table,
                options.output,
                read.agreement.features,
                fitted.inverse_transform if options.inverse else fitted.transform,
                missing=missing,
                dialect=dialect,
                bounds=None if options.inverse else (domain.lower, domain.upper),
                outside=options.outside or "error",
                force=options.force,
                on_rows=partial(display.rows, "transformed"),
            )
        finally:
            display.end()
    changed, did = done.transformed, "transformed back" if options.inverse else "transformed"
    if isinstance(fitted, FrozenColumns):
        changed = int(fitted.changed(fitted.use).sum())
    if options.impute:
        did = f"filled with the {options.impute} of all silos"
    notes = list(dict.fromkeys(str(warning.message) for warning in caught))
    if done.outside:
        became = _BECAME[options.outside]
        notes.append(f"values outside the agreed bounds, {became}: {listed(done.outside)}")
    for note in notes:
        tell(f"securefedyj: note: {note}", error=True)
    files = f" in {done.files} files" if options.table.is_dir() else ""
    tell(
        f"{options.output}: {done.rows} rows{files}, {changed} columns {did}, "
        f"{done.transformed - changed + done.passed_through} passed through."
    )


def write_page(options: argparse.Namespace) -> None:
    from securefedyj.report import page
    from securefedyj.report.results import Provenance, read_cost, read_plan
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
    units = {}
    if options.consortium is not None:
        consortium = Consortium.read(options.consortium)
        if transcript.origin is None or transcript.origin.digest != consortium.digest():
            raise InputError(
                "SFY-REP-010", f"{options.consortium} is not the agreed file of this run."
            )
        units = consortium.units
    shown = {"cost": cost, "plots": max(options.plots, 0), "rows": rows, "provenance": known}
    shown["units"] = units
    page.write(options.output, transcript, values, **shown)
    tell(f"{options.output}: written." + ("" if values is None else " It shows your own data."))


def audit(options: argparse.Namespace) -> int:
    """Whether all that a run revealed follows from its result."""
    found = _read_transcript(options.transcript).audit()
    if options.json:
        tell(json.dumps({"passed": found.passed, "findings": found.findings,
                         "verdict": found.verdict}))  # fmt: skip
    else:
        tell(found.statement())
    return OK if found.passed else FAILED


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
