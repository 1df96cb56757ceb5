"""Parquet files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from securefedyj.errors import code_of
from securefedyj.files import replacing
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import rows_at_once
from securefedyj.tables.arrow import check_types, floats, side_by_side
from securefedyj.tables.cells import TableError
from securefedyj.tables.pieces import Pieces
from securefedyj.tables.unchanged import Unchanged


class ParquetSource(Pieces):
    """A Parquet file, of which a pass reads the columns that it needs, batch by batch."""

    def __init__(
        self, path: Path | str, features: Sequence[str] | None, missing: Collection[str]
    ) -> None:
        self._path, self._unchanged = path, Unchanged(path)
        with reading(path) as file:
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
        with reading(self._path) as file:
            for batch in file.iter_batches(batch_size=rows_at_once(len(names)), columns=names):
                # A name may ask for more: `a` also brings a column that is called `a.b`.
                columns = [floats(batch.column(batch.schema.names.index(name))) for name in names]
                yield side_by_side(columns, batch.num_rows)
        self._unchanged.check()


def header(path: Path | str) -> list[str]:
    """The names of the columns."""
    with reading(path) as file:
        return list(file.schema_arrow.names)


def write(path: Path | str, names: Sequence[str], values: Array) -> None:
    """Write columns of numbers, with null for NaN; the file is whole or not there."""
    columns = [pa.array(column, from_pandas=True) for column in values.T]
    with replacing(path) as temporary:
        parquet.write_table(pa.table(columns, names=list(names)), temporary)


@contextmanager
def reading(path: Path | str) -> Iterator[Any]:
    """A Parquet file; what is none is named with the reason."""
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pa.ArrowInvalid as error:
        raise TableError(
            code_of(error, "SFY-TAB-036"), f"{path}: this is not a Parquet file: {error}"
        ) from None
