"""`securefedyj example`: tables to try a consortium with."""

from __future__ import annotations

import argparse
from pathlib import Path

from securefedyj.cli.common import OK, Commands, command


def add(commands: Commands) -> None:
    summary = "write tables of example silos, to try a consortium with"
    parser = command(commands, "example", summary, "securefedyj example --output first")
    parser.add_argument("--silos", type=int, default=3, help="2 to 4 (default: %(default)s)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="for NAME/patients.csv of each silo, and features.csv (default: here)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from securefedyj.demo import example

    for path, rows in example.write(options.output, options.silos):
        print(f"{path}: {rows} rows")
    print(f"{options.output / 'features.csv'}: names and bounds of the columns")
    return OK
