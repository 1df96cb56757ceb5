"""CSV files, plain or compressed, with nothing but the standard library.

They are in UTF-8, with a header, and separated by commas, semicolons or tabs; the decimal point is
a point.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import IO, Any

import numpy as np

from securefedyj.files import replacing
from securefedyj.numerics.arrays import Array
from securefedyj.tables.cells import (
    BLOCK_ROWS,
    Cells,
    Columns,
    TableError,
    Unusable,
    complaint,
    format_number,
)


def header(path: Path | str) -> list[str]:
    """The names of the columns."""
    with _reading(path) as rows:
        return rows.header


def load(path: Path | str, names: Sequence[str], missing: Collection[str]) -> Columns:
    """Read columns by their names."""
    cells = Cells(missing)
    with _reading(path) as rows:
        chosen = [rows.header.index(name) for name in names]
        columns, unusable = [array("d") for _ in chosen], [Unusable() for _ in chosen]
        count = 0
        for row in rows:
            count += 1
            for j, column in enumerate(chosen):
                value = cells.read(row[column])
                if value is None:
                    unusable[j].add(complaint(rows.line, row[column]))
                columns[j].append(nan if value is None else value)
    values = np.empty((count, len(names)))
    for j, numbers in enumerate(columns):
        values[:, j] = numbers
    return Columns(values, unusable)


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
) -> int:
    """Apply a function to the chosen columns, block by block; return the number of rows."""
    cells, count = Cells(missing), 0
    with _replacing(target) as file, _reading(source) as rows:
        writer = csv.writer(file, delimiter=rows.delimiter, lineterminator="\n")
        writer.writerow(rows.header)

        def numbers(row: list[str]) -> list[float]:
            parsed = []
            for j in chosen:
                value = cells.read(row[j])
                if value is None:
                    wrong = complaint(rows.line, row[j])
                    raise TableError(f"{source}: column {rows.header[j]!r}, {wrong}")
                parsed.append(value)
            return parsed

        for block in _blocks((row, numbers(row)) for row in rows):
            texts, values = zip(*block, strict=True)
            results = function(np.array(values)).tolist()
            for row, old, new in zip(texts, values, results, strict=True):
                for j, before, after in zip(chosen, old, new, strict=True):
                    if before == before:  # a missing cell keeps its text
                        row[j] = format_number(after)
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


class _Rows:
    """The rows of a CSV file, each checked to be as long as the header."""

    def __init__(self, path: Path | str, file: IO[str]) -> None:
        first = file.readline()
        self.delimiter = _delimiter(first)
        file.seek(0)
        self._path = path
        self._reader = csv.reader(file, delimiter=self.delimiter, strict=True)
        self.header = next(self._reader, [])
        if not self.header:
            raise TableError(f"{path}: the first line must name the columns, and it is empty")

    @property
    def line(self) -> int:
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        width = len(self.header)
        for row in self._reader:
            if len(row) == width:
                yield row
            elif row:  # an empty line is not a row
                raise TableError(
                    f"{self._path}: line {self.line} has {len(row)} cells, the header has {width}"
                )


def _delimiter(header: str) -> str:
    """Comma, semicolon or tab, whichever the header has most of outside quotes."""
    bare = "".join(header.split('"')[::2])
    return max(",;\t", key=bare.count)


@contextmanager
def _reading(path: Path | str) -> Iterator[_Rows]:
    """Open a CSV, and say in one sentence what is wrong with one that cannot be read."""
    opener: Any = gzip.open if _compressed(path) else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield _Rows(path, file)
    except UnicodeDecodeError:
        raise TableError(f"{path}: this is not UTF-8; save the table as UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TableError(f"{path}: the compressed file is damaged: {error}") from None
    except csv.Error as error:
        raise TableError(f"{path}: this is not CSV: {error}") from None


@contextmanager
def _replacing(path: Path | str) -> Iterator[IO[str]]:
    """A file that takes the place of `path` when all went well."""
    with replacing(path) as temporary:
        if not _compressed(path):
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


def _compressed(path: Path | str) -> bool:
    return Path(path).name.lower().endswith(".gz")
