"""`securefedyj transform`: apply a fit to a table."""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from securefedyj.cli.common import (
    OK,
    Commands,
    add_reading,
    command,
    dialect_of,
    missing_values,
    tell,
)
from securefedyj.cli.display import Display
from securefedyj.cli.site import add_site_of_table, fill_reading_from_site
from securefedyj.errors import InputError

if TYPE_CHECKING:
    from securefedyj.tables.transforming import Transformed

_BECAME = {"clip": "the bound took their place", "keep": "transformed as they are"}


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "transform",
        "apply the transformation of a run to a table",
        "securefedyj transform result/parameters.json rows.csv --output gaussian.csv",
        "The features are found by their names; all other columns stay as they are. Missing values "
        "are written as empty cells (CSV) or null (Parquet).",
    )
    parser.add_argument(
        "parameters", type=Path, metavar="PARAMETERS", help="a parameters.json of a run"
    )
    parser.add_argument(
        "table",
        type=Path,
        metavar="TABLE",
        help="a .csv, .csv.gz or .parquet file with a header, or a folder of such files",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="OUT",
        help="the new table, same format; a folder for a folder, with files of the same names",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it is there already")
    parser.add_argument("--inverse", action="store_true", help="undo the transformation")
    parser.add_argument(
        "--outside",
        choices=("error", "clip", "keep"),
        help="values outside the agreed bounds: write no table (error, the default), put the bound "
        "in their place (clip), or transform them as they are (keep)",
    )
    add_reading(parser)
    add_site_of_table(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from securefedyj import parameters
    from securefedyj.estimators.base import OUTSIDE
    from securefedyj.tables.transforming import transform_table

    if options.inverse and options.outside:
        raise InputError(
            "SFY-CLI-019",
            "--outside is about the values of a run, and --inverse gives these: leave one out.",
        )
    fill_reading_from_site(options, options.table)
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
                missing=missing_values(options),
                dialect=dialect_of(options),
                bounds=None if options.inverse else (domain.lower, domain.upper),
                outside=options.outside or "error",
                force=options.force,
                on_rows=partial(display.rows, "transformed"),
            )
        finally:
            display.end()
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        tell(f"securefedyj: note: {text}", error=True)
    _tell_outside(done, options)
    files = f" in {done.files} files" if options.table.is_dir() else ""
    tell(
        f"{options.output}: {done.rows} rows{files}, {done.transformed} columns "
        f"{'transformed back' if options.inverse else 'transformed'}, "
        f"{done.passed_through} passed through."
    )
    return OK


def _tell_outside(done: Transformed, options: argparse.Namespace) -> None:
    from securefedyj.tables.transforming import listed

    if done.outside:
        tell(
            f"securefedyj: note: values outside the agreed bounds, {_BECAME[options.outside]}: "
            f"{listed(done.outside)}",
            error=True,
        )
