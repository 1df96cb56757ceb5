"""Arrow tables, frames, and Parquet files: each a source of all its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from securefedyj.errors import code_of
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import rows_at_once
from securefedyj.tables.cells import BadCellsError, TableError
from securefedyj.tables.paths import Unchanged


class ArrowTable:
    """Anything that gives a stream of Arrow record batches: see `gives_arrow`.

    A `RecordBatchReader` gives them only once, so its batches are held in memory. The query of a
    lazy frame, and of a DuckDB relation, runs again in each pass.
    """

    def __init__(self, data: Any) -> None:
        self._data = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
        if _is_dataset(data):
            self.schema = data.schema
        else:
            empty = data.collect_schema().to_frame() if _is_lazy(data) else self._data
            with pa.RecordBatchReader.from_stream(empty) as reader:
                self.schema = reader.schema
        self.names: Sequence[str] = self.schema.names

    @property
    def rows(self) -> int | None:
        in_memory = isinstance(self._data, pa.Table | pa.RecordBatch)
        known = in_memory or is_of(self._data, "polars", "DataFrame")
        return len(self._data) if known else None

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        size = rows_at_once(len(columns))
        for batch in self._batches(columns, size):
            for first in range(0, batch.num_rows, size):
                yield block_of(batch.slice(first, size))

    def _batches(self, columns: Sequence[int], size: int) -> Iterator[Any]:
        names = [self.names[j] for j in columns]
        if _is_dataset(self._data):
            # By expressions: a point in a plain name would lead into a nested column.
            chosen = {str(k): pc.field(name) for k, name in enumerate(names)}
            scanner = self._data.scanner(
                columns=chosen, batch_size=size, batch_readahead=1, fragment_readahead=1
            )
            yield from scanner.to_batches()
        elif _is_lazy(self._data):
            query = self._data.select(names or self.names[:1])  # one shows the number of rows
            if hasattr(query, "collect_batches"):
                frames = query.collect_batches(chunk_size=size, maintain_order=True)
            else:  # before polars 1.34
                frames = [query.collect()]
            for frame in frames:
                yield from (batch.select(names) for batch in _stream(frame))
        else:
            yield from (batch.select(list(columns)) for batch in _stream(self._data))


class ParquetTable(ArrowTable):
    """A Parquet file; a pass reads the columns that it needs, batch by batch."""

    rows: int | None = None

    def __init__(self, path: Path | str) -> None:
        self._path, self._unchanged = path, Unchanged(path)
        with reading(path) as file:
            self.schema, self.rows = file.schema_arrow, int(file.metadata.num_rows)
        self.names = self.schema.names

    def _batches(self, columns: Sequence[int], size: int) -> Iterator[Any]:
        names = [self.names[j] for j in columns]
        self._unchanged.check()
        with reading(self._path) as file:
            for batch in file.iter_batches(batch_size=size, columns=names):
                yield batch.select(names)  # a column `a` also brings one that is called `a.b`
        self._unchanged.check()


class PandasTable:
    """A `pandas.DataFrame`, read column by column: some of them may have no form in Arrow."""

    def __init__(self, frame: Any) -> None:
        self._frame, self.names = frame, list(map(str, frame.columns))

    @property
    def rows(self) -> int:
        return len(self._frame)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        size = rows_at_once(len(columns))
        for first in range(0, self.rows, size):
            part = self._frame.iloc[first : first + size]
            yield side_by_side([self._numbers(part.iloc[:, j], j) for j in columns], len(part))

    def _numbers(self, column: Any, position: int) -> Array:
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
            return np.asarray(column, dtype=np.float64)
        name = self.names[position]
        try:
            converted = pa.array(column, from_pandas=True)
        except (ValueError, TypeError, NotImplementedError, OverflowError):  # Arrow's own are such
            raise TableError(
                "SFY-TAB-033",
                f"the table: column {name!r} contains values that are not numbers, or numbers of "
                "an unsupported type; convert it to float64",
            ) from None
        check_types("the table", pa.schema([(name, converted.type)]), [0])
        return floats(converted)


def gives_arrow(data: Any) -> bool:
    """Whether data is a table that Arrow can read in batches.

    That is anything with `__arrow_c_stream__` and named columns, such as polars frames, Arrow
    tables and record batches, and DuckDB relations; also Arrow datasets and lazy frames.
    """
    kind = type(data)
    named = hasattr(kind, "schema") or hasattr(kind, "columns")  # a single column has neither
    return (named and hasattr(kind, "__arrow_c_stream__")) or _is_dataset(data) or _is_lazy(data)


def is_of(data: Any, library: str, *kinds: str) -> bool:
    """Whether data is of a kind of a library, which need not be installed or loaded."""
    return type(data).__module__.partition(".")[0] == library and type(data).__name__ in kinds


def _is_dataset(data: Any) -> bool:
    return is_of(data, "pyarrow", "FileSystemDataset", "InMemoryDataset", "UnionDataset")


def _is_lazy(data: Any) -> bool:
    return is_of(data, "polars", "LazyFrame")


def _stream(data: Any) -> Iterator[Any]:
    with pa.RecordBatchReader.from_stream(data) as reader:
        yield from reader


def check_types(where: str, schema: Any, positions: Sequence[int]) -> None:
    """Refuse columns that do not hold numbers, all of them in one message."""
    wrong = {
        field.name: f"holds {field.type}, not numbers."
        for field in map(schema.field, positions)
        if not _holds_numbers(field.type)
    }
    if wrong:
        raise BadCellsError(where, wrong, joint=" ")


def _holds_numbers(kind: Any) -> bool:
    """Whether columns of this type can be used; one of nulls can, as missing values."""
    if pa.types.is_dictionary(kind):
        return _holds_numbers(kind.value_type)
    known = ("integer", "floating", "boolean", "decimal", "null")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in known)


def floats(column: Any) -> Array:
    """A column of numbers as float64, each rounded once; null becomes NaN."""
    if isinstance(column, pa.ChunkedArray):
        parts = [floats(chunk) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0)])
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        # Arrow's own conversion to float64 rounds twice; by their digits, decimals read as in CSV.
        column = pc.cast(column, pa.string())
    values: Array = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def block_of(table: Any) -> Array:
    """All columns of an Arrow table or record batch, which hold numbers, as one array."""
    return side_by_side([floats(column) for column in table.columns], table.num_rows)


def side_by_side(columns: Sequence[Array], rows: int) -> Array:
    """Columns as one array; each of them stays contiguous."""
    return np.array(columns, np.float64).reshape(len(columns), rows).T


@contextmanager
def reading(path: Path | str) -> Iterator[Any]:
    """An open Parquet file; errors name it."""
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pa.ArrowInvalid as error:
        raise TableError(
            code_of(error, "SFY-TAB-036"), f"{path}: this is not a Parquet file: {error}"
        ) from None
