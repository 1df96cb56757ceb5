"""`securefedyj transform`: apply a fit to a table."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

from securefedyj.cli.common import (
    OK,
    Commands,
    add_reading,
    command,
    dialect_of,
    missing_values,
    tell,
)


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "transform",
        "apply the transformation of a run to a table",
        "securefedyj transform result/parameters.json rows.csv --output gaussian.csv",
        "The features are found by their names; all other columns, and missing values, stay as "
        "they are.",
    )
    parser.add_argument(
        "parameters", type=Path, metavar="PARAMETERS", help="a parameters.json of a run"
    )
    parser.add_argument(
        "table", type=Path, metavar="TABLE", help="a .csv, .csv.gz or .parquet file with a header"
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="OUT", help="the new table, same format"
    )
    parser.add_argument("--inverse", action="store_true", help="undo the transformation")
    add_reading(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from securefedyj import parameters
    from securefedyj.tables.files import transform_table

    read = parameters.read(options.parameters)
    fitted = read.estimator()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The columns were found by their names already.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        done = transform_table(
            options.table,
            options.output,
            read.agreement.features,
            fitted.inverse_transform if options.inverse else fitted.transform,
            missing=missing_values(options),
            dialect=dialect_of(options),
        )
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        tell(f"securefedyj: note: {text}", error=True)
    tell(
        f"{options.output}: {done.rows} rows, {done.transformed} columns "
        f"{'transformed back' if options.inverse else 'transformed'}, "
        f"{done.passed_through} passed through."
    )
    return OK
