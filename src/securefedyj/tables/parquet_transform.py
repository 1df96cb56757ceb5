"""Parquet with other numbers in some columns, and all else as it was."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from securefedyj.numerics.passes import ahead, rows_at_once
from securefedyj.tables.arrow import check_types, floats, side_by_side
from securefedyj.tables.cells import Cells
from securefedyj.tables.change import Change
from securefedyj.tables.parquet import reading
from securefedyj.tables.pieces import check_finite
from securefedyj.tables.unchanged import Unchanged

_MOST_BYTES = 1 << 24
"""Of a row group, where those of the source have more."""


def transform(
    source: Path | str,
    target: Path | str,
    columns: Sequence[int],
    change: Change,
    missing: Collection[str],
) -> Generator[int, None, None]:
    """Write a Parquet file with changed columns; how many rows that were is told part by part."""
    unchanged = Unchanged(source)
    cells, first = Cells(missing), 1
    with reading(source) as file:
        schema = file.schema_arrow
        check_types(str(source), schema, columns)
        for j in columns:
            field = schema.field(j).with_type(pa.float64()).with_nullable(True)
            schema = schema.set(j, field)
        with (
            parquet.ParquetWriter(target, schema, compression=_compression(file)) as writer,
            closing(ahead(_row_groups(file))) as groups,
        ):
            for group in groups:
                old = side_by_side([floats(group.column(j)) for j in columns], group.num_rows)
                check_finite(str(source), [schema.names[j] for j in columns], old, first)
                changed = change(cells.mask(old))
                change.count(changed)
                if changed.values is not None:
                    for j, values in zip(columns, changed.values.T, strict=True):
                        group = group.set_column(
                            j, schema.field(j), pa.array(values, from_pandas=True)
                        )
                    writer.write_table(group, row_group_size=max(group.num_rows, 1))
                first += group.num_rows
                yield group.num_rows
    unchanged.check()


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
    """Of each column, as the first row group has it."""
    if not file.num_row_groups:
        return {}
    group = file.metadata.row_group(0)
    chunks = (group.column(j) for j in range(group.num_columns))
    codecs = {chunk.path_in_schema: chunk.compression for chunk in chunks}
    return {path: "NONE" if name == "UNCOMPRESSED" else name for path, name in codecs.items()}
