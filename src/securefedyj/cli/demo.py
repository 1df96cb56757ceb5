"""`securefedyj demo`: what a user sees first."""

from __future__ import annotations

import argparse
from pathlib import Path

from securefedyj.cli.common import OK, Commands


def add(commands: Commands) -> None:
    summary = "fit example data beside scikit-learn, then by a hub and three parties on one machine"
    parser = commands.add_parser("demo", help=summary, description=summary.capitalize() + ".")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="FOLDER",
        help="where to save the picture and the transcript (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from securefedyj.demo import run as demo  # scikit-learn's datasets take a while to import

    demo.run(options.output)
    return OK
