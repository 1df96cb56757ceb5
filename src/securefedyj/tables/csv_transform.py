"""CSV with other numbers in some columns, and all else as it was.

A piece of the file at a time is taken as bytes, and the cells of the chosen columns are replaced in
it: separators, quotes, line ends and the texts of the other columns are never read, so they cannot
change. Where the fast reader stumbles, rows are read and written cell by cell from there on; then
quotes stand where they are needed.
"""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from securefedyj.numerics.arrays import Array, Integers
from securefedyj.tables.cells import Cells
from securefedyj.tables.change import Change, Changed
from securefedyj.tables.csv_careful import CsvRows, careful_blocks, opened, read_layout
from securefedyj.tables.csv_cells import cells_of
from securefedyj.tables.csv_fast import Converter, FastPathFailed, over_pieces
from securefedyj.tables.dialect import CsvLayout, Dialect
from securefedyj.tables.unchanged import Unchanged

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_PACKING = 6  # of 9; the last few levels take long for little


class _Part(NamedTuple):
    """Some rows, with changed cells."""

    rows: int
    changed: Changed
    text: bytes
    """In UTF-8."""


def transform(
    source: Path | str,
    target: Path | str,
    columns: Sequence[int],
    change: Change,
    missing: Collection[str],
    dialect: Dialect,
    packed: bool,
) -> Generator[int, None, None]:
    """Write a CSV with changed columns; how many rows that were is told part by part."""
    unchanged = Unchanged(source)
    layout = read_layout(source, dialect)
    cells = Cells(missing, dialect.decimal, dialect.thousands)
    with _writing(source, target, layout, packed) as write:
        write(_head(source, layout))
        for part in _parts_of(source, layout, columns, cells, change):
            change.count(part.changed)
            write(part.text)
            yield part.rows
    unchanged.check()


def _parts_of(
    path: Path | str, layout: CsvLayout, columns: Sequence[int], cells: Cells, change: Change
) -> Iterator[_Part]:
    done = 0
    try:
        for part in over_pieces(path, layout, _Replacing(layout, columns, cells, change)):
            done += part.rows
            yield part
    except FastPathFailed:
        yield from _carefully(path, layout, columns, cells, change, done)


class _Replacing:
    """Replaces cells in a piece of CSV."""

    def __init__(
        self, layout: CsvLayout, columns: Sequence[int], cells: Cells, change: Change
    ) -> None:
        self._convert = Converter(layout, columns, cells)
        self._layout, self._change = layout, change
        self._order = np.argsort(columns)  # the columns as they come in a line
        self._columns = np.sort(columns)

    def __call__(self, piece: bytes, lines: int) -> _Part:
        if lines:
            piece = b"".join(piece.splitlines(keepends=True)[lines:])
        old = self._convert(piece, 0)
        changed = self._change(old)
        if changed.values is None or not len(old):
            return _Part(len(old), changed, piece)
        starts, ends = cells_of(piece, self._layout.delimiter, len(self._layout.header))
        if len(starts) != len(old):
            raise FastPathFailed
        texts = self._cells(changed.values[:, self._order].ravel())
        places = starts[:, self._columns], ends[:, self._columns]
        return _Part(len(old), changed, _replaced(piece, *places, texts))

    def _cells(self, values: Array) -> Any:
        """Cells for numbers, quoted where signs in them separate cells; NaN is missing."""
        texts = _texts(values, self._layout.decimal)
        if self._layout.delimiter in ("+", "-", self._layout.decimal):
            texts = pc.binary_join_element_wise('"', texts, '"', "")
        # A line without anything would not be a row.
        return pc.fill_null(texts, '""' if len(self._layout.header) == 1 else "")


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


def _carefully(
    path: Path | str,
    layout: CsvLayout,
    columns: Sequence[int],
    cells: Cells,
    change: Change,
    done: int,
) -> Iterator[_Part]:
    """From a row on, cell by cell."""
    head = _head(path, layout)
    end = next(end for end in ("\r\n", "\r", "\n") if head.endswith(end.encode()) or end == "\n")
    with opened(path) as file:
        rest = islice(CsvRows(path, file, layout), done, None)
        for old in careful_blocks(path, layout, columns, cells, done):
            rows = list(islice(rest, len(old)))
            changed = change(old)
            new = old if changed.values is None else changed.values
            for j, values in zip(columns, new.T, strict=True):
                texts = _texts(values, layout.decimal).to_pylist()
                for row, cell in zip(rows, texts, strict=True):
                    row[j] = cell or ""
            text = "".join(_line(row, layout.delimiter) + end for row in rows)
            yield _Part(len(old), changed, text.encode("utf-8", "surrogateescape"))


def _line(row: list[str], delimiter: str) -> str:
    if row == [""]:
        return '""'
    special = (delimiter, '"', "\r", "\n")  # Python's writer leaves out one of the last two
    quoted = (
        '"' + cell.replace('"', '""') + '"' if any(sign in cell for sign in special) else cell
        for cell in row
    )
    return delimiter.join(quoted)


def _head(path: Path | str, layout: CsvLayout) -> bytes:
    """What stands before the first row, without a byte order mark."""
    with (
        opened(path) as file,
        io.TextIOWrapper(file, layout.encoding, layout.errors, newline="") as text,
    ):
        return "".join(islice(text, layout.lines)).encode("utf-8", layout.errors)


@contextmanager
def _writing(
    source: Path | str, target: Path | str, layout: CsvLayout, packed: bool
) -> Iterator[Callable[[bytes], int]]:
    """Writes UTF-8 in the encoding of the source, with its byte order mark."""
    with opened(source) as old:
        first = old.read(4)
    mark = next((mark for mark in _MARKS if first.startswith(mark)), b"")
    encoding = _MARKS.get(mark, layout.encoding)
    encoder = codecs.getincrementalencoder(encoding)()
    with _opened(target, packed) as new:
        new.write(mark)
        yield lambda text: new.write(text if encoding == "utf-8" else encoder.encode(text.decode()))


@contextmanager
def _opened(path: Path | str, packed: bool) -> Iterator[IO[bytes]]:
    with open(path, "wb") as file:
        if not packed:
            yield file
            return
        # Neither name nor time goes into the file: the same table gives the same bytes.
        with gzip.GzipFile("", "wb", _PACKING, file, mtime=0) as unpacked:
            yield cast(IO[bytes], unpacked)
