"""A folder of tables as one: its files one after the other, in the order of their names.

A folder KEY=VALUE within it is a column of its own, as Hive and Spark write them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import nan
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from securefedyj.errors import code_of
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import Source
from securefedyj.tables.cells import Cells, TableError
from securefedyj.tables.findings import check_columns
from securefedyj.tables.kinds import ENDINGS, is_csv

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
Open = Callable[[Path, Sequence[str], Collection[str]], Source]


class FolderSource:
    """All tables of one format within a folder.

    Parameters
    ----------
    folder : Path
        Where they are, at any depth.
    files : sequence of Path
        The tables, as `tables_in` has found them.
    header : callable
        The names of the columns of a file.
    open_file : callable
        The source of a file's columns.
    features, missing
        As of `as_source`.
    """

    names: Sequence[str] = ()

    def __init__(
        self,
        folder: Path,
        files: Sequence[Path],
        header: Callable[[Path], list[str]],
        open_file: Open,
        features: Sequence[str] | None,
        missing: Collection[str],
    ) -> None:
        self.names = tuple(columns_of(files[0], folder, header) if features is None else features)
        self._parts = []
        for path in files:
            own = header(path)
            constants = {
                key: text for key, text in partition(path, folder).items() if key not in own
            }
            try:
                check_columns(path, self.names, [*own, *constants])
            except TableError as error:
                if path == files[0]:
                    raise
                raise TableError(
                    code_of(error, "SFY-TAB-031"),
                    f"{error}. All tables of a folder must have the columns that are asked for",
                ) from None
            inside = [name for name in self.names if name not in constants]
            outside = {
                name: _number(path, name, constants[name], missing)
                for name in self.names
                if name in constants
            }
            self._parts.append(_Part(open_file(path, inside, missing), self.names, outside))

    @property
    def rows(self) -> int | None:
        counts = [part.source.rows for part in self._parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        for part in self._parts:
            yield from part.blocks(columns)


class _Part:
    """A file within a folder, with the columns that the names of folders stand for."""

    def __init__(self, source: Source, names: Sequence[str], outside: dict[str, float]) -> None:
        self.source = source
        self._outside = {j: outside[name] for j, name in enumerate(names) if name in outside}
        inside = [j for j in range(len(names)) if j not in self._outside]
        self._inside = {j: k for k, j in enumerate(inside)}

    def blocks(self, columns: Sequence[int]) -> Iterator[Array]:
        inside = [(k, self._inside[j]) for k, j in enumerate(columns) if j in self._inside]
        places, own = [k for k, _ in inside], [j for _, j in inside]
        for block in self.source.blocks(own):
            if len(own) == len(columns):
                yield block
                continue
            whole = np.empty((len(block), len(columns)), order="F")
            whole[:, places] = block
            for k, j in enumerate(columns):
                if j in self._outside:
                    whole[:, k] = self._outside[j]
            yield whole


def columns_of(path: Path, folder: Path, header: Callable[[Path], list[str]]) -> list[str]:
    """Those of a file within a folder, and those that the names of folders stand for."""
    own = header(path)
    return [*own, *(key for key in partition(path, folder) if key not in own)]


def tables_in(folder: Path) -> list[Path]:
    """The tables within a folder, by name; what begins with a dot or underscore is not data."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.name.lower().endswith(ENDINGS)
        and not any(part[0] in "._" for part in path.relative_to(folder).parts)
        and path.is_file()
    ]
    if not found:
        raise TableError(
            "SFY-TAB-028", f"{folder}: there is no table in this folder ({', '.join(ENDINGS)})"
        )
    if len(set(map(is_csv, found))) > 1:
        raise TableError(
            "SFY-TAB-029", f"{folder}: the folder has both CSV and Parquet files; give one kind"
        )
    return found


def partition(path: Path, folder: Path) -> dict[str, str]:
    """The columns that the folders above a file stand for."""
    pairs = (part.partition("=") for part in path.relative_to(folder).parts[:-1])
    return {unquote(key): unquote(value) for key, sign, value in pairs if sign and key}


def _number(path: Path, name: str, text: str, missing: Collection[str]) -> float:
    value = nan if text == _NO_VALUE else Cells(missing).read(text)
    if value is None:
        raise TableError("SFY-TAB-030", f"{path}: the folder {name}={text} names no number")
    return value
