"""The kinds of files that are tables, told by the endings of their names."""

from __future__ import annotations

from pathlib import Path

from securefedyj.tables.cells import TableError

_CSV, _PARQUET = (".csv", ".csv.gz"), (".parquet", ".pq")
ENDINGS = (*_CSV, *_PARQUET)


def is_csv(path: Path | str) -> bool:
    """Whether this is one CSV file; other files than CSV and Parquet are refused."""
    name = Path(path).name.lower()
    if Path(path).is_dir():
        return False
    if not name.endswith(ENDINGS):
        endings = ", ".join(ENDINGS)
        raise TableError(
            "SFY-TAB-034",
            f"{path}: a table's name must end in {endings}, or it is a folder of such",
        )
    return name.endswith(_CSV)
