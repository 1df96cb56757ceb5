"""Tables with a function applied to some columns, block by block: files, and folders of them.

The new table has the format, the dialect and the names of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from numpy.typing import ArrayLike
from pyarrow import parquet

from securefedyj.files import replacing, replacing_folder
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import OnRows, ahead, rows_at_once
from securefedyj.tables.arrow import check_types, floats, reading, side_by_side
from securefedyj.tables.base import check_finite
from securefedyj.tables.cells import MISSING, Cells, TableError
from securefedyj.tables.change import Change, Outside, OutsideMode
from securefedyj.tables.csv_transform import transform_csv
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import column_names
from securefedyj.tables.findings import check_columns
from securefedyj.tables.paths import (
    Unchanged,
    check_target,
    compressed,
    is_csv,
    partition,
    tables_in,
)

_MOST_BYTES = 1 << 24
"""Of a row group; larger ones of the source are divided."""


class Transformed(NamedTuple):
    """What was transformed."""

    files: int
    rows: int
    transformed: int
    """Columns."""
    passed_through: int
    """Columns, of the first file."""
    outside: dict[str, Outside]
    """Features with values outside their bounds."""


def transform_table(
    source: Path | str,
    target: Path | str,
    features: Sequence[str],
    function: Callable[[Array], Array],
    missing: Collection[str] = MISSING,
    dialect: Dialect | None = None,
    *,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    outside: OutsideMode = "error",
    force: bool = False,
    on_rows: OnRows | None = None,
) -> Transformed:
    """Copy a table, with a function applied to its features block by block.

    All other columns stay as they are; a missing value is written as an empty cell, or as null.

    Parameters
    ----------
    source, target : path-like
        Files of the same format (.csv and .csv.gz are one), or folders of such files. The target
        appears when it is complete, and is never a part of the source.
    features : sequence of str
        Names of columns.
    function : callable
        Gets the features in that order, as an array with NaN for missing values, and returns an
        array of the same shape. It is called from several threads.
    missing, dialect
        As for `as_source`.
    bounds : (lower, upper), optional
        Of the features; values outside are counted.
    outside : {"error", "clip", "keep"}
        What happens to values outside: no table is written, the bound replaces them, or nothing.
    force : bool
        Whether to replace an existing target.
    on_rows : callable, optional
        Called with the number of rows that are done.

    Raises
    ------
    TableError
        If a column is missing or appears twice, a cell is not a number, values lie outside, or the
        target cannot be written.
    """
    source, target, dialect = Path(source), Path(target), dialect or Dialect()
    change, done = Change(function, bounds, outside), 0
    files = _files(source, target)
    check_target(source, files, target, force)
    headers = [_header(source, file, features, dialect) for file in files]
    with (replacing_folder if source.is_dir() else replacing)(target) as new:
        for file, header in zip(files, headers, strict=True):
            place = file.relative_to(source)  # nothing for a single file
            (new / place).parent.mkdir(parents=True, exist_ok=True)
            task = file, new / place, [header.index(name) for name in features], change, missing
            packed = compressed(target / place)
            parts = transform_csv(*task, dialect, packed) if is_csv(file) else _parquet(*task)
            with closing(parts):
                for rows in parts:
                    done += rows
                    if on_rows is not None:
                        on_rows(done, None)
        change.check(source, features)
    others = len(headers[0]) - len(features)
    return Transformed(len(files), done, len(features), others, change.found(features))


def _files(source: Path, target: Path) -> list[Path]:
    if source.is_dir():
        return tables_in(source)
    if is_csv(source) != is_csv(target):
        raise TableError(
            "SFY-TAB-041", f"{target} must have the format of {source}: give it the same ending"
        )
    return [source]


def _header(source: Path, file: Path, features: Sequence[str], dialect: Dialect) -> list[str]:
    """The columns of a file, which must have all features."""
    header = column_names(file, dialect)
    for name in dialect.names(list(partition(file, source))):
        if name in features and name not in header:
            raise TableError(
                "SFY-TAB-042",
                f"{file}: column {name!r} is part of the names of folders, which stay unchanged; "
                "it cannot be transformed",
            )
    check_columns(file, features, header)
    return header


def _parquet(
    source: Path, target: Path, columns: Sequence[int], change: Change, missing: Collection[str]
) -> Generator[int, None, None]:
    """Write a Parquet file with changed columns; yield the number of rows of each part."""
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
                        new = pa.array(values, from_pandas=True)
                        group = group.set_column(j, schema.field(j), new)
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
    """The compression of each column in the first row group."""
    if not file.num_row_groups:
        return {}
    group = file.metadata.row_group(0)
    chunks = (group.column(j) for j in range(group.num_columns))
    codecs = {chunk.path_in_schema: chunk.compression for chunk in chunks}
    return {path: "NONE" if name == "UNCOMPRESSED" else name for path, name in codecs.items()}
