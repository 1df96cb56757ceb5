"""Files of SAS, Stata and SPSS; a copy of one is Parquet."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from securefedyj.tables.arrow import PandasTable, rewritten
from securefedyj.tables.cells import Cells, TableError
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.rewriting import Change, Changed

READERS = {
    ".sas7bdat": ("SAS", "read_sas7bdat"),
    ".xpt": ("SAS", "read_xport"),
    ".dta": ("Stata", "read_dta"),
    ".sav": ("SPSS", "read_sav"),
    ".zsav": ("SPSS", "read_sav"),
    ".por": ("SPSS", "read_por"),
}
"""Programs, and what reads their files in pyreadstat, by how the names of the files end."""
_ROWS_AT_ONCE = 1 << 20


class StatisticsTable(PandasTable):
    """A file that pyreadstat reads; what the file declares as missing is missing."""

    copies = ".parquet"

    def __init__(self, path: Path | str, missing: Collection[str], dialect: Dialect) -> None:
        self._path, self.where, self.cells = Path(path), str(path), Cells(missing)
        self._program, self._reader = READERS[self._path.suffix.lower()]
        _, meta = self._read(metadataonly=True)
        self.names, self.rows = meta.column_names, meta.number_rows
        self.schema = pa.schema([(name, pa.null()) for name in self.names])  # checked when read

    def _read(self, **how: Any) -> tuple[Any, Any]:
        """A frame of pandas, and what the file says of itself."""
        try:
            import pyreadstat
        except ImportError:
            raise TableError(
                "SFY-TAB-051",
                f"{self._path}: files of SAS, Stata and SPSS need pyreadstat; `pip install "
                "securefedyj[statistics]` installs it; or export the table as CSV",
            ) from None
        read = getattr(pyreadstat, self._reader)
        try:
            found: tuple[Any, Any] = read(str(self._path), output_format="pandas", **how)
        except pyreadstat.ReadstatError as error:
            raise TableError(
                "SFY-TAB-052", f"{self._path}: this file cannot be read: {error}"
            ) from None
        return found

    def described(self) -> str:
        return self._program

    def _batches(self, columns: Sequence[int], size: int) -> Iterator[Any]:
        names, done = [self.names[j] for j in columns], 0
        while True:
            # One column shows the number of rows.
            wanted = names or list(self.names[:1])
            frame, _ = self._read(usecols=wanted, row_offset=done, row_limit=_ROWS_AT_ONCE)
            part = PandasTable(frame[names])
            part.where = self.where
            yield from part._batches(range(len(names)), size)
            done += len(frame)
            if len(frame) < _ROWS_AT_ONCE:
                return

    def rewrite(
        self, target: Path, columns: Sequence[int], change: Change
    ) -> Generator[Changed, None, None]:
        whole = pa.Table.from_pandas(self._read()[0], preserve_index=False)
        self.schema = whole.schema
        yield from rewritten(self, iter([whole]), target, columns, change)
