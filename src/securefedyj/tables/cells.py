"""What a cell of a table means: a number, a missing value, or something that cannot be used."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import isfinite, nan

import numpy as np

from securefedyj.numerics.arrays import Array

# Cells that stand for a missing value, whatever their case and the spaces around them.
MISSING = ("", "NA", "N/A", "NaN", "null")

BLOCK_ROWS = 1 << 14
"""Rows that are held in memory at a time while a table is transformed."""

_LONGEST_QUOTE = 40  # characters


class TableError(ValueError):
    """A table that cannot be used as it is; the message says where and what to do."""


@dataclass
class Unusable:
    """The cells of a column that are not numbers: how many, and a sentence about the first."""

    count: int = 0
    first: str = ""

    def add(self, complaint: str) -> None:
        self.count += 1
        self.first = self.first or complaint


@dataclass
class Columns:
    """Columns as read; a cell that is not a number is NaN here, and counted as unusable."""

    values: Array
    unusable: list[Unusable] = field(default_factory=list)


class Cells:
    """Reads cells: a number, NaN if it is missing, None if it is something else."""

    def __init__(self, missing: Collection[str]) -> None:
        self._texts = {text.strip().casefold() for text in missing}
        numbers = (parse_number(text) for text in missing)
        self._numbers = [number for number in numbers if number is not None]  # such as -999

    def read(self, text: str) -> float | None:
        value = parse_number(text)
        if value is None:
            return nan if text.strip().casefold() in self._texts else None
        return nan if value in self._numbers else value

    def mask(self, values: Array) -> Array:
        """The values, with NaN for those that stand for a missing one."""
        return np.where(np.isin(values, self._numbers), nan, values) if self._numbers else values


def parse_number(text: str) -> float | None:
    """The number in a cell; None if there is none, or if it is not finite."""
    try:
        value = float(text)
    except ValueError:
        return None
    # Python reads 1_000 as a number, and no table means that.
    return value if isfinite(value) and "_" not in text else None


def format_number(value: float) -> str:
    """The shortest text that reads back as the same number; nothing for NaN."""
    return "" if value != value else repr(value)


def complaint(line: int, text: str) -> str:
    """What is wrong with a cell that is not a number, and what may have been meant."""
    shown = text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
    hint = ""
    if "," in text and parse_number(text.replace(",", ".")) is not None:
        hint = "; the decimal point must be a point"
    return f"line {line}: {shown!r} is not a finite number{hint}"
