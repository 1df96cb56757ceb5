"""A silo's data, read in passes of blocks.

`as_source` makes a `Source` of arrays, frames, tables of Arrow and Dask, anything else that gives
Arrow batches, files of the `FORMATS`, and folders of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from securefedyj.errors import InputError, code_of
from securefedyj.numerics.arrays import Array, unmasked
from securefedyj.numerics.passes import ChangedData, RemoteSource, Source, is_source, read
from securefedyj.tables.arrow import ArrowTable, PandasTable, check_types, gives_arrow, is_of
from securefedyj.tables.cells import (
    MISSING,
    BadCellsError,
    Cells,
    TableError,
    check_finite,
    first_few,
    suggestion,
)
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.formats import FORMATS, format_found, in_folder, open_table

_OTHERS_NAMED = 12
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # but no drive of Windows


class Unchanged:
    """A file as it was when a run started, known by its size and the time of its last change."""

    def __init__(self, path: Path) -> None:
        self.path, status = path, path.stat()
        self._state = status.st_size, status.st_mtime_ns

    def check(self) -> None:
        """Raise an error if the file has changed."""
        if Unchanged(self.path)._state != self._state:
            raise ChangedData(
                "SFY-TAB-043",
                f"{self.path} changed while it was in use. The sums would mix two tables; start "
                "again when no other program writes to the file.",
            )


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
        DuckDB; or the path of a file of the `FORMATS`, or of a folder of such files.
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
    if isinstance(data, str | Path):
        return source_of_files(Path(data), files_of(Path(data)), features, missing, dialect)
    if is_of(data, "dask", "DataFrame", "Array"):
        from securefedyj.tables.dask_source import of_collection

        return of_collection(data, features, missing, dialect)
    table: Source
    if is_of(data, "pandas", "DataFrame"):
        table = PandasTable(data)
    elif gives_arrow(data):
        table = ArrowTable(data)
    else:
        table = data if is_source(data) else ArraySource(data)
        if features is None and tuple(missing) == MISSING and not dialect.rename:
            return table
    return TableSource(table, dialect.own_names(table.names, features), missing, dialect)


def is_table(data: Any) -> bool:
    """Whether data is read in passes; frames of pandas and polars in memory are not."""
    if is_of(data, "pandas", "DataFrame") or is_of(data, "polars", "DataFrame"):
        return False
    named = isinstance(data, str | Path) or is_source(data) or gives_arrow(data)
    return named or is_of(data, "dask", "DataFrame", "Array")


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
    dialect, first = dialect or Dialect(), files_of(Path(path))[0].path
    return dialect.names(_header(open_table(first, (), dialect), partition(first, Path(path))))


def files_of(path: Path) -> list[Unchanged]:
    """The files of a table: the path itself, or the tables in that folder, sorted by name.

    Names that begin with a dot or an underscore do not count.
    """
    if _URL.match(str(path)) and not path.exists():
        raise TableError(
            "SFY-TAB-050", f"{path}: tables are not read over a network; download it, or mount it"
        )
    if not path.is_dir():
        return [Unchanged(path)]
    found = [
        file
        for file in sorted(path.rglob("*"))
        if in_folder(file)
        and not any(part[0] in "._" for part in file.relative_to(path).parts)
        and file.is_file()
    ]
    if not found:
        raise TableError(
            "SFY-TAB-028",
            f"{path}: this folder contains no table ({', '.join(FORMATS)}); give another",
        )
    if len(set(map(format_found, found))) > 1:
        raise TableError(
            "SFY-TAB-029",
            f"{path}: this folder contains files of several formats, such as CSV and Parquet; keep "
            "those of one format",
        )
    return [*map(Unchanged, found)]


def partition(path: Path, folder: Path) -> dict[str, str]:
    """The columns that folders named KEY=VALUE above a file stand for, as in Hive and Spark.

    A file that is the whole table has none.
    """
    pairs = (part.partition("=") for part in path.relative_to(folder).parts[:-1])
    return {unquote(key): unquote(value) for key, sign, value in pairs if sign and key}


def _header(table: Source, folders: Mapping[str, str]) -> list[str]:
    return [*table.names, *(key for key in folders if key not in table.names)]


def source_of_files(
    path: Path,
    files: Sequence[Unchanged],
    features: Sequence[str] | None,
    missing: Collection[str],
    dialect: Dialect,
) -> Source:
    """The file at this path; or some files of a folder as one table, one after the other."""
    own, parts = list[str](), list[TableSource]()
    for file in files:
        table, folders = open_table(file.path, missing, dialect), partition(file.path, path)
        header = _header(table, folders)
        own = own or dialect.own_names(header, features)
        constants = dict.fromkeys(header[len(table.names) :], nan)
        for key in constants.keys() & own:
            text = folders[key]
            value = nan if text == _NO_VALUE else Cells(missing).read(text)
            if value is None:
                where = f"{file.path}: in the folder {key}={text}"
                raise TableError("SFY-TAB-030", f"{where}, {text} is no number")
            constants[key] = value
        try:
            part = TableSource(table, own, missing, dialect, constants, file)
        except TableError as error:
            if not parts or isinstance(error, BadCellsError):
                raise
            raise TableError(
                code_of(error, "SFY-TAB-031"),
                f"{error}. All tables of a folder must have the columns that are read",
            ) from None
        parts.append(part)
    return ChainedSource(parts)


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


class TableSource:
    """Columns of a table, found by their own names, and constants, which are never read.

    Numbers that mean a missing value become NaN, infinite ones are refused. The other columns of
    the table may have the same name, or hold no numbers. Messages call the table `where`.
    """

    names: Sequence[str] = ()

    def __init__(
        self,
        table: Source,
        own: Sequence[str],
        missing: Collection[str] = MISSING,
        dialect: Dialect | None = None,
        constants: Mapping[str, float] | None = None,
        file: Unchanged | None = None,
    ) -> None:
        self._table, self._own, self._constants, self._file = table, own, constants or {}, file
        self._cells, self.where = Cells(missing), str(file.path) if file else "the table"
        self.names = tuple(own if dialect is None else dialect.names(own))
        header = [name for name in table.names if name not in self._constants]
        check_columns(self.where, own, [*header, *self._constants])
        if isinstance(table, ArrowTable):
            chosen = [name for name in own if name not in self._constants]
            check_types(self.where, table.schema, [*map(table.names.index, chosen)])

    @property
    def rows(self) -> int | None:
        return self._table.rows

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        names, first = [self._own[j] for j in columns], 1
        read = [k for k, name in enumerate(names) if name not in self._constants]
        chosen = [names[k] for k in read]
        if self._file is not None:
            self._file.check()
        for block in self._table.blocks([*map(list(self._table.names).index, chosen)]):
            check_finite(self.where, chosen, block, first)
            first += len(block)
            block = self._cells.mask(block)
            if len(read) < len(names):
                filled = np.empty((len(block), len(names)), order="F")
                filled[:] = [self._constants.get(name, nan) for name in names]
                filled[:, read] = block[:, : len(read)]
                block = filled
            yield block
        if self._file is not None:
            self._file.check()


def lacking(source: Source, columns: Collection[int]) -> Source:
    """A source with the values of some columns missing."""
    if not columns:
        return source
    if isinstance(source, RemoteSource):
        return source.lacking(columns)
    return TableSource(source, source.names, constants={source.names[j]: nan for j in columns})


class ChainedSource:
    """Sources with the same columns, one after the other."""

    names: Sequence[str] = ()

    def __init__(self, parts: Sequence[Source]) -> None:
        self._parts, self.names = parts, parts[0].names

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
