"""A silo's table: CSV, compressed CSV or Parquet, told by the ending of the file's name.

All that is shown here, values included, is shown to the owner of the table; nothing in this room is
ever sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.numerics.arrays import Array
from securefedyj.tables import csv_files, parquet
from securefedyj.tables.cells import MISSING, Columns, TableError, Unusable
from securefedyj.tables.findings import Finding, check_columns, column_findings, value_findings
from securefedyj.tables.source import as_array, as_source, header_of

__all__ = [
    "MISSING",
    "Finding",
    "TableError",
    "Transformed",
    "check_table",
    "column_names",
    "read_table",
    "transform_table",
    "write_table",
]


class _Format(Protocol):
    """What the module of a format offers."""

    def header(self, path: Path | str) -> list[str]: ...

    def load(self, path: Path | str, names: Sequence[str], missing: Collection[str]) -> Columns: ...

    def write(self, path: Path | str, names: Sequence[str], values: Array) -> None: ...

    def transform(
        self,
        source: Path | str,
        target: Path | str,
        chosen: list[int],
        function: Callable[[Array], Array],
        missing: Collection[str],
    ) -> int: ...


_FORMATS: dict[str, _Format] = {
    ".csv": csv_files,
    ".csv.gz": csv_files,
    ".parquet": parquet,
    ".pq": parquet,
}


class Transformed(NamedTuple):
    """How many rows a table has, and what became of its columns."""

    rows: int
    transformed: int
    passed_through: int


def read_table(
    path: Path | str,
    features: Sequence[str] | None = None,
    missing: Collection[str] = MISSING,
) -> Array:
    """Read the features of a table, in the order asked for; all columns by default.

    Parameters
    ----------
    path : path-like
        A .csv, .csv.gz or .parquet file, or a folder of them. CSV is in UTF-8, with a header, and
        separated by commas, semicolons or tabs; the decimal point is a point.
    features : sequence of str, optional
        Names of columns.
    missing : collection of str
        Cells that stand for a missing value; numbers among them, such as "-999", count in Parquet
        files as well.

    Returns
    -------
    values : array of shape (n_rows, n_features)
        NaN is missing. `column_names` has the names where none were given.

    Raises
    ------
    TableError
        If a column is missing or there twice, or if a cell is not a number.
    """
    header = column_names(path)
    names = tuple(header if features is None else features)
    check_columns(path, names, header)
    columns = _load(path, names, missing)
    for name, unusable in zip(names, columns.unusable, strict=True):
        if unusable.count:
            raise TableError(f"{path}: column {name!r}, {unusable.first}")
    return columns.values


def column_names(path: Path | str) -> list[str]:
    """The header of a table."""
    return header_of(Path(path)) if Path(path).is_dir() else _format(path).header(path)


def write_table(path: Path | str, names: Sequence[str], values: ArrayLike) -> None:
    """Write columns of numbers so that they read back exactly; the file is whole or not there."""
    table_format, data = _format(path), np.asarray(values, dtype=np.float64)
    if data.ndim != 2 or data.shape[1] != len(names):
        raise ValueError(f"{len(names)} names do not fit an array of shape {data.shape}")
    table_format.write(path, names, data)


def transform_table(
    source: Path | str,
    target: Path | str,
    features: Sequence[str],
    function: Callable[[Array], Array],
    missing: Collection[str] = MISSING,
) -> Transformed:
    """Copy a table, with a function applied to its features block by block.

    Missing cells and all other columns stay as they are. Source and target may be the same file.
    """
    table_format = _format(source)
    if table_format is not _format(target):
        raise TableError(f"{target} must have the format of {source}: give it the same ending")
    header = table_format.header(source)
    check_columns(source, features, header)
    chosen = [header.index(name) for name in features]
    rows = table_format.transform(source, target, chosen, function, missing)
    return Transformed(rows, len(features), len(header) - len(features))


def check_table(
    table_path: Path | str,
    features: Sequence[str],
    lower: ArrayLike,
    upper: ArrayLike,
    missing: Collection[str] = MISSING,
) -> list[Finding]:
    """What a silo should know about its table before a run; what would stop the run comes first."""
    header = column_names(table_path)
    found = list(column_findings(features, header))
    usable = [name for name in features if header.count(name) == 1]
    columns = _load(table_path, usable, missing)
    if len(columns.values) == 0:
        found.append(Finding("no rows", None, "the table has no rows", stops=False))
    index = {name: j for j, name in enumerate(features)}
    bounds = np.stack(np.broadcast_arrays(lower, upper, np.empty(len(features)))[:2], axis=1)
    for name, values, unusable in zip(usable, columns.values.T, columns.unusable, strict=True):
        low, high = bounds[index[name]].tolist()
        found += value_findings(name, values, unusable, low, high)
    return sorted(found, key=lambda finding: not finding.stops)


def _load(path: Path | str, names: Sequence[str], missing: Collection[str]) -> Columns:
    if not Path(path).is_dir():
        return _format(path).load(path, names, missing)
    # A cell of a folder that is not a number is an error, and not a finding.
    values = as_array(as_source(path, names, missing))
    return Columns(values, [Unusable() for _ in names])


def _format(path: Path | str) -> _Format:
    name = Path(path).name.lower()
    for ending, module in _FORMATS.items():
        if name.endswith(ending):
            return module
    raise TableError(f"{path}: a table's name must end in {', '.join(_FORMATS)}")
