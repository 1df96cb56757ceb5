"""CSV with new numbers in some columns, and everything else unchanged.

A piece of the file at a time is read as bytes, and the cells of the chosen columns are replaced in
it: separators, quotes, line ends and the texts of other columns are never parsed, so they cannot
change. If the fast reader fails, rows are read and written cell by cell from there on, with quotes
only where they are needed.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.tables.cells import Cells
from securefedyj.tables.change import Change, Changed
from securefedyj.tables.csv_careful import CsvRows, careful_blocks, opened, read_layout
from securefedyj.tables.csv_fast import Converter, FastPathFailed, over_pieces
from securefedyj.tables.csv_files import writing
from securefedyj.tables.dialect import MARKS, CsvLayout, Dialect
from securefedyj.tables.paths import Unchanged

_LF, _CR, _QUOTE = b'\n\r"'
_LEVEL = 6  # of 9; the last few levels of compression take long for little


class _ChangedPart(NamedTuple):
    """Some rows, with changed cells."""

    rows: int
    changed: Changed
    text: bytes
    """In UTF-8."""


@dataclass(frozen=True)
class _Task:
    """Which cells of a file change, and how."""

    path: Path | str
    layout: CsvLayout
    columns: Sequence[int]
    cells: Cells
    change: Change


def transform_csv(
    source: Path | str,
    target: Path | str,
    columns: Sequence[int],
    change: Change,
    missing: Collection[str],
    dialect: Dialect,
    packed: bool,
) -> Generator[int, None, None]:
    """Write a CSV file with changed columns; yield the number of rows of each part."""
    unchanged = Unchanged(source)
    layout = read_layout(source, dialect)
    cells = Cells(missing, dialect.decimal, dialect.thousands)
    task = _Task(source, layout, columns, cells, change)
    with _encoding(source, target, layout, packed) as write:
        write(_head(source, layout))
        for part in _parts_of(task):
            change.count(part.changed)
            write(part.text)
            yield part.rows
    unchanged.check()


def _parts_of(task: _Task) -> Iterator[_ChangedPart]:
    done = 0
    try:
        for part in over_pieces(task.path, task.layout, _Replacing(task)):
            done += part.rows
            yield part
    except FastPathFailed:
        yield from _carefully(task, done)


class _Replacing:
    """Replaces cells in a piece of CSV."""

    def __init__(self, task: _Task) -> None:
        self._convert = Converter(task.layout, task.columns, task.cells)
        self._layout, self._change = task.layout, task.change
        self._order = np.argsort(task.columns)  # the columns as they come in a line
        self._columns = np.sort(task.columns)

    def __call__(self, piece: bytes, lines: int) -> _ChangedPart:
        if lines:
            piece = b"".join(piece.splitlines(keepends=True)[lines:])
        old = self._convert(piece, 0)
        changed = self._change(old)
        if changed.values is None or not len(old):
            return _ChangedPart(len(old), changed, piece)
        starts, ends = cells_of(piece, self._layout.delimiter, len(self._layout.header))
        if len(starts) != len(old):
            raise FastPathFailed
        texts = self._cells(changed.values[:, self._order].ravel())
        places = starts[:, self._columns], ends[:, self._columns]
        return _ChangedPart(len(old), changed, _replaced(piece, *places, texts))

    def _cells(self, values: Array) -> Any:
        """Cells for numbers, quoted if a sign in them separates cells; NaN is missing."""
        texts = _texts(values, self._layout.decimal)
        if self._layout.delimiter in ("+", "-", self._layout.decimal):
            texts = pc.binary_join_element_wise('"', texts, '"', "")
        # An empty line would not be a row.
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


def cells_of(piece: bytes, delimiter: str, width: int) -> tuple[Integers, Integers]:
    """Where each cell begins and ends, rows by columns; blank lines are not rows.

    A quoted cell includes its quotes. Raises `FastPathFailed` where a row does not have `width`
    cells, or the quotes are not as a CSV writer sets them.
    """
    signs = np.frombuffer(piece, np.uint8)
    breaks = signs == _LF
    if b"\r" in piece:  # which also ends a line if no line feed follows
        lone = signs == _CR
        lone[:-1] &= ~breaks[1:]
        breaks |= lone
    marks = breaks | (signs == ord(delimiter))
    if b'"' in piece:
        marks &= ~_quoted(signs, marks)
    ends = np.flatnonzero(marks)
    lines = ends[signs[ends] != ord(delimiter)]
    if not piece.endswith((b"\n", b"\r")):
        ends, lines = np.append(ends, len(piece)), np.append(lines, len(piece))
    first = np.append(0, lines[:-1] + 1)
    last = lines - _carriage_returns(signs, first, lines)
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


def _quoted(signs: NDArray[np.uint8], marks: Bools) -> Bools:
    """Which signs lie between quotes, without the closing ones."""
    quotes = signs == _QUOTE
    quoted: Bools = np.bitwise_xor.accumulate(quotes)
    at = np.flatnonzero(quotes)
    # Each opens at the beginning of a cell and closes at its end, or is one of a doubled pair.
    fits = marks | quotes | (signs == _CR)
    before, after = np.append(True, fits[:-1])[at[::2]], np.append(fits[1:], True)[at[1::2]]
    if not (before.all() and after.all()):
        raise FastPathFailed
    return quoted


def _carriage_returns(signs: NDArray[np.uint8], first: Integers, lines: Integers) -> Bools:
    """Which line breaks have two signs."""
    before = signs[np.maximum(lines - 1, 0)] == _CR
    two: Bools = before & (first < lines) & (signs[np.minimum(lines, len(signs) - 1)] == _LF)
    return two


def _carefully(task: _Task, done: int) -> Iterator[_ChangedPart]:
    """The rows after the first `done`, cell by cell."""
    path, layout = task.path, task.layout
    head = _head(path, layout)
    end = next(end for end in ("\r\n", "\r", "\n") if head.endswith(end.encode()) or end == "\n")
    with opened(path) as file:
        rest = islice(CsvRows(path, file, layout), done, None)
        for old in careful_blocks(path, layout, task.columns, task.cells, done):
            rows = list(islice(rest, len(old)))
            changed = task.change(old)
            new = old if changed.values is None else changed.values
            for j, values in zip(task.columns, new.T, strict=True):
                texts = _texts(values, layout.decimal).to_pylist()
                for row, cell in zip(rows, texts, strict=True):
                    row[j] = cell or ""
            text = "".join(_line(row, layout.delimiter) + end for row in rows)
            yield _ChangedPart(len(old), changed, text.encode("utf-8", "surrogateescape"))


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
    """The text before the first row, without a byte order mark."""
    with (
        opened(path) as file,
        io.TextIOWrapper(file, layout.encoding, layout.errors, newline="") as text,
    ):
        return "".join(islice(text, layout.lines)).encode("utf-8", layout.errors)


@contextmanager
def _encoding(
    source: Path | str, target: Path | str, layout: CsvLayout, packed: bool
) -> Iterator[Callable[[bytes], object]]:
    """Writes UTF-8 in the encoding of the source, after its byte order mark."""
    with opened(source) as old:
        first = old.read(4)
    mark = next((mark for mark in MARKS if first.startswith(mark)), b"")
    encoding = MARKS[mark] if mark else layout.encoding
    if mark:  # once, at the beginning, and not by the encoder
        order = "be" if mark in (codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE) else "le"
        encoding = "utf-8" if mark == codecs.BOM_UTF8 else f"{encoding}-{order}"
    encoder = codecs.getincrementalencoder(encoding)()
    with writing(target, packed, _LEVEL) as new:
        new.write(mark)
        yield lambda text: new.write(text if encoding == "utf-8" else encoder.encode(text.decode()))
