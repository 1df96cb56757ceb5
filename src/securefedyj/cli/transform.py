"""`securefedyj transform`: apply a fit to a table."""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path

from securefedyj.cli.display import Display, tell
from securefedyj.cli.options import Commands, add_reading, command, flag, option, reading_of
from securefedyj.errors import InputError

_BECAME = {"clip": "replaced by the bound", "keep": "transformed as they are"}


def add(commands: Commands) -> None:
    summary = "apply the transformation of a run to a table"
    example = "securefedyj transform result/parameters.json rows.csv --output gaussian.csv"
    more = (
        "Features are found by name; all other columns stay as they are. Missing values become "
        "empty cells (CSV) or null (Parquet)."
    )
    parser = command(commands, "transform", run, summary, example, more)
    option(parser, "parameters", "PARAMETERS", "parameters.json of a run", Path)
    words = "a .csv, .csv.gz or .parquet file with a header, or a folder of such files"
    option(parser, "table", "TABLE", words, Path)
    words = "the new table, in the same format; for a folder, a folder with files of the same names"
    option(parser, "--output", "OUT", words, Path, required=True)
    flag(parser, "--force", "replace OUT if it exists")
    flag(parser, "--inverse", "undo the transformation")
    parser.add_argument(
        "--outside",
        choices=("error", "clip", "keep"),
        help="what to do with values outside the agreed bounds: write no table (error, the "
        "default), replace them by the bound (clip), or transform them as they are (keep)",
    )
    add_reading(parser)


def run(options: argparse.Namespace) -> None:
    from securefedyj import parameters
    from securefedyj.estimators.base import OUTSIDE
    from securefedyj.tables.transforming import listed, transform_table

    if options.inverse and options.outside:
        raise InputError(
            "SFY-CLI-019",
            "--outside is about the values of a run, which --inverse restores: leave one out.",
        )
    missing, dialect = reading_of(options, options.table)
    read = parameters.read(options.parameters)
    fitted, domain = read.estimator(), read.agreement.domain
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
    notes = list(dict.fromkeys(str(warning.message) for warning in caught))
    if done.outside:
        became = _BECAME[options.outside]
        notes.append(f"values outside the agreed bounds, {became}: {listed(done.outside)}")
    for note in notes:
        tell(f"securefedyj: note: {note}", error=True)
    files = f" in {done.files} files" if options.table.is_dir() else ""
    tell(
        f"{options.output}: {done.rows} rows{files}, {done.transformed} columns "
        f"{'transformed back' if options.inverse else 'transformed'}, "
        f"{done.passed_through} passed through."
    )
