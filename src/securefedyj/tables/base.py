"""What all tables share: chosen columns, numbers that mean missing, no infinities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, unmasked
from securefedyj.numerics.passes import Source
from securefedyj.tables.cells import BadCellsError, Cells
from securefedyj.tables.findings import check_columns


class TableSource(ABC):
    """Some columns of a table, read piece by piece.

    Parameters
    ----------
    where : str
        What messages call the table: its path, or "the table".
    header : sequence of str
        All columns of the table.
    features : sequence of str, optional
        The columns to read, in order; all by default.
    missing : collection of str
        Cells that mean a missing value. Only the numbers among them count here; texts are for
        subclasses that read text.
    """

    names: Sequence[str] = ()

    def __init__(
        self,
        where: str,
        header: Sequence[str],
        features: Sequence[str] | None,
        missing: Collection[str],
    ) -> None:
        names = tuple(header if features is None else features)
        check_columns(where, names, list(header))
        self.where = where
        self.names = names
        self._missing = tuple(missing)
        self._position = [list(header).index(name) for name in names]

    @property
    @abstractmethod
    def rows(self) -> int | None:
        """The number of rows, if it is known without reading them."""

    @abstractmethod
    def pieces(self, positions: Sequence[int]) -> Iterator[Array]:
        """A new pass over columns, by their positions in the header; NaN is missing."""

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        """A new pass over some of the chosen columns."""
        cells, first = Cells(self._missing), 1
        for piece in self.pieces([self._position[j] for j in columns]):
            check_finite(self.where, [self.names[j] for j in columns], piece, first)
            first += len(piece)
            yield cells.mask(piece)


class ChosenSource(TableSource):
    """Some columns of another source."""

    def __init__(
        self, source: Source, features: Sequence[str] | None, missing: Collection[str]
    ) -> None:
        super().__init__("the table", source.names, features, missing)
        self._source = source

    @property
    def rows(self) -> int | None:
        return self._source.rows

    def pieces(self, positions: Sequence[int]) -> Iterator[Array]:
        return self._source.blocks(positions)


class HeldSource:
    """Blocks of all columns, in memory."""

    names: Sequence[str] = ()

    def __init__(self, blocks: Sequence[Array], names: Sequence[str]) -> None:
        self.held, self.names = blocks, names

    @property
    def rows(self) -> int:
        return sum(map(len, self.held))

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.held)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        every = list(columns) == list(range(len(self.names)))
        for block in self.held:
            yield block if every else block[:, list(columns)]


class ArraySource(HeldSource):
    """An array of shape (n_rows, n_features), with columns 0, 1, and so on; NaN is missing."""

    def __init__(self, values: Any) -> None:
        array = np.asarray(unmasked(values))
        if array.ndim != 2:
            raise InputError("SFY-TAB-035", f"a table must have two dimensions, got {array.ndim}")
        super().__init__([array], tuple(map(str, range(array.shape[1]))))


class FilledSource:
    """A source with columns that have the same value in all rows, and are never read.

    Parameters
    ----------
    source : Source
        The other columns at least.
    names : sequence of str
        All columns.
    constants : mapping of str to float
        The values of the constant columns.
    """

    names: Sequence[str] = ()

    def __init__(
        self, source: Source, names: Sequence[str], constants: Mapping[str, float]
    ) -> None:
        self._source, self.names, self._constants = source, tuple(names), dict(constants)

    @property
    def rows(self) -> int | None:
        return self._source.rows

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        names, header = [self.names[j] for j in columns], list(self._source.names)
        read = [k for k, name in enumerate(names) if name not in self._constants]
        # Any column tells the number of rows.
        positions = [header.index(names[k]) for k in read] or list(range(len(header)))[:1]
        for block in self._source.blocks(positions):
            if len(read) == len(names):
                yield block
                continue
            filled = np.empty((len(block), len(names)), order="F")
            filled[:] = [self._constants.get(name, np.nan) for name in names]
            filled[:, read] = block[:, : len(read)]
            yield filled


def check_finite(where: str, names: Sequence[str], piece: Array, first: int) -> None:
    """Refuse infinite numbers; the rows of a piece are counted from `first`."""
    infinite = np.isinf(piece)
    if infinite.any():
        row, j = np.argwhere(infinite)[0].tolist()
        wrong = f"row {first + row}: {piece[row, j]:g} is not a finite number."
        raise BadCellsError(where, {names[j]: wrong})
