"""CSV files, plain or compressed: read in passes, and written."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

from securefedyj.files import replacing
from securefedyj.numerics.arrays import Array
from securefedyj.tables.cells import MISSING, Cells, format_number
from securefedyj.tables.csv_careful import CsvRows, careful_blocks, compressed, opened, read_layout
from securefedyj.tables.csv_fast import FastPathFailed, fast_blocks
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.pieces import Pieces
from securefedyj.tables.unchanged import Unchanged

_DEFAULT = Dialect()
_FIRST_ROWS = 100


class CsvSource(Pieces):
    """A CSV file, of which a pass reads the columns that it needs, piece by piece."""

    def __init__(
        self,
        path: Path | str,
        features: Sequence[str] | None = None,
        missing: Collection[str] = MISSING,
        dialect: Dialect = _DEFAULT,
    ) -> None:
        self._path, self._unchanged = path, Unchanged(path)
        self._layout = read_layout(path, dialect)
        super().__init__(str(path), self._layout.header, features, missing)
        self._cells = Cells(missing, dialect.decimal, dialect.thousands)

    @property
    def rows(self) -> None:
        return None

    def pieces(self, positions: Sequence[int]) -> Generator[Array, None, None]:
        self._unchanged.check()
        done = 0
        try:
            for block in fast_blocks(self._path, self._layout, positions, self._cells):
                done += len(block)
                yield block
        except FastPathFailed:
            yield from careful_blocks(self._path, self._layout, positions, self._cells, done)
        self._unchanged.check()


def header(path: Path | str, dialect: Dialect = _DEFAULT) -> list[str]:
    """The names of the columns."""
    return read_layout(path, dialect).header


def described(path: Path | str, dialect: Dialect = _DEFAULT) -> str:
    """How the file is written, for a person."""
    return read_layout(path, dialect).described()


def text_columns(
    path: Path | str, missing: Collection[str], dialect: Dialect = _DEFAULT
) -> dict[str, list[str]]:
    """The columns whose first cells are neither numbers nor missing, with these cells."""
    layout, cells = read_layout(path, dialect), Cells(missing, dialect.decimal, dialect.thousands)
    with opened(path) as file:
        table = CsvRows(path, file, layout)  # by name: without one it would be left open
        rows = list(islice(table, _FIRST_ROWS))
    columns = dict(zip(layout.header, zip(*rows, strict=True), strict=False))
    read = {name: [cells.read(text) for text in texts] for name, texts in columns.items()}
    return {
        name: [text for text, value in zip(columns[name], values, strict=True) if value is None]
        for name, values in read.items()
        if None in values and all(value is None or value != value for value in values)
    }


def lines_of(
    path: Path | str, rows: Collection[int], dialect: Dialect = _DEFAULT
) -> dict[int, int]:
    """The lines in which rows end, by their numbers from 1; cells may have several lines."""
    layout, last = read_layout(path, dialect), max(rows)
    with opened(path) as file:
        table = CsvRows(path, file, layout)
        numbered = enumerate(islice(table, last), start=1)
        return {number: table.line for number, _ in numbered if number in rows}


def write(path: Path | str, names: Sequence[str], values: Array) -> None:
    """Write columns of numbers so that they read back exactly; the file is whole or not there."""
    with _replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in values.tolist():
            writer.writerow(map(format_number, row))


@contextmanager
def _replacing(path: Path | str) -> Iterator[IO[str]]:
    """A file that takes the place of `path` when all went well."""
    with replacing(path) as temporary:
        if not compressed(path):
            with open(temporary, "w", encoding="utf-8", newline="") as file:
                yield file
            return
        # Neither name nor time goes into the file: the same table gives the same bytes.
        with (
            open(temporary, "wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            io.TextIOWrapper(packed, encoding="utf-8", newline="") as file,
        ):
            yield file
