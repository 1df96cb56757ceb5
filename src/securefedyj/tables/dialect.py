"""How a CSV file is written: what the user gives, and what the file itself shows.

A byte order mark shows the encoding, a first line ``sep=;`` the delimiter. Otherwise the delimiter
is the one that splits the header and the first rows into the same number of cells. An encoding is
never guessed: an error names the likely one, and the user decides.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from securefedyj.errors import InputError
from securefedyj.tables.cells import BELOW_LIMIT, SPACES, Notation, TableError, as_read

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}

_MARKS = {  # those of UTF-32 come first: two of them begin like those of UTF-16
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    codecs.BOM_UTF8: "utf-8",
}
_MARK = "\ufeff"
_NAMES = {"utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}
_WORDS = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
_SEP_LINE = re.compile(r'"?sep=(.)"?\r?\n?', re.IGNORECASE | re.DOTALL)
_FIRST_LINES = 20
_HEAD = 4096  # bytes


@dataclass(frozen=True)
class Dialect:
    """How a table is written, as far as the file itself does not show it.

    Parameters
    ----------
    delimiter : str, optional
        The character between cells; by default the one that the file shows.
    decimal : str
        The decimal separator, a point or a comma.
    thousands : str
        The thousands separator, such as "," in 10,286; none by default. A space includes
        non-breaking ones.
    encoding : str, optional
        UTF-8 by default; a byte order mark in the file takes precedence.
    rename : mapping of str
        Names of columns in the table, and their agreed names. This applies to all kinds of tables,
        the rest to text.
    sheet : str, optional
        The sheet of an Excel workbook; it is needed if there are several.
    below_limit : {"half", "zero", "missing"}, optional
        What a cell such as <0.5 stands for; by default it is an error.
    """

    delimiter: str | None = None
    decimal: str = "."
    thousands: str = ""
    encoding: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    sheet: str | None = None
    below_limit: str = ""

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            sign = _WORDS.get(self.delimiter, self.delimiter)
            if len(sign) != 1 or sign in '"\r\n' or sign.isalnum():
                raise InputError(
                    "SFY-TAB-019", f'{sign!r} cannot separate cells; give one character, or "tab".'
                )
            object.__setattr__(self, "delimiter", sign)
        if self.decimal not in (".", ","):
            raise InputError(
                "SFY-TAB-020",
                f"the decimal separator must be a point or a comma, not {self.decimal!r}.",
            )
        if self.thousands and (
            self.thousands not in (".", ",", "'", "’", *SPACES) or self.thousands == self.decimal
        ):
            raise InputError(
                "SFY-TAB-021",
                f"{self.thousands!r} cannot group digits if {self.decimal!r} is the decimal "
                "separator; give a point, a comma, an apostrophe or a space.",
            )
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except LookupError:
                raise InputError(
                    "SFY-TAB-023",
                    f"unknown encoding {self.encoding!r}; give utf-8, windows-1252, utf-16, or "
                    "another encoding that Python supports.",
                ) from None
        if self.below_limit and self.below_limit not in BELOW_LIMIT:
            raise InputError(
                "SFY-TAB-053",
                f"a value below a limit is half, zero or missing, not {self.below_limit!r}.",
            )
        agreed = Counter(self.rename.values())
        if twice := [name for name, columns in agreed.items() if columns > 1]:
            raise InputError("SFY-TAB-022", f"two columns cannot have the same name {twice[0]!r}.")

    @property
    def notation(self) -> Notation:
        """How numbers are written."""
        return Notation(self.decimal, self.thousands)

    def names(self, header: Sequence[str]) -> list[str]:
        """The agreed names of the columns of a table."""
        return [self.rename.get(name, name) for name in header]

    def own_names(self, header: Sequence[str], names: Sequence[str] | None) -> list[str]:
        """The names in the table of columns with these agreed names; all of them by default."""
        own = {agreed: name for name, agreed in self.rename.items()}
        return list(header) if names is None else [own.get(name, name) for name in names]


class CsvLayout(NamedTuple):
    """How a CSV file is written, as the file and its dialect show."""

    header: list[str]
    head: bytes
    """The text before the first row, in UTF-8."""
    lines: int
    """The number of its lines."""
    longest: int
    """The number of bytes of the longest of the first lines."""
    delimiter: str
    encoding: str
    """Python's name of it, with the order of bytes if there is a byte order mark."""

    def described(self, dialect: Dialect) -> str:
        """For a person."""
        separated = _DELIMITERS.get(self.delimiter, repr(self.delimiter))
        words = f"separated by {separated}, {_name_of(self.encoding)}"
        words += ", decimal comma" * (dialect.decimal == ",")
        return words + f", digits grouped by {dialect.thousands!r}" * (dialect.thousands != "")


def decoding_errors(encoding: str) -> str:
    """Bytes that are not UTF-8 matter only in the columns that are read."""
    return "surrogateescape" if encoding == "utf-8" else "strict"


def layout_of(path: Path | str, file: Any, dialect: Dialect) -> CsvLayout:
    """How a CSV file is written; `file` is open at its beginning."""
    encoding = _encoding(path, file.peek(_HEAD)[:_HEAD], dialect)
    with io.TextIOWrapper(file, encoding, "surrogateescape", newline="") as text:
        lines = [*islice(text, _FIRST_LINES)] or [""]
        first = lines[0].removeprefix(_MARK)
        sep = _SEP_LINE.fullmatch(first)
        rows = lines[1:] if sep else [first, *lines[1:]]
        delimiter = dialect.delimiter or (sep[1] if sep else _delimiter(rows, dialect))

        def more() -> Iterator[str]:  # if the header has many lines
            for line in text:
                lines.append(line)
                yield line

        records = csv.reader(chain(rows, more()), delimiter=delimiter)
        header = next(records, [])
    _check_header(path, header, encoding)
    longest = max(len(line.encode("utf-8", "surrogateescape")) for line in rows)
    count = records.line_num + (sep is not None)
    head = "".join(lines[:count]).encode("utf-8", decoding_errors(encoding))
    return CsvLayout(header, head, count, longest, delimiter, encoding)


def _encoding(path: Path | str, head: bytes, dialect: Dialect) -> str:
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    encoding = codecs.lookup(dialect.encoding or "utf-8").name.removesuffix("-sig")
    # Latin letters, digits and separators have a zero as every second byte there.
    for order, half in (("le", head[1::2]), ("be", head[::2])):
        if 2 * half.count(0) <= len(half) or encoding.startswith(("utf-16-", "utf-32-")):
            continue
        raise TableError(
            "SFY-TAB-017",
            f"{path}: this is not {_name_of(encoding)}. It may be UTF-16 without a byte order "
            f"mark; if so, give --encoding utf-16-{order}, or save the table as UTF-8",
        )
    return encoding


def _name_of(encoding: str) -> str:
    """The name of an encoding for a person, without the order of its bytes."""
    name = re.sub("-[lb]e$", "", encoding)
    return _NAMES.get(name, name)


def _check_header(path: Path | str, header: list[str], encoding: str) -> None:
    if not header:
        raise TableError(
            "SFY-TAB-015", f"{path}: the first line is empty; it must name the columns"
        )
    wrong = [name for name in header if as_read(name) != name]
    if not wrong:
        return
    if encoding != "utf-8":
        raise TableError(
            "SFY-TAB-018", f"{path}: the header cannot be read as {_name_of(encoding)}"
        )
    named = ", ".join(repr(as_read(name)) for name in wrong[:3])
    raise TableError(
        "SFY-TAB-014",
        f"{path}: this is not UTF-8. It may be Windows-1252, as Excel writes it, with columns "
        f"named {named}. If that is right, give --encoding windows-1252, or save the table as "
        "UTF-8",
    )


def _delimiter(lines: list[str], dialect: Dialect) -> str:
    """The one that splits all lines into the same number of cells, or the most frequent one."""
    known = [delimiter for delimiter in _DELIMITERS if delimiter != dialect.decimal]
    whole = lines[:-1] if len(lines) > 2 else lines  # a quoted cell may continue after the last
    for delimiter in reversed(known):  # a comma is the most likely one to be within a cell
        widths = {len(row) for row in csv.reader(whole, delimiter=delimiter) if row}
        if len(widths) == 1 and widths != {1}:
            return delimiter
    bare = "".join("".join(lines[:1]).split('"')[::2])
    return max(known, key=bare.count)
