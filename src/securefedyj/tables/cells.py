"""What a cell of a table means: a number, a missing value, or something that cannot be used."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from math import isfinite, nan

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array

# Cells that stand for a missing value, whatever their case and the spaces around them.
MISSING = ("", "NA", "N/A", "NaN", "null")

BLOCK_ROWS = 1 << 14
"""Rows that are held in memory at a time while a table is transformed."""

SPACES = " \u00a0\u202f"
"""Who groups digits by spaces often means one that does not break a line."""


class TableError(InputError):
    """A table that cannot be used as it is; the message says where and what to do."""


class Cells:
    """Reads cells: a number, NaN if it is missing, None if it is something else.

    Parameters
    ----------
    missing : collection of str
        Cells that stand for a missing value; numbers among them, such as "-999", by their value.
    decimal, thousands : str
        The signs in numbers; no sign groups digits by default.
    """

    def __init__(self, missing: Collection[str], decimal: str = ".", thousands: str = "") -> None:
        self.decimal, self.thousands = decimal, thousands
        self._texts = {text.strip().casefold() for text in missing}
        ways = (str.strip, str.lower, str.upper, str.capitalize)
        self.spellings = {
            way(text.strip())
            for text in missing
            for way in ways
            if way(text.strip()).casefold() in self._texts
        }
        """Of texts that stand for a missing value, those that are most often met."""
        numbers = (self._number(text) for text in missing)
        self._numbers = [number for number in numbers if number is not None]

    def read(self, text: str) -> float | None:
        value = self._number(text)
        if value is None:
            return nan if text.strip().casefold() in self._texts else None
        return nan if value in self._numbers else value

    def mask(self, values: Array) -> Array:
        """The values, with NaN for those that stand for a missing one."""
        return np.where(np.isin(values, self._numbers), nan, values) if self._numbers else values

    def _number(self, text: str) -> float | None:
        return parse_number(text, self.decimal, self.thousands)


def parse_number(text: str, decimal: str = ".", thousands: str = "") -> float | None:
    """The number in a cell; None if there is none, or if it is not finite."""
    if thousands:
        signs, number = grouped(decimal, thousands)
        if re.search(signs, text.strip()):
            if not re.fullmatch(number, text.strip()):
                return None
            text = re.sub(signs, "", text.strip())
    if decimal != ".":
        if "." in text:
            return None
        text = text.replace(decimal, ".")
    try:
        value = float(text)
    except ValueError:
        return None
    # Python reads 1_000 as a number, and no table means that.
    return value if isfinite(value) and "_" not in text else None


@cache
def grouped(decimal: str, thousands: str) -> tuple[str, str]:
    """Patterns, for Python and for Arrow: a sign that groups digits, a number grouped by threes."""
    signs = f"[{SPACES}]" if thousands == " " else re.escape(thousands)
    return signs, f"[+-]?[0-9]{{1,3}}(?:{signs}[0-9]{{3}})+(?:{re.escape(decimal)}[0-9]*)?"


def format_number(value: float) -> str:
    """The shortest text that reads back as the same number; nothing for NaN."""
    return "" if value != value else repr(value)
