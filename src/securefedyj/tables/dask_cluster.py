"""Tables that the workers of a Dask cluster read: it may be that only they see the files."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster

from securefedyj import __version__
from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array
from securefedyj.tables.dask_source import DaskSource, kept, result, task
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import TableReader, column_names, described
from securefedyj.tables.paths import Unchanged, tables_in
from securefedyj.tables.source import FolderSource, as_array, as_source

LOCAL = "local"
"""Stands for worker processes on this machine, which end with their user."""
_NO_PAGES: dict[str, list[str]] = {
    f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")
}
_SECONDS = 30
"""A scheduler has so long to answer."""


@contextmanager
def cluster(scheduler: str) -> Iterator[TableReader]:
    """What reads tables by the workers of a scheduler, given by its address or as "local"."""
    if scheduler == LOCAL:
        # With certificates of its own and without pages: others on this machine stay out.
        quiet = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
        with (
            dask.config.set(_NO_PAGES),
            LocalCluster(security=True, silence_logs=logging.ERROR, **quiet) as own,
            Client(own),
        ):
            yield _READER
        return
    try:
        client = Client(scheduler, timeout=_SECONDS)
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
    """Refuse workers that would take other functions for ours."""
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
            f"this process ({__version__}). Install the same one for them.",
        )


def _source(
    path: Path, features: Sequence[str], missing: Collection[str], dialect: Dialect
) -> DaskSource:
    """The features of a table; each of its files is a partition."""
    own = dialect.own_names(features)
    reading = _Reading(path, own, tuple(missing), replace(dialect, rename={}))
    files: list[Unchanged] = result(task(reading.files))
    return DaskSource(kept([task(reading.rows, file) for file in files]), features)


class _Reading:
    """A table, as workers read it."""

    def __init__(
        self, path: Path, features: Sequence[str], missing: Collection[str], dialect: Dialect
    ) -> None:
        self._path, self._features = path, features
        self._missing, self._dialect = missing, dialect

    def files(self) -> list[Unchanged]:
        """The files of the table as they are now."""
        files = tables_in(self._path) if self._path.is_dir() else [self._path]
        return [Unchanged(file) for file in files]

    def rows(self, file: Unchanged) -> Array:
        """The rows of a file, which another worker may read again after this one has died."""
        file.check()
        given = self._features, self._missing
        if self._path.is_dir():
            rows = as_array(FolderSource(self._path, [file.path], *given, self._dialect))
        else:
            rows = as_array(as_source(self._path, *given, self._dialect))
        file.check()
        return rows


def _column_names(path: Path, dialect: Dialect) -> list[str]:
    names: list[str] = result(task(partial(column_names, path, dialect)))
    return names


def _written(path: Path, dialect: Dialect) -> str:
    words: str = result(task(partial(described, path, dialect)))
    return words


_READER = TableReader(_column_names, _source, _written)
