"""`securefedyj features`: a draft of the features that a consortium agrees on."""

from __future__ import annotations

import argparse
import csv
import io
import textwrap
from pathlib import Path

from securefedyj.cli.common import (
    COLUMNS,
    OK,
    Commands,
    add_reading,
    command,
    dialect_of,
    missing_values,
    tell,
    wrapped,
)
from securefedyj.cli.overview import short
from securefedyj.cli.site import add_site_of_table, fill_reading_from_site
from securefedyj.errors import InputError
from securefedyj.network.consortium.entries import check_text
from securefedyj.printable import printable

_NOTE = "draft: bounds are powers of ten around the values of one silo"
_MOST_NAMED = 20


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "features",
        "draft the features of a consortium from the numeric columns of a table",
        "securefedyj features patients.csv --output features.csv",
        "The bounds are wide on purpose, and yours to think about.",
    )
    parser.add_argument(
        "table", type=Path, metavar="TABLE", help="a .csv, .csv.gz or .parquet file, or a folder"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("features.csv"),
        metavar="FILE.csv",
        help="for `securefedyj new --features`; not overwritten (default: %(default)s)",
    )
    add_reading(parser)
    add_site_of_table(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from securefedyj.files import write_atomically
    from securefedyj.tables.files import FEW_DISTINCT, draft

    if options.output.exists():
        raise InputError(
            "SFY-CLI-010", f"{options.output} exists and is not overwritten; move it away."
        )
    fill_reading_from_site(options, options.table)
    drafted = draft(options.table, missing_values(options), dialect_of(options))
    features = [one for one in drafted.features if _may_be_agreed_on(one.name)]
    left_out = drafted.left_out | {
        one.name: "its name" for one in drafted.features if one not in features
    }
    if not features:
        hint = next((f": {name!r}: {why}" for name, why in drafted.unread.items()), ".")
        raise InputError(
            "SFY-CLI-011", f"{options.table} has no column of numbers (docs/tables.md){hint}"
        )
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("name", "lower", "upper", "unit", "note"))
    for one in features:
        writer.writerow((one.name, f"{one.lower:g}", f"{one.upper:g}", "", _NOTE))
    write_atomically(options.output, text.getvalue().encode())
    tell(f"{options.output}: {len(features)} features, drafted from {drafted.rows:,} rows.")
    for one in features:
        here = f"{short(one.here.least)} to {short(one.here.greatest)}"
        few = f"; distinct values: {one.here.distinct}" * (one.here.distinct < FEW_DISTINCT)
        line = f"{printable(one.name)}: {one.lower:g} to {one.upper:g} (here {here}{few})"
        tell(textwrap.indent(wrapped(line, COLUMNS - 2), "  "))
    if left_out:
        named = [f"{printable(name)} ({why})" for name, why in left_out.items()]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        tell(wrapped(f"Left out: {', '.join(named[:_MOST_NAMED])}{more}"))
    unread = {name: why for name, why in drafted.unread.items() if why}  # else named by another
    for name, why in list(unread.items())[:_MOST_NAMED]:
        tell(wrapped(f"Left out: {printable(name)}: {printable(why)}"))
    for sentence in (
        "This is a draft, and nothing is agreed on. The bounds are powers of ten, at least twice "
        "as far from 0 as the values here; all parties will see them. Put in their place what is "
        "possible at all silos, from what you know of the measurement and not from the data: a "
        "value outside stops a run.",
        "Remove what is no measurement, such as identifiers, and think twice about columns "
        "with few distinct values. What is found here is not in the file.",
    ):
        tell(wrapped(sentence))
    return OK


def _may_be_agreed_on(name: str) -> bool:
    try:
        check_text("the name of a feature", name)
    except ValueError:
        return False
    return True
