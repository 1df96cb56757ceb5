"""A silo's data, read in passes of blocks.

`as_source` makes a `Source` of arrays, frames, tables of Arrow and Dask, anything else that gives
Arrow batches, CSV and Parquet files, and folders of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.errors import InputError, code_of
from securefedyj.numerics.arrays import Array, unmasked
from securefedyj.numerics.passes import RemoteSource, Source, is_source, read
from securefedyj.tables import arrow
from securefedyj.tables.arrow import ParquetTable, gives_arrow, is_of
from securefedyj.tables.cells import (
    MISSING,
    BadCellsError,
    Cells,
    TableError,
    first_few,
    suggestion,
)
from securefedyj.tables.csv_files import CsvFile
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.paths import files_of, is_csv, partition

_OTHERS_NAMED = 12
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def as_source(
    data: Any,
    features: Sequence[str] | None = None,
    missing: Collection[str] = MISSING,
    dialect: Dialect | None = None,
) -> Source:
    """Make a source of anything that holds rows.

    Parameters
    ----------
    data : array-like, frame, table, path or Source
        Frames of pandas, polars and Dask, arrays, tables and datasets of Arrow, relations of
        DuckDB; or the path of a .csv, .csv.gz or .parquet file or of a folder of such files.
    features : sequence of str, optional
        Names of columns, in the order of the source; all by default.
    missing : collection of str
        Cells that mean a missing value. In tables of numbers the numbers among them count, such
        as "-999".
    dialect : Dialect, optional
        How the CSV files of a path are written, and which columns of tables have other names.

    Raises
    ------
    TableError
        If a column is missing, appears twice, or does not hold numbers.
    """
    dialect = dialect or Dialect()
    if dialect.rename:
        own = None if features is None else dialect.own_names(features)
        source = as_source(data, own, missing, replace(dialect, rename={}))
        return viewed(source, dialect.names(source.names))
    if isinstance(data, str | Path):
        path = Path(data)
        return source_of_files(path, files_of(path), features, missing, dialect)
    if not is_source(data):
        if is_of(data, "dask", "DataFrame", "Array"):
            from securefedyj.tables.dask_source import of_collection

            return of_collection(data, features, missing)
        if is_of(data, "pandas", "DataFrame"):
            return TableSource(arrow.PandasTable(data), features, missing)
        if gives_arrow(data):
            return TableSource(arrow.ArrowTable(data), features, missing)
        data = ArraySource(data)
    everything = features is None and tuple(missing) == MISSING
    return data if everything else TableSource(data, features, missing)


def is_table(data: Any) -> bool:
    """Whether data is read in passes; frames of pandas and polars in memory are not."""
    in_memory = is_of(data, "pandas", "DataFrame") or is_of(data, "polars", "DataFrame")
    return (
        isinstance(data, str | Path)
        or is_source(data)
        or is_of(data, "dask", "DataFrame", "Array")
        or (gives_arrow(data) and not in_memory)
    )


def has_column_names(data: Any) -> bool:
    """Whether the columns of data have names; those of arrays do not."""
    return is_source(data) or hasattr(type(data), "columns") or gives_arrow(data)


def as_array(source: Source) -> Array:
    """All rows of a source, in memory."""
    if isinstance(source, HeldSource) and [one.dtype for one in source.held] == [np.float64]:
        return source.held[0]
    columns = range(len(source.names))
    return np.concatenate([*read(source, columns), np.empty((0, len(columns)))])


def column_names(path: Path | str, dialect: Dialect | None = None) -> list[str]:
    """The columns of a file; or of a folder's first file, and of the names of folders."""
    dialect, first = dialect or Dialect(), files_of(Path(path))[0]
    own = _table_of(first, (), dialect).names
    return dialect.names([*own, *(key for key in partition(first, Path(path)) if key not in own)])


def source_of_files(
    path: Path,
    files: Sequence[Path],
    features: Sequence[str] | None,
    missing: Collection[str],
    dialect: Dialect,
) -> Source:
    """The file at this path; or some files of a folder as one table, one after the other.

    A folder named KEY=VALUE within it is a column, as Hive and Spark write them.
    """
    if not path.is_dir():
        return TableSource(_table_of(path, missing, dialect), features, missing, str(path))
    names = column_names(path, dialect) if features is None else features
    parts = []
    for file in files:
        table = _table_of(file, missing, dialect)
        constants = {
            key: _number(file, key, text, missing) if key in names else nan
            for key, text in partition(file, path).items()
            if key not in table.names
        }
        try:
            parts.append(TableSource(table, names, missing, str(file), constants))
        except TableError as error:
            if file == files[0] or isinstance(error, BadCellsError):
                raise
            raise TableError(
                code_of(error, "SFY-TAB-031"),
                f"{error}. All tables of a folder must have the columns that are read",
            ) from None
    return ChainedSource(parts, names)


def _table_of(path: Path, missing: Collection[str], dialect: Dialect) -> CsvFile | ParquetTable:
    return CsvFile(path, missing, dialect) if is_csv(path) else ParquetTable(path)


def _number(path: Path, name: str, text: str, missing: Collection[str]) -> float:
    value = nan if text == _NO_VALUE else Cells(missing).read(text)
    if value is None:
        raise TableError("SFY-TAB-030", f"{path}: in the folder {name}={text}, {text} is no number")
    return value


def check_columns(path: Path | str, names: Sequence[str], header: Sequence[str]) -> None:
    """Refuse columns that cannot be used, all of them in one message."""
    if len(set(names)) < len(names):
        twice = [repr(name) for name in dict.fromkeys(names) if list(names).count(name) > 1]
        raise TableError("SFY-TAB-026", f"{path}: column {', '.join(twice)} is chosen twice")
    if wrong := [f"{name!r}: {text}" for name, _, text in wrong_columns(names, header)]:
        raise TableError("SFY-TAB-027", f"{path}: {first_few(wrong, '; ')}")


def wrong_columns(features: Sequence[str], header: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """The features that are missing or appear more than once: name, number of columns, sentence."""
    others = [repr(name) for name in dict.fromkeys(header) if name not in features]
    for name in dict.fromkeys(features):
        if name not in header:
            text = f"there is no such column{suggestion(name, header)}"
            if others and "perhaps" not in text:
                text += f"; not agreed on, but here: {first_few(others, most=_OTHERS_NAMED)}"
                others = []  # listed only once
            if len(header) == 1:
                text += "; the table has only one column: does it need --delimiter?"
            yield name, 0, text
        elif (times := header.count(name)) > 1:
            yield name, times, f"{times} columns have this name"


class ViewSource:
    """Columns of a source, and constant columns, which are never read.

    The columns of the source are found by their names, or by other ones for them, the `header`.
    """

    names: Sequence[str] = ()

    def __init__(
        self,
        source: Source,
        names: Sequence[str],
        constants: Mapping[str, float],
        header: Sequence[str] | None = None,
    ) -> None:
        self._source, self.names, self._constants = source, tuple(names), dict(constants)
        self._header = list(source.names if header is None else header)

    @property
    def rows(self) -> int | None:
        return self._source.rows

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        names = [self.names[j] for j in columns]
        read = [k for k, name in enumerate(names) if name not in self._constants]
        positions = [self._header.index(names[k]) for k in read]
        for block in self._source.blocks(positions):
            if len(read) == len(names):
                yield block
                continue
            filled = np.empty((len(block), len(names)), order="F")
            filled[:] = [self._constants.get(name, nan) for name in names]
            filled[:, read] = block[:, : len(read)]
            yield filled


class TableSource(ViewSource):
    """The features of a table: numbers that mean missing become NaN, infinite ones are refused.

    Its other columns may have the same name, or hold no numbers. Messages call the table `where`.
    """

    def __init__(
        self,
        table: Source,
        features: Sequence[str] | None,
        missing: Collection[str],
        where: str = "the table",
        constants: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(table, table.names if features is None else features, constants or {})
        check_columns(where, self.names, [*self._header, *self._constants])
        self.where, self._cells = where, Cells(missing)
        if isinstance(table, arrow.ArrowTable):
            chosen = (name for name in self.names if name not in self._constants)
            arrow.check_types(where, table.schema, [*map(self._header.index, chosen)])

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        names, first = [self.names[j] for j in columns], 1
        for block in super().blocks(columns):
            check_finite(self.where, names, block, first)
            first += len(block)
            yield self._cells.mask(block)


def viewed(source: Source, names: Sequence[str], missing: Collection[int] = ()) -> Source:
    """The rows of a source with these names of the columns, some of which are missing."""
    if isinstance(source, RemoteSource):
        return source.viewed(names, missing)
    return ViewSource(source, names, {names[j]: nan for j in missing}, header=names)


class ChainedSource:
    """Sources with the same columns, one after the other."""

    names: Sequence[str] = ()

    def __init__(self, parts: Sequence[Source], names: Sequence[str]) -> None:
        self._parts, self.names = parts, tuple(names)

    @property
    def rows(self) -> int | None:
        known = [part.rows for part in self._parts if part.rows is not None]
        return sum(known) if len(known) == len(self._parts) else None

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        for part in self._parts:
            yield from part.blocks(columns)


class HeldSource:
    """Blocks of all columns, in memory."""

    names: Sequence[str] = ()

    def __init__(self, blocks: Sequence[Array], names: Sequence[str]) -> None:
        self.held, self.names = blocks, names

    @property
    def rows(self) -> int:
        return sum(map(len, self.held))

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.held)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        every = list(columns) == list(range(len(self.names)))
        for block in self.held:
            yield block if every else block[:, list(columns)]


class ArraySource(HeldSource):
    """An array of shape (n_rows, n_features), with columns 0, 1, and so on; NaN is missing."""

    def __init__(self, values: Any) -> None:
        array = np.asarray(unmasked(values))
        if array.ndim != 2:
            raise InputError("SFY-TAB-035", f"a table must have two dimensions, got {array.ndim}")
        super().__init__([array], tuple(map(str, range(array.shape[1]))))


def check_finite(where: str, names: Sequence[str], block: Array, first: int) -> None:
    """Refuse infinite numbers; the rows of a block are counted from `first`."""
    infinite = np.isinf(block)
    if infinite.any():
        row, j = np.argwhere(infinite)[0].tolist()
        wrong = f"row {first + row}: {block[row, j]:g} is not a finite number."
        raise BadCellsError(where, {names[j]: wrong})
