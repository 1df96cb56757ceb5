"""What a user sees first: `securefedyj demo`, and `securefedyj example`."""

from __future__ import annotations

import argparse
from pathlib import Path

from securefedyj.cli.options import Commands, command, option


def add(commands: Commands) -> None:
    summary = "fit example data pooled, next to scikit-learn, and then by three parties and a hub"
    parser = command(commands, "demo", run_demo, summary, "securefedyj demo")
    words = "folder for the picture and the transcript"
    option(parser, "--output", "FOLDER", words, Path, Path("out"))
    summary = "write tables of example silos, to try a consortium with"
    example = "securefedyj example --output first"
    parser = command(commands, "example", run_example, summary, example)
    option(parser, "--silos", "N", "number of silos, 2 to 4", int, 3)
    words = "folder for features.csv, and NAME/patients.csv of each silo"
    option(parser, "--output", "FOLDER", words, Path, Path())


def run_demo(options: argparse.Namespace) -> None:
    from securefedyj.demo import run as demo  # scikit-learn's datasets take a while to import

    demo.run(options.output)


def run_example(options: argparse.Namespace) -> None:
    from securefedyj.demo import example

    for path, rows in example.write(options.output, options.silos):
        print(f"{path}: {rows} rows")
    print(f"{options.output / 'features.csv'}: names and bounds of the columns")
