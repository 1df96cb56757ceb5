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
from securefedyj.tables.base import TableSource
from securefedyj.tables.cells import Cells
from securefedyj.tables.csv_careful import CsvRows, careful_blocks, opened, read_layout
from securefedyj.tables.csv_fast import FastPathFailed, fast_blocks
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.paths import Unchanged, compressed

_FIRST_ROWS = 100


class CsvSource(TableSource):
    """A CSV file; a pass reads the columns that it needs, piece by piece."""

    def __init__(
        self,
        path: Path | str,
        features: Sequence[str] | None,
        missing: Collection[str],
        dialect: Dialect,
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


def text_columns(
    path: Path | str, missing: Collection[str], dialect: Dialect
) -> dict[str, list[str]]:
    """The columns whose first cells are neither numbers nor missing, with these cells."""
    layout, cells = read_layout(path, dialect), Cells(missing, dialect.decimal, dialect.thousands)
    with opened(path) as file:
        table = CsvRows(path, file, layout)  # by name: without one it would be left open
        rows = list(islice(table, _FIRST_ROWS))
    found = {}
    for name, texts in dict(zip(layout.header, zip(*rows, strict=True), strict=False)).items():
        values = [cells.read(text) for text in texts]
        if None in values and all(value is None or value != value for value in values):
            found[name] = [t for t, value in zip(texts, values, strict=True) if value is None]
    return found


def lines_of(path: Path | str, rows: Collection[int], dialect: Dialect) -> dict[int, int]:
    """The lines in which rows end, by their numbers from 1; a cell may have several lines."""
    layout, last = read_layout(path, dialect), max(rows)
    with opened(path) as file:
        table = CsvRows(path, file, layout)
        numbered = enumerate(islice(table, last), start=1)
        return {number: table.line for number, _ in numbered if number in rows}


def write_csv(path: Path | str, names: Sequence[str], values: Array) -> None:
    """Write columns of numbers that read back exactly; the file is written whole or not at all."""
    with replacing(path) as temporary, writing(temporary, compressed(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        for row in values.tolist():
            writer.writerow("" if value != value else repr(value) for value in row)
        text.detach()


@contextmanager
def writing(path: Path | str, packed: bool, level: int = 9) -> Iterator[IO[bytes]]:
    """A new file; what is written to it is compressed if it is to be packed."""
    with open(path, "wb") as file:
        if not packed:
            yield file
            return
        # Neither name nor time goes into the file: the same table gives the same bytes.
        with gzip.GzipFile("", "wb", level, file, mtime=0) as unpacked:
            yield unpacked  # type: ignore[misc]
