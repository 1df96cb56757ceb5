"""CSV read cell by cell: slower, but it knows the line of each cell that cannot be used."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from math import nan
from pathlib import Path
from typing import IO, Any

import numpy as np

from securefedyj.errors import code_of
from securefedyj.numerics.arrays import Array
from securefedyj.tables.cells import BadCells, BadCellsError, Cells, TableError, sentences
from securefedyj.tables.dialect import CsvLayout, Dialect, layout_of
from securefedyj.tables.paths import compressed

_BLOCK_ROWS = 1 << 14


@contextmanager
def opened(path: Path | str) -> Iterator[Any]:
    """The bytes of a CSV file, decompressed; errors name the file."""
    opener: Any = gzip.open if compressed(path) else open
    try:
        with opener(path, "rb") as file:
            yield file
    except UnicodeError:
        raise TableError(
            "SFY-TAB-003",
            f"{path}: some bytes do not fit the encoding; give another --encoding, or save the "
            "table as UTF-8",
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TableError(
            code_of(error, "SFY-TAB-004"), f"{path}: the compressed file is damaged: {error}"
        ) from None
    except csv.Error as error:
        raise TableError(
            code_of(error, "SFY-TAB-005"), f"{path}: this is not CSV: {error}; is a quote missing?"
        ) from None


def read_layout(path: Path | str, dialect: Dialect) -> CsvLayout:
    """How a CSV file is written."""
    with opened(path) as file:
        return layout_of(path, file, dialect)


class CsvRows:
    """The rows of a CSV file; each must be as long as the header."""

    def __init__(self, path: Path | str, file: IO[bytes], layout: CsvLayout) -> None:
        self._path, self._layout = path, layout
        self._text = io.TextIOWrapper(file, layout.encoding, layout.errors, newline="")
        self._ended = False
        self._before = sum(1 for _ in islice(self._text, layout.lines))
        self._reader = csv.reader(self._lines(), delimiter=layout.delimiter)

    @property
    def line(self) -> int:
        return self._before + self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        width, last = len(self._layout.header), self.line
        for row in self._reader:
            if self._ended:
                raise TableError(
                    "SFY-TAB-006",
                    f"{self._path}: this is not CSV: a quote is open from line {last + 1} to the "
                    "end of the file",
                )
            last = self.line
            if len(row) == width:
                yield row
            elif row:  # an empty line is not a row
                commas = self._layout.delimiter == "," and len(row) == 2 * width
                raise TableError(
                    "SFY-TAB-007",
                    f"{self._path}: line {last} has {len(row)} cells, the header has {width}"
                    + "; if the comma is the decimal sign, give --decimal ," * commas,
                )

    def _lines(self) -> Iterator[str]:
        yield from self._text
        self._ended = True  # a row that ends only now has an open quote


def careful_blocks(
    path: Path | str,
    layout: CsvLayout,
    columns: Sequence[int],
    cells: Cells,
    done: int = 0,
) -> Iterator[Array]:
    """Columns of a CSV file in blocks, after `done` rows; bad cells are all reported at the end."""
    bad = [BadCells() for _ in columns]

    def numbers(row: list[str], line: int) -> Iterator[float]:
        for j, column in zip(columns, bad, strict=True):
            value = cells.read(row[j])
            if value is None:
                column.add(row[j], line)
            yield nan if value is None else value

    with opened(path) as file:
        rows = CsvRows(path, file, layout)
        rest = islice(rows, done, None)
        while part := [list(numbers(row, rows.line)) for row in islice(rest, _BLOCK_ROWS)]:
            if not any(column.count for column in bad):
                yield np.array(part, dtype=np.float64).reshape(len(part), len(columns))
    if any(column.count for column in bad):
        found = {layout.header[j]: one for j, one in zip(columns, bad, strict=True) if one.count}
        raise BadCellsError(str(path), sentences(found, layout.decimal, layout.thousands))
