"""A draft of what a consortium may agree on: the numeric columns of one table, and wide bounds."""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, inf, log10
from pathlib import Path
from typing import NamedTuple

from securefedyj.tables import csv_files
from securefedyj.tables.bad_cells import Advice, each_once, other_reading
from securefedyj.tables.cells import MISSING
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import column_names, summaries
from securefedyj.tables.kinds import is_csv
from securefedyj.tables.summary import Summary

_FARTHEST = 2.0**100
"""Bounds may be so far from 0."""
_TEXT = "no numbers"


class Drafted(NamedTuple):
    """A column, bounds that it might get, and what it holds here."""

    name: str
    lower: float
    upper: float
    here: Summary


class Draft(NamedTuple):
    """The columns of a table that could be features, and why others could not."""

    rows: int
    features: list[Drafted]
    left_out: dict[str, str]
    unread: dict[str, str]
    """Columns that hold numbers, and cells that are none: a sentence that says what to do, or
    none, where that of another column names it."""


def draft(
    path: Path | str, missing: Collection[str] = MISSING, dialect: Dialect | None = None
) -> Draft:
    """All numeric columns of a table."""
    dialect = dialect or Dialect()
    header = column_names(path, dialect)
    readable = dict[str, Advice]()
    left_out = {name: "there twice" for name in header if header.count(name) > 1}
    if is_csv(path):  # the first rows save us from reading texts cell by cell
        texts = csv_files.text_columns(path, missing, dialect)
        for name, cells in zip(dialect.names(list(texts)), texts.values(), strict=True):
            if other := other_reading(cells, dialect.decimal, dialect.thousands):
                readable[name] = other
            else:
                left_out[name] = _TEXT
    candidates = [name for name in header if name not in left_out and name not in readable]
    everywhere = dict.fromkeys(candidates, (-inf, inf))
    rows, columns, bad = summaries(path, everywhere, missing, dialect)
    unread = each_once(readable) | bad
    features = []
    for name, here in columns.items():
        lower, upper = round_bounds(here.least, here.greatest) if here.present else (0.0, 0.0)
        if not here.present:
            left_out[name] = "empty"
        elif max(-lower, upper) > _FARTHEST:
            left_out[name] = "values too large"
        else:
            features.append(Drafted(name, lower, upper, here))
    return Draft(rows, features, left_out, unread)


def round_bounds(least: float, greatest: float) -> tuple[float, float]:
    """Powers of ten at least twice as far from 0 as the values; 0 where they have one sign only."""
    lower = -_outward(-least) if least < 0 else 0.0
    upper = _outward(greatest) if greatest > 0 else 0.0
    return (lower, upper) if lower < upper else (0.0, 1.0)


def _outward(value: float) -> float:
    return float(f"1e{ceil(log10(value) + log10(2) - 1e-9)}")
