"""Parquet files, with pyarrow: the optional extra ``securefedyj[tables]``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.files import replacing
from securefedyj.numerics.arrays import Array
from securefedyj.tables.cells import BLOCK_ROWS, Cells, Columns, TableError, Unusable

_INSTALL = 'pip install "securefedyj[tables]"'


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
        column = table.column(name).combine_chunks()
        numbers = _floats(column)
        if numbers is None:
            unusable[j] = Unusable(len(column), f"the column holds {column.type}, not numbers")
            continue
        values[:, j] = numbers
        for row in np.flatnonzero(np.isinf(numbers)):
            unusable[j].add(f"row {row + 1}: {numbers[row]:g} is not a finite number")
            values[row, j] = nan
    return Columns(Cells(missing).mask(values), unusable)


def write(path: Path | str, names: Sequence[str], values: Array) -> None:
    """Write columns of numbers, with null for NaN; the file is whole or not there."""
    pa, parquet = _pyarrow(path)
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
    pa, parquet = _pyarrow(source)
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
    numbers = _floats(column)
    if numbers is None:
        raise TableError(f"{path}: column {name!r} holds {column.type}, not numbers")
    if np.isinf(numbers).any():
        raise TableError(f"{path}: column {name!r} holds infinite values")
    return numbers


def _floats(column: Any) -> Array | None:
    """An Arrow column as float64, with NaN for null; None if it does not hold numbers."""
    import pyarrow as pa

    kind = column.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not (numeric or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        return None
    values: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


@contextmanager
def _reading(path: Path | str) -> Iterator[Any]:
    pa, parquet = _pyarrow(path)
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pa.ArrowInvalid as error:
        raise TableError(f"{path}: this is not a Parquet file: {error}") from None


def _pyarrow(path: Path | str) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise TableError(f"{path}: Parquet needs pyarrow: {_INSTALL}") from None
    return pyarrow, pyarrow.parquet
