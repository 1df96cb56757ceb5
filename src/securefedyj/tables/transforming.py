"""Tables with a function applied to some columns, block by block: files, and folders of them.

What is written has the format, the dialect and the names of what was read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from numpy.typing import ArrayLike

from securefedyj.files import replacing, replacing_folder
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import OnRows
from securefedyj.tables import csv_transform, parquet_transform
from securefedyj.tables.cells import MISSING, TableError
from securefedyj.tables.change import Change, Outside, OutsideMode
from securefedyj.tables.csv_careful import compressed
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import column_names
from securefedyj.tables.findings import check_columns
from securefedyj.tables.folders import partition, tables_in
from securefedyj.tables.kinds import is_csv
from securefedyj.tables.targets import check_target


class Transformed(NamedTuple):
    """What became of a table."""

    files: int
    rows: int
    transformed: int
    """Columns."""
    passed_through: int
    """Columns, of the first file."""
    outside: dict[str, Outside]
    """Features with values outside their bounds."""


def transform_table(
    source: Path | str,
    target: Path | str,
    features: Sequence[str],
    function: Callable[[Array], Array],
    missing: Collection[str] = MISSING,
    dialect: Dialect | None = None,
    *,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    outside: OutsideMode = "error",
    force: bool = False,
    on_rows: OnRows | None = None,
) -> Transformed:
    """Copy a table, with a function applied to its features block by block.

    All other columns stay as they are; a missing value is written as an empty cell, or as null.

    Parameters
    ----------
    source, target : path-like
        Files of the same format, .csv and .csv.gz being one; or folders of such files. The target
        takes its name when it is whole, and is never a part of the source.
    features : sequence of str
        Names of columns.
    function : callable
        Gets the features in that order, as an array with NaN for missing values, and returns an
        array of that shape. It is called from several threads.
    missing, dialect
        As of `read_table`.
    bounds : (lower, upper), optional
        Of the features; values outside are counted.
    outside : {"error", "clip", "keep"}
        What becomes of them: no table is written, the bound takes their place, or nothing.
    force : bool
        Whether a target that is there already is replaced.
    on_rows : callable, optional
        Called with the number of rows that are done.

    Raises
    ------
    TableError
        If a column is missing or there twice, a cell is not a number, values lie outside, or the
        target cannot be.
    """
    source, target, dialect = Path(source), Path(target), dialect or Dialect()
    change, done = Change(function, bounds, outside), 0
    files = _files(source, target)
    check_target(source, files, target, force)
    headers = [_header(source, file, features, dialect) for file in files]
    with (replacing_folder if source.is_dir() else replacing)(target) as new:
        for file, header in zip(files, headers, strict=True):
            place = file.relative_to(source)  # nothing for a single file
            (new / place).parent.mkdir(parents=True, exist_ok=True)
            columns, packed = [header.index(name) for name in features], compressed(target / place)
            parts = _parts(file, new / place, columns, change, missing, dialect, packed)
            with closing(parts):
                for rows in parts:
                    done += rows
                    if on_rows is not None:
                        on_rows(done, None)
        change.check(source, features)
    others = len(headers[0]) - len(features)
    return Transformed(len(files), done, len(features), others, change.found(features))


def _files(source: Path, target: Path) -> list[Path]:
    if not source.is_dir():
        if is_csv(source) != is_csv(target):
            raise TableError(
                "SFY-TAB-041", f"{target} must have the format of {source}: give it the same ending"
            )
        return [source]
    return tables_in(source)


def _header(source: Path, file: Path, features: Sequence[str], dialect: Dialect) -> list[str]:
    """The columns of a file, among them all features."""
    header = column_names(file, dialect)
    for name in dialect.names(list(partition(file, source))):
        if name in features and name not in header:
            raise TableError(
                "SFY-TAB-042",
                f"{file}: column {name!r} is in the names of folders, which stay as they are; it "
                "cannot be transformed",
            )
    check_columns(file, features, header)
    return header


def _parts(
    source: Path,
    target: Path,
    columns: Sequence[int],
    change: Change,
    missing: Collection[str],
    dialect: Dialect,
    packed: bool,
) -> Generator[int, None, None]:
    if is_csv(source):
        return csv_transform.transform(source, target, columns, change, missing, dialect, packed)
    return parquet_transform.transform(source, target, columns, change, missing)
