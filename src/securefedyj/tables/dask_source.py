"""Rows on a Dask cluster: what is asked of them goes there, and only sums come back.

A partition is a piece of the table that a worker holds as float64. Whatever is asked is a function
of each partition, and its values are added up on the workers, a few at a time, until one is left.
Sums are exact integers: partitions of any size, on any worker, computed once or again because a
worker has died, give the same bits.

Where a client of `distributed` is in use, partitions stay with the workers between passes. Without
one Dask computes here, by threads or as it is configured, and in each pass again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import dask
import numpy as np
from dask.base import get_scheduler
from dask.delayed import Delayed, delayed

from securefedyj.errors import InputError
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import Domain, Encoding
from securefedyj.numerics.passes import Source, check_rows
from securefedyj.numerics.sums import Silo, Sums, refuse_outside, values_outside
from securefedyj.numerics.wide import Limbs
from securefedyj.tables import dask_tasks as tasks
from securefedyj.tables.cells import TableError
from securefedyj.tables.findings import check_columns

_AT_ONCE = 8
"""So many partial sums are added up by one task."""

T = TypeVar("T")
R = TypeVar("R")


def of_collection(
    data: Any, features: Sequence[str] | None, missing: Collection[str]
) -> DaskSource:
    """A `dask.dataframe.DataFrame`, or a `dask.array.Array` whose number of rows may be unknown."""
    if type(data).__name__ == "DataFrame":
        columns = list(data.columns)
    elif data.ndim == 2 and not np.isnan(data.shape[1]):
        columns = list(range(data.shape[1]))
    else:
        raise InputError(
            "SFY-TAB-012", "a table must have two dimensions, and a known number of columns"
        )
    header = list(map(str, columns))
    names = header if features is None else list(features)
    check_columns("the table", names, header)
    if type(data).__name__ == "DataFrame":
        chosen = data[[columns[header.index(name)] for name in names]]
        grid = [[part] for part in chosen.to_delayed()]
    else:
        grid = data.to_delayed()
    request = _sent((names, missing))
    parts = [task(tasks.rows_of, request, k, *pieces) for k, pieces in enumerate(grid, start=1)]
    return DaskSource(kept(parts), names)


class DaskSource:
    """A table of Dask.

    Parameters
    ----------
    parts : sequence of Delayed
        The partitions in order: arrays of all columns, or what `dask_tasks.guarded` makes of them.
    names : sequence of str
        Of the columns.
    missing : collection of int
        Columns that count as missing.
    """

    names: Sequence[str] = ()
    rows = None

    def __init__(
        self, parts: Sequence[Delayed], names: Sequence[str], missing: Collection[int] = ()
    ) -> None:
        self._parts, self.names, self._missing = parts, tuple(names), frozenset(missing)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        raise TableError(
            "SFY-TAB-011",
            "the rows of a table of Dask stay with its workers. To transform them there, give the "
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
        request = self._view(columns), function, add
        mapped = _mapped(tasks.over_partition, request, self._parts)
        total: R | None = result(task(tasks.finished, finish, _tree(mapped, add)))
        return total

    def whole(self, function: Callable[[Source], R]) -> R:
        request = tasks.Whole(self.names, self._view(range(len(self.names))), function)
        value: R = result(task(request, *self._parts))
        return value

    def silo(self, domain: Domain, names: list[str]) -> Silo:
        every = range(len(names))
        outside = self.reduce(every, partial(values_outside, domain=domain), np.add, np.asarray)
        if outside is not None:
            refuse_outside(outside, domain, names)
        request = self._view(every), domain, names
        return DaskSilo(kept(_mapped(tasks.Arranged, request, self._parts)), len(names))

    def _view(self, columns: Sequence[int]) -> tasks.View:
        return tasks.View(list(columns), self._missing)


class DaskSilo:
    """What the protocol asks of rows on a cluster."""

    def __init__(self, arranged: Sequence[Delayed], features: int) -> None:
        self._arranged = arranged
        found = result(_tree(_mapped(tasks.counted, features, arranged), tasks.Counted.plus))
        self.rows: int = found.rows
        self.count: Integers = found.values
        self._phi: Limbs = found.phi

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""
        return wide.resize(self._phi[:, features], limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""
        request = feature, lmbda, encoding, limbs
        mapped = _mapped(tasks.summed, request, self._arranged)
        found: tasks.Summed = result(_tree(mapped, tasks.Summed.plus))
        check_rows(self.rows, found.rows)
        return found.sums


def task(function: Callable[..., Any], *arguments: Any) -> Delayed:
    """A function of what other tasks compute, and of little else: it is sent with every task."""
    return delayed(tasks.guarded, pure=False)(function, *arguments)


def kept(parts: Sequence[Delayed]) -> Sequence[Delayed]:
    """Results that stay with the workers, if there are any besides this process."""
    return parts if _client() is None else dask.persist(*parts)


def result(last: Delayed) -> Any:
    """What a task computes, brought here."""
    try:
        (value,) = dask.compute(last)
    except Exception as error:
        if not type(error).__module__.startswith("distributed."):
            raise
        raise TableError(
            "SFY-TAB-013",
            f"the cluster has given up ({type(error).__name__}): workers died, perhaps for want of "
            "memory, or the scheduler is gone. Try again, with smaller partitions or more memory",
        ) from None
    if isinstance(value, tasks.WorkerError):
        raise value.error
    return value


def _sent(request: Any) -> Delayed:
    """What many tasks need, sent once."""
    return delayed(request, pure=False, traverse=False)


def _mapped(function: Callable[..., Any], request: Any, parts: Sequence[Delayed]) -> list[Delayed]:
    """A function of a request and of each part."""
    sent = _sent(request)
    return [task(function, sent, part) for part in parts]


def _tree(parts: Sequence[Delayed], add: Callable[[Any, Any], Any]) -> Delayed:
    """All parts added up, in the end by one task."""
    while len(parts) > 1:
        groups = [parts[k : k + _AT_ONCE] for k in range(0, len(parts), _AT_ONCE)]
        parts = [task(tasks.added_up, add, *group) for group in groups]
    return parts[0]


def _client() -> Any:
    """The client of `distributed` that Dask uses here, or None."""
    client = getattr(get_scheduler(), "__self__", None)
    return client if hasattr(client, "submit") else None
