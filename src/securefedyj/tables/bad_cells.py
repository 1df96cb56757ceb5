"""Cells that are neither numbers nor missing: which texts, how often, and what may be meant."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from securefedyj.printable import in_words
from securefedyj.tables.cells import TableError, parse_number

_MOST_TEXTS = 1000
_LONGEST_KEPT = 200  # characters
_MOST_QUOTED = 6
_MOST_OPTIONS = 3
_LONGEST_QUOTE = 40  # characters
_COLUMNS_NAMED = 5

Reading = tuple[str, str]
"""A decimal sign, and a sign that groups digits or none."""
# Those without such a sign come first.
_READINGS: tuple[Reading, ...] = (
    (",", ""), (".", ""), (".", ","), (",", "."),
    (".", " "), (",", " "), (".", "'"), (",", "'"), (".", "’"), (",", "’"),
)  # fmt: skip


class Place(NamedTuple):
    """How often a text occurs, and in which line first."""

    times: int
    line: int


@dataclass
class BadCells:
    """The cells of a column that cannot be used: how many, and their distinct texts to a bound."""

    count: int = 0
    texts: dict[str, Place] = field(default_factory=dict)

    def add(self, text: str, line: int) -> None:
        self.count += 1
        text = text[:_LONGEST_KEPT]
        if text in self.texts:
            self.texts[text] = Place(self.texts[text].times + 1, self.texts[text].line)
        elif len(self.texts) < _MOST_TEXTS:
            self.texts[text] = Place(1, line)

    def sentence(self, most: int = _MOST_QUOTED) -> str:
        """Which they are, at most so many of them, and where."""
        named = [_counted(text, place) for text, place in self.texts.items()]
        if self.count == 1:
            (text,) = self.texts
            told = f"line {self.texts[text].line}: {_quoted(text)} is not a finite number"
        else:
            more = ["others"] if len(named) > most else []
            these = ", ".join([*named[:most], *more])
            told = f"{self.count} cells are not finite numbers: {these}"
        return f"{told}."


def sentences(
    columns: Mapping[str, BadCells], decimal: str = ".", thousands: str = ""
) -> dict[str, str]:
    """Of each column, which its bad cells are, where, and what to do; the same advice once."""
    advised = {name: advice(cells.texts, decimal, thousands) for name, cells in columns.items()}
    told = {}
    for name, words in each_once(advised).items():
        known = not words and len(columns[name].texts) > _MOST_QUOTED
        told[name] = f"{columns[name].sentence(1 if known else _MOST_QUOTED)} {words}".rstrip()
    return told


def each_once(advised: Mapping[str, Advice]) -> dict[str, str]:
    """Advice by columns; where it is the same, the first has it for all, and the others none."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, one in advised.items():
        alike.setdefault(one.options, []).append(name)
    words = dict.fromkeys(advised, "")
    for first, *others in alike.values():
        words[first] = f"{advised[first].words}{_so_in(others)}."
    return words


def _so_in(others: Sequence[str]) -> str:
    more = len(others) - _COLUMNS_NAMED
    named = others if more <= 0 else [*others[:_COLUMNS_NAMED], f"{more} more"]
    return f" (so in {in_words(named)})" if others else ""


class BadCellsError(TableError):
    """Columns with cells that cannot be used; says so of the first few columns."""

    def __init__(self, where: str, columns: Mapping[str, str], joint: str = ", ") -> None:
        self.where, self.columns = where, dict(columns)
        named = [f"column {name!r}{joint}{text}" for name, text in self.columns.items()]
        more = len(named) - _COLUMNS_NAMED
        rest = f" And {more} more columns." if more > 0 else ""
        super().__init__("SFY-TAB-100", f"{where}: {' '.join(named[:_COLUMNS_NAMED])}{rest}")


class Advice(NamedTuple):
    """What bad cells may mean."""

    words: str
    """Without a full stop."""
    options: tuple[str, ...]
    """Those to be typed, one of which is meant."""


def advice(texts: Iterable[str], decimal: str = ".", thousands: str = "") -> Advice:
    """What the bad texts of a column may mean, and what to type then.

    Several readings are all named where the texts do not decide: wrong advice is worse than none.
    """
    texts = list(texts)
    if foreign := [text for text in texts if not _is_unicode(text)]:
        return Advice(
            f"{_quoted(foreign[0])} is not UTF-8, and shown as Windows-1252: if it should read so, "
            "give --encoding windows-1252",
            ("--encoding",),
        )
    if meant := other_reading(texts, decimal, thousands):
        return meant
    options = tuple(f"--missing={_shell(text)}" for text in texts[:_MOST_OPTIONS])
    these = "them; or, if they stand for missing values"
    if len(texts) == 1:
        these = "it; or, if it stands for a missing value"
    more = " and so on" * (len(texts) > _MOST_OPTIONS)
    return Advice(f"Correct {these}, give {' '.join(options)}{more}", options)


def other_reading(texts: Sequence[str], decimal: str = ".", thousands: str = "") -> Advice | None:
    """What those texts that are numbers in other notations would be there; None without any."""
    readings = sorted(_READINGS, key=lambda reading: reading[0] != decimal)
    meant = {  # what each text would be in each way to read it
        reading: {text: parse_number(text, *reading) for text in texts}
        for reading in readings
        if reading != (decimal, thousands)
    }
    explained = [text for text in texts if any(one[text] is not None for one in meant.values())]
    distinct: dict[tuple[float | None, ...], Reading] = {}
    for reading, numbers in meant.items():
        values = tuple(numbers[text] for text in explained)
        if explained and None not in values:
            distinct.setdefault(values, reading)
    if not distinct:
        return None
    options = tuple(_typed(*one) for one in distinct.values())
    ways = [f"{values[0]:.15g} with {one}" for values, one in zip(distinct, options, strict=True)]
    choose = ": give what is meant" if len(ways) > 1 else ""
    return Advice(f"{_quoted(explained[0])} would be {' or '.join(ways)}{choose}", options)


def _typed(decimal: str, thousands: str) -> str:
    wanted = f"--decimal {decimal}"
    if thousands:
        sign = f'"{thousands}"' if thousands in " '’" else thousands
        wanted = f"--thousands {sign}" if decimal == "." else f"{wanted} --thousands {sign}"
    return wanted


def _counted(text: str, place: Place) -> str:
    if place.times == 1:
        return f"{_quoted(text)} (line {place.line})"
    return f"{_quoted(text)} ({place.times} times, first in line {place.line})"


def _quoted(text: str) -> str:
    text = as_read(text)
    return repr(text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}...")


def _shell(text: str) -> str:
    """As it may be typed: what stands in a cell must not become a command."""
    plain = as_read(text).strip()
    return shlex.quote(plain) if plain.isprintable() and len(plain) <= _LONGEST_QUOTE else "TEXT"


def as_read(text: str) -> str:
    """Bytes that are not UTF-8 as they read in Windows-1252."""
    if _is_unicode(text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("cp1252", "replace")


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
