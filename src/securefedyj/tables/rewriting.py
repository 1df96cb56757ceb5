"""Files with new numbers in some columns, and everything else unchanged.

A CSV file is read as bytes, piece by piece, and the cells of the chosen columns are replaced:
delimiters, quotes, line ends and the texts of other columns are never parsed, so they cannot
change. If the fast path fails, rows are read and written cell by cell from there on, with quotes
only where they are needed. The other columns of a Parquet file are copied as Arrow reads them.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.passes import ahead, rows_at_once
from securefedyj.tables.arrow import block_of, check_types, reading
from securefedyj.tables.cells import Cells
from securefedyj.tables.csv_files import Converter, CsvFile, FastPathFailed
from securefedyj.tables.files import writing
from securefedyj.tables.paths import Unchanged
from securefedyj.tables.source import check_finite

_LF, _CR, _QUOTE = b'\n\r"'
_LEVEL = 6  # of 9; higher levels take long for little
_MOST_BYTES = 1 << 24
"""Of a row group; larger ones of the source are divided."""


class Changed(NamedTuple):
    """Some rows after the change."""

    rows: int
    values: Array | None
    """None if they are not needed, because no new table will be written."""
    outside: Integers
    """The numbers of values of each feature below and above its bounds."""


Change = Callable[[Array], Changed]


def rewrite_csv(
    source: CsvFile, target: Path, columns: Sequence[int], change: Change, packed: bool
) -> Generator[Changed, None, None]:
    """Write a CSV file with changed columns; yield each part once it is written."""
    encoding = source.layout.encoding
    encoder = codecs.getincrementalencoder(encoding)()

    def encoded(text: bytes) -> bytes:
        return text if encoding == "utf-8" else encoder.encode(text.decode())

    with writing(target, packed, _LEVEL) as new:
        new.write(encoded(source.layout.head))
        for changed, text in _changed_parts(source, columns, change):
            new.write(encoded(text))
            yield changed
    source.unchanged.check()


def _changed_parts(
    source: CsvFile, columns: Sequence[int], change: Change
) -> Iterator[tuple[Changed, bytes]]:
    """The rows in parts, and their text in UTF-8."""
    done = 0
    in_line = np.argsort(columns)  # the columns as they come in a line
    places = np.asarray(columns)[in_line]

    def in_piece(piece: bytes) -> tuple[Changed, bytes]:
        changed = change(convert(piece))
        if changed.values is None or not changed.rows:
            return changed, piece
        starts, ends = cells_of(piece, source.layout.delimiter, len(source.names))
        if len(starts) != changed.rows:
            raise FastPathFailed
        cells = _cells(changed.values[:, in_line].ravel(), source)
        return changed, _replaced(piece, starts[:, places], ends[:, places], cells)

    try:
        convert = Converter(source, columns)
        for changed, text in source.over_pieces(in_piece):
            done += changed.rows
            yield changed, text
    except FastPathFailed:
        yield from _carefully(source, columns, change, done)


def _cells(values: Array, source: CsvFile) -> Any:
    """Cells for numbers, quoted if they may contain the delimiter; NaN is missing."""
    decimal = source.cells.notation.decimal
    texts = _texts(values, decimal)
    if source.layout.delimiter in ("+", "-", decimal):
        texts = pc.binary_join_element_wise('"', texts, '"', "")
    # An empty line would not be a row.
    return pc.fill_null(texts, '""' if len(source.names) == 1 else "")


def _replaced(piece: bytes, starts: Integers, ends: Integers, texts: Any) -> bytes:
    """A piece with other texts between its starts and ends."""
    edges = np.stack([starts.ravel(), ends.ravel()], axis=1).ravel()
    offsets = np.concatenate([[0], edges, [len(piece)]]).astype(np.int32)
    parts = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(piece)]
    )
    kept = parts.take(pa.array(np.arange(0, len(parts) - 1, 2)))
    joined = pc.binary_join_element_wise(kept, texts.cast(pa.binary()), b"")
    # The texts of an array lie one after the other in its buffer.
    return b"".join([memoryview(joined.buffers()[2]), piece[edges[-1] :]])


def _texts(values: Array, decimal: str) -> Any:
    """The shortest texts that read back as the same numbers; null for NaN."""
    texts = pc.cast(pa.array(values, from_pandas=True), pa.string())
    return texts if decimal == "." else pc.replace_substring(texts, ".", decimal)


def cells_of(piece: bytes, delimiter: str, width: int) -> tuple[Integers, Integers]:
    """Where each cell starts and ends, rows by columns; blank lines are not rows.

    A quoted cell includes its quotes. Raises `FastPathFailed` where a row does not have `width`
    cells, or the quotes are not as a CSV writer sets them.
    """
    octets = np.frombuffer(piece, np.uint8)
    breaks = octets == _LF
    if b"\r" in piece:  # which also ends a line if no line feed follows
        lone = octets == _CR
        lone[:-1] &= ~breaks[1:]
        breaks |= lone
    marks = breaks | (octets == ord(delimiter))
    if b'"' in piece:
        marks &= ~_quoted(octets, marks)
    ends = np.flatnonzero(marks)
    lines = ends[octets[ends] != ord(delimiter)]
    if not piece.endswith((b"\n", b"\r")):
        ends, lines = np.append(ends, len(piece)), np.append(lines, len(piece))
    first = np.append(0, lines[:-1] + 1)
    # A carriage return before a line feed is part of the line break.
    returns = octets[np.maximum(lines - 1, 0)] == _CR
    feeds = octets[np.minimum(lines, len(octets) - 1)] == _LF
    last = lines - (returns & feeds & (first < lines))
    filled = first < last
    if not filled.all():
        ends = ends[~np.isin(ends, lines[~filled])]
        first, last, lines = first[filled], last[filled], lines[filled]
    if len(ends) != len(lines) * width:
        raise FastPathFailed
    cells: Integers = ends.reshape(len(lines), width)
    if not np.array_equal(cells[:, -1], lines):
        raise FastPathFailed
    cells[:, -1] = last
    return np.column_stack([first, cells[:, :-1] + 1]), cells


def _quoted(octets: NDArray[np.uint8], marks: Bools) -> Bools:
    """Which bytes lie between quotes, without the closing ones."""
    quotes = octets == _QUOTE
    quoted: Bools = np.bitwise_xor.accumulate(quotes)
    at = np.flatnonzero(quotes)
    # Each opens at the start of a cell and closes at its end, or is one of a doubled pair.
    fits = marks | quotes | (octets == _CR)
    before, after = np.append(True, fits[:-1])[at[::2]], np.append(fits[1:], True)[at[1::2]]
    if not (before.all() and after.all()):
        raise FastPathFailed
    return quoted


def _carefully(
    source: CsvFile, columns: Sequence[int], change: Change, done: int
) -> Iterator[tuple[Changed, bytes]]:
    """The rows after the first `done`, cell by cell."""
    echo: Any = SimpleNamespace(write=str)  # for `writerow`, which returns what this returns
    # Python's writer quotes cells with characters of its line terminator.
    writer = csv.writer(echo, delimiter=source.layout.delimiter, lineterminator="\r\n")
    head = source.layout.head.decode("utf-8", "surrogateescape")
    end = next((end for end in ("\r\n", "\r") if head.endswith(end)), "\n")
    rest = islice(source.numbered_rows(), done, None)
    for old in source.careful_blocks(columns, done):
        rows = [row for _, row in islice(rest, len(old))]
        changed = change(old)
        new = old if changed.values is None else changed.values
        for j, values in zip(columns, new.T, strict=True):
            texts = _texts(values, source.cells.notation.decimal).to_pylist()
            for row, cell in zip(rows, texts, strict=True):
                row[j] = cell or ""
        text = "".join(writer.writerow(row).removesuffix("\r\n") + end for row in rows)
        yield changed, text.encode("utf-8", "surrogateescape")


def rewrite_parquet(
    source: Path, target: Path, columns: Sequence[int], change: Change, cells: Cells
) -> Generator[Changed, None, None]:
    """Write a Parquet file with changed columns; yield each part once it is written."""
    unchanged, first = Unchanged(source), 1
    with reading(source) as file:
        schema = file.schema_arrow
        check_types(str(source), schema, columns)
        names = [schema.names[j] for j in columns]
        for j in columns:
            field = schema.field(j).with_type(pa.float64()).with_nullable(True)
            schema = schema.set(j, field)
        with (
            parquet.ParquetWriter(target, schema, compression=_compression(file)) as writer,
            closing(ahead(_row_groups(file))) as groups,
        ):
            for group in groups:
                old = block_of(group.select(list(columns)))
                check_finite(str(source), names, old, first)
                changed = change(cells.mask(old))
                if changed.values is not None:
                    for j, values in zip(columns, changed.values.T, strict=True):
                        new = pa.array(values, from_pandas=True)
                        group = group.set_column(j, schema.field(j), new)
                    writer.write_table(group, row_group_size=max(group.num_rows, 1))
                first += group.num_rows
                yield changed
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
    group, names = file.metadata.row_group(0), {"UNCOMPRESSED": "NONE"}
    chunks = map(group.column, range(group.num_columns))
    return {one.path_in_schema: names.get(one.compression, one.compression) for one in chunks}
