"""Where the cells of a piece of CSV are, so that some can be replaced and all else stays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from securefedyj.numerics.arrays import Bools, Integers
from securefedyj.tables.csv_fast import FastPathFailed

_LF, _CR, _QUOTE = b'\n\r"'


def cells_of(piece: bytes, delimiter: str, width: int) -> tuple[Integers, Integers]:
    """Where each cell begins and ends, rows by columns; blank lines are not rows.

    A quoted cell has its quotes. Raises `FastPathFailed` where a row does not have `width` cells
    or the quotes are not as a CSV writer sets them.
    """
    signs = np.frombuffer(piece, np.uint8)
    breaks = signs == _LF
    if b"\r" in piece:  # which ends a line, too, if no line feed does
        lone = signs == _CR
        lone[:-1] &= ~breaks[1:]
        breaks |= lone
    marks = breaks | (signs == ord(delimiter))
    if b'"' in piece:
        marks &= ~_quoted(signs, marks)
    ends = np.flatnonzero(marks)
    lines = ends[signs[ends] != ord(delimiter)]
    if not piece.endswith((b"\n", b"\r")):
        ends, lines = np.append(ends, len(piece)), np.append(lines, len(piece))
    first = np.append(0, lines[:-1] + 1)
    last = lines - _carriage_returns(signs, first, lines)
    filled = first < last
    if not filled.all():
        ends = ends[~np.isin(ends, lines[~filled])]
        first, last, lines = first[filled], last[filled], lines[filled]
    if len(ends) != len(lines) * width:
        raise FastPathFailed
    cells: Integers = ends.reshape(len(lines), width)
    if not np.array_equal(cells[:, -1], lines):
        raise FastPathFailed
    cells[:, -1] = last
    return np.column_stack([first, cells[:, :-1] + 1]), cells


def _quoted(signs: NDArray[np.uint8], marks: Bools) -> Bools:
    """Which signs lie between quotes; the closing ones do not count."""
    quotes = signs == _QUOTE
    quoted: Bools = np.bitwise_xor.accumulate(quotes)
    at = np.flatnonzero(quotes)
    # Each opens at the beginning of a cell and closes at its end, or is one of a doubled pair.
    fits = marks | quotes | (signs == _CR)
    before, after = np.append(True, fits[:-1])[at[::2]], np.append(fits[1:], True)[at[1::2]]
    if not (before.all() and after.all()):
        raise FastPathFailed
    return quoted


def _carriage_returns(signs: NDArray[np.uint8], first: Integers, lines: Integers) -> Bools:
    """Which line breaks have two signs."""
    before = signs[np.maximum(lines - 1, 0)] == _CR
    two: Bools = before & (first < lines) & (signs[np.minimum(lines, len(signs) - 1)] == _LF)
    return two
