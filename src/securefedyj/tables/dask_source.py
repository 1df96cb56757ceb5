"""Rows on a Dask cluster: functions of them are computed there, and only sums come back.

A partition is a piece of the table that a worker holds as float64. A pass over the rows is a
function of each partition, and its values are added up on the workers, a few at a time, until one
is left. docs/tables.md describes what stays with the workers between passes.

Workers import their functions from this module, by name. Nothing is raised on a worker: Dask would
write the task into its log, with its arguments. An error is returned like any other result, and
raised at the silo.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial, reduce
from typing import Any, TypeVar

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
    as_array,
    as_source,
    check_columns,
    viewed,
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
    """A table of Dask: its partitions in order, each an array of all columns, or an error."""

    names: Sequence[str] = ()
    rows = None

    def __init__(
        self, parts: Sequence[Delayed], names: Sequence[str], missing: Collection[int] = ()
    ) -> None:
        self._parts, self.names, self._missing = parts, tuple(names), frozenset(missing)
        self._source = partial(_source_of, self.names, self._missing)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        raise TableError(
            "SFY-TAB-011",
            "the rows of a Dask table stay with its workers. To transform them there, pass the "
            "fitted transform to map_partitions of a dataframe, or to map_blocks of an array",
        )

    def viewed(self, names: Sequence[str], missing: Collection[int]) -> DaskSource:
        return DaskSource(self._parts, names, self._missing | set(missing))

    def reduce(
        self,
        columns: Sequence[int],
        function: Callable[[Array], T],
        add: Callable[[T, T], T],
        finish: Callable[[T], R],
    ) -> R | None:
        request = self._source, list(columns), function, add
        found: R | None = _total(_mapped(_over_partition, request, self._parts), add, finish)
        return found

    def whole(self, function: Callable[[Source], R]) -> R:
        request = _sent((self._source, self.names, function))
        value: R = result(task(_over_all, request, *self._parts))
        return value

    def silo(self, domain: Domain, names: list[str], columns: Index | None = None) -> Silo:
        every = list(range(len(names))) if columns is None else columns.tolist()
        counted = partial(_counted, domain=domain)
        count = self.reduce(every, counted, np.add, np.asarray)
        outside, present = np.zeros((2, len(names)), np.int64) if count is None else count
        refuse_outside(outside, domain, names)
        request = self._source, domain, names, every
        return DaskSilo(kept(_mapped(_Arranged, request, self._parts)), present)


class DaskSilo:
    """The sums that the protocol needs of rows on a cluster."""

    def __init__(self, arranged: Sequence[Delayed], count: Integers) -> None:
        self._arranged, self.count = arranged, count
        self.rows, self._phi = self._asked(_phi_sum, len(count))

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        return wide.resize(self._phi[:, features], limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        rows, sums = self._asked(_sums, feature, lmbda, encoding, limbs)
        check_rows(self.rows, rows)
        return Sums(*np.moveaxis(sums, 1, 0))

    def ranks(self, feature: Index, points: Array) -> Integers:
        rows, counts = self._asked(_ranks, feature, points)
        check_rows(self.rows, rows)
        return counts.astype(np.int64).reshape(points.shape)

    def _asked(self, function: Callable[..., Limbs], *arguments: Any) -> _Total:
        total: _Total = _total(_mapped(_answer, (function, arguments), self._arranged), _added)
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
    if isinstance(value, Exception):
        raise value
    return value


def _sent(request: Any) -> Delayed:
    """An argument of many tasks, sent once."""
    return delayed(request, pure=False, traverse=False)


def _mapped(function: Callable[..., Any], request: Any, parts: Sequence[Delayed]) -> list[Delayed]:
    """A function of a request and of each part."""
    sent = _sent(request)
    return [task(function, sent, part) for part in parts]


def _total(
    parts: Sequence[Delayed],
    add: Callable[[Any, Any], Any],
    finish: Callable[[Any], Any] | None = None,
) -> Any:
    """All parts added up and finished by workers, and brought here; None if there are none."""
    while len(parts) > _AT_ONCE:
        groups = [parts[k : k + _AT_ONCE] for k in range(0, len(parts), _AT_ONCE)]
        parts = [task(_added_up, add, None, *group) for group in groups]
    return result(task(_added_up, add, finish, *parts))


# From here on: what workers do.


def _guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function of other tasks' results, or the first error."""
    for argument in arguments:
        if isinstance(argument, Exception):
            return argument
    try:
        return function(*arguments)
    except (ValueError, OSError) as error:
        error.__traceback__ = error.__context__ = None
        return error
    except Exception as error:  # others may quote rows
        return RuntimeError(f"A worker of the cluster has failed: {type(error).__name__}.")


def _added_up(add: Callable[[Any, Any], Any], finish: Callable[[Any], Any], *parts: Any) -> Any:
    there = [part for part in parts if part is not None]
    if not there:
        return None
    total = reduce(add, there)
    return total if finish is None else finish(total)


def _rows_of(request: tuple[Sequence[str], Collection[str]], partition: int, *pieces: Any) -> Array:
    """The rows of a partition: a pandas frame, or arrays of neighbouring columns."""
    is_frame = hasattr(pieces[0], "columns")
    rows = pieces[0] if is_frame else np.concatenate([*map(unmasked, pieces)], axis=1)
    source = as_source(rows, *request)
    if isinstance(source, TableSource):
        source.where = f"partition {partition} of the table"
    return as_array(source)


_SourceOf = Callable[[Array], Source]
_Total = tuple[int, Limbs]  # the number of rows, and sums over them


def _source_of(names: Sequence[str], missing: Collection[int], rows: Array) -> Source:
    """The rows of a partition with the names of their columns, some of which are missing."""
    return viewed(ArraySource(rows), names, missing)


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

    def __init__(
        self, request: tuple[_SourceOf, Domain, list[str], list[int]], rows: Array
    ) -> None:
        source_of, domain, names, columns = request
        self.rows = len(rows)
        blocks = read(source_of(rows), columns)
        self.silos = [ArraySilo(block, domain, names) for block in blocks]
        self.silos = self.silos or [ArraySilo(np.empty((0, len(names))), domain, names)]

    def __sizeof__(self) -> int:
        """For Dask, which moves to the disk what does not fit into memory."""
        return sum(silo.nbytes for silo in self.silos)


def _counted(block: Array, domain: Domain) -> Integers:
    """The number of values of each feature outside its bounds, and that of all its values."""
    return np.array([values_outside(block, domain), np.count_nonzero(~np.isnan(block), axis=0)])


def _answer(request: tuple[Callable[..., Limbs], Any], arranged: _Arranged) -> _Total:
    function, arguments = request
    return arranged.rows, reduce(wide.add, [function(one, *arguments) for one in arranged.silos])


def _phi_sum(silo: ArraySilo, features: int) -> Limbs:
    return silo.phi_sum(np.arange(features), PHI_LIMBS)


def _sums(silo: ArraySilo, *request: Any) -> Limbs:
    return np.stack(silo.sums(*request), axis=1)


def _ranks(silo: ArraySilo, feature: Index, points: Array) -> Limbs:
    return silo.ranks(feature, points).astype(np.uint64).reshape(1, -1)


def _added(one: _Total, other: _Total) -> _Total:
    return one[0] + other[0], wide.add(one[1], other[1])
