"""CSV files, plain or compressed: read in passes, written, transformed."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from securefedyj.files import replacing
from securefedyj.numerics.arrays import Array
from securefedyj.tables.bad_cells import BadCells, BadCellsError
from securefedyj.tables.cells import BLOCK_ROWS, MISSING, Cells, format_number
from securefedyj.tables.csv_careful import Rows, careful_blocks, compressed, opened, read_layout
from securefedyj.tables.csv_fast import Stumbled, fast_blocks
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
        except Stumbled:
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
) -> list[str]:
    """The columns whose first cells are neither numbers nor missing."""
    layout, cells = read_layout(path, dialect), Cells(missing, dialect.decimal, dialect.thousands)
    with opened(path) as file:
        rows = list(islice(Rows(path, file, layout), _FIRST_ROWS))
    return [
        name
        for j, name in enumerate(layout.header)
        if any(cells.read(row[j]) is None for row in rows)
    ]


def write(path: Path | str, names: Sequence[str], values: Array) -> None:
    """Write columns of numbers so that they read back exactly; the file is whole or not there."""
    with _replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in values.tolist():
            writer.writerow(map(format_number, row))


def transform(
    source: Path | str,
    target: Path | str,
    chosen: list[int],
    function: Callable[[Array], Array],
    missing: Collection[str],
    dialect: Dialect = _DEFAULT,
) -> int:
    """Apply a function to the chosen columns, block by block; return the number of rows."""
    layout, count = read_layout(source, dialect), 0
    cells = Cells(missing, dialect.decimal, dialect.thousands)
    with _replacing(target) as file, opened(source) as packed:
        rows = Rows(source, packed, layout)
        writer = csv.writer(file, delimiter=layout.delimiter, lineterminator="\n")
        writer.writerow(layout.header)

        def numbers(row: list[str]) -> list[float]:
            parsed = []
            for j in chosen:
                value = cells.read(row[j])
                if value is None:
                    bad = BadCells()
                    bad.add(row[j], rows.line)
                    wrong = bad.sentence(dialect.decimal, dialect.thousands)
                    raise BadCellsError(str(source), {layout.header[j]: wrong})
                parsed.append(value)
            return parsed

        for block in _blocks((row, numbers(row)) for row in rows):
            texts, values = zip(*block, strict=True)
            results = function(np.array(values)).tolist()
            for row, old, new in zip(texts, values, results, strict=True):
                for j, before, after in zip(chosen, old, new, strict=True):
                    if before == before:  # a missing cell keeps its text
                        row[j] = format_number(after).replace(".", dialect.decimal)
            writer.writerows(texts)
            count += len(texts)
    return count


def _blocks(items: Iterator[tuple[list[str], list[float]]]) -> Iterator[list[Any]]:
    block = []
    for item in items:
        block.append(item)
        if len(block) == BLOCK_ROWS:
            yield block
            block = []
    if block:
        yield block


@contextmanager
def _replacing(path: Path | str) -> Iterator[IO[str]]:
    """A file that takes the place of `path` when all went well."""
    with replacing(path) as temporary:
        if not compressed(path):
            with open(temporary, "w", encoding="utf-8", errors=_ERRORS, newline="") as file:
                yield file
            return
        # Neither name nor time goes into the file: the same table gives the same bytes.
        with (
            open(temporary, "wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            io.TextIOWrapper(packed, encoding="utf-8", errors=_ERRORS, newline="") as file,
        ):
            yield file


# Bytes that are not UTF-8 in columns that are passed on stay as they are.
_ERRORS = "surrogateescape"
