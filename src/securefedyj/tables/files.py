"""A silo's table: CSV, compressed CSV or Parquet, told by the ending of the file's name.

All that is shown here, values included, is shown to the owner of the table; nothing in this room is
ever sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import Source
from securefedyj.tables import csv_files, parquet
from securefedyj.tables.bad_cells import BadCellsError
from securefedyj.tables.cells import MISSING, TableError
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.findings import TableFinding, column_findings, value_findings
from securefedyj.tables.folders import tables_in
from securefedyj.tables.kinds import is_csv
from securefedyj.tables.source import as_array, as_source, header_of
from securefedyj.tables.summary import Summary, summarize

__all__ = [
    "MISSING",
    "Checked",
    "Dialect",
    "TableError",
    "TableFinding",
    "check_table",
    "column_names",
    "read_table",
    "write_table",
]


_MOST_CELLS_AGAIN = 5_000_000
"""Which are read again to tell the line of a row: cell by cell, in about a second."""


class TableReader(NamedTuple):
    """Who reads a table: this process, or a cluster."""

    column_names: Callable[[Path, Dialect], list[str]]
    source: Callable[[Path, Sequence[str], Collection[str], Dialect], Source]
    written: Callable[[Path, Dialect], str]


class Checked(NamedTuple):
    """A silo's table beside what was agreed on."""

    rows: int
    written: str
    """How the table is written, for a person."""
    columns: dict[str, Summary]
    """What the columns hold that could be read."""
    findings: list[TableFinding]
    """What a silo should know before a run; what would stop the run comes first."""


def read_table(
    path: Path | str,
    features: Sequence[str] | None = None,
    missing: Collection[str] = MISSING,
    dialect: Dialect | None = None,
) -> Array:
    """Read the features of a table, in the order asked for; all columns by default.

    Parameters
    ----------
    path : path-like
        A .csv, .csv.gz or .parquet file, or a folder of such files.
    features : sequence of str, optional
        Names of columns.
    missing : collection of str
        Cells that stand for a missing value; numbers among them, such as "-999", count in Parquet
        files as well.
    dialect : Dialect, optional
        How CSV files are written, where they do not tell, and which columns have other names.

    Returns
    -------
    values : array of shape (n_rows, n_features)
        NaN is missing. `column_names` has the names where none were given.

    Raises
    ------
    TableError
        If a column is missing or there twice, or if a cell is not a number.
    """
    return as_array(as_source(path, features, missing, dialect))


def column_names(path: Path | str, dialect: Dialect | None = None) -> list[str]:
    """The header of a table."""
    dialect = dialect or Dialect()
    if Path(path).is_dir():
        return dialect.names(header_of(Path(path), dialect))
    header = csv_files.header(path, dialect) if is_csv(path) else parquet.header(path)
    return dialect.names(header)


def write_table(path: Path | str, names: Sequence[str], values: ArrayLike) -> None:
    """Write columns of numbers so that they read back exactly; the file is whole or not there."""
    write, data = (csv_files if is_csv(path) else parquet).write, np.asarray(values, np.float64)
    if data.ndim != 2 or data.shape[1] != len(names):
        raise InputError(
            "SFY-TAB-025", f"{len(names)} names do not fit an array of shape {data.shape}"
        )
    write(path, names, data)


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
    header = reader.column_names(path, dialect)
    found = list(column_findings(features, header))
    bounds = np.stack(np.broadcast_arrays(lower, upper, np.empty(len(features)))[:2], axis=1)
    wanted = {
        name: (low, high)
        for name, (low, high) in zip(features, bounds.tolist(), strict=True)
        if header.count(name) == 1
    }
    rows, columns, bad = summaries(path, wanted, missing, dialect, reader)
    found += [TableFinding("no number", name, text, stops=True) for name, text in bad.items()]
    if rows == 0:
        found.append(TableFinding("no rows", None, "the table has no rows", stops=False))
    most = _MOST_CELLS_AGAIN // max(len(header), 1)
    lines = _lines_outside(path, columns, dialect, most) if reader is HERE else {}
    for name, summary in columns.items():
        found += value_findings(name, summary, *wanted[name], lines.get(name))
    found.sort(key=lambda finding: not finding.stops)
    return Checked(rows, reader.written(path, dialect), columns, found)


def _lines_outside(
    path: Path | str, columns: Mapping[str, Summary], dialect: Dialect, most: int
) -> dict[str, int]:
    """In which line of a CSV file the first value outside is, if it is in one of so many rows."""
    rows = {
        name: column.first_outside
        for name, column in columns.items()
        if column.first_outside is not None and column.first_outside <= most
    }
    if not rows or not is_csv(path):
        return {}
    lines = csv_files.lines_of(path, set(rows.values()), dialect)
    return {name: lines[row] for name, row in rows.items()}


def summaries(
    path: Path | str,
    wanted: Mapping[str, tuple[float, float]],
    missing: Collection[str] = MISSING,
    dialect: Dialect | None = None,
    reader: TableReader | None = None,
) -> tuple[int, dict[str, Summary], dict[str, str]]:
    """The rows of a table, what columns hold beside their bounds, and which hold no numbers."""
    dialect, reader, bad = dialect or Dialect(), reader or HERE, dict[str, str]()
    while True:
        usable = [name for name in wanted if name not in bad]
        bounds = np.array([wanted[name] for name in usable]).reshape(-1, 2)
        try:
            source = reader.source(Path(path), usable, missing, dialect)
            rows, columns = summarize(source, *bounds.T)
        except BadCellsError as error:
            names = dialect.names(list(error.columns))
            of_file = "" if error.where == str(path) else f"{error.where}, "  # within a folder
            for name, text in zip(names, error.columns.values(), strict=True):
                bad[name] = of_file + text
        else:
            return rows, dict(zip(usable, columns, strict=True)), bad


def written(path: Path | str, dialect: Dialect | None = None) -> str:
    """How a table is written, for a person; of a folder, its first table."""
    first = tables_in(Path(path))[0] if Path(path).is_dir() else path
    return csv_files.described(first, dialect or Dialect()) if is_csv(first) else "Parquet"


HERE = TableReader(column_names, as_source, written)
