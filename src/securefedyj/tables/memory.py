"""Tables in memory: arrays, and tables that were read once and fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from securefedyj.numerics.arrays import Array


class ArraySource:
    """An array of shape (n_rows, n_features); NaN is missing."""

    def __init__(self, values: Any, names: Sequence[str] | None = None) -> None:
        self.values = np.asarray(values)
        if self.values.ndim != 2:
            raise ValueError(f"a table must have two dimensions, got {self.values.ndim}")
        columns = self.values.shape[1]
        self.names: Sequence[str] = tuple(map(str, range(columns) if names is None else names))
        if len(self.names) != columns:
            raise ValueError(
                f"{len(self.names)} names do not fit an array of shape {self.values.shape}"
            )

    @property
    def rows(self) -> int:
        return len(self.values)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        every = list(columns) == list(range(len(self.names)))
        if self.rows:
            yield self.values if every else self.values[:, list(columns)]
