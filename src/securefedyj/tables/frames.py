"""Frames of pandas and polars as sources; neither is needed by anybody who has none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import rows_at_once
from securefedyj.tables.arrow import check_types, floats, holds_numbers, side_by_side
from securefedyj.tables.cells import TableError
from securefedyj.tables.pieces import Pieces

_WHERE = "the table"


class PandasSource(Pieces):
    """A `pandas.DataFrame`."""

    def __init__(
        self, frame: Any, features: Sequence[str] | None, missing: Collection[str]
    ) -> None:
        super().__init__(_WHERE, list(map(str, frame.columns)), features, missing)
        self._frame = frame

    @property
    def rows(self) -> int:
        return len(self._frame)

    def pieces(self, positions: Sequence[int]) -> Iterator[Array]:
        size = rows_at_once(len(positions))
        for first in range(0, self.rows, size):
            part = self._frame.iloc[first : first + size]
            yield side_by_side([self._numbers(part.iloc[:, j], j) for j in positions], len(part))

    def _numbers(self, column: Any, position: int) -> Array:
        """A column as float64, whatever pandas keeps it in."""
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
            return np.asarray(column, dtype=np.float64)
        name = str(self._frame.columns[position])
        try:
            converted = pa.array(column, from_pandas=True)
        except (ValueError, TypeError, NotImplementedError, OverflowError):  # Arrow's own are such
            raise TableError(
                "SFY-TAB-033",
                f"{_WHERE}: column {name!r} holds other things than numbers, or numbers in a form "
                "that is not read; make it a column of float64",
            ) from None
        if not holds_numbers(converted.type):
            raise TableError(
                "SFY-TAB-032", f"{_WHERE}: column {name!r} holds {converted.type}, not numbers"
            )
        return floats(converted)


class PolarsSource(Pieces):
    """A `polars.DataFrame`, or a `LazyFrame`, whose query runs again in each pass."""

    def __init__(
        self, frame: Any, features: Sequence[str] | None, missing: Collection[str]
    ) -> None:
        self._schema = frame.collect_schema()
        super().__init__(_WHERE, self._schema.names(), features, missing)
        self._frame = frame
        empty = self._schema.to_frame().to_arrow()
        check_types(_WHERE, empty.schema, self._position)

    @property
    def rows(self) -> int | None:
        return len(self._frame) if hasattr(self._frame, "height") else None

    def pieces(self, positions: Sequence[int]) -> Iterator[Array]:
        names = self._schema.names()
        chosen, size = self._frame.select([names[j] for j in positions]), rows_at_once(len(names))
        if hasattr(chosen, "collect_batches"):
            frames = chosen.collect_batches(chunk_size=size, maintain_order=True)
        else:  # in memory already, or a polars that has no batches
            whole = chosen.collect() if hasattr(chosen, "collect") else chosen
            frames = whole.iter_slices(size)
        for frame in frames:
            table = frame.to_arrow()
            columns = [floats(table.column(k)) for k in range(len(positions))]
            yield side_by_side(columns, table.num_rows)
