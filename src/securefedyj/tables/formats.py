"""The formats of files: what opens a table, by the name of its file or by its first bytes."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from pathlib import Path
from typing import Protocol

from securefedyj.numerics.passes import Source
from securefedyj.tables.arrow import FeatherTable, ParquetTable
from securefedyj.tables.cells import TableError
from securefedyj.tables.csv_files import CsvFile
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.excel import ExcelFile
from securefedyj.tables.packed import PACKED
from securefedyj.tables.rewriting import Change, Changed
from securefedyj.tables.statistics import READERS, StatisticsTable


class TableFile(Source, Protocol):
    """A file that holds a table: what a format offers."""

    copies: str
    """How the name of a copy ends."""

    def __init__(self, path: Path | str, missing: Collection[str], dialect: Dialect) -> None: ...

    def described(self) -> str:
        """How the table is written, for a person."""

    def rewrite(
        self, target: Path, columns: Sequence[int], change: Change
    ) -> Generator[Changed, None, None]:
        """Write a copy with changed columns; yield each part once it is written."""


FORMATS: dict[str, type[TableFile]] = {
    **dict.fromkeys((f".csv{packed}" for packed in PACKED), CsvFile),
    ".tsv": CsvFile,
    ".txt": CsvFile,
    ".parquet": ParquetTable,
    ".pq": ParquetTable,
    ".feather": FeatherTable,
    ".arrow": FeatherTable,
    ".xlsx": ExcelFile,
    ".xlsm": ExcelFile,
    **dict.fromkeys(READERS, StatisticsTable),
}
"""What opens a file, by how its name ends; with the cells that mean a missing value."""
_FIRST_BYTES: dict[bytes, type[TableFile]] = {
    b"PAR1": ParquetTable,
    b"ARROW1": FeatherTable,
    b"PK\x03\x04": ExcelFile,
}
_OLD_WORKBOOK = b"\xd0\xcf\x11\xe0"


def format_of(path: Path) -> type[TableFile]:
    """The format that a name stands for."""
    for ending, opener in FORMATS.items():
        if path.name.lower().endswith(ending):
            return opener
    raise TableError(
        "SFY-TAB-034",
        f"{path}: the name of a table must end in {', '.join(FORMATS)}; or give a folder of such "
        "files. Export other formats as .csv or .parquet from the program that wrote them",
    )


def format_found(path: Path) -> type[TableFile]:
    """The format of a file, by its first bytes where these show it, else by its name."""
    with open(path, "rb") as file:
        head = file.read(8)
    if head.startswith(_OLD_WORKBOOK):
        raise TableError(
            "SFY-TAB-016",
            f"{path}: this is an old Excel workbook (.xls), or one with a password; save it as "
            ".xlsx or .csv, without a password",
        )
    found = [opener for first, opener in _FIRST_BYTES.items() if head.startswith(first)]
    return found[0] if found else format_of(path)


def open_table(path: Path, missing: Collection[str], dialect: Dialect) -> TableFile:
    return format_found(path)(path, missing, dialect)


def in_folder(path: Path) -> bool:
    """Whether a file in a folder of tables is one of them; .txt often explains the others."""
    return path.name.lower().endswith(tuple(FORMATS.keys() - {".txt"}))
