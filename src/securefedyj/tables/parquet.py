"""Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from securefedyj.files import replacing
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import rows_at_once
from securefedyj.tables.arrow import check_types, floats, holds_numbers, side_by_side
from securefedyj.tables.cells import BLOCK_ROWS, Cells, Columns, TableError, Unusable
from securefedyj.tables.pieces import Pieces
from securefedyj.tables.unchanged import Unchanged


class ParquetSource(Pieces):
    """A Parquet file, of which a pass reads the columns that it needs, batch by batch."""

    def __init__(
        self, path: Path | str, features: Sequence[str] | None, missing: Collection[str]
    ) -> None:
        self._path, self._unchanged = path, Unchanged(path)
        with _reading(path) as file:
            schema, self._rows = file.schema_arrow, int(file.metadata.num_rows)
        super().__init__(str(path), schema.names, features, missing)
        check_types(self.where, schema, self._position)
        self._header = list(schema.names)

    @property
    def rows(self) -> int:
        return self._rows

    def pieces(self, positions: Sequence[int]) -> Iterator[Array]:
        names = [self._header[j] for j in positions]
        self._unchanged.check()
        with _reading(self._path) as file:
            for batch in file.iter_batches(batch_size=rows_at_once(len(names)), columns=names):
                # A name may ask for more: `a` also brings a column that is called `a.b`.
                columns = [floats(batch.column(batch.schema.names.index(name))) for name in names]
                yield side_by_side(columns, batch.num_rows)
        self._unchanged.check()


def header(path: Path | str) -> list[str]:
    """The names of the columns."""
    with _reading(path) as file:
        return list(file.schema_arrow.names)


def load(path: Path | str, names: Sequence[str], missing: Collection[str]) -> Columns:
    """Read columns by their names."""
    with _reading(path) as file:
        table = file.read(columns=list(names))
        values = np.full((file.metadata.num_rows, len(names)), nan)
    unusable = [Unusable() for _ in names]
    for j, name in enumerate(names):
        column = table.column(name)
        if not holds_numbers(column.type):
            unusable[j] = Unusable(len(column), f"the column holds {column.type}, not numbers")
            continue
        numbers = floats(column)
        values[:, j] = numbers
        for row in np.flatnonzero(np.isinf(numbers)):
            unusable[j].add(f"row {row + 1}: {numbers[row]:g} is not a finite number")
            values[row, j] = nan
    return Columns(Cells(missing).mask(values), unusable)


def write(path: Path | str, names: Sequence[str], values: Array) -> None:
    """Write columns of numbers, with null for NaN; the file is whole or not there."""
    columns = [pa.array(column, from_pandas=True) for column in values.T]
    with replacing(path) as temporary:
        parquet.write_table(pa.table(columns, names=list(names)), temporary)


def transform(
    source: Path | str,
    target: Path | str,
    chosen: list[int],
    function: Callable[[Array], Array],
    missing: Collection[str],
) -> int:
    """Apply a function to the chosen columns, block by block; return the number of rows."""
    cells = Cells(missing)
    with replacing(target) as temporary, _reading(source) as file:
        schema = file.schema_arrow
        for j in chosen:
            schema = schema.set(j, pa.field(schema.names[j], pa.float64()))
        with parquet.ParquetWriter(temporary, schema) as writer:
            for batch in file.iter_batches(batch_size=BLOCK_ROWS):
                columns = list(batch.columns)
                checked = [_checked(source, schema.names[j], columns[j]) for j in chosen]
                old = np.stack(checked, axis=1)
                masked = cells.mask(old)
                new = np.where(np.isnan(masked), old, function(masked))
                for j, numbers in zip(chosen, new.T, strict=True):
                    columns[j] = pa.array(numbers, from_pandas=True)
                writer.write_batch(pa.record_batch(columns, schema=schema))
        return int(file.metadata.num_rows)


def _checked(path: Path | str, name: str, column: Any) -> Array:
    if not holds_numbers(column.type):
        raise TableError(f"{path}: column {name!r} holds {column.type}, not numbers")
    numbers = floats(column)
    if np.isinf(numbers).any():
        raise TableError(f"{path}: column {name!r} holds infinite values")
    return numbers


@contextmanager
def _reading(path: Path | str) -> Iterator[Any]:
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pa.ArrowInvalid as error:
        raise TableError(f"{path}: this is not a Parquet file: {error}") from None
