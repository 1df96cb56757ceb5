"""Tables that Arrow reads in batches: of Arrow itself, frames, relations, and Parquet files."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc, parquet

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import ahead, rows_at_once
from securefedyj.tables.cells import DATES, BadCellsError, Cells, TableError, check_finite
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.rewriting import Change, Changed

_MOST_BYTES = 1 << 24
"""Of a row group that is written; larger ones of the source are divided."""


class ArrowTable:
    """Anything that gives Arrow record batches: see `gives_arrow`.

    A `RecordBatchReader` gives them only once, so its batches are held in memory. The query of a
    lazy frame, and of a DuckDB relation, runs again in each pass.
    """

    def __init__(self, data: Any) -> None:
        self._data = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
        rows = getattr(self._data, "num_rows", None)  # of Arrow
        self.rows: int | None = getattr(self._data, "height", None) if rows is None else rows
        if hasattr(data, "scanner"):
            self.schema = data.schema
        else:
            lazy = not hasattr(data, "__arrow_c_stream__")
            empty = data.collect_schema().to_frame() if lazy else self._data
            self.schema = pa.RecordBatchReader.from_stream(empty).schema
        self.names: Sequence[str] = self.schema.names

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        size = rows_at_once(len(columns))
        for batch in self._batches(columns, size):
            for first in range(0, batch.num_rows, size):
                yield block_of(batch.slice(first, size))

    def _batches(self, columns: Sequence[int], size: int) -> Iterator[Any]:
        names = [self.names[j] for j in columns]
        if hasattr(self._data, "scanner"):  # a dataset
            # By expressions: a point in a plain name would lead into a nested column.
            chosen = {str(k): pc.field(name) for k, name in enumerate(names)}
            scanner = self._data.scanner(
                columns=chosen, batch_size=size, batch_readahead=1, fragment_readahead=1
            )
            yield from scanner.to_batches()
            return
        frames = [self._data]
        if not hasattr(self._data, "__arrow_c_stream__"):  # a lazy frame of polars
            query = self._data.select(names or self.names[:1])  # one shows the number of rows
            if hasattr(query, "collect_batches"):
                frames = query.collect_batches(chunk_size=size, maintain_order=True)
            else:  # before polars 1.34
                frames = [query.collect()]
            columns = range(len(names))
        for frame in frames:
            with pa.RecordBatchReader.from_stream(frame) as reader:
                yield from (batch.select(list(columns)) for batch in reader)


class PandasTable(ArrowTable):
    """A `pandas.DataFrame`, which Arrow reads column by column: some may have no form in Arrow."""

    where = "the table"

    def __init__(self, frame: Any) -> None:
        self._data, self.rows, self.names = frame, len(frame), [*map(str, frame.columns)]
        self.schema = pa.schema([(name, pa.null()) for name in self.names])  # checked when read

    def _batches(self, columns: Sequence[int], size: int) -> Iterator[Any]:
        for first in range(0, len(self._data), size):
            part = self._data.iloc[first : first + size]
            found = [self._numbers(part.iloc[:, j], self.names[j]) for j in columns]
            # One more column shows the number of rows.
            table = pa.table([pa.nulls(len(part)), *found], ["", *map(str, columns)])
            yield table.select(range(1, table.num_columns))

    def _numbers(self, column: Any, name: str) -> Any:
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
            return pa.array(np.asarray(column, dtype=np.float64))
        try:
            converted = pa.array(column, from_pandas=True)
        except (ValueError, TypeError, NotImplementedError, OverflowError):  # Arrow's own are such
            raise TableError(
                "SFY-TAB-033",
                f"{self.where}: column {name!r} contains values that are not numbers, or "
                "numbers of an unsupported type; convert it to float64",
            ) from None
        check_types(self.where, pa.schema([(name, converted.type)]), [0])
        return converted


class ParquetTable(ArrowTable):
    """A Parquet file; a pass reads the columns that it needs, batch by batch."""

    copies = ".parquet"

    def __init__(self, path: Path | str, missing: Collection[str], dialect: Dialect) -> None:
        self._path, self.where, self.cells = path, str(path), Cells(missing)
        with _reading(path) as file:
            self.schema, self.rows = file.schema_arrow, int(file.metadata.num_rows)
        self.names = self.schema.names

    def described(self) -> str:
        return "Parquet"

    def _batches(self, columns: Sequence[int], size: int) -> Iterator[Any]:
        names = [self.names[j] for j in columns]
        with _reading(self._path) as file:
            for batch in file.iter_batches(batch_size=size, columns=names):
                yield batch.select(names)  # a column `a` also brings one that is called `a.b`

    def rewrite(
        self, target: Path, columns: Sequence[int], change: Change
    ) -> Generator[Changed, None, None]:
        """Write a copy with changed columns; yield each part once it is written.

        The other columns are copied as Arrow reads them.
        """
        with _reading(self._path) as file, closing(ahead(_row_groups(file))) as groups:
            yield from rewritten(self, groups, target, columns, change, _compression(file))


class FeatherTable(ArrowTable):
    """A file of Arrow, which is also called Feather; a copy is Parquet."""

    copies = ".parquet"

    def __init__(self, path: Path | str, missing: Collection[str], dialect: Dialect) -> None:
        self._path, self.where, self.cells, self.rows = str(path), str(path), Cells(missing), None
        try:
            with ipc.open_file(pa.OSFile(self._path)) as file:
                self.schema = file.schema
        except pa.ArrowInvalid as error:
            raise TableError(
                "SFY-TAB-044", f"{path}: this is not an Arrow file (Feather, version 2): {error}"
            ) from None
        self.names = self.schema.names

    def described(self) -> str:
        return "Arrow"

    def _batches(self, columns: Sequence[int], size: int) -> Iterator[Any]:
        read = sorted(columns)
        options = ipc.IpcReadOptions(included_fields=read)
        with ipc.open_file(pa.OSFile(self._path), options=options) as file:
            for k in range(file.num_record_batches):
                yield file.get_batch(k).select([*map(read.index, columns)])

    def rewrite(
        self, target: Path, columns: Sequence[int], change: Change
    ) -> Generator[Changed, None, None]:
        """Write a copy with changed columns; yield each part once it is written."""
        batches = self._batches(range(len(self.names)), 0)
        groups = (pa.Table.from_batches([batch]) for batch in batches)
        yield from rewritten(self, groups, target, columns, change)


def rewritten(
    table: Any,
    groups: Iterator[Any],
    target: Path,
    columns: Sequence[int],
    change: Change,
    compression: Any = "snappy",
) -> Generator[Changed, None, None]:
    """Write a table as Parquet, with changed columns; yield each part once it is written."""
    schema, first = table.schema, 1
    check_types(table.where, schema, columns)
    names = [table.names[j] for j in columns]
    for j in columns:
        field = schema.field(j).with_type(pa.float64()).with_nullable(True)
        schema = schema.set(j, field)
    with parquet.ParquetWriter(target, schema, compression=compression) as writer:
        for group in groups:
            old = block_of(group.select(list(columns)))
            check_finite(table.where, names, old, first)
            changed = change(table.cells.mask(old))
            for j, values in zip(columns, changed.values.T, strict=True):
                group = group.set_column(j, schema.field(j), pa.array(values, from_pandas=True))
            writer.write_table(group, row_group_size=max(group.num_rows, 1))
            first += group.num_rows
            yield changed


def _row_groups(file: Any) -> Generator[Any, None, None]:
    """The row groups of a file; large ones in parts."""
    size = rows_at_once(file.metadata.num_columns)
    for k in range(file.num_row_groups):
        batches: list[Any] = []
        for batch in file.iter_batches(batch_size=size, row_groups=[k]):
            batches.append(batch)
            if sum(one.nbytes for one in batches) >= _MOST_BYTES:
                yield pa.Table.from_batches(batches)
                batches = []
        if batches:
            yield pa.Table.from_batches(batches)


def _compression(file: Any) -> dict[str, str]:
    """The compression of each column in the first row group."""
    if not file.num_row_groups:
        return {}
    group, names = file.metadata.row_group(0), {"UNCOMPRESSED": "NONE"}
    chunks = map(group.column, range(group.num_columns))
    return {one.path_in_schema: names.get(one.compression, one.compression) for one in chunks}


@contextmanager
def _reading(path: Path | str) -> Iterator[Any]:
    """An open Parquet file; errors name it."""
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pa.ArrowInvalid:
        raise TableError(
            "SFY-TAB-036",
            f"{path}: this is not a Parquet file, or a part of one; copy or export it again",
        ) from None


def gives_arrow(data: Any) -> bool:
    """Whether data is a table that Arrow can read in batches.

    That is anything with `__arrow_c_stream__` and named columns, such as frames of pandas and
    polars, Arrow tables and record batches, and DuckDB relations; also Arrow datasets and lazy
    frames.
    """
    kind = type(data)
    named = hasattr(kind, "schema") or hasattr(kind, "columns")  # a single column has neither
    ways = ("__arrow_c_stream__", "scanner", "collect_schema")
    return named and any(hasattr(kind, way) for way in ways)


def is_of(data: Any, library: str, *kinds: str) -> bool:
    """Whether data is of a kind of a library, which need not be installed or loaded."""
    return type(data).__module__.partition(".")[0] == library and type(data).__name__ in kinds


def check_types(where: str, schema: Any, positions: Sequence[int]) -> None:
    """Refuse columns that do not hold numbers, all of them in one message."""
    wrong = {}
    for field in map(schema.field, positions):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        # Nulls can be used, as missing values.
        known = ("integer", "floating", "boolean", "decimal", "null")
        if not any(getattr(pa.types, f"is_{name}")(kind) for name in known):
            if pa.types.is_temporal(kind):
                wrong[field.name] = f"holds dates or times; {DATES}."
            else:
                text = "string" in str(kind) or pa.types.is_dictionary(field.type)
                wrong[field.name] = f"holds {'text' if text else kind}, not numbers."
    if wrong:
        raise BadCellsError(where, wrong, joint=" ")


def _floats(column: Any) -> Array:
    """A column of numbers as float64, each rounded once; null becomes NaN."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if pa.types.is_decimal(column.type):
        # Arrow's own conversion to float64 rounds twice; by their digits, decimals read as in CSV.
        column = pc.cast(column, pa.string())
    values: Array = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def block_of(table: Any) -> Array:
    """All columns of an Arrow table or record batch, which hold numbers, as one array."""
    return side_by_side([_floats(column) for column in table.columns], table.num_rows)


def side_by_side(columns: Sequence[Array], rows: int) -> Array:
    """Columns as one array; each of them stays contiguous."""
    return np.array(columns, np.float64).reshape(len(columns), rows).T
