"""A sheet of an Excel workbook, read as the CSV text with the same cells."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import date, time
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from securefedyj.tables.cells import TableError, first_few
from securefedyj.tables.csv_files import CsvFile
from securefedyj.tables.dialect import Dialect

_FORMULA = re.compile(rb"<(\w+:)?f[ />]")
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell ref="([A-Z0-9:]+)"')


class ExcelFile(CsvFile):
    """A sheet; its rows are those with a cell, and a copy of it is CSV.

    Numbers are those that the workbook stores, not as it shows them. All other cells are texts, as
    in CSV: also dates, errors, and formulas whose value the workbook does not store.
    """

    place = "row"

    def __init__(self, path: Path | str, missing: Collection[str], dialect: Dialect) -> None:
        status, comma = Path(path).stat(), "," in (dialect.decimal, dialect.thousands)
        delimiter = ";" if comma else ","
        self._sheet = _read(
            str(path), dialect.sheet, delimiter, dialect.decimal, status.st_size, status.st_mtime_ns
        )
        dialect = replace(dialect, delimiter=delimiter, encoding="utf-8")
        where = f"{path}, sheet {self._sheet.name!r}"
        super().__init__(path, missing, dialect, partial(_held, self._sheet.text), where)

    def described(self) -> str:
        return f"Excel, sheet {self._sheet.name!r}"

    def numbered_rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows, and their numbers in the sheet."""
        for number, (_, row) in zip(self._sheet.rows, super().numbered_rows(), strict=True):
            yield number, row


class _Sheet(NamedTuple):
    """A sheet as CSV, and the numbers of its rows after the header."""

    name: str
    text: bytes
    rows: Sequence[int]


def _held(text: bytes) -> Any:
    raw: Any = io.BytesIO(text)
    return io.BufferedReader(raw)


@lru_cache(maxsize=1)  # a command opens its table several times
def _read(path: str, name: str | None, delimiter: str, decimal: str, *state: int) -> _Sheet:
    """The sheet of a workbook in this state."""
    try:
        import openpyxl
    except ImportError:
        raise TableError(
            "SFY-TAB-045",
            f"{path}: Excel files need openpyxl; `pip install securefedyj[excel]` installs it; or "
            "save the table as CSV",
        ) from None
    try:
        with open(path, "rb") as file:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheet = _chosen(path, book, name)
            source = book._archive.read(sheet._worksheet_path)
            if merged := [place.decode() for place in _MERGED.findall(source)]:
                raise TableError(
                    "SFY-TAB-046",
                    f"{path}, sheet {sheet.title!r}: {first_few(merged)} are merged cells. Unmerge "
                    "them; then each column has its own name, and each row its own values",
                )
            formulas = None
            if _FORMULA.search(source):
                formulas = openpyxl.load_workbook(file, read_only=True)[sheet.title]
            return _as_text(f"{path}, sheet {sheet.title!r}", sheet, formulas, delimiter, decimal)
    except (TableError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # of any kind, if the file is something else
        raise TableError(
            "SFY-TAB-047",
            f"{path}: this is not an Excel workbook (.xlsx), or it is damaged: {error}. If it is "
            "text, name it .csv; else open it in Excel, and save it again as .xlsx",
        ) from None


def _chosen(path: str, book: Any, name: str | None) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    if name in names or (name is None and len(names) == 1):
        return book[name or names[0]]
    which = "several sheets" if name is None else f"no sheet {name!r}"
    raise TableError(
        "SFY-TAB-048",
        f"{path}: this workbook has {which}. Give --sheet with one of "
        f"{', '.join(map(repr, names))}",
    )


def _as_text(where: str, sheet: Any, formulas: Any, delimiter: str, decimal: str) -> _Sheet:
    text, numbers, width = io.StringIO(newline=""), list[int](), 0
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    for number, values in enumerate(_rows(sheet, formulas), start=1):
        cells = [_text_of(value, decimal) for value in values]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            continue
        width = width or len(cells)
        if len(cells) > width:
            raise TableError(
                "SFY-TAB-049",
                f"{where}: row {number} has {len(cells)} cells, and row {numbers[0]} {width}. The "
                "first row must name all columns; remove titles above it and notes next to it",
            )
        numbers.append(number)
        writer.writerow(cells + [""] * (width - len(cells)))
    return _Sheet(sheet.title, text.getvalue().encode("utf-8", "replace"), numbers[1:])


def _rows(sheet: Any, formulas: Any) -> Iterator[Sequence[Any]]:
    """The values of each row; or the formula, where the workbook does not store its value."""
    sheet.reset_dimensions()  # a workbook may say that it is smaller than it is
    if formulas is None:
        yield from sheet.iter_rows(values_only=True)
        return
    formulas.reset_dimensions()
    both = zip(*(one.iter_rows(values_only=True) for one in (sheet, formulas)), strict=True)
    for values, written in both:
        pairs = zip(values, written, strict=True)
        yield [formula if value is None else value for value, formula in pairs]


def _text_of(value: Any, decimal: str) -> str:
    """A cell as it would stand in CSV."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).upper()
        case float() | int():
            return repr(value).removesuffix(".0").replace(".", decimal)
        case date() | time():
            return value.isoformat().removesuffix("T00:00:00")
        case _:
            return str(getattr(value, "text", value))  # of some kinds of formulas
