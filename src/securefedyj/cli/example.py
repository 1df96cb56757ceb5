"""`securefedyj example`: tables to try a consortium with."""

from __future__ import annotations

import argparse
from pathlib import Path

from securefedyj.cli.common import Help, option

HELP = Help(
    "write tables of example silos, to try a consortium with",
    "securefedyj example --output first",
)


def add(parser: argparse.ArgumentParser) -> None:
    option(parser, "--silos", "N", "number of silos, 2 to 4", int, 3)
    words = "folder for features.csv, and NAME/patients.csv of each silo"
    option(parser, "--output", "FOLDER", words, Path, Path())


def run(options: argparse.Namespace) -> None:
    from securefedyj.demo import example

    for path, rows in example.write(options.output, options.silos):
        print(f"{path}: {rows} rows")
    print(f"{options.output / 'features.csv'}: names and bounds of the columns")
