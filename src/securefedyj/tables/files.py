"""A silo's table in a file or a folder: reading, writing and checking it, and drafting features.

Only the owner of the table sees the results, which include values; nothing is ever sent.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, floor, inf, log10
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from pyarrow import parquet

from securefedyj.errors import InputError
from securefedyj.files import replacing
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.grid import MOST_DIGITS, points_of
from securefedyj.numerics.passes import Source
from securefedyj.numerics.tally import Tally
from securefedyj.tables.arrow import ParquetTable
from securefedyj.tables.cells import MISSING, Advice, BadCellsError, each_once, other_reading
from securefedyj.tables.csv_files import CsvFile
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.formats import format_of, open_table
from securefedyj.tables.packed import packing
from securefedyj.tables.silo_table import Summary, summarize
from securefedyj.tables.source import (
    as_array,
    as_source,
    column_names,
    files_of,
    wrong_columns,
)

_MOST_CELLS_AGAIN = 5_000_000
"""The maximum number of cells to read again to find the line of a row: about a second."""
_FARTHEST = 2.0**100
"""The greatest distance of a bound from 0."""
FEW_DISTINCT = 20
"""With fewer distinct values, exact results over few rows can reveal how often each occurs."""

# For a proposal: how far apart the distances of the 5 % and 95 % quantiles from the median may be,
# as a share of their sum; how many times the range between the quartiles is far from these; how
# many powers of ten are many; and where x changes 1 + |x| little.
_SYMMETRIC, _FAR, _POWERS, _SMALL = 0.15, 3, 3, 0.1
# Numbers that often mean a missing value; positive ones, if they are this many times most values.
_SUSPECTS = {sign * (10.0**k - 1) for k in range(2, 8) for sign in (-1, 1)}
_SUSPECT_FROM = 5
_FEWEST_DIGITS = 3  # significant ones; other silos may have values with more than are here


@dataclass(frozen=True)
class TableFinding:
    """A fact about a silo's own table, for the silo alone: it may quote values."""

    kind: str
    """One of those that `securefedyj check` knows."""
    feature: str | None
    text: str
    stops: bool
    """Whether a run with this table would be refused."""
    count: int = 0
    share: float = 0.0


def read_table(
    path: Path | str,
    features: Sequence[str] | None = None,
    missing: Collection[str] = MISSING,
    dialect: Dialect | None = None,
) -> Array:
    """Read the features of a table into an array; the parameters are those of `as_source`."""
    return as_array(as_source(path, features, missing, dialect))


def described(path: Path | str, dialect: Dialect | None = None) -> str:
    """How a table is written, for a person; for a folder, its first table."""
    return open_table(files_of(Path(path))[0].path, (), dialect or Dialect()).described()


class TableReader(NamedTuple):
    """How a table is read: by this process, or by a cluster."""

    call: Callable[..., Any]
    """A function and its arguments, where the files are."""
    source: Callable[[Path, Sequence[str], Collection[str], Dialect], Source]


HERE = TableReader(lambda function, *arguments: function(*arguments), as_source)


def write_table(path: Path | str, names: Sequence[str], values: ArrayLike) -> None:
    """Write columns of numbers that read back exactly; the file is written whole or not at all."""
    data = np.asarray(values, np.float64)
    if data.ndim != 2 or data.shape[1] != len(names):
        raise InputError(
            "SFY-TAB-025", f"{len(names)} names do not fit an array of shape {data.shape}"
        )
    ending = format_of(Path(path)).copies
    with replacing(path) as temporary:
        if ending == ParquetTable.copies:
            columns = [pa.array(column, from_pandas=True) for column in data.T]
            parquet.write_table(pa.table(columns, names=list(names)), temporary)
            return
        with packing(temporary) as file, io.TextIOWrapper(file, "utf-8", newline="") as text:
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(names)
            for row in data.tolist():
                writer.writerow("" if value != value else repr(value) for value in row)


class Checked(NamedTuple):
    """A silo's table, compared with the agreed features."""

    rows: int
    written: str
    """How the table is written, for a person."""
    columns: dict[str, Summary]
    """What the readable columns contain."""
    findings: list[TableFinding]
    """What a silo should know before a run, starting with what would stop it."""


def check_table(
    path: Path | str,
    features: Sequence[str],
    lower: ArrayLike,
    upper: ArrayLike,
    missing: Collection[str] = MISSING,
    dialect: Dialect | None = None,
    reader: TableReader | None = None,
) -> Checked:
    """What a silo should know about its table before a run."""
    path, dialect, reader = Path(path), dialect or Dialect(), reader or HERE
    header = reader.call(column_names, path, dialect)
    found = [
        TableFinding(f"{'duplicate' if times else 'missing'} column", name, text, True, times)
        for name, times, text in wrong_columns(features, header)
    ]
    bounds = np.stack(np.broadcast_arrays(lower, upper, np.empty(len(features)))[:2], axis=1)
    wanted = {
        name: (low, high)
        for name, (low, high) in zip(features, bounds.tolist(), strict=True)
        if header.count(name) == 1
    }
    rows, columns, bad = _summaries(path, wanted, missing, dialect, reader)
    found += [TableFinding("no number", name, text, stops=True) for name, text in bad.items()]
    if rows == 0:
        found.append(TableFinding("no rows", None, "the table has no rows", stops=False))
    outside = {name: column.first_outside for name, column in columns.items()}
    first = _places(path, outside, dialect if reader is HERE else None)
    for name, summary in columns.items():
        found += _value_findings(name, summary, *wanted[name], first.get(name, ""))
    found.sort(key=lambda finding: not finding.stops)
    return Checked(rows, reader.call(described, path, dialect), columns, found)


def _value_findings(
    name: str, found: Summary, lower: float, upper: float, first: str
) -> Iterator[TableFinding]:
    """Problems and notes about the values of a column.

    `first` is where the first value outside the bounds stands.
    """
    if outside := found.below + found.above:
        text = (
            f"{found.below} below and {found.above} above the agreed bounds {lower:g} to "
            f"{upper:g}, first in {first}; the values range from {found.least:g} to "
            f"{found.greatest:g}"
        )
        yield TableFinding("out of bounds", name, text, True, outside, outside / found.rows)
    if found.rows and not found.present:
        yield TableFinding("all missing", name, "it has no values here", False, found.missing, 1.0)
    elif found.missing:
        share = found.missing / found.rows
        text = f"{found.missing} of {found.rows} values are missing ({share:.1%})"
        yield TableFinding("missing values", name, text, False, found.missing, share)
    if found.distinct == 1:
        many = f"all {found.present} values are {found.least:g}"
        text = f"it is constant here: {many if found.present > 1 else 'one value'}"
        yield TableFinding("constant", name, text, False, found.present)
    elif 0 < found.distinct < FEW_DISTINCT:
        text = f"it has only {found.distinct} distinct values here"
        yield TableFinding("few distinct values", name, text, False, found.distinct)


def point_findings(
    tally: Tally,
    features: Sequence[str],
    rounded: Sequence[bool],
    path: Path | None = None,
    dialect: Dialect | None = None,
) -> Iterator[TableFinding]:
    """The values of a table that are no points of a submission."""
    rows = {name: off and off.row for name, off in zip(features, tally.first, strict=True)}
    places = _places(path, rows, dialect)
    for j, (name, off) in enumerate(zip(features, tally.first, strict=True)):
        if off is None:
            continue
        many, far = int(tally.moved[j]), f"{tally.farthest[j]:.3g}"
        of = f"{many:,} of {int(tally.counts[j].sum()):,} values"
        if rounded[j]:
            text = f"{of} move to the next point, by at most {far}"
            yield TableFinding("next point", name, text, False, many)
        else:
            text = (
                f"{of} are not among the agreed points, first {off.value!r} in {places[name]}; "
                f"they are at most {far} away from one"
            )
            yield TableFinding("no point", name, text, True, many)


def _places(
    path: Path | None, rows: Mapping[str, int | None], dialect: Dialect | None
) -> dict[str, str]:
    """Where rows stand: a line, in a CSV file that is here, for one of the first rows."""
    found = {name: row for name, row in rows.items() if row}
    places = {name: f"row {row}" for name, row in found.items()}
    file = open_table(path, (), dialect) if found and path and dialect and path.is_file() else None
    if isinstance(file, CsvFile):
        most = _MOST_CELLS_AGAIN // len(file.names)
        lines = file.lines_of({row for row in found.values() if row <= most})
        places |= {k: f"{file.place} {lines[row]}" for k, row in found.items() if row in lines}
    return places


def _summaries(
    path: Path,
    wanted: Mapping[str, tuple[float, float]],
    missing: Collection[str],
    dialect: Dialect,
    reader: TableReader,
) -> tuple[int, dict[str, Summary], dict[str, str]]:
    """The number of rows, the columns compared with their bounds, and those without numbers."""
    bad = dict[str, str]()
    while True:
        usable = [name for name in wanted if name not in bad]
        bounds = np.array([wanted[name] for name in usable]).reshape(-1, 2)
        try:
            rows, columns = summarize(reader.source(path, usable, missing, dialect), *bounds.T)
        except BadCellsError as error:
            names = dialect.names(list(error.columns))
            of_file = "" if error.where == str(path) else f"{error.where}, "  # within a folder
            for name, text in zip(names, error.columns.values(), strict=True):
                bad[name] = of_file + text
        else:
            return rows, dict(zip(usable, columns, strict=True)), bad


class Drafted(NamedTuple):
    """A column, possible bounds of it, and what it contains here."""

    name: str
    lower: float
    upper: float
    here: Summary
    method: str
    why: str
    resolution: str
    digits: int
    points: int
    """How many points a submission would count; 0 if the values have too many decimals."""
    suspect: float | None = None
    """A number here that often means a missing value."""


class Draft(NamedTuple):
    """The columns of a table that could be features, and why the others could not."""

    rows: int
    features: list[Drafted]
    left_out: dict[str, str]
    unread: dict[str, str]
    """Columns of numbers with other cells, and advice; empty if another column has the advice."""


def draft(
    path: Path | str, missing: Collection[str] = MISSING, dialect: Dialect | None = None
) -> Draft:
    """All numeric columns of a table, with wide bounds, and a method for each."""
    path, dialect = Path(path), dialect or Dialect()
    header = column_names(path, dialect)
    readable = dict[str, Advice]()
    left_out = {name: "appears twice" for name in header if header.count(name) > 1}
    file = None if path.is_dir() else open_table(path, missing, dialect)
    if isinstance(file, CsvFile):  # the first rows save reading texts cell by cell
        texts = file.text_columns()
        for name, cells in zip(dialect.names(list(texts)), texts.values(), strict=True):
            if other := other_reading(cells, dialect.notation):
                readable[name] = other
            else:
                left_out[name] = "no numbers"
    candidates = [name for name in header if name not in left_out and name not in readable]
    everywhere = dict.fromkeys(candidates, (-inf, inf))
    rows, columns, bad = _summaries(path, everywhere, missing, dialect, HERE)
    features = []
    for name, here in columns.items():
        lower, upper = round_bounds(here.least, here.greatest) if here.present else (0.0, 0.0)
        if not here.present:
            left_out[name] = "empty"
        elif max(-lower, upper) > _FARTHEST:
            left_out[name] = "values too large"
        else:
            method, why = _proposed(here)
            if method == "box-cox":
                lower = float(f"1e{floor(log10(here.least) - log10(2) + 1e-9)}")
                if here.places is not None:
                    lower = max(lower, 10.0**-here.places)  # the least point above 0
            points = _proposed_points(lower, upper, here)
            features.append(Drafted(name, lower, upper, here, method, why, *points, _suspect(here)))
    return Draft(rows, features, left_out, each_once(readable) | bad)


def _suspect(here: Summary) -> float | None:
    """The least or greatest value, if it is -999, 9999 or similar, and far from the others."""
    least, greatest, third = here.least, here.greatest, here.spread[2]
    most = here.median if third == greatest else third
    if least in _SUSPECTS and 0 <= here.median <= -least:
        return least
    return greatest if greatest in _SUSPECTS and greatest >= _SUSPECT_FROM * most else None


def _proposed(here: Summary) -> tuple[str, str]:
    """A method for a column, and why (docs/methods.md)."""
    low, first, third, high = here.spread
    if here.distinct < FEW_DISTINCT or not first < third:
        return "standard", "its values are few, or at least half of them are equal"
    skewness, reach = (low + high - 2 * here.median) / (high - low), _FAR * (third - first)
    if abs(skewness) < _SYMMETRIC:
        if here.least < first - reach or here.greatest > third + reach:
            return "robust", "about symmetric, with values far from all others"
        return "standard", "about symmetric"
    if here.least > 0 and log10(here.greatest) - log10(here.least) >= _POWERS:
        return "box-cox", f"skewed, and positive over {_POWERS} powers of ten or more"
    if here.least > 0 and high < _SMALL:
        return "box-cox", "skewed, and positive values far below 1"
    return "yeo-johnson", f"skewed to the {'right' if skewness > 0 else 'left'}"


def _proposed_points(lower: float, upper: float, here: Summary) -> tuple[str, int, int]:
    """Resolution, digits and number of the points that all values here are among."""
    if here.places is None:
        return "", 0, 0
    resolution = f"{10.0**-here.places:.{here.places}f}"
    for digits in (0, min(max(here.digits, _FEWEST_DIGITS), MOST_DIGITS)):
        with suppress(InputError):  # too many
            return resolution, digits, len(points_of(lower, upper, resolution, digits, ""))
    return "", 0, 0


def round_bounds(least: float, greatest: float) -> tuple[float, float]:
    """Powers of ten at least twice as far from 0 as the values; 0 if all have the same sign."""
    lower, upper = (
        float(f"1e{ceil(log10(far) + log10(2) - 1e-9)}") if far > 0 else 0.0
        for far in (-least, greatest)
    )
    return (0.0 - lower, upper) if lower or upper else (0.0, 1.0)
