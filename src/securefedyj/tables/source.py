"""One view of a silo's data: whatever holds it, it is read in passes of blocks.

`as_source` makes a `Source` of arrays, frames, tables of Arrow, Dask and whatever else gives
Arrow batches, CSV and Parquet files, and folders of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.errors import code_of
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import RemoteSource, Source, is_source, read
from securefedyj.tables.arrow import (
    ArrowSource,
    PandasSource,
    ParquetSource,
    gives_arrow,
    parquet_header,
)
from securefedyj.tables.base import ArraySource, ChosenSource, FilledSource, HeldSource
from securefedyj.tables.cells import MISSING, Cells, TableError
from securefedyj.tables.csv_careful import read_layout
from securefedyj.tables.csv_files import CsvSource
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.findings import check_columns
from securefedyj.tables.paths import is_csv, partition, tables_in

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
    if dialect is not None and dialect.rename:
        own = None if features is None else dialect.own_names(features)
        source = as_source(data, own, missing, replace(dialect, rename={}))
        names = dialect.names(source.names)
        if isinstance(source, RemoteSource):
            return source.renamed(names)
        return _RenamedSource(source, names)
    if isinstance(data, str | Path):
        path, dialect = Path(data), dialect or Dialect()
        if path.is_dir():
            return FolderSource(path, tables_in(path), features, missing, dialect)
        return _of_file(path, features, missing, dialect)
    if not is_source(data):
        if _is(data, "dask", "DataFrame", "Array"):
            from securefedyj.tables.dask_source import of_collection

            return of_collection(data, features, missing)
        if _is(data, "pandas", "DataFrame"):
            return PandasSource(data, features, missing)
        if gives_arrow(data):
            return ArrowSource(data, features, missing)
        data = ArraySource(data)
    everything = features is None and tuple(missing) == MISSING
    return data if everything else ChosenSource(data, features, missing)


def is_table(data: Any) -> bool:
    """Whether data is read in passes; frames of pandas and polars in memory are not."""
    in_memory = _is(data, "pandas", "DataFrame") or _is(data, "polars", "DataFrame")
    return (
        isinstance(data, str | Path)
        or is_source(data)
        or _is(data, "dask", "DataFrame", "Array")
        or (gives_arrow(data) and not in_memory)
    )


def has_column_names(data: Any) -> bool:
    """Whether data tells the names of its columns; arrays do not."""
    return is_source(data) or hasattr(type(data), "columns") or gives_arrow(data)


def _is(data: Any, library: str, *kinds: str) -> bool:
    """Whether data is of a kind of a library, which need not be installed."""
    return type(data).__module__.partition(".")[0] == library and type(data).__name__ in kinds


def as_array(source: Source) -> Array:
    """All rows of a source, in memory."""
    if isinstance(source, HeldSource) and [one.dtype for one in source.held] == [np.float64]:
        return source.held[0]
    columns = range(len(source.names))
    return np.concatenate([*read(source, columns), np.empty((0, len(columns)))])


def header_of(path: Path, dialect: Dialect) -> list[str]:
    """The columns of a file; or of a folder's first file, and of the names of folders."""
    if path.is_dir():
        first = tables_in(path)[0]
        own = header_of(first, dialect)
        return [*own, *(key for key in partition(first, path) if key not in own)]
    return read_layout(path, dialect).header if is_csv(path) else parquet_header(path)


def _of_file(
    path: Path, features: Sequence[str] | None, missing: Collection[str], dialect: Dialect
) -> Source:
    if is_csv(path):
        return CsvSource(path, features, missing, dialect)
    return ParquetSource(path, features, missing)


class FolderSource:
    """Files of one format in a folder as one table, in the order of their names.

    A folder named KEY=VALUE within it is a column, as Hive and Spark write them.
    """

    names: Sequence[str] = ()

    def __init__(
        self,
        folder: Path,
        files: Sequence[Path],
        features: Sequence[str] | None,
        missing: Collection[str],
        dialect: Dialect,
    ) -> None:
        self.names = tuple(header_of(folder, dialect) if features is None else features)
        self._parts: list[Source] = []
        for path in files:
            own = header_of(path, dialect)
            texts = {key: text for key, text in partition(path, folder).items() if key not in own}
            try:
                check_columns(path, self.names, [*own, *texts])
            except TableError as error:
                if path == files[0]:
                    raise
                raise TableError(
                    code_of(error, "SFY-TAB-031"),
                    f"{error}. All tables of a folder must have the columns that are read",
                ) from None
            constants = {
                name: _number(path, name, texts[name], missing)
                for name in self.names
                if name in texts
            }
            inside = [name for name in self.names if name not in constants]
            source = _of_file(path, inside, missing, dialect)
            self._parts.append(FilledSource(source, self.names, constants))

    @property
    def rows(self) -> int | None:
        counts = [part.rows for part in self._parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        for part in self._parts:
            yield from part.blocks(columns)


def _number(path: Path, name: str, text: str, missing: Collection[str]) -> float:
    value = nan if text == _NO_VALUE else Cells(missing).read(text)
    if value is None:
        raise TableError("SFY-TAB-030", f"{path}: in the folder {name}={text}, {text} is no number")
    return value


class _RenamedSource:
    """A source with other names of the columns."""

    names: Sequence[str] = ()

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self._source, self.names = source, tuple(names)

    @property
    def rows(self) -> int | None:
        return self._source.rows

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        return self._source.blocks(columns)
