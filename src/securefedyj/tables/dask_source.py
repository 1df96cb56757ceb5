"""Tables on a Dask cluster: rows stay with the workers, and only sums and counts come here.

Its workers also read files, which perhaps only they can see: `cluster`.
"""

from __future__ import annotations

import logging
import pkgutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar

import dask
import numpy as np
from dask.base import get_scheduler
from dask.delayed import Delayed, delayed

from securefedyj import __version__
from securefedyj.errors import InputError
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers, unmasked
from securefedyj.numerics.encoding import Domain, Encoding
from securefedyj.numerics.passes import Source, check_rows, over_blocks
from securefedyj.numerics.streamed import PHI_LIMBS, StreamedSilo, added
from securefedyj.numerics.sums import Silo, Sums, refuse_outside, values_outside
from securefedyj.numerics.wide import Limbs
from securefedyj.tables.cells import TableError
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import TableReader
from securefedyj.tables.source import (
    ChainedSource,
    HeldSource,
    TableSource,
    Unchanged,
    as_array,
    as_source,
    check_columns,
    files_of,
    lacking,
    source_of_files,
)

LOCAL = "local"
"""Stands for worker processes on this machine, which end with this process."""
_NO_PAGES: dict[str, list[str]] = {
    f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")
}
_SECONDS = 30
"""How long to wait for a scheduler."""
_AT_ONCE = 8
"""The maximum number of partial sums that one task adds up."""

T = TypeVar("T")
R = TypeVar("R")
_SourceOf = Callable[[Array], Source]


def of_collection(
    data: Any, features: Sequence[str] | None, missing: Collection[str], dialect: Dialect
) -> DaskSource:
    """A `dask.dataframe.DataFrame`, or a `dask.array.Array` whose number of rows may be unknown."""
    is_frame = hasattr(data, "columns")
    if not is_frame and (data.ndim != 2 or np.isnan(data.shape[1])):
        raise InputError(
            "SFY-TAB-012", "a table must have two dimensions, and a known number of columns"
        )
    header = list(map(str, data.columns if is_frame else range(data.shape[1])))
    own = dialect.own_names(header, features)
    check_columns("the table", own, header)
    if is_frame:
        data = data[[data.columns[header.index(name)] for name in own]]
    grid = [[part] for part in data.to_delayed()] if is_frame else data.to_delayed()
    rows = delayed(partial(_rows_of, own, missing), pure=False, traverse=False)
    parts = [_task(rows, k, *pieces) for k, pieces in enumerate(grid, start=1)]
    return DaskSource(kept(parts), dialect.names(own))


class DaskSource:
    """A table of Dask: its partitions in order, each an array of all columns, or an error."""

    names: Sequence[str] = ()
    rows = None

    def __init__(
        self, parts: Sequence[Delayed], names: Sequence[str], missing: Collection[int] = ()
    ) -> None:
        self._parts, self.names, self._missing = parts, tuple(names), frozenset(missing)
        self._source_of = partial(_source_of, self.names, self._missing)

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        raise TableError(
            "SFY-TAB-011",
            "the rows of a Dask table stay with its workers. To transform them there, pass the "
            "fitted transform to map_partitions of a dataframe, or to map_blocks of an array",
        )

    def lacking(self, columns: Collection[int]) -> DaskSource:
        return DaskSource(self._parts, self.names, self._missing.union(columns))

    def reduce(
        self,
        columns: Sequence[int],
        function: Callable[[Array], T],
        add: Callable[[T, T], T],
        finish: Callable[[T], R] | None = None,
    ) -> R | T | None:
        one = partial(over_blocks, columns=list(columns), function=function, add=add)
        found: R | T | None = _total(self._mapped(one), add, finish)
        return found

    def whole(self, function: Callable[[Source], R]) -> R:
        value: R = _result(_task(partial(_over_all, self._source_of, function), *self._parts))
        return value

    def silo(self, domain: Domain, names: list[str], columns: Index | None = None) -> Silo:
        every = range(len(names)) if columns is None else columns.tolist()
        counted = self.reduce(every, partial(_counted, domain=domain), np.add)
        outside, present = np.zeros((2, len(names)), np.int64) if counted is None else counted
        refuse_outside(outside, domain, names)
        arranged = partial(_Arranged, domain=domain, names=names, columns=columns)
        return DaskSilo(kept(self._mapped(arranged)), present)

    def _mapped(self, function: Callable[[Source], Any]) -> list[Delayed]:
        return _mapped(partial(_over_part, self._source_of, function), self._parts)


class DaskSilo:
    """The sums that the protocol needs of rows on a cluster."""

    def __init__(self, silos: Sequence[Delayed], count: Integers) -> None:
        self._silos, self.count = silos, count
        phi = methodcaller("answer", "phi_sum", np.arange(len(count)), PHI_LIMBS)
        self.rows, self._phi = self._asked(phi, wide.add)

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        return wide.resize(self._phi[:, features], limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        rows, sums = self._asked(
            methodcaller("answer", "sums", feature, lmbda, encoding, limbs), added
        )
        check_rows(self.rows, rows)
        return sums

    def ranks(self, feature: Index, points: Array) -> Integers:
        counts: Integers
        rows, counts = self._asked(methodcaller("answer", "ranks", feature, points), np.add)
        check_rows(self.rows, rows)
        return counts

    def _asked(self, question: Any, add: Callable[[T, T], T]) -> tuple[int, T]:
        """The number of all rows, and the answers of all partitions added up."""
        total: tuple[int, T] = _total(_mapped(question, self._silos), partial(_both, add))
        return total


@contextmanager
def cluster(scheduler: str) -> Iterator[TableReader]:
    """A reader of tables by the workers of a scheduler, given by its address or as "local"."""
    import distributed

    if scheduler == LOCAL:
        # With its own certificates and without pages: others on this machine stay out.
        quiet = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
        with (
            dask.config.set(_NO_PAGES),
            distributed.LocalCluster(security=True, silence_logs=logging.ERROR, **quiet) as own,
            distributed.Client(own),
        ):
            yield _READER
        return
    try:
        client = distributed.Client(scheduler, timeout=_SECONDS)
    except (OSError, ValueError) as error:
        raise InputError(
            "SFY-TAB-010",
            f"There is no Dask scheduler at {scheduler} ({type(error).__name__}). Give its "
            f"address, such as tls://host:8786, or {LOCAL!r}.",
        ) from None
    with client:
        _check_workers(client)
        yield _READER


def _check_workers(client: Any) -> None:
    """Refuse workers with another version, whose functions may differ from ours."""
    try:
        versions = set(client.run(pkgutil.resolve_name, "securefedyj:__version__").values())
    except ImportError:
        versions = {"none"}
    if not versions:
        raise InputError(
            "SFY-TAB-008", "The Dask scheduler has no workers. Start some, and try again."
        )
    if versions != {__version__}:
        raise InputError(
            "SFY-TAB-009",
            f"The workers have other versions of securefedyj ({', '.join(sorted(versions))}) than "
            f"this process ({__version__}). Install the same version for them.",
        )


def _source_there(
    path: Path, features: Sequence[str], missing: Collection[str], dialect: Dialect
) -> DaskSource:
    """The features of a table; each of its files is a partition."""
    rows = partial(_rows_of_file, path, features, missing, dialect)
    parts = [_task(partial(rows, file)) for file in _on_a_worker(files_of, path)]
    return DaskSource(kept(parts), features)


def _on_a_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    return _result(_task(partial(function, *arguments)))


_READER = TableReader(_on_a_worker, _source_there)


def _task(function: Callable[..., Any] | Delayed, *arguments: Any) -> Delayed:
    """A function of other tasks' results, and of small arguments: they are sent with every task."""
    return delayed(_guarded, pure=False)(function, *arguments)


def kept(parts: Sequence[Delayed]) -> Sequence[Delayed]:
    """Results that stay with the workers, if any exist outside this process."""
    # The client of `distributed` that Dask uses here, if any.
    client = getattr(get_scheduler(), "__self__", None)
    return dask.persist(*parts) if hasattr(client, "submit") else parts


def _result(last: Delayed) -> Any:
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


def _mapped(function: Callable[[Any], Any], parts: Sequence[Delayed]) -> list[Delayed]:
    """The function of each part."""
    sent = delayed(function, pure=False, traverse=False)  # once
    return [_task(sent, part) for part in parts]


def _total(
    parts: Sequence[Delayed],
    add: Callable[[Any, Any], Any],
    finish: Callable[[Any], Any] | None = None,
) -> Any:
    """All parts added up and finished by workers, and brought here; None if there are none."""
    while len(parts) > _AT_ONCE:
        groups = [parts[k : k + _AT_ONCE] for k in range(0, len(parts), _AT_ONCE)]
        parts = [_task(_added_up, add, None, *group) for group in groups]
    return _result(_task(_added_up, add, finish, *parts))


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


def _rows_of(names: Sequence[str], missing: Collection[str], partition: int, *pieces: Any) -> Array:
    """The rows of a partition: a pandas frame, or arrays of neighbouring columns."""
    is_frame = hasattr(pieces[0], "columns")
    rows = pieces[0] if is_frame else np.concatenate([*map(unmasked, pieces)], axis=1)
    source = as_source(rows, names, missing)
    if isinstance(source, TableSource):
        source.where = f"partition {partition} of the table"
    return as_array(source)


def _rows_of_file(
    path: Path,
    features: Sequence[str],
    missing: Collection[str],
    dialect: Dialect,
    file: Unchanged,
) -> Array:
    """The rows of a file, which another worker may read again after this one has died."""
    file.check()
    return as_array(source_of_files(path, [file], features, missing, dialect))


def _source_of(names: Sequence[str], missing: Collection[int], rows: Array) -> Source:
    """The rows of a partition with the names of their columns, where some are missing."""
    return lacking(HeldSource([rows], names), missing)


def _over_part(source_of: _SourceOf, function: Callable[[Source], R], rows: Array) -> R:
    return function(source_of(rows))


def _over_all(source_of: _SourceOf, function: Callable[[Source], R], *parts: Array) -> R:
    """A function of all rows, computed by one worker that holds them."""
    return function(ChainedSource([*map(source_of, parts)]))


def _counted(block: Array, domain: Domain) -> Integers:
    """The number of values of each feature outside its bounds, and that of all its values."""
    return np.array([values_outside(block, domain), np.count_nonzero(~np.isnan(block), axis=0)])


class _Arranged(StreamedSilo):
    """The rows of a partition, prepared for sums and all kept."""

    def __init__(
        self, source: Source, domain: Domain, names: list[str], columns: Index | None
    ) -> None:
        super().__init__(source, domain, names, sys.maxsize, columns=columns)
        del self._source  # as prepared, the rows need no other memory

    def answer(self, question: str, *arguments: Any) -> tuple[int, Any]:
        return self.rows, getattr(self, question)(*arguments)

    def __sizeof__(self) -> int:
        """For Dask, which moves to the disk what does not fit into memory."""
        return sum(silo.nbytes for silo in self._kept)


def _both(add: Callable[[T, T], T], one: tuple[int, T], other: tuple[int, T]) -> tuple[int, T]:
    return one[0] + other[0], add(one[1], other[1])
