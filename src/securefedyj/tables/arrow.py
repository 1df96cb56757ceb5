"""Columns of Arrow as numbers; tables of Arrow as sources."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import rows_at_once
from securefedyj.tables.cells import TableError
from securefedyj.tables.pieces import Pieces


class ArrowSource(Pieces):
    """A `pyarrow.Table` or `RecordBatch`."""

    def __init__(
        self, table: Any, features: Sequence[str] | None, missing: Collection[str]
    ) -> None:
        super().__init__("the table", table.schema.names, features, missing)
        check_types(self.where, table.schema, self._position)
        self._table = table

    @property
    def rows(self) -> int:
        return int(self._table.num_rows)

    def pieces(self, positions: Sequence[int]) -> Iterator[Array]:
        size = rows_at_once(len(positions))
        for first in range(0, self.rows, size):
            part = self._table.slice(first, size)
            yield side_by_side([floats(part.column(j)) for j in positions], part.num_rows)


def check_types(where: str, schema: Any, positions: Sequence[int]) -> None:
    """Refuse columns that do not hold numbers, all of them in one sentence."""
    wrong = [schema.field(j) for j in positions if not holds_numbers(schema.field(j).type)]
    if wrong:
        named = "; ".join(f"column {field.name!r} holds {field.type}" for field in wrong[:5])
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise TableError(f"{where}: {named}{more}, not numbers")


def holds_numbers(kind: Any) -> bool:
    """Whether columns of this type can be used; nulls alone can, as missing values."""
    if pa.types.is_dictionary(kind):
        return holds_numbers(kind.value_type)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )


def floats(column: Any) -> Array:
    """A column of numbers as float64, each rounded once; null becomes NaN."""
    if isinstance(column, pa.ChunkedArray):
        parts = [floats(chunk) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0)])
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        # Arrow's own way to float64 rounds twice; by their digits, decimals read as in a CSV.
        column = pc.cast(column, pa.string())
    values: Array = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def side_by_side(columns: Sequence[Array], rows: int) -> Array:
    """Columns as one array; each of them stays contiguous."""
    block = np.empty((rows, len(columns)), order="F")
    for j, column in enumerate(columns):
        block[:, j] = column
    return block
