"""What all kinds of tables share: chosen columns, numbers that mean missing, no infinities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from securefedyj.numerics.arrays import Array
from securefedyj.tables.bad_cells import BadCellsError
from securefedyj.tables.cells import Cells
from securefedyj.tables.findings import check_columns


class Pieces(ABC):
    """A source made of pieces, in whatever way the kind of table has them.

    Parameters
    ----------
    where : str
        What the table is called in an error: a path, or "the table".
    header : sequence of str
        All columns that the table has.
    features : sequence of str, optional
        Those that are wanted, in order; all by default.
    missing : collection of str
        Cells that stand for a missing value. The numbers among them count here; texts are for
        those who read texts.
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
        """How many there are, if that is known without reading them."""

    @abstractmethod
    def pieces(self, positions: Sequence[int]) -> Iterator[Array]:
        """A fresh pass over columns, by their positions in the header; NaN is missing."""

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        """A fresh pass over some columns."""
        cells, first = Cells(self._missing), 1
        for piece in self.pieces([self._position[j] for j in columns]):
            check_finite(self.where, [self.names[j] for j in columns], piece, first)
            first += len(piece)
            yield cells.mask(piece)


def check_finite(where: str, names: Sequence[str], piece: Array, first: int) -> None:
    """Refuse infinite numbers; the rows of a piece are counted from `first`."""
    infinite = np.isinf(piece)
    if infinite.any():
        row, j = np.argwhere(infinite)[0].tolist()
        wrong = f"row {first + row}: {piece[row, j]:g} is not a finite number."
        raise BadCellsError(where, {names[j]: wrong})
