"""A silo's rows, in blocks that are read as they are needed: what every pass over them goes by.

Where rows come from is for `securefedyj.tables` to know. Here they are numbers: each
pass calls `read`, which converts them to float64.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Index, T, unmasked
from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.sums import Silo

BLOCK_VALUES = 1 << 20
"""About as many values are in a block: enough to outweigh the calls, and 8 MB."""
_FEWEST_ROWS = 1 << 10

R = TypeVar("R")
OnRows = Callable[[int, int | None], None]
"""Called with the number of rows read in a pass, and the number of all rows if it is known."""


class ChangedData(InputError):
    """Rows that are not those of an earlier pass."""


def check_rows(before: int, now: int) -> None:
    """Refuse another number of rows than before."""
    if now != before:
        raise ChangedData(
            "SFY-NUM-006",
            f"The table had {before} rows when the run began, and has {now} now. Sums over "
            "two tables would be wrong; begin again when nobody writes to it any more.",
        )


class Source(Protocol):
    """A table whose rows can be read again and again."""

    @property
    def names(self) -> Sequence[str]:
        """Of the columns that it offers, in order."""

    @property
    def rows(self) -> int | None:
        """How many there are, if that is known without reading them."""

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        """A fresh pass over some columns: blocks of shape (rows, len(columns)); NaN is missing."""


def is_source(data: object) -> TypeGuard[Source]:
    """Whether data is read in blocks; a frame with a column of that name is not."""
    return callable(getattr(type(data), "blocks", None)) and hasattr(type(data), "names")


@runtime_checkable
class RemoteSource(Protocol):
    """A source whose rows stay elsewhere, such as on a cluster, which computes what is needed."""

    def silo(self, domain: Domain, names: list[str], columns: Index | None = None) -> Silo:
        """What the protocol asks of the rows; a value outside raises `OutOfBounds`."""

    def reduce(
        self,
        columns: Sequence[int],
        function: Callable[[Array], T],
        add: Callable[[T, T], T],
        finish: Callable[[T], R] | None,
    ) -> R | T | None:
        """As of `over_blocks`."""

    def whole(self, function: Callable[[Source], R]) -> R:
        """The function of all rows, computed by one worker that holds them."""

    def lacking(self, columns: Collection[int]) -> Source:
        """The same rows, with the values of some columns missing."""


def rows_at_once(columns: int) -> int:
    """How many rows a block of this many columns has."""
    return max(_FEWEST_ROWS, BLOCK_VALUES // max(columns, 1))


def read(
    source: Source, columns: Sequence[int], on_rows: OnRows | None = None
) -> Generator[Array, None, None]:
    """A pass over some columns, in blocks of float64 that are neither tiny nor large."""
    most, done, total = rows_at_once(len(columns)), 0, source.rows
    own = _pieces(source.blocks(columns), most)
    at_once = total is not None and total <= most  # nothing to do meanwhile
    with closing(own if at_once else ahead(own)) as pieces:
        for block in _gathered(pieces, most):
            yield block
            done += len(block)
            if on_rows is not None:
                on_rows(done, total)


def over_blocks(
    source: Source,
    columns: Sequence[int],
    function: Callable[[Array], T],
    add: Callable[[T, T], T],
    finish: Callable[[T], Any] | None = None,
) -> Any:
    """The function of each block of a pass, added up and finished; None if there is no block.

    A remote source computes all of this where its rows are, and returns only the result; so the
    functions must be such as pickle can name.
    """
    if isinstance(source, RemoteSource):
        return source.reduce(columns, function, add, finish)
    total: T | None = None
    for block in read(source, columns):
        part = function(block)
        total = part if total is None else add(total, part)
    return total if total is None or finish is None else finish(total)


def over_all(source: Source, function: Callable[[Source], R]) -> R:
    """The function of a source, taken where its rows are."""
    return source.whole(function) if isinstance(source, RemoteSource) else function(source)


def ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same items, each made in another thread while the one before it is used."""
    over = object()
    with closing(items), ThreadPoolExecutor(1, "reader") as reader:
        coming: Future[Any] = reader.submit(next, items, over)
        while (item := coming.result()) is not over:
            coming = reader.submit(next, items, over)
            yield item
            del item


def _pieces(blocks: Iterable[Array], most: int) -> Generator[Array, None, None]:
    """Blocks as float64, none of them large."""
    for block in blocks:
        # The one place where numbers become float64: other ones would give other bits.
        values = np.asarray(unmasked(block), dtype=np.float64)
        for first in range(0, len(values), most):
            yield values[first : first + most]


def _gathered(pieces: Iterable[Array], most: int) -> Iterator[Array]:
    """Pieces joined to blocks of at least half of `most` rows, but for the last one."""
    small: list[Array] = []
    for piece in pieces:
        if 2 * len(piece) >= most and not small:
            yield piece
            continue
        small.append(piece)
        if 2 * sum(map(len, small)) >= most:
            yield np.concatenate(small)
            small = []
    if small:
        yield small[0] if len(small) == 1 else np.concatenate(small)
