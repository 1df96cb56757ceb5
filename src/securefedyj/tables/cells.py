"""What a cell of a table means: a number, a missing value, or text that cannot be used."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array
from securefedyj.printable import printable

# Cells that mean a missing value, in upper or lower case, with or without spaces around them.
MISSING = ("", "NA", "N/A", "NaN", "null")

SPACES = " \u00a0\u202f"
"""Digits grouped by spaces often use a non-breaking one."""

DATES = "compute a number from it, such as an age, or the days since an event"
"""What to do with a date."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d\d?[./]\d\d?[./]\d{2,4}|\d\d?:\d\d")

_BELOW = re.compile(r"\s*(?:<=?|≤)\s*")
BELOW_LIMIT: dict[str, Callable[[float], float]] = {
    "half": lambda limit: limit / 2,
    "zero": lambda limit: 0.0,
    "missing": lambda limit: nan,
}
"""What a value below a limit of detection may become."""

_MOST_TEXTS = 1000
_LONGEST_KEPT = 200  # characters
_MOST_QUOTED = 6
_MOST_OPTIONS = 3
_LONGEST_QUOTE = 40  # characters
_COLUMNS_NAMED = 5


class Notation(NamedTuple):
    """The separators in numbers; without a thousands separator, digits are not grouped."""

    decimal: str = "."
    thousands: str = ""

    def __str__(self) -> str:
        """The options for it on the command line."""
        if not self.thousands:
            return f"--decimal {self.decimal}"
        typed = f'"{self.thousands}"' if self.thousands in " '’" else self.thousands
        return f"--decimal {self.decimal} " * (self.decimal != ".") + f"--thousands {typed}"


PLAIN = Notation()
# Those without a thousands separator come first.
_NOTATIONS = [
    Notation(*signs) for signs in (",", ".", ".,", ",.", ". ", ", ", ".'", ",'", ".’", ",’")
]


class TableError(InputError):
    """A table that cannot be used as it is; the message names the place and a remedy."""


class BadCellsError(TableError):
    """Columns with cells that cannot be used; the message quotes the first few columns."""

    def __init__(self, where: str, columns: Mapping[str, str], joint: str = ", ") -> None:
        self.where, self.columns = where, dict(columns)
        named = [f"column {name!r}{joint}{text}" for name, text in self.columns.items()]
        super().__init__("SFY-TAB-100", f"{where}: {first_few(named, ' ')}")


def first_few(texts: Sequence[str], joint: str = ", ", most: int = _COLUMNS_NAMED) -> str:
    """For a message: the texts, or the first of them and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return joint.join(texts[:most]) + more


def suggestion(name: str, header: Sequence[str]) -> str:
    """Similar names, for a message; case and spaces may differ."""
    plain = {column.strip().casefold(): column for column in header}
    close = get_close_matches(name.strip().casefold(), plain, n=3)
    return f" (perhaps {' or '.join(repr(plain[c]) for c in close)}?)" if close else ""


class Cells:
    """Reads cells: a number, NaN if it is missing, None if it is something else.

    Numbers among the texts that mean `missing`, such as "-999", count by their value.
    """

    def __init__(
        self, missing: Collection[str], notation: Notation = PLAIN, below_limit: str = ""
    ) -> None:
        self.notation, self._below_limit = notation, below_limit
        self._decimal, self._thousands = notation  # quicker to look up
        self._texts = {text.strip().casefold() for text in missing}
        ways = (str.strip, str.lower, str.upper, str.capitalize)
        spellings = {way(text.strip()) for text in missing for way in ways}
        self.spellings = {text for text in spellings if text.casefold() in self._texts}
        """The usual spellings of texts that mean a missing value."""
        numbers = (parse_number(text, *notation) for text in missing)
        self._numbers = [number for number in numbers if number is not None]

    def read(self, text: str) -> float | None:
        value = parse_number(text, self._decimal, self._thousands)
        if value is None:
            return nan if text.strip().casefold() in self._texts else self._below(text)
        return nan if value in self._numbers else value

    def _below(self, text: str) -> float | None:
        """What a cell such as <0.5 stands for; None for other cells."""
        limit = limit_in(text, self.notation) if self._below_limit else None
        return None if limit is None else BELOW_LIMIT[self._below_limit](limit)

    def mask(self, values: Array) -> Array:
        """The values, with NaN for numbers that mean a missing value."""
        return np.where(np.isin(values, self._numbers), nan, values) if self._numbers else values


def limit_in(text: str, notation: Notation) -> float | None:
    """The limit of detection that a value is below: 0.5 for <0.5."""
    found = _BELOW.match(text)
    limit = parse_number(text[found.end() :], *notation) if found else None
    return limit if limit is not None and limit > 0 else None


def parse_number(text: str, decimal: str, thousands: str) -> float | None:
    """The number in a cell; None if it is not one, or not finite."""
    if thousands:
        separator, number = digit_groups(decimal, thousands)
        if re.search(separator, text.strip()):
            if not re.fullmatch(number, text.strip()):
                return None
            text = re.sub(separator, "", text.strip())
    if decimal != ".":
        if "." in text:
            return None
        text = text.replace(decimal, ".")
    try:
        value = float(text)
    except ValueError:
        return None
    # Python accepts 1_000 as a number; no table means that.
    return value if isfinite(value) and "_" not in text else None


@cache
def digit_groups(decimal: str, thousands: str) -> tuple[str, str]:
    """Patterns, for Python and for Arrow: a thousands separator, a number with such separators."""
    separator = f"[{SPACES}]" if thousands == " " else re.escape(thousands)
    point = re.escape(decimal)
    return separator, f"[+-]?[0-9]{{1,3}}(?:{separator}[0-9]{{3}})+(?:{point}[0-9]*)?"


@dataclass
class BadCells:
    """The cells of a column that cannot be used: their number, and a bounded number of texts."""

    count: int = 0
    texts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How often each text occurs, and the line of its first occurrence."""

    def add(self, text: str, line: int) -> None:
        self.count += 1
        text = text[:_LONGEST_KEPT]
        times, first = self.texts.get(text, (0, line))
        if times or len(self.texts) < _MOST_TEXTS:
            self.texts[text] = times + 1, first

    def sentence(self, most: int, place: str) -> str:
        """The texts, up to `most` of them, and their lines, which are called `place`."""
        if self.count == 1:
            ((text, (_, line)),) = self.texts.items()
            return f"{place} {line}: {_quoted(text)} is not a finite number."
        named = [
            f"{_quoted(text)} ({f'{times} times, first in ' * (times > 1)}{place} {line})"
            for text, (times, line) in self.texts.items()
        ]
        these = ", ".join([*named[:most], *["others"] * (len(named) > most)])
        return f"{self.count} cells are not finite numbers: {these}."


def check_finite(where: str, names: Sequence[str], block: Array, first: int) -> None:
    """Refuse infinite numbers; the rows of a block are counted from `first`."""
    infinite = np.isinf(block)
    if infinite.any():
        row, j = np.argwhere(infinite)[0].tolist()
        wrong = f"row {first + row}: {block[row, j]:g} is not a finite number."
        raise BadCellsError(where, {names[j]: wrong})


def refuse_cells(
    where: str, columns: Mapping[str, BadCells], notation: Notation, place: str
) -> None:
    """Refuse columns with bad cells, with their lines and advice; the same advice only once."""
    columns = {name: cells for name, cells in columns.items() if cells.count}
    advised = {name: advice(cells.texts, notation) for name, cells in columns.items()}
    found = {}
    for name, words in each_once(advised).items():
        known = not words and len(columns[name].texts) > _MOST_QUOTED
        sentence = columns[name].sentence(1 if known else _MOST_QUOTED, place)
        found[name] = f"{sentence} {words}".rstrip()
    if found:
        raise BadCellsError(where, found)


class Advice(NamedTuple):
    """What bad cells may mean."""

    words: str
    """Without a full stop."""
    options: tuple[str, ...]
    """Options of the command line; one of them is meant."""


def each_once(advised: Mapping[str, Advice]) -> dict[str, str]:
    """Advice for columns; if several have the same advice, only the first, with their names."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for name, one in advised.items():
        columns.setdefault(one.options, []).append(name)
    words = dict.fromkeys(advised, "")
    for first, *others in columns.values():
        also = f" (also in {first_few([*map(printable, others)])})" if others else ""
        words[first] = f"{advised[first].words}{also}."
    return words


def advice(texts: Iterable[str], notation: Notation) -> Advice:
    """What the bad texts of a column may mean, and which option to give in that case.

    If the texts are ambiguous, all meanings are named: wrong advice is worse than none.
    """
    texts = list(texts)
    if foreign := [text for text in texts if as_read(text) != text]:
        return Advice(
            f"{_quoted(foreign[0])} is not UTF-8; it is shown as Windows-1252. If it looks right, "
            "give --encoding windows-1252",
            ("--encoding",),
        )
    if meant := other_reading(texts, notation):
        return meant
    if below := [text for text in texts if limit_in(text, notation) is not None]:
        return Advice(
            f"{_quoted(below[0])} is below a limit of detection: give --below-limit half, zero or "
            "missing; they change lambda, as docs/tables.md says",
            ("--below-limit",),
        )
    if all(text.startswith("=") for text in texts):
        return Advice(
            "The file has these formulas without their values: open it in Excel, and save it again",
            ("formula",),
        )
    if all(map(_DATE.match, texts)):
        return Advice(f"Instead of a date or time, {DATES}", ("date",))
    options = tuple(f"--missing={_shell(text)}" for text in texts[:_MOST_OPTIONS])
    more = " and so on" * (len(texts) > _MOST_OPTIONS)
    them, they = ("it", "it means") if len(texts) == 1 else ("them", "they mean")
    return Advice(
        f"Correct {them}; or, if {they} a missing value, give {' '.join(options)}{more}", options
    )


def other_reading(texts: Sequence[str], notation: Notation) -> Advice | None:
    """The meaning of texts that are numbers in other notations; None if no text is."""
    meant = {  # the numbers of the texts in each notation, the given decimal separator last
        other: {text: parse_number(text, *other) for text in texts}
        for other in sorted(_NOTATIONS, key=lambda other: other.decimal != notation.decimal)
        if other != notation
    }
    explained = [text for text in texts if any(one[text] is not None for one in meant.values())]
    distinct: dict[tuple[float | None, ...], Notation] = {}
    for other, numbers in meant.items():
        values = tuple(numbers[text] for text in explained)
        if explained and None not in values:
            distinct.setdefault(values, other)
    if not distinct:
        return None
    options = tuple(map(str, distinct.values()))
    ways = [f"{values[0]:.15g} with {one}" for values, one in zip(distinct, options, strict=True)]
    choose = "; choose the right one" if len(ways) > 1 else ""
    return Advice(f"{_quoted(explained[0])} would be {' or '.join(ways)}{choose}", options)


def _quoted(text: str) -> str:
    text = as_read(text)
    return repr(text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}...")


def _shell(text: str) -> str:
    """A cell as a shell argument: it must not become a command."""
    plain = as_read(text).strip()
    return shlex.quote(plain) if plain.isprintable() and len(plain) <= _LONGEST_QUOTE else "TEXT"


def as_read(text: str) -> str:
    """The text, read as Windows-1252 if its bytes are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape").decode("cp1252", "replace")
    return text
