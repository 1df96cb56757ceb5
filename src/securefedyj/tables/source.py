"""One notion of a silo's data: whatever it is, it can be read in passes of blocks.

`as_source` takes arrays, frames of pandas and polars (lazy ones, too), tables of PyArrow and
Dask, a CSV or Parquet file, or a folder of them. What it makes of them is a `Source`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import RemoteSource, Source, is_source, read
from securefedyj.tables import csv_files, parquet
from securefedyj.tables.cells import MISSING
from securefedyj.tables.csv_files import CsvSource
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.folders import FolderSource, columns_of, tables_in
from securefedyj.tables.kinds import is_csv
from securefedyj.tables.memory import ArraySource
from securefedyj.tables.parquet import ParquetSource
from securefedyj.tables.pieces import Pieces


def as_source(
    data: Any,
    features: Sequence[str] | None = None,
    missing: Collection[str] = MISSING,
    dialect: Dialect | None = None,
) -> Source:
    """Whatever holds rows, as a source of its features, in the order asked for.

    Parameters
    ----------
    data : array-like, frame, table, path or Source
        A path is that of a .csv, .csv.gz or .parquet file or of a folder of them.
    features : sequence of str, optional
        Names of columns; all by default.
    missing : collection of str
        Cells that stand for a missing value. In tables of numbers the numbers among them count,
        such as "-999".
    dialect : Dialect, optional
        How the CSV files of a path are written, and which columns of tables have other names.

    Raises
    ------
    TableError
        If a column is missing or there twice, or does not hold numbers.
    """
    if dialect is not None and dialect.rename:
        own = None if features is None else dialect.own_names(features)
        source = as_source(data, own, missing, replace(dialect, rename={}))
        names = dialect.names(source.names)
        return (
            source.renamed(names) if isinstance(source, RemoteSource) else _Renamed(source, names)
        )
    if isinstance(data, str | Path):
        return _of_path(Path(data), features, missing, dialect or Dialect())
    if is_source(data):
        return _chosen(data, features, missing)
    kind, library = type(data).__name__, type(data).__module__.partition(".")[0]
    if library == "pandas" and kind == "DataFrame":
        from securefedyj.tables.frames import PandasSource

        return PandasSource(data, features, missing)
    if library == "polars" and kind in ("DataFrame", "LazyFrame"):
        from securefedyj.tables.frames import PolarsSource

        return PolarsSource(data, features, missing)
    if library == "pyarrow" and kind in ("Table", "RecordBatch"):
        from securefedyj.tables.arrow import ArrowSource

        return ArrowSource(data, features, missing)
    if _is_dask(data):
        from securefedyj.tables.dask_source import of_collection

        return of_collection(data, features, missing)
    return _chosen(ArraySource(data), features, missing)


def is_table(data: Any) -> bool:
    """Whether data is read in passes: paths, lazy frames, sources, tables of PyArrow or Dask."""
    kind, library = type(data).__name__, type(data).__module__.partition(".")[0]
    return (
        isinstance(data, str | Path)
        or is_source(data)
        or (library == "polars" and kind == "LazyFrame")
        or (library == "pyarrow" and kind in ("Table", "RecordBatch"))
        or _is_dask(data)
    )


def _is_dask(data: Any) -> bool:
    """Whether data is a table of Dask, which others need not have."""
    kind, library = type(data).__name__, type(data).__module__.partition(".")[0]
    return library == "dask" and kind in ("DataFrame", "Array")


def as_array(source: Source) -> Array:
    """All rows of a source, in memory."""
    if isinstance(source, ArraySource) and source.values.dtype == np.float64:
        return source.values
    columns = range(len(source.names))
    return np.concatenate([*read(source, columns), np.empty((0, len(columns)))])


def _chosen(source: Source, features: Sequence[str] | None, missing: Collection[str]) -> Source:
    everything = features is None and tuple(missing) == MISSING
    return source if everything else _Chosen(source, features, missing)


def _of_path(
    path: Path, features: Sequence[str] | None, missing: Collection[str], dialect: Dialect
) -> Source:
    open_file = partial(of_file, dialect=dialect)
    if not path.is_dir():
        return open_file(path, features, missing)
    files, header = files_in(path, dialect)
    return FolderSource(path, files, header, open_file, features, missing)


def header_of(folder: Path, dialect: Dialect) -> list[str]:
    """The columns of a folder: those of its first file, and of the names of folders."""
    files, header = files_in(folder, dialect)
    return columns_of(files[0], folder, header)


def files_in(folder: Path, dialect: Dialect) -> tuple[list[Path], Callable[[Path], list[str]]]:
    """The tables of a folder, and what reads their headers."""
    files = tables_in(folder)
    csv = is_csv(files[0])
    return files, partial(csv_files.header, dialect=dialect) if csv else parquet.header


def of_file(
    path: Path, features: Sequence[str] | None, missing: Collection[str], dialect: Dialect
) -> Source:
    """The source of one file."""
    if is_csv(path):
        return CsvSource(path, features, missing, dialect)
    return ParquetSource(path, features, missing)


class _Renamed:
    """A source whose columns are called otherwise."""

    names: Sequence[str] = ()

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self._source, self.names = source, tuple(names)

    @property
    def rows(self) -> int | None:
        return self._source.rows

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        return self._source.blocks(columns)


class _Chosen(Pieces):
    """Some columns of another source."""

    def __init__(
        self, source: Source, features: Sequence[str] | None, missing: Collection[str]
    ) -> None:
        super().__init__("the table", source.names, features, missing)
        self._source = source

    @property
    def rows(self) -> int | None:
        return self._source.rows

    def pieces(self, positions: Sequence[int]) -> Iterator[Array]:
        return self._source.blocks(positions)
