"""Tables in memory: arrays, and what was read once and fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, unmasked


class ArraySource:
    """An array of shape (n_rows, n_features), with columns 0, 1, and so on; NaN is missing."""

    names: Sequence[str] = ()

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(unmasked(values))
        if self.values.ndim != 2:
            raise InputError(
                "SFY-TAB-035", f"a table must have two dimensions, got {self.values.ndim}"
            )
        self.names = tuple(map(str, range(self.values.shape[1])))

    @property
    def rows(self) -> int:
        return len(self.values)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        yield _chosen(self.values, columns)


class HeldSource:
    """Blocks of all columns, as they were read."""

    names: Sequence[str] = ()

    def __init__(self, blocks: Sequence[Array], names: Sequence[str]) -> None:
        self._blocks = blocks
        self.names = names

    @property
    def rows(self) -> int:
        return sum(map(len, self._blocks))

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self._blocks)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        for block in self._blocks:
            yield _chosen(block, columns)


def _chosen(values: Array, columns: Sequence[int]) -> Array:
    return values if list(columns) == list(range(values.shape[1])) else values[:, list(columns)]
