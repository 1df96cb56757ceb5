"""Which files are tables, and how the files of a folder make up one table."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from securefedyj.numerics.passes import ChangedData
from securefedyj.tables.cells import TableError

_CSV = (".csv", ".csv.gz")
ENDINGS = (*_CSV, ".parquet", ".pq")
"""How the names of tables end."""


def is_csv(path: Path | str) -> bool:
    """Whether this is one CSV file; raise an error for files that are neither CSV nor Parquet."""
    name = Path(path).name.lower()
    if Path(path).is_dir():
        return False
    if not name.endswith(ENDINGS):
        raise TableError(
            "SFY-TAB-034",
            f"{path}: the name of a table must end in {', '.join(ENDINGS)}; or give a folder of "
            "such files",
        )
    return name.endswith(_CSV)


def compressed(path: Path | str) -> bool:
    """Whether a file is compressed with gzip, by its name."""
    return Path(path).name.lower().endswith(".gz")


def files_of(path: Path) -> list[Path]:
    """The files of a table: the path itself, or the tables in that folder, sorted by name.

    Names that begin with a dot or an underscore do not count.
    """
    if not path.is_dir():
        return [path]
    found = [
        file
        for file in sorted(path.rglob("*"))
        if file.name.lower().endswith(ENDINGS)
        and not any(part[0] in "._" for part in file.relative_to(path).parts)
        and file.is_file()
    ]
    if not found:
        raise TableError(
            "SFY-TAB-028", f"{path}: this folder contains no table ({', '.join(ENDINGS)})"
        )
    if len(set(map(is_csv, found))) > 1:
        raise TableError(
            "SFY-TAB-029",
            f"{path}: this folder contains both CSV and Parquet files; keep one of the two",
        )
    return found


def partition(path: Path, folder: Path) -> dict[str, str]:
    """The columns that folders named KEY=VALUE above a file stand for, as in Hive and Spark.

    A file that is the whole table has none.
    """
    pairs = (part.partition("=") for part in path.relative_to(folder).parts[:-1])
    return {unquote(key): unquote(value) for key, sign, value in pairs if sign and key}


class Unchanged:
    """A file as it was when a run started, known by its size and the time of its last change."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._state = self._now()

    def check(self) -> None:
        """Raise an error if the file has changed."""
        if self._now() != self._state:
            raise ChangedData(
                "SFY-TAB-043",
                f"{self.path} changed while it was in use. The sums would mix two tables; start "
                "again when no other program writes to the file.",
            )

    def _now(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns
