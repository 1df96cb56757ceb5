"""CSV files, read in passes, and written again with new numbers.

Arrow reads them in pieces, on all cores (the fast path). Where it might read a cell differently
from Python, it raises `FastPathFailed`, and Python continues from there, cell by cell (the careful
path): slower, but with the line of each cell that cannot be used. Both accept the same cells, and
read the same numbers.

A new file has the same bytes but for the cells of the columns that change. Where the fast path
fails, rows are read and written cell by cell from there on, with quotes only where they are needed.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from securefedyj.numerics.arrays import Array
from securefedyj.tables.arrow import side_by_side
from securefedyj.tables.cells import BadCells, Cells, TableError, digit_groups, refuse_cells
from securefedyj.tables.dialect import Dialect, decoding_errors, layout_of
from securefedyj.tables.packed import opened, packing, unpacking
from securefedyj.tables.rewriting import (
    Change,
    Changed,
    FastPathFailed,
    cells_of,
    replaced,
    texts_of,
)

PIECE = 1 << 20  # bytes
_LARGEST_PIECE = 1 << 28
_LINES_IN_PIECE = 16
_BLOCK_ROWS = 1 << 14
_FIRST_ROWS = 100

T = TypeVar("T")


class CsvFile:
    """A CSV file, how it is written, and which cells mean what; a source of all its columns."""

    copies = ".csv"
    place = "line"
    """What an error calls the place of a row."""
    rows = None

    def __init__(
        self,
        path: Path | str,
        missing: Collection[str],
        dialect: Dialect,
        opener: Callable[[], Any] | None = None,
        where: str = "",
    ) -> None:
        self.where, self._dialect = where or str(path), dialect
        self._opened = partial(opened, self.where, opener or partial(unpacking, path))
        with self._opened() as file:
            self.layout = layout_of(self.where, file, dialect)
        self.names: Sequence[str] = self.layout.header
        self.cells = Cells(missing, dialect.notation, dialect.below_limit)

    def described(self) -> str:
        return self.layout.described(self._dialect)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        done = 0
        try:
            for block in self.fast_blocks(columns):
                done += len(block)
                yield block
        except FastPathFailed:
            yield from self.careful_blocks(columns, done)

    def fast_blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        """Columns in blocks; raises `FastPathFailed` after the last certain one."""
        return self.over_pieces(Converter(self, columns))

    def over_pieces(self, work: Callable[[bytes], T]) -> Generator[T, None, None]:
        """The results of `work`, a function of a piece of the rows, called in several threads."""
        workers = os.cpu_count() or 1
        waiting: deque[Future[T]] = deque()
        with self._opened() as file, ThreadPoolExecutor(workers) as pool:
            for piece in self._pieces(file):
                waiting.append(pool.submit(work, piece))
                if len(waiting) > 2 * workers:  # no worker waits while a result is used
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def careful_blocks(self, columns: Sequence[int], done: int = 0) -> Iterator[Array]:
        """Columns in blocks, after `done` rows; bad cells are all reported at the end."""
        read, bad = self.cells.read, [BadCells() for _ in columns]

        def numbers(line: int, row: list[str]) -> Iterator[float]:
            for j, column in zip(columns, bad, strict=True):
                value = read(row[j])
                if value is None:
                    column.add(row[j], line)
                yield nan if value is None else value

        rows = islice(self.numbered_rows(), done, None)
        while part := [list(numbers(line, row)) for line, row in islice(rows, _BLOCK_ROWS)]:
            if not any(column.count for column in bad):
                yield np.array(part, dtype=np.float64).reshape(len(part), len(columns))
        named = {self.names[j]: column for j, column in zip(columns, bad, strict=True)}
        refuse_cells(self.where, named, self.cells.notation, self.place)

    def numbered_rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows, read by Python, and the lines in which they end."""
        path, layout, encoding, ended = self.where, self.layout, self.layout.encoding, False

        def lines() -> Iterator[str]:
            nonlocal ended
            yield from text
            ended = True  # a row that ends only now has an open quote

        errors = decoding_errors(encoding)
        with self._opened() as file, io.TextIOWrapper(file, encoding, errors, newline="") as text:
            before = last = sum(1 for _ in islice(text, layout.lines))
            reader = csv.reader(lines(), delimiter=layout.delimiter)
            for row in reader:
                if ended:
                    raise TableError(
                        "SFY-TAB-006",
                        f"{path}: this is not CSV: a quote is open from line {last + 1} to the "
                        "end of the file; close it, or remove it",
                    )
                last = before + reader.line_num
                if len(row) == len(layout.header):
                    yield last, row
                elif row:  # an empty line is not a row
                    width = len(layout.header)
                    commas = layout.delimiter == "," and len(row) == 2 * width
                    hint = "; if the comma is the decimal separator, give --decimal ," * commas
                    raise TableError(
                        "SFY-TAB-007",
                        f"{path}: line {last} has {len(row)} cells, the header has {width}{hint}",
                    )

    def text_columns(self) -> dict[str, list[str]]:
        """The columns whose first cells are neither numbers nor missing, with these cells."""
        rows = [row for _, row in islice(self.numbered_rows(), _FIRST_ROWS)]
        found = {}
        for name, texts in dict(zip(self.names, zip(*rows, strict=True), strict=False)).items():
            values = [self.cells.read(text) for text in texts]
            if None in values and all(value is None or value != value for value in values):
                found[name] = [t for t, value in zip(texts, values, strict=True) if value is None]
        return found

    def lines_of(self, rows: Collection[int]) -> dict[int, int]:
        """The lines in which rows end, by their numbers from 1; a cell may have several lines."""
        numbered = enumerate(islice(self.numbered_rows(), max(rows, default=0)), start=1)
        return {number: line for number, (line, _) in numbered if number in rows}

    def _pieces(self, file: IO[bytes]) -> Iterator[bytes]:
        """The rows as UTF-8, in pieces of whole rows."""
        size = max(PIECE, _LINES_IN_PIECE * self.layout.longest)
        parts: Iterator[bytes] = iter(partial(file.read, size), b"")
        if self.layout.encoding != "utf-8":
            parts = map(str.encode, codecs.iterdecode(parts, self.layout.encoding))
        rest, skip = b"", len(self.layout.head)
        for part in parts:
            if len(rest) + len(part) >= size and (end := _end_of_rows(rest, part)):
                piece = b"".join((rest, memoryview(part)[:end]))
                yield piece[skip:]
                rest, skip = part[end:], max(0, skip - len(piece))
                continue
            rest += part
            if len(rest) > _LARGEST_PIECE:
                raise FastPathFailed
        if _quotes(rest) % 2:
            raise FastPathFailed  # a quote is open, and Arrow does not report it
        yield rest[skip:]

    def rewrite(
        self, target: Path, columns: Sequence[int], change: Change
    ) -> Generator[Changed, None, None]:
        encoding = self.layout.encoding
        with packing(target) as new:
            out = new if encoding == "utf-8" else codecs.EncodedFile(new, "utf-8", encoding)
            out.write(self.layout.head)
            for changed, text in self._changed(columns, change):
                out.write(text)
                yield changed

    def _changed(self, columns: Sequence[int], change: Change) -> Iterator[tuple[Changed, bytes]]:
        """The rows in parts, and their text in UTF-8."""
        done, in_line = 0, np.argsort(columns)  # the columns as they come in a line
        places = np.asarray(columns)[in_line]

        def in_piece(piece: bytes) -> tuple[Changed, bytes]:
            changed = change(convert(piece))
            if not len(changed.values):
                return changed, piece
            starts, ends = cells_of(piece, self.layout.delimiter, len(self.names))
            if len(starts) != len(changed.values):
                raise FastPathFailed
            cells = self._texts(changed.values[:, in_line].ravel())
            return changed, replaced(piece, starts[:, places], ends[:, places], cells)

        try:
            convert = Converter(self, columns)
            for changed, text in self.over_pieces(in_piece):
                done += len(changed.values)
                yield changed, text
        except FastPathFailed:
            yield from self._changed_carefully(columns, change, done)

    def _texts(self, values: Array) -> Any:
        """Cells for numbers, quoted if they may contain the delimiter; NaN is missing."""
        decimal = self.cells.notation.decimal
        texts = texts_of(values, decimal)
        if self.layout.delimiter in ("+", "-", decimal):
            texts = pc.binary_join_element_wise('"', texts, '"', "")
        # An empty line would not be a row.
        return pc.fill_null(texts, '""' if len(self.names) == 1 else "")

    def _changed_carefully(
        self, columns: Sequence[int], change: Change, done: int
    ) -> Iterator[tuple[Changed, bytes]]:
        """The rows after the first `done`, cell by cell."""
        echo: Any = SimpleNamespace(write=str)  # for `writerow`, which returns what this returns
        # Python's writer quotes cells with characters of its line terminator.
        writer = csv.writer(echo, delimiter=self.layout.delimiter, lineterminator="\r\n")
        head = self.layout.head.decode("utf-8", "surrogateescape")
        end = next((end for end in ("\r\n", "\r") if head.endswith(end)), "\n")
        rest = islice(self.numbered_rows(), done, None)
        for old in self.careful_blocks(columns, done):
            rows = [row for _, row in islice(rest, len(old))]
            changed = change(old)
            for j, values in zip(columns, changed.values.T, strict=True):
                texts = texts_of(values, self.cells.notation.decimal).to_pylist()
                for row, cell in zip(rows, texts, strict=True):
                    row[j] = cell or ""
            text = "".join(writer.writerow(row).removesuffix("\r\n") + end for row in rows)
            yield changed, text.encode("utf-8", "surrogateescape")


def _end_of_rows(before: bytes, part: bytes) -> int:
    """Where the last whole row ends: at a line break with an even number of quotes before it."""
    line_break = b"\n" if b"\n" in part or b"\n" in before else b"\r"
    end, odd = len(part), (_quotes(before) + _quotes(part)) % 2
    while True:
        cut = part.rfind(line_break, 0, end) + 1
        odd ^= part.count(b'"', cut, end) % 2
        if not (odd and cut):
            return cut
        end = cut - 1


def _quotes(data: bytes) -> int:
    return data.count(b'"') if b'"' in data else 0  # looking for one is much faster


class Converter:
    """Reads the numbers in a piece of CSV."""

    def __init__(self, csv_file: CsvFile, columns: Sequence[int]) -> None:
        delimiter = csv_file.layout.delimiter
        if not delimiter.isascii():
            raise FastPathFailed
        self._cells, self._columns = csv_file.cells, [str(j) for j in columns]
        self._names = [str(j) for j in range(len(csv_file.names))]
        self._parse = arrow_csv.ParseOptions(delimiter=delimiter)
        kind = pa.string() if self._cells.notation.thousands else pa.float64()
        # Without columns Arrow would read all of them; one unconverted column shows the rows.
        types = dict.fromkeys(self._columns, kind) or {"0": pa.binary()}
        self._convert = arrow_csv.ConvertOptions(
            include_columns=list(types),
            column_types=types,
            null_values=sorted(self._cells.spellings),
            strings_can_be_null=True,
            decimal_point=self._cells.notation.decimal,
        )

    def __call__(self, piece: bytes) -> Array:
        if piece[:1] in (b"\r", b"\n", b"") and not piece.strip(b"\r\n"):
            return np.empty((0, len(self._columns)))
        options = arrow_csv.ReadOptions(
            use_threads=False, block_size=len(piece) + 1, column_names=self._names
        )
        try:
            table = arrow_csv.read_csv(pa.BufferReader(piece), options, self._parse, self._convert)
            columns = [self._number(table.column(name)) for name in self._columns]
        except pa.ArrowException:
            raise FastPathFailed from None
        block = side_by_side([column.to_numpy() for column in columns], table.num_rows)
        missing = sum(column.null_count for column in columns)
        if np.count_nonzero(np.isfinite(block)) + missing != block.size:
            raise FastPathFailed  # by "inf", or by "nan" if that does not mean missing
        return self._cells.mask(block)

    def _number(self, column: Any) -> Any:
        """A column as numbers; with a thousands separator they are read as text first."""
        decimal, thousands = self._cells.notation
        if not thousands:
            return column
        separator, number = digit_groups(decimal, thousands)
        matches = pc.match_substring_regex
        wrong = pc.and_(matches(column, separator), pc.invert(matches(column, f"^{number}$")))
        if pc.any(wrong).as_py():
            raise FastPathFailed
        column = pc.replace_substring_regex(column, separator, "")
        if decimal != ".":
            if pc.any(pc.match_substring(column, ".")).as_py():
                raise FastPathFailed
            column = pc.replace_substring(column, decimal, ".")
        return pc.cast(column, pa.float64())
