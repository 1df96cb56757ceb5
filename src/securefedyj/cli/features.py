"""`securefedyj features`, a draft of what a consortium agrees on, and how features are written."""

from __future__ import annotations

import argparse
import csv
import io
from dataclasses import fields
from pathlib import Path
from typing import Any

from securefedyj.cli.display import short, tell, wrapped
from securefedyj.cli.options import Commands, add_reading, command, option, reading_of
from securefedyj.errors import InputError
from securefedyj.files import TooLarge, read_within, write_atomically
from securefedyj.network.consortium import Feature
from securefedyj.network.consortium.entries import check_text
from securefedyj.network.consortium.toml_text import MOST_BYTES
from securefedyj.printable import in_words, printable, shown
from securefedyj.tables.files import FEW_DISTINCT, draft

COLUMNS = tuple(field.name for field in fields(Feature))
"""Of a table of features. The first three, name, lower and upper, are required."""
_NOTE = "draft: bounds are powers of ten around the values of one silo"
_MOST_NAMED = 20


def add(commands: Commands) -> None:
    summary = "draft features, with bounds and methods, from the numeric columns of a table"
    example = "securefedyj features patients.csv --output features.csv"
    more = "The bounds are wide on purpose, and the methods follow from this table; review them."
    parser = command(commands, "features", run, summary, example, more)
    option(parser, "table", "TABLE", "CSV, Excel, Parquet (docs/tables.md), or a folder", Path)
    words = "file for `securefedyj new --features`; not overwritten"
    option(parser, "--output", "FILE.csv", words, Path, Path("features.csv"))
    add_reading(parser)


def run(options: argparse.Namespace) -> None:
    if options.output.exists():
        raise InputError(
            "SFY-CLI-010", f"{options.output} exists and is not overwritten; move it away."
        )
    drafted = draft(options.table, *reading_of(options, options.table))
    features = [one for one in drafted.features if _is_valid(one.name)]
    if not features:
        hint = next((f": {name!r}: {why}" for name, why in drafted.unread.items()), ".")
        raise InputError(
            "SFY-CLI-011", f"{options.table} has no column of numbers (docs/tables.md){hint}"
        )
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in features:
        bounds = f"{one.lower:g}", f"{one.upper:g}"
        points = one.resolution, one.digits or "", ""
        writer.writerow((one.name, *bounds, "", _NOTE, one.method, "", *points))
    write_atomically(options.output, text.getvalue().encode())
    many = f"{len(features)} feature{'s' * (len(features) > 1)}"
    tell(f"{options.output}: {many}, drafted from {drafted.rows:,} rows.")
    for one in features:
        here = f"{short(one.here.least)} to {short(one.here.greatest)}"
        few = f"; distinct values: {one.here.distinct}" * (one.here.distinct < FEW_DISTINCT)
        line = f"{printable(one.name)}: {one.lower:g} to {one.upper:g} (here {here}{few})"
        tell(wrapped(line, "  "))
        tell(wrapped(f"{one.method}: {one.why}", "    "))
        if one.points:
            digits = f", {one.digits} significant digits" * bool(one.digits)
            tell(f"    resolution {one.resolution}{digits}: {one.points:,} points")
        if one.suspect is not None:
            number = f"{one.suspect:g}"
            line = f"Does {number} mean a missing value? Then repeat this with --missing={number}."
            tell(wrapped(line, "    "))
    misnamed = {one.name: "its name" for one in drafted.features if one not in features}
    if left_out := drafted.left_out | misnamed:
        named = [f"{name} ({why})" for name, why in left_out.items()]
        tell(wrapped(f"Left out: {in_words(named, _MOST_NAMED)}"))
    unread = {name: why for name, why in drafted.unread.items() if why}  # else named by another
    for name, why in list(unread.items())[:_MOST_NAMED]:
        tell(wrapped(f"Left out: {printable(name)}: {printable(why)}"))
    for sentence in (
        "This is a draft, and nothing is agreed on. The bounds are powers of ten, at least twice "
        "as far from 0 as the values here; all parties will see them. Replace them by what is "
        "possible at all silos, from what you know of the measurement and not from the data: a "
        "value outside stops a run.",
        "The methods fit the values here (docs/methods.md); another silo may propose others. Agree "
        "on one for each column, or on several with commas between them. To fill in missing values "
        "with the median of all silos later, add the method quantiles, and 0.5 as its quantiles.",
        "The resolution is that of the values here. Agree on the one at which all silos record the "
        "column; with --submitted, each silo then sends one file. A column without one stays live.",
        "Remove columns that are not measurements, such as identifiers, and think twice about "
        "columns with few distinct values. The file contains no values of the "
        "table, but the methods show the shape of their distributions.",
    ):
        tell(wrapped(sentence))


def feature_of(entry: str) -> Feature:
    """A feature, from NAME:LOWER:UPPER."""
    try:
        name, lower, upper = entry.rsplit(":", 2)
        return Feature(name, float(lower), float(upper))
    except ValueError:
        raise InputError(
            "SFY-CLI-007", f"{entry!r} must be NAME:LOWER:UPPER, such as lactate:0:40."
        ) from None


def read_features(path: Path) -> list[Feature]:
    """The features of a table whose cells are separated as Excel does."""
    try:
        text = read_within(path, MOST_BYTES).decode()
    except (UnicodeDecodeError, TooLarge):
        raise InputError(
            "SFY-CLI-030", f"{path} is not a CSV file in UTF-8; in Excel, save it as CSV UTF-8."
        ) from None
    features = []
    with io.StringIO(text, newline="") as file:
        first = file.readline()
        file.seek(0)
        rows = csv.DictReader(file, delimiter=max(",;\t", key=first.count))
        if missing := set(COLUMNS[:3]) - set(rows.fieldnames or ()):
            raise InputError("SFY-CLI-008", f"{path}, line 1: there is no column {min(missing)!r}.")
        for row in rows:
            try:
                bounds = float(row["lower"]), float(row["upper"])
            except (TypeError, ValueError):
                raise InputError(
                    "SFY-CLI-009",
                    f"{path}, line {rows.line_num}: lower and upper must be numbers, with a "
                    "decimal point.",
                ) from None
            where = f"{path}, line {rows.line_num}: {{}}"
            more: dict[str, Any] = {
                column: value_of(column, row[column], where.format(column))
                for column in COLUMNS[3:]
                if row.get(column)
            }
            features.append(Feature(row["name"], *bounds, **more))
    return features


def value_of(field: str, text: str, where: str) -> str | int | bool:
    """What the text of a cell or an option means for a field of `Feature`."""
    kind = type(getattr(Feature, field))
    if kind is str:
        return text
    known: dict[Any, dict[str, Any]] = {
        bool: {"true": True, "false": False},
        int: {str(n): n for n in range(10)},
    }
    try:
        found: int | bool = known[kind][text.strip().lower()]
        return found
    except KeyError:
        needed = "true or false" if kind is bool else "a number from 0 to 9"
        raise InputError("SFY-CLI-024", f"{where} must be {needed}, not {shown(text)}.") from None


def _is_valid(name: str) -> bool:
    try:
        check_text("the name of a feature", name)
    except ValueError:
        return False
    return True
