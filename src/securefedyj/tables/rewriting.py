"""Files with new numbers in some columns, and everything else unchanged.

A CSV file is read as bytes, piece by piece, and the cells of the chosen columns are replaced:
delimiters, quotes, line ends and the texts of other columns are never parsed, so they cannot
change. If the fast path fails, rows are read and written cell by cell from there on, with quotes
only where they are needed. The other columns of a Parquet file are copied as Arrow reads them.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
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
from securefedyj.tables.csv_files import (
    Converter,
    CsvFile,
    FastPathFailed,
    careful_blocks,
    opened,
    over_pieces,
    read_rows,
)
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
        new.write(encoded(_head(source)))
        for changed, text in _changed_parts(source, columns, change):
            new.write(encoded(text))
            yield changed
    source.unchanged.check()


def _changed_parts(
    source: CsvFile, columns: Sequence[int], change: Change
) -> Iterator[tuple[Changed, bytes]]:
    """The rows in parts, and their text in UTF-8."""
    done = 0
    try:
        for changed, text in _in_pieces(source, columns, change):
            done += changed.rows
            yield changed, text
    except FastPathFailed:
        yield from _carefully(source, columns, change, done)


def _in_pieces(
    source: CsvFile, columns: Sequence[int], change: Change
) -> Iterator[tuple[Changed, bytes]]:
    """The rows by the fast path, with new cells in the place of old ones."""
    convert, delimiter = Converter(source, columns), source.layout.delimiter
    in_line = np.argsort(columns)  # the columns as they come in a line

    def replace(piece: bytes) -> tuple[Changed, bytes]:
        changed = change(convert(piece))
        if changed.values is None or not changed.rows:
            return changed, piece
        starts, ends = cells_of(piece, delimiter, len(source.names))
        if len(starts) != changed.rows:
            raise FastPathFailed
        cells = _cells(changed.values[:, in_line].ravel(), source)
        places = np.asarray(columns)[in_line]
        return changed, _replaced(piece, starts[:, places], ends[:, places], cells)

    return over_pieces(source, replace)


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
    last = lines - _carriage_returns(octets, first, lines)
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


def _carriage_returns(octets: NDArray[np.uint8], first: Integers, lines: Integers) -> Bools:
    """Which line breaks have two bytes."""
    before = octets[np.maximum(lines - 1, 0)] == _CR
    two: Bools = before & (first < lines) & (octets[np.minimum(lines, len(octets) - 1)] == _LF)
    return two


def _carefully(
    source: CsvFile, columns: Sequence[int], change: Change, done: int
) -> Iterator[tuple[Changed, bytes]]:
    """The rows after the first `done`, cell by cell."""
    head, delimiter = _head(source), source.layout.delimiter
    end = next(end for end in ("\r\n", "\r", "\n") if head.endswith(end.encode()) or end == "\n")
    rest = islice(read_rows(source), done, None)
    for old in careful_blocks(source, columns, done):
        rows = [row for _, row in islice(rest, len(old))]
        changed = change(old)
        new = old if changed.values is None else changed.values
        for j, values in zip(columns, new.T, strict=True):
            texts = _texts(values, source.cells.notation.decimal).to_pylist()
            for row, cell in zip(rows, texts, strict=True):
                row[j] = cell or ""
        text = "".join(_line(row, delimiter) + end for row in rows)
        yield changed, text.encode("utf-8", "surrogateescape")


def _line(row: list[str], delimiter: str) -> str:
    if row == [""]:
        return '""'
    special = (delimiter, '"', "\r", "\n")  # Python's writer leaves out one of the last two
    quoted = (
        '"' + cell.replace('"', '""') + '"' if any(one in cell for one in special) else cell
        for cell in row
    )
    return delimiter.join(quoted)


def _head(source: CsvFile) -> bytes:
    """The text before the first row."""
    layout = source.layout
    with (
        opened(source.path) as file,
        io.TextIOWrapper(file, layout.encoding, layout.errors, newline="") as text,
    ):
        return "".join(islice(text, layout.lines)).encode("utf-8", layout.errors)


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
    group = file.metadata.row_group(0)
    chunks = (group.column(j) for j in range(group.num_columns))
    codecs = {chunk.path_in_schema: chunk.compression for chunk in chunks}
    return {path: "NONE" if name == "UNCOMPRESSED" else name for path, name in codecs.items()}
