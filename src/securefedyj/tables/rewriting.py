"""CSV text as bytes, with other texts in some cells.

Delimiters, quotes, line ends and the texts of other columns are never parsed, so they cannot
change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from securefedyj.numerics.arrays import Array, Bools, Integers

_LF, _CR, _QUOTE = b'\n\r"'


class FastPathFailed(Exception):
    """Arrow may read this piece differently from the careful path."""


class Changed(NamedTuple):
    """Some rows after the change."""

    values: Array
    outside: Integers
    """The numbers of values of each feature below and above its bounds."""


Change = Callable[[Array], Changed]


def replaced(piece: bytes, starts: Integers, ends: Integers, texts: Any) -> bytes:
    """A piece with other texts between its starts and ends."""
    edges = np.stack([starts.ravel(), ends.ravel()], axis=1).ravel()
    offsets = np.concatenate([[0], edges, [len(piece)]]).astype(np.int32)
    parts = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(piece)]
    )
    kept = parts.take(pa.array(np.arange(0, len(parts) - 1, 2)))
    joined = pc.binary_join_element_wise(kept, texts.cast(pa.binary()), b"")
    # The texts of an array lie one after the other in its buffer.
    return b"".join([memoryview(joined.buffers()[2]), piece[edges[-1] :]])


def texts_of(values: Array, decimal: str) -> Any:
    """The shortest texts that read back as the same numbers; null for NaN."""
    texts = pc.cast(pa.array(values, from_pandas=True), pa.string())
    return texts if decimal == "." else pc.replace_substring(texts, ".", decimal)


def cells_of(piece: bytes, delimiter: str, width: int) -> tuple[Integers, Integers]:
    """Where each cell starts and ends, rows by columns; blank lines are not rows.

    A quoted cell includes its quotes. Raises `FastPathFailed` where a row does not have `width`
    cells, or the quotes are not as a CSV writer sets them.
    """
    octets = np.frombuffer(piece, np.uint8)
    breaks = octets == _LF
    if b"\r" in piece:  # which also ends a line if no line feed follows
        lone = octets == _CR
        lone[:-1] &= ~breaks[1:]
        breaks |= lone
    marks = breaks | (octets == ord(delimiter))
    if b'"' in piece:
        marks &= ~_quoted(octets, marks)
    ends = np.flatnonzero(marks)
    lines = ends[octets[ends] != ord(delimiter)]
    if not piece.endswith((b"\n", b"\r")):
        ends, lines = np.append(ends, len(piece)), np.append(lines, len(piece))
    first = np.append(0, lines[:-1] + 1)
    # A carriage return before a line feed is part of the line break.
    returns = octets[np.maximum(lines - 1, 0)] == _CR
    feeds = octets[np.minimum(lines, len(octets) - 1)] == _LF
    last = lines - (returns & feeds & (first < lines))
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


def _quoted(octets: NDArray[np.uint8], marks: Bools) -> Bools:
    """Which bytes lie between quotes, without the closing ones."""
    quotes = octets == _QUOTE
    quoted: Bools = np.bitwise_xor.accumulate(quotes)
    at = np.flatnonzero(quotes)
    # Each opens at the start of a cell and closes at its end, or is one of a doubled pair.
    fits = marks | quotes | (octets == _CR)
    before, after = np.append(True, fits[:-1])[at[::2]], np.append(fits[1:], True)[at[1::2]]
    if not (before.all() and after.all()):
        raise FastPathFailed
    return quoted
