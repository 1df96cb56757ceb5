"""What workers of a Dask cluster do: importable there by name, and silent about rows.

Nothing is raised on a worker: Dask would write the task into its log, with what it was given. An
error becomes a `WorkerError`, which is handed on like any other result, and raised at the silo.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers, unmasked
from securefedyj.numerics.encoding import Domain, Encoding
from securefedyj.numerics.passes import Source, read
from securefedyj.numerics.streamed import PHI_LIMBS, added
from securefedyj.numerics.sums import ArraySilo, Sums
from securefedyj.numerics.wide import Limbs
from securefedyj.tables.base import ArraySource, HeldSource, TableSource
from securefedyj.tables.source import as_array, as_source


class WorkerError(NamedTuple):
    """Why there is no result."""

    error: Exception


def guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function of what was computed before, or the first refusal."""
    for argument in arguments:
        if isinstance(argument, WorkerError):
            return argument
    try:
        return function(*arguments)
    except (ValueError, OSError) as error:
        error.__traceback__ = error.__context__ = None
        return WorkerError(error)
    except Exception as error:  # others may quote rows
        return WorkerError(
            RuntimeError(f"A worker of the cluster has failed: {type(error).__name__}.")
        )


def added_up(add: Callable[[Any, Any], Any], *parts: Any) -> Any:
    """The parts that there are, added up; None if there are none."""
    there = [part for part in parts if part is not None]
    return reduce(add, there) if there else None


def finished(finish: Callable[[Any], Any], total: Any) -> Any:
    return None if total is None else finish(total)


def rows_of(request: tuple[Sequence[str], Collection[str]], partition: int, *pieces: Any) -> Array:
    """The rows of a partition: a frame of pandas, or arrays that stand side by side."""
    rows = (
        pieces[0]
        if hasattr(pieces[0], "columns")
        else np.concatenate([*map(unmasked, pieces)], axis=1)
    )
    source = as_source(rows, *request)
    if isinstance(source, TableSource):
        source.where = f"partition {partition} of the table"
    return as_array(source)


class View(NamedTuple):
    """What of a partition is looked at: some columns, of which some count as missing."""

    columns: Sequence[int]
    missing: frozenset[int]

    def blocks(self, rows: Array) -> Iterator[Array]:
        empty = [k for k, j in enumerate(self.columns) if j in self.missing]
        for block in read(ArraySource(rows), self.columns):
            if empty:
                block = block.copy()
                block[:, empty] = np.nan
            yield block


def over_partition(
    request: tuple[View, Callable[[Array], Any], Callable[[Any, Any], Any]], rows: Array
) -> Any:
    """The function of each block of a partition, added up; None without rows."""
    view, function, add = request
    return added_up(add, *map(function, view.blocks(rows)))


class Whole:
    """A function of all rows, once one worker has them."""

    def __init__(self, names: Sequence[str], view: View, function: Callable[[Source], Any]) -> None:
        self._names, self._view, self._function = names, view, function

    def __call__(self, *parts: Array) -> Any:
        held = [block for rows in parts for block in self._view.blocks(rows)]
        return self._function(HeldSource(held, self._names))


class Arranged:
    """The rows of a partition, as sums are taken over them."""

    def __init__(self, request: tuple[View, Domain, list[str]], rows: Array) -> None:
        view, domain, names = request
        self.rows = len(rows)
        self.silos = [ArraySilo(block, domain, names) for block in view.blocks(rows)]

    def __sizeof__(self) -> int:
        """For Dask, which moves to the disk what does not fit into memory."""
        return sum(silo.nbytes for silo in self.silos)


class Counted(NamedTuple):
    """How many rows and values there are, and S_phi."""

    rows: int
    values: Integers
    phi: Limbs

    def plus(self, other: Counted) -> Counted:
        return Counted(
            self.rows + other.rows, self.values + other.values, wide.add(self.phi, other.phi)
        )


def counted(features: int, arranged: Arranged) -> Counted:
    every = np.arange(features)
    nothing = Counted(0, np.zeros(features, dtype=np.int64), wide.zeros(PHI_LIMBS, features))
    parts = [Counted(0, silo.count, silo.phi_sum(every, PHI_LIMBS)) for silo in arranged.silos]
    return reduce(Counted.plus, parts, nothing)._replace(rows=arranged.rows)


class Summed(NamedTuple):
    """The sums, and over how many rows."""

    rows: int
    sums: Sums

    def plus(self, other: Summed) -> Summed:
        return Summed(self.rows + other.rows, added(self.sums, other.sums))


def summed(request: tuple[Index, Array, Encoding, int], arranged: Arranged) -> Summed:
    feature, _, _, limbs = request
    nothing = wide.zeros(limbs, len(feature))
    zero = Sums(nothing, nothing, nothing, nothing)
    return Summed(
        arranged.rows, reduce(added, (one.sums(*request) for one in arranged.silos), zero)
    )
