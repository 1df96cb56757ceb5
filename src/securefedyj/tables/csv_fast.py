"""CSV read by Arrow, in pieces on all cores.

It accepts what the careful reader would accept, and reads the same numbers; where that is not
certain it raises `FastPathFailed`, and the careful reader continues from there.
"""

from __future__ import annotations

import codecs
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from securefedyj.numerics.arrays import Array
from securefedyj.tables.cells import Cells, grouped
from securefedyj.tables.csv_careful import opened
from securefedyj.tables.dialect import CsvLayout

PIECE = 1 << 20  # bytes
_LARGEST_PIECE = 1 << 28
_LINES_IN_PIECE = 16

T = TypeVar("T")


class FastPathFailed(Exception):
    """Arrow may read this piece otherwise than the careful reader."""


def fast_blocks(
    path: Path | str, layout: CsvLayout, columns: Sequence[int], cells: Cells
) -> Iterator[Array]:
    """Columns of a CSV file in blocks; raises `FastPathFailed` after those that are certain."""
    return over_pieces(path, layout, Converter(layout, columns, cells))


def over_pieces(
    path: Path | str, layout: CsvLayout, work: Callable[[bytes, int], T]
) -> Generator[T, None, None]:
    """The results of `work`, which gets each piece and the number of lines before its first row."""
    workers = os.cpu_count() or 1
    waiting: deque[Future[T]] = deque()
    with opened(path) as file, ThreadPoolExecutor(workers) as pool:
        for number, piece in enumerate(_pieces(_utf8(file, layout), _size(layout))):
            waiting.append(pool.submit(work, piece, 0 if number else layout.lines))
            if len(waiting) > 2 * workers:  # no worker waits while a result is used
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _size(layout: CsvLayout) -> int:
    return max(PIECE, _LINES_IN_PIECE * layout.longest)


def _utf8(file: IO[bytes], layout: CsvLayout) -> Iterator[bytes]:
    size = _size(layout)
    if layout.encoding.startswith("utf-8"):
        while data := file.read(size):
            yield data
        return
    decoder = codecs.getincrementaldecoder(layout.encoding)()
    while data := file.read(size):
        yield decoder.decode(data).encode()
    yield decoder.decode(b"", final=True).encode()


def _pieces(parts: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of whole rows."""
    rest = b""
    for part in parts:
        if len(rest) + len(part) >= size and (end := _end_of_rows(rest, part)):
            yield b"".join((rest, memoryview(part)[:end]))
            rest = part[end:]
            continue
        rest += part
        if len(rest) > _LARGEST_PIECE:
            raise FastPathFailed
    if _quotes(rest) % 2:
        raise FastPathFailed  # a quote is open, and Arrow does not report it
    if rest:
        yield rest


def _end_of_rows(before: bytes, part: bytes) -> int:
    """Where the last whole row ends: at a line break with an even number of quotes before it."""
    sign = b"\n" if b"\n" in part or b"\n" in before else b"\r"
    end, odd = len(part), (_quotes(before) + _quotes(part)) % 2
    while True:
        cut = part.rfind(sign, 0, end) + 1
        odd ^= part.count(b'"', cut, end) % 2
        if not (odd and cut):
            return cut
        end = cut - 1


def _quotes(data: bytes) -> int:
    return data.count(b'"') if b'"' in data else 0  # looking for one is much faster


class Converter:
    """Reads the numbers in a piece of CSV."""

    def __init__(self, layout: CsvLayout, columns: Sequence[int], cells: Cells) -> None:
        if not layout.delimiter.isascii():
            raise FastPathFailed
        self._cells, self._columns = cells, [str(j) for j in columns]
        self._names = [str(j) for j in range(len(layout.header))]
        self._decimal, self._thousands = layout.decimal, layout.thousands
        self._parse = csv.ParseOptions(delimiter=layout.delimiter)
        kind = pa.string() if layout.thousands else pa.float64()
        # Without columns Arrow would read all of them; one unconverted column tells the rows.
        types = dict.fromkeys(self._columns, kind) or {"0": pa.binary()}
        self._convert = csv.ConvertOptions(
            include_columns=list(types),
            column_types=types,
            null_values=sorted(cells.spellings),
            strings_can_be_null=True,
            decimal_point=layout.decimal,
        )

    def __call__(self, piece: bytes, lines: int) -> Array:
        """The numbers in a piece, after some lines to skip."""
        if not lines and piece[:1] in (b"\r", b"\n", b"") and not piece.strip(b"\r\n"):
            return np.empty((0, len(self._columns)))
        options = csv.ReadOptions(
            use_threads=False,
            block_size=len(piece) + 1,
            skip_rows=lines,
            column_names=self._names,
        )
        try:
            table = csv.read_csv(pa.BufferReader(piece), options, self._parse, self._convert)
            chosen = [table.column(name) for name in self._columns]
            columns = [self._ungrouped(one) for one in chosen] if self._thousands else chosen
        except pa.ArrowException:
            raise FastPathFailed from None
        block = np.empty((table.num_rows, len(columns)), order="F")
        for k, column in enumerate(columns):
            block[:, k] = column.to_numpy()
        missing = sum(column.null_count for column in columns)
        if np.count_nonzero(np.isfinite(block)) + missing != block.size:
            raise FastPathFailed  # by "inf", or by "nan" if that does not mean missing
        return self._cells.mask(block)

    def _ungrouped(self, column: Any) -> Any:
        """Texts as numbers, without the signs that group digits."""
        signs, number = grouped(self._decimal, self._thousands)
        wrong = pc.and_(
            pc.match_substring_regex(column, signs),
            pc.invert(pc.match_substring_regex(column, f"^{number}$")),
        )
        if pc.any(wrong).as_py():
            raise FastPathFailed
        column = pc.replace_substring_regex(column, signs, "")
        if self._decimal != ".":
            if pc.any(pc.match_substring(column, ".")).as_py():
                raise FastPathFailed
            column = pc.replace_substring(column, self._decimal, ".")
        return pc.cast(column, pa.float64())
