"""Rows on a Dask cluster: functions of them are computed there, and only sums come back.

A partition is a piece of the table that a worker holds as float64. A pass over the rows is a
function of each partition, and its values are added up on the workers, a few at a time, until one
is left. Sums are exact integers: partitions of any size, on any worker, computed once or again
because a worker has died, give the same bits.

Where a client of `distributed` is in use, partitions stay with the workers between passes. Without
one Dask computes here, by threads or as it is configured, and in each pass again.

Workers import their functions from this module, by name. Nothing is raised on a worker: Dask would
write the task into its log, with its arguments. An error becomes a `WorkerError`, which is passed
on like any other result, and raised at the silo.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial, reduce
from math import nan
from typing import Any, NamedTuple, TypeVar

import dask
import numpy as np
from dask.base import get_scheduler
from dask.delayed import Delayed, delayed

from securefedyj.errors import InputError
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers, unmasked
from securefedyj.numerics.encoding import Domain, Encoding
from securefedyj.numerics.passes import Source, check_rows, over_blocks, read
from securefedyj.numerics.streamed import PHI_LIMBS
from securefedyj.numerics.sums import ArraySilo, Silo, Sums, refuse_outside, values_outside
from securefedyj.numerics.wide import Limbs
from securefedyj.tables.cells import TableError
from securefedyj.tables.source import (
    ArraySource,
    ChainedSource,
    TableSource,
    ViewSource,
    as_array,
    as_source,
    check_columns,
)

_AT_ONCE = 8
"""The maximum number of partial sums that one task adds up."""

T = TypeVar("T")
R = TypeVar("R")


def of_collection(
    data: Any, features: Sequence[str] | None, missing: Collection[str]
) -> DaskSource:
    """A `dask.dataframe.DataFrame`, or a `dask.array.Array` whose number of rows may be unknown."""
    is_frame = type(data).__name__ == "DataFrame"
    if not is_frame and (data.ndim != 2 or np.isnan(data.shape[1])):
        raise InputError(
            "SFY-TAB-012", "a table must have two dimensions, and a known number of columns"
        )
    columns = list(data.columns) if is_frame else list(range(data.shape[1]))
    header = list(map(str, columns))
    names = header if features is None else list(features)
    check_columns("the table", names, header)
    if is_frame:
        chosen = data[[columns[header.index(name)] for name in names]]
        grid = [[part] for part in chosen.to_delayed()]
    else:
        grid = data.to_delayed()
    request = _sent((names, missing))
    parts = [task(_rows_of, request, k, *pieces) for k, pieces in enumerate(grid, start=1)]
    return DaskSource(kept(parts), names)


class DaskSource:
    """A table of Dask: its partitions in order, each an array of all columns or a `WorkerError`.

    The columns in `missing` count as missing.
    """

    names: Sequence[str] = ()
    rows = None

    def __init__(
        self, parts: Sequence[Delayed], names: Sequence[str], missing: Collection[int] = ()
    ) -> None:
        self._parts, self.names, self._missing = parts, tuple(names), frozenset(missing)
        self._source = partial(_source_of, names, {names[j]: nan for j in self._missing})

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        raise TableError(
            "SFY-TAB-011",
            "the rows of a Dask table stay with its workers. To transform them there, pass the "
            "fitted transform to map_partitions of a dataframe, or to map_blocks of an array",
        )

    def without(self, features: Sequence[int]) -> DaskSource:
        return DaskSource(self._parts, self.names, self._missing | set(features))

    def renamed(self, names: Sequence[str]) -> DaskSource:
        return DaskSource(self._parts, names, self._missing)

    def reduce(
        self,
        columns: Sequence[int],
        function: Callable[[Array], T],
        add: Callable[[T, T], T],
        finish: Callable[[T], R],
    ) -> R | None:
        request = self._source, list(columns), function, add
        total = _tree(_mapped(_over_partition, request, self._parts), add)
        found: R | None = result(task(_finished, finish, total))
        return found

    def whole(self, function: Callable[[Source], R]) -> R:
        value: R = result(
            task(_over_all, _sent((self._source, self.names, function)), *self._parts)
        )
        return value

    def silo(self, domain: Domain, names: list[str]) -> Silo:
        every = range(len(names))
        outside = self.reduce(every, partial(values_outside, domain=domain), np.add, np.asarray)
        if outside is not None:
            refuse_outside(outside, domain, names)
        request = self._source, domain, names
        return DaskSilo(kept(_mapped(_Arranged, request, self._parts)), len(names))


class DaskSilo:
    """The sums that the protocol needs of rows on a cluster."""

    def __init__(self, arranged: Sequence[Delayed], features: int) -> None:
        self._arranged = arranged
        found = self._total(_counted, features)
        self.rows: int = found.rows
        self.count: Integers = found.values
        (self._phi,) = found.sums

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""
        return wide.resize(self._phi[:, features], limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""
        found = self._total(_summed, (feature, lmbda, encoding, limbs))
        check_rows(self.rows, found.rows)
        return Sums(*found.sums)

    def _total(self, function: Callable[..., _Total], request: Any) -> _Total:
        total: _Total = result(_tree(_mapped(function, request, self._arranged), _Total.plus))
        return total


def task(function: Callable[..., Any], *arguments: Any) -> Delayed:
    """A function of other tasks' results, and of small arguments: they are sent with every task."""
    return delayed(_guarded, pure=False)(function, *arguments)


def kept(parts: Sequence[Delayed]) -> Sequence[Delayed]:
    """Results that stay with the workers, if any exist outside this process."""
    # The client of `distributed` that Dask uses here, if any.
    client = getattr(get_scheduler(), "__self__", None)
    return dask.persist(*parts) if hasattr(client, "submit") else parts


def result(last: Delayed) -> Any:
    """What a task computes, brought here."""
    try:
        (value,) = dask.compute(last)
    except Exception as error:
        if not type(error).__module__.startswith("distributed."):
            raise
        raise TableError(
            "SFY-TAB-013",
            f"the cluster failed ({type(error).__name__}): workers died, perhaps out of memory, or "
            "the scheduler is gone. Try again, with smaller partitions or more memory",
        ) from None
    if isinstance(value, WorkerError):
        raise value.error
    return value


def _sent(request: Any) -> Delayed:
    """An argument of many tasks, sent once."""
    return delayed(request, pure=False, traverse=False)


def _mapped(function: Callable[..., Any], request: Any, parts: Sequence[Delayed]) -> list[Delayed]:
    """A function of a request and of each part."""
    sent = _sent(request)
    return [task(function, sent, part) for part in parts]


def _tree(parts: Sequence[Delayed], add: Callable[[Any, Any], Any]) -> Delayed:
    """All parts added up, in the end by one task."""
    while len(parts) > 1:
        groups = [parts[k : k + _AT_ONCE] for k in range(0, len(parts), _AT_ONCE)]
        parts = [task(_added_up, add, *group) for group in groups]
    return parts[0]


# From here on: what workers do.


class WorkerError(NamedTuple):
    """The error of a task, in place of its result."""

    error: Exception


def _guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function of other tasks' results, or the first error."""
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


def _added_up(add: Callable[[Any, Any], Any], *parts: Any) -> Any:
    """The parts that exist, added up; None if there are none."""
    there = [part for part in parts if part is not None]
    return reduce(add, there) if there else None


def _finished(finish: Callable[[Any], Any], total: Any) -> Any:
    return None if total is None else finish(total)


def _rows_of(request: tuple[Sequence[str], Collection[str]], partition: int, *pieces: Any) -> Array:
    """The rows of a partition: a pandas frame, or arrays of neighbouring columns."""
    rows = (
        pieces[0]
        if hasattr(pieces[0], "columns")
        else np.concatenate([*map(unmasked, pieces)], axis=1)
    )
    source = as_source(rows, *request)
    if isinstance(source, TableSource):
        source.where = f"partition {partition} of the table"
    return as_array(source)


_SourceOf = Callable[[Array], Source]


def _source_of(names: Sequence[str], missing: Mapping[str, float], rows: Array) -> Source:
    """The rows of a partition with the names of their columns, some of which are missing."""
    return ViewSource(ArraySource(rows), names, missing, header=names)


def _over_partition(request: tuple[_SourceOf, Sequence[int], Any, Any], rows: Array) -> Any:
    """A function of each block of a partition, added up; None without rows."""
    source_of, columns, function, add = request
    return over_blocks(source_of(rows), columns, function, add)


def _over_all(request: tuple[_SourceOf, Sequence[str], Any], *parts: Array) -> Any:
    """A function of all rows, computed by one worker that holds them."""
    source_of, names, function = request
    return function(ChainedSource([*map(source_of, parts)], names))


class _Arranged:
    """The rows of a partition, prepared for sums."""

    def __init__(self, request: tuple[_SourceOf, Domain, list[str]], rows: Array) -> None:
        source_of, domain, names = request
        self.rows = len(rows)
        blocks = read(source_of(rows), range(len(names)))
        self.silos = [ArraySilo(block, domain, names) for block in blocks]

    def __sizeof__(self) -> int:
        """For Dask, which moves to the disk what does not fit into memory."""
        return sum(silo.nbytes for silo in self.silos)


class _Total(NamedTuple):
    """Sums over rows, the number of values of each feature, and that of rows."""

    rows: int
    values: Integers
    sums: tuple[Limbs, ...]

    def plus(self, other: _Total) -> _Total:
        sums = tuple(map(wide.add, self.sums, other.sums))
        return _Total(self.rows + other.rows, self.values + other.values, sums)


def _counted(features: int, arranged: _Arranged) -> _Total:
    """The number of rows and values, and S_phi."""
    every, zero = np.arange(features), wide.zeros(PHI_LIMBS, features)
    nothing = _Total(arranged.rows, np.zeros(features, dtype=np.int64), (zero,))
    parts = [_Total(0, silo.count, (silo.phi_sum(every, PHI_LIMBS),)) for silo in arranged.silos]
    return reduce(_Total.plus, parts, nothing)


def _summed(request: tuple[Index, Array, Encoding, int], arranged: _Arranged) -> _Total:
    """The sums of each pair of a feature and a lambda; values are not counted again."""
    feature, _, _, limbs = request
    zero, uncounted = wide.zeros(limbs, len(feature)), np.zeros(0, dtype=np.int64)
    parts = [_Total(0, uncounted, silo.sums(*request)) for silo in arranged.silos]
    return reduce(_Total.plus, parts, _Total(arranged.rows, uncounted, (zero,) * len(Sums._fields)))
