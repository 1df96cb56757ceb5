"""The option of `check` and `join` that names a silo's ledger."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """Add the option --ledger."""
    parser.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="your own list of runs, which is never sent: you are warned of a run that differs "
        "little from an earlier one (default: ~/.securefedyj/ledger.jsonl)",
    )
