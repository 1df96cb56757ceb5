"""Tables that the workers of a Dask cluster read: perhaps only they can see the files."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Collection, Iterator, Sequence
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
from securefedyj.tables.files import TableReader, described
from securefedyj.tables.paths import Unchanged, files_of
from securefedyj.tables.source import as_array, column_names, source_of_files

LOCAL = "local"
"""Stands for worker processes on this machine, which end with this process."""
_NO_PAGES: dict[str, list[str]] = {
    f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")
}
_SECONDS = 30
"""How long to wait for a scheduler."""


@contextmanager
def cluster(scheduler: str) -> Iterator[TableReader]:
    """A reader of tables by the workers of a scheduler, given by its address or as "local"."""
    if scheduler == LOCAL:
        # With its own certificates and without pages: others on this machine stay out.
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


def _on_a_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    return result(task(partial(function, *arguments)))


def _source(
    path: Path, features: Sequence[str], missing: Collection[str], dialect: Dialect
) -> DaskSource:
    """The features of a table; each of its files is a partition."""
    own = dialect.own_names(features), tuple(missing), replace(dialect, rename={})
    files = _on_a_worker(_files, path)
    return DaskSource(kept([task(partial(_rows, path, file, *own)) for file in files]), features)


def _files(path: Path) -> list[Unchanged]:
    """The files of a table as they are now."""
    return [Unchanged(file) for file in files_of(path)]


def _rows(path: Path, file: Unchanged, *how: Any) -> Array:
    """The rows of a file, which another worker may read again after this one has died."""
    file.check()
    rows = as_array(source_of_files(path, [file.path], *how))
    file.check()
    return rows


_READER = TableReader(
    partial(_on_a_worker, column_names), _source, partial(_on_a_worker, described)
)
