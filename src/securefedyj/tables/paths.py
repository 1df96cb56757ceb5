"""Which files are tables, how they make up a folder, and where a new table may be written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from securefedyj.numerics.passes import ChangedData
from securefedyj.tables.cells import TableError

_CSV, _PARQUET = (".csv", ".csv.gz"), (".parquet", ".pq")
_ENDINGS = (*_CSV, *_PARQUET)


def is_csv(path: Path | str) -> bool:
    """Whether this is one CSV file; raise an error for files that are neither CSV nor Parquet."""
    name = Path(path).name.lower()
    if Path(path).is_dir():
        return False
    if not name.endswith(_ENDINGS):
        raise TableError(
            "SFY-TAB-034",
            f"{path}: the name of a table must end in {', '.join(_ENDINGS)}; or give a folder of "
            "such files",
        )
    return name.endswith(_CSV)


def compressed(path: Path | str) -> bool:
    """Whether a file is compressed with gzip, by its name."""
    return Path(path).name.lower().endswith(".gz")


def tables_in(folder: Path) -> list[Path]:
    """The tables in a folder, sorted by name; names that begin with a dot or underscore are not."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.name.lower().endswith(_ENDINGS)
        and not any(part[0] in "._" for part in path.relative_to(folder).parts)
        and path.is_file()
    ]
    if not found:
        raise TableError(
            "SFY-TAB-028", f"{folder}: this folder contains no table ({', '.join(_ENDINGS)})"
        )
    if len(set(map(is_csv, found))) > 1:
        raise TableError(
            "SFY-TAB-029",
            f"{folder}: this folder contains both CSV and Parquet files; keep one of the two",
        )
    return found


def partition(path: Path, folder: Path) -> dict[str, str]:
    """The columns that folders named KEY=VALUE above a file stand for, as in Hive and Spark."""
    pairs = (part.partition("=") for part in path.relative_to(folder).parts[:-1])
    return {unquote(key): unquote(value) for key, sign, value in pairs if sign and key}


class Unchanged:
    """A file as it was when a run began, by its size and the time of its last change."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._state = self._now()

    def check(self) -> None:
        """Raise an error if the file has changed."""
        if self._now() != self._state:
            raise ChangedData(
                "SFY-TAB-043",
                f"{self.path} changed while it was in use. The sums would mix two tables; start "
                "again once nothing writes to the file.",
            )

    def _now(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns


def check_target(source: Path, files: Sequence[Path], target: Path, force: bool) -> None:
    """Refuse to write over the source or within it, and over an existing table without `force`."""
    inside = any(_same(above, source) for above in _above(target))
    if inside or any(_same(above, target) for file in files for above in _above(file)):
        raise TableError(
            "SFY-TAB-037",
            f"{target} is the table that is read, contains it or lies inside it; give another name",
        )
    if not os.path.lexists(target):
        return
    if not force:
        raise TableError(
            "SFY-TAB-038", f"{target} already exists; give another name, or --force to replace it"
        )
    if source.is_dir() != target.is_dir():
        kind = "folder" if target.is_dir() else "file"
        raise TableError("SFY-TAB-039", f"{target} already exists and is a {kind}; remove it")
    for path in target.rglob("*"):
        if not path.is_dir() and not path.name.lower().endswith(_ENDINGS):
            raise TableError(
                "SFY-TAB-040", f"{target} also contains {path.name}; remove that folder yourself"
            )


def _above(path: Path) -> list[Path]:
    """A path and the folders above it, with links resolved."""
    real = Path(os.path.realpath(path))
    return [real, *real.parents]


def _same(one: Path, other: Path) -> bool:
    """Whether both exist and are the same file, also through hard links."""
    return one.exists() and other.exists() and os.path.samefile(one, other)
