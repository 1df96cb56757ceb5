"""A silo's table: CSV, compressed CSV or Parquet, told by the ending of the file's name.

CSV is read with nothing but the standard library, Parquet with pyarrow: the optional extra
``securefedyj[tables]``. All that is shown here, values included, is shown to the owner of
the table; nothing of this module is ever sent.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite, nan
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.files import replacing
from securefedyj.numerics.arrays import Array

# Cells that stand for a missing value, whatever their case and the spaces around them.
MISSING = ("", "NA", "N/A", "NaN", "null")

_BLOCK = 1 << 14  # rows that are held as text at a time
_ENDINGS = {".csv": "csv", ".csv.gz": "csv.gz", ".parquet": "parquet", ".pq": "parquet"}
_INSTALL = 'pip install "securefedyj[tables]"'


class TableError(ValueError):
    """A table that cannot be used as it is; the message says where and what to do."""


class Transformed(NamedTuple):
    """What became of a table."""

    rows: int
    transformed: int
    passed_through: int


def read_table(
    path: Path | str,
    features: Sequence[str] | None = None,
    missing: Collection[str] = MISSING,
) -> Array:
    """Read the features of a table, in the order that is asked for; all columns by default.

    Parameters
    ----------
    path : path-like
        A .csv, .csv.gz or .parquet file. CSV is in UTF-8, with a header, and separated by
        commas, semicolons or tabs; the decimal point is a point.
    features : sequence of str, optional
        Names of columns.
    missing : collection of str
        Cells that stand for a missing value; numbers among them, such as "-999", count also in
        Parquet files.

    Returns
    -------
    values : array of shape (n_rows, n_features)
        NaN is missing. `column_names` tells the names, where they were not given.

    Raises
    ------
    TableError
        If a column is missing or there twice, or if a cell is no number.
    """
    kind = _kind(path)
    header = _header(path, kind)
    names = tuple(header if features is None else features)
    _check_columns(path, names, header)
    loaded = _load(path, kind, names, missing)
    for name, bad in zip(names, loaded.bad, strict=True):
        if bad.count:
            raise TableError(f"{path}: column {name!r}, {bad.first}")
    return loaded.values


def column_names(path: Path | str) -> list[str]:
    """The header of a table."""
    return _header(path, _kind(path))


def write_table(path: Path | str, names: Sequence[str], values: ArrayLike) -> None:
    """Write columns of numbers so that they read back exactly; the file is whole or not there."""
    kind, data = _kind(path), np.asarray(values, dtype=np.float64)
    if data.ndim != 2 or data.shape[1] != len(names):
        raise ValueError(f"{len(names)} names do not fit an array of shape {data.shape}")
    with replacing(path) as temporary:
        if kind == "parquet":
            pa, parquet = _pyarrow(path)
            columns = [pa.array(column, from_pandas=True) for column in data.T]
            parquet.write_table(pa.table(columns, names=list(names)), temporary)
            return
        with _open_to_write(temporary, kind) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            for row in data.tolist():
                writer.writerow(map(_text, row))


def transform_table(
    source: Path | str,
    target: Path | str,
    features: Sequence[str],
    function: Callable[[Array], Array],
    missing: Collection[str] = MISSING,
) -> Transformed:
    """Copy a table, with a function of all features applied block by block.

    Missing cells and all other columns stay as they are. Source and target may be the same file.
    """
    kind = _kind(source)
    if kind.split(".")[0] != _kind(target).split(".")[0]:
        raise TableError(f"{target} must have the format of {source}: give it the same ending")
    header = _header(source, kind)
    _check_columns(source, features, header)
    chosen = [header.index(name) for name in features]
    with replacing(target) as temporary:
        if kind == "parquet":
            rows = _transform_parquet(source, temporary, chosen, function, missing)
        else:
            rows = _transform_csv(source, temporary, _kind(target), chosen, function, missing)
    return Transformed(rows, len(features), len(header) - len(features))


@dataclass(frozen=True)
class Finding:
    """Something about a silo's own table. It is for the silo's eyes: it may quote values."""

    kind: str
    """missing column, duplicate column, no number, out of bounds, all missing, constant,
    missing values, or no rows."""
    feature: str | None
    text: str
    stops: bool
    """Whether a run with this table would be refused."""
    count: int = 0
    share: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def check_table(
    table_path: Path | str,
    features: Sequence[str],
    lower: ArrayLike,
    upper: ArrayLike,
    missing: Collection[str] = MISSING,
) -> list[Finding]:
    """What a silo should know about its table before a run; those findings that stop it first."""
    kind = _kind(table_path)
    header = _header(table_path, kind)
    found = list(_column_findings(features, header))
    usable = [name for name in features if header.count(name) == 1]
    loaded = _load(table_path, kind, usable, missing)
    if len(loaded.values) == 0:
        found.append(Finding("no rows", None, "the table has no rows", stops=False))
    place = {name: j for j, name in enumerate(features)}
    bounds = np.stack(np.broadcast_arrays(lower, upper, np.empty(len(features)))[:2], axis=1)
    for name, values, bad in zip(usable, loaded.values.T, loaded.bad, strict=True):
        low, high = bounds[place[name]].tolist()
        found += _value_findings(name, values, bad, low, high)
    return sorted(found, key=lambda finding: not finding.stops)


@dataclass
class _Bad:
    """Cells of a column that are no numbers; the first one in words."""

    count: int = 0
    first: str = ""

    def add(self, words: str) -> None:
        self.count += 1
        self.first = self.first or words


@dataclass
class _Loaded:
    """Columns as read; what is no number is NaN here and counted in `bad`."""

    values: Array
    bad: list[_Bad] = field(default_factory=list)


def _load(path: Path | str, kind: str, names: Sequence[str], missing: Collection[str]) -> _Loaded:
    if kind == "parquet":
        return _load_parquet(path, names, missing)
    return _load_csv(path, kind, names, missing)


# Findings


def _column_findings(features: Sequence[str], header: Sequence[str]) -> Iterator[Finding]:
    for name in dict.fromkeys(features):
        if name not in header:
            text = f"there is no such column{_perhaps(name, header)}"
            yield Finding("missing column", name, text, stops=True)
        elif (times := header.count(name)) > 1:
            text = f"{times} columns have this name"
            yield Finding("duplicate column", name, text, stops=True, count=times)


def _value_findings(
    name: str, values: Array, bad: _Bad, lower: float, upper: float
) -> Iterator[Finding]:
    rows = len(values)
    if bad.count:
        cells = "1 cell is" if bad.count == 1 else f"{bad.count} cells are"
        text = f"{cells} no number, the first: {bad.first}"
        yield Finding("no number", name, text, True, bad.count, bad.count / rows)
    present = values[~np.isnan(values)]
    below, above = int(np.sum(present < lower)), int(np.sum(present > upper))
    if below + above:
        text = (
            f"{below} below and {above} above the agreed bounds {lower:g} to {upper:g}; "
            f"the values go from {present.min():g} to {present.max():g}"
        )
        yield Finding("out of bounds", name, text, True, below + above, (below + above) / rows)
    absent = rows - len(present) - bad.count
    if rows and absent == rows:
        yield Finding("all missing", name, "it has no values here", False, absent, 1.0)
    elif absent:
        text = f"{absent} of {rows} values are missing ({absent / rows:.1%})"
        yield Finding("missing values", name, text, False, absent, absent / rows)
    if len(present) and np.all(present == present[0]):
        text = f"all {len(present)} values are {present[0]:g}" if len(present) > 1 else "one value"
        yield Finding("constant", name, f"it is constant here: {text}", False, len(present))


def _check_columns(path: Path | str, names: Sequence[str], header: Sequence[str]) -> None:
    """Say all that is wrong with the columns at once: nobody likes to be told one by one."""
    if len(set(names)) < len(names):
        twice = [repr(name) for name in dict.fromkeys(names) if list(names).count(name) > 1]
        raise TableError(f"{path}: column {', '.join(twice)} is there or asked for more than once")
    wrong = [f"{f.feature!r}: {f.text}" for f in _column_findings(names, header)]
    if wrong:
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise TableError(f"{path}: {'; '.join(wrong[:5])}{more}")


def _perhaps(name: str, header: Sequence[str]) -> str:
    """Similar names, also where only case and spaces differ."""
    plain = {column.strip().casefold(): column for column in header}
    close = get_close_matches(name.strip().casefold(), plain, n=3)
    return f" (perhaps {' or '.join(repr(plain[c]) for c in close)}?)" if close else ""


# Formats


def _kind(path: Path | str) -> str:
    name = Path(path).name.lower()
    for ending, kind in _ENDINGS.items():
        if name.endswith(ending):
            return kind
    raise TableError(f"{path}: a table's name must end in {', '.join(_ENDINGS)}")


def _header(path: Path | str, kind: str) -> list[str]:
    if kind == "parquet":
        with _reading_parquet(path) as file:
            return list(file.schema_arrow.names)
    with _reading_csv(path, kind) as rows:
        return rows.header


class _Rows:
    """The rows of a CSV, checked to be as long as its header."""

    def __init__(self, path: Path | str, file: IO[str]) -> None:
        first = file.readline()
        self.delimiter = _delimiter(first)
        file.seek(0)
        self._path = path
        self._reader = csv.reader(file, delimiter=self.delimiter, strict=True)
        self.header = next(self._reader, [])
        if not self.header:
            raise TableError(f"{path}: the first line must name the columns, and it is empty")

    @property
    def line(self) -> int:
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        width = len(self.header)
        for row in self._reader:
            if len(row) == width:
                yield row
            elif row:  # a line without anything in it is no row
                raise TableError(
                    f"{self._path}: line {self.line} has {len(row)} cells, the header has {width}"
                )


def _delimiter(header: str) -> str:
    """Comma, semicolon or tab, whichever the header has most of outside of quotes."""
    bare = "".join(header.split('"')[::2])
    return max(",;\t", key=bare.count)


@contextmanager
def _reading_csv(path: Path | str, kind: str) -> Iterator[_Rows]:
    """Open a CSV, and say in one sentence what is wrong with one that cannot be read."""
    opener: Any = gzip.open if kind == "csv.gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield _Rows(path, file)
    except UnicodeDecodeError:
        raise TableError(f"{path}: this is not UTF-8; save the table as UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TableError(f"{path}: the compressed file is damaged: {error}") from None
    except csv.Error as error:
        raise TableError(f"{path}: this is no CSV: {error}") from None


@contextmanager
def _open_to_write(path: Path, kind: str) -> Iterator[IO[str]]:
    if kind == "csv":
        with open(path, "w", encoding="utf-8", newline="") as file:
            yield file
        return
    # Neither name nor time goes into the file: the same table gives the same bytes.
    with (
        open(path, "wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as file,
    ):
        yield file


def _number(text: str) -> float | None:
    """The number in a cell; None if there is none, or none that is finite."""
    try:
        value = float(text)
    except ValueError:
        return None
    # Python reads 1_000 as a number, and no table means that.
    return value if isfinite(value) and "_" not in text else None


def _text(value: float) -> str:
    """The shortest text that reads back as the same number; nothing for NaN."""
    return "" if value != value else repr(value)


def _complaint(line: int, text: str) -> str:
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    hint = ""
    if "," in text and _number(text.replace(",", ".")) is not None:
        hint = "; the decimal point must be a point"
    return f"line {line}: {shown!r} is no finite number{hint}"


class _Cells:
    """What a cell means: a number, NaN if it is missing, None if it is something else."""

    def __init__(self, missing: Collection[str]) -> None:
        self._texts = {text.strip().casefold() for text in missing}
        numbers = (_number(text) for text in missing)
        self._numbers = [number for number in numbers if number is not None]  # such as -999

    def read(self, text: str) -> float | None:
        value = _number(text)
        if value is None:
            return nan if text.strip().casefold() in self._texts else None
        return nan if value in self._numbers else value

    def mask(self, values: Array) -> Array:
        """The values, NaN where they stand for a missing one."""
        return np.where(np.isin(values, self._numbers), nan, values) if self._numbers else values


def _load_csv(
    path: Path | str, kind: str, names: Sequence[str], missing: Collection[str]
) -> _Loaded:
    cells = _Cells(missing)
    with _reading_csv(path, kind) as rows:
        chosen = [rows.header.index(name) for name in names]
        columns, bad = [array("d") for _ in chosen], [_Bad() for _ in chosen]
        count = 0
        for row in rows:
            count += 1
            for j, column in enumerate(chosen):
                value = cells.read(row[column])
                if value is None:
                    bad[j].add(_complaint(rows.line, row[column]))
                columns[j].append(nan if value is None else value)
    values = np.empty((count, len(names)))
    for j, numbers in enumerate(columns):
        values[:, j] = numbers
    return _Loaded(values, bad)


def _transform_csv(
    source: Path | str,
    target: Path,
    target_kind: str,
    chosen: list[int],
    function: Callable[[Array], Array],
    missing: Collection[str],
) -> int:
    cells, count = _Cells(missing), 0
    with _reading_csv(source, _kind(source)) as rows, _open_to_write(target, target_kind) as file:
        writer = csv.writer(file, delimiter=rows.delimiter, lineterminator="\n")
        writer.writerow(rows.header)

        def numbers(row: list[str]) -> list[float]:
            parsed = []
            for j in chosen:
                value = cells.read(row[j])
                if value is None:
                    words = _complaint(rows.line, row[j])
                    raise TableError(f"{source}: column {rows.header[j]!r}, {words}")
                parsed.append(value)
            return parsed

        for block in _blocks((row, numbers(row)) for row in rows):
            texts, values = zip(*block, strict=True)
            results = function(np.array(values)).tolist()
            for row, old, new in zip(texts, values, results, strict=True):
                for j, before, after in zip(chosen, old, new, strict=True):
                    if before == before:  # a missing cell keeps its text
                        row[j] = _text(after)
            writer.writerows(texts)
            count += len(texts)
    return count


def _blocks(items: Iterator[tuple[list[str], list[float]]]) -> Iterator[list[Any]]:
    block = []
    for item in items:
        block.append(item)
        if len(block) == _BLOCK:
            yield block
            block = []
    if block:
        yield block


def _pyarrow(path: Path | str) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise TableError(f"{path}: Parquet needs pyarrow: {_INSTALL}") from None
    return pyarrow, pyarrow.parquet


@contextmanager
def _reading_parquet(path: Path | str) -> Iterator[Any]:
    pa, parquet = _pyarrow(path)
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pa.ArrowInvalid as error:
        raise TableError(f"{path}: this is no Parquet file: {error}") from None


def _floats(column: Any) -> Array | None:
    """A column of Arrow as float64, null as NaN; None if it does not hold numbers."""
    import pyarrow as pa

    kind = column.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not (numeric or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
        return None
    values: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _load_parquet(path: Path | str, names: Sequence[str], missing: Collection[str]) -> _Loaded:
    with _reading_parquet(path) as file:
        table = file.read(columns=list(names))
        values = np.full((file.metadata.num_rows, len(names)), nan)
    bad = [_Bad() for _ in names]
    for j, name in enumerate(names):
        column = table.column(name).combine_chunks()
        numbers = _floats(column)
        if numbers is None:
            bad[j] = _Bad(len(column), f"the column holds {column.type}, not numbers")
            continue
        values[:, j] = numbers
        for row in np.flatnonzero(np.isinf(numbers)):
            bad[j].add(f"row {row + 1}: {numbers[row]!r} is no finite number")
            values[row, j] = nan
    return _Loaded(_Cells(missing).mask(values), bad)


def _transform_parquet(
    source: Path | str,
    target: Path,
    chosen: list[int],
    function: Callable[[Array], Array],
    missing: Collection[str],
) -> int:
    pa, parquet = _pyarrow(source)
    cells = _Cells(missing)
    with _reading_parquet(source) as file:
        schema = file.schema_arrow
        for j in chosen:
            schema = schema.set(j, pa.field(schema.names[j], pa.float64()))
        with parquet.ParquetWriter(target, schema) as writer:
            for batch in file.iter_batches(batch_size=_BLOCK):
                columns = list(batch.columns)
                old = np.stack([_checked(source, schema.names[j], columns[j]) for j in chosen], 1)
                masked = cells.mask(old)
                new = np.where(np.isnan(masked), old, function(masked))
                for j, numbers in zip(chosen, new.T, strict=True):
                    columns[j] = pa.array(numbers, from_pandas=True)
                writer.write_batch(pa.record_batch(columns, schema=schema))
        return int(file.metadata.num_rows)


def _checked(path: Path | str, name: str, column: Any) -> Array:
    numbers = _floats(column)
    if numbers is None:
        raise TableError(f"{path}: column {name!r} holds {column.type}, not numbers")
    if np.isinf(numbers).any():
        raise TableError(f"{path}: column {name!r} holds infinite values")
    return numbers
