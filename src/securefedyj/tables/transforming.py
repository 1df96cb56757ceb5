"""Files and folders of them, with a function applied to some columns, block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.errors import InputError
from securefedyj.files import replacing, replacing_folder
from securefedyj.numerics.arrays import Array, Integers
from securefedyj.numerics.passes import OnRows
from securefedyj.tables.cells import MISSING, Cells, TableError, first_few
from securefedyj.tables.csv_files import CsvFile
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.paths import ENDINGS, compressed, files_of, is_csv, partition
from securefedyj.tables.rewriting import Changed, rewrite_csv, rewrite_parquet
from securefedyj.tables.source import check_columns, column_names

OutsideMode = Literal["error", "clip", "keep"]
OUTSIDE: tuple[OutsideMode, ...] = get_args(OutsideMode)


class Outside(NamedTuple):
    """The numbers of values of a column below and above its bounds."""

    below: int
    above: int
    lower: float
    upper: float

    def __str__(self) -> str:
        sides = {f"below {self.lower:.15g}": self.below, f"above {self.upper:.15g}": self.above}
        return ", ".join(f"{count:,} {side}" for side, count in sides.items() if count)


class Transformed(NamedTuple):
    """What was transformed."""

    files: int
    rows: int
    transformed: int
    """Columns."""
    passed_through: int
    """Columns, of the first file."""
    outside: dict[str, Outside]
    """Features with values outside their bounds."""


def transform_table(
    source: Path | str,
    target: Path | str,
    features: Sequence[str],
    function: Callable[[Array], Array],
    missing: Collection[str] = MISSING,
    dialect: Dialect | None = None,
    *,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    outside: OutsideMode = "error",
    force: bool = False,
    on_rows: OnRows | None = None,
) -> Transformed:
    """Copy a table, with a function applied to its features block by block.

    All other columns stay as they are, and so do the format, the dialect and the names. A missing
    value is written as an empty cell, or as null.

    Parameters
    ----------
    source, target : path-like
        Files of the same format (.csv and .csv.gz are one), or folders of such files. The target
        appears when it is complete, and is never a part of the source.
    features : sequence of str
        Names of columns.
    function : callable
        Gets the features in that order, as an array with NaN for missing values, and returns an
        array of the same shape. It is called from several threads.
    missing, dialect
        As for `as_source`.
    bounds : (lower, upper), optional
        Of the features; values outside are counted.
    outside : {"error", "clip", "keep"}
        What happens to values outside: no table is written, the bound replaces them, or nothing.
    force : bool
        Whether to replace an existing target.
    on_rows : callable, optional
        Called with the number of rows that are done.

    Raises
    ------
    TableError
        If a column is missing or appears twice, a cell is not a number, values lie outside, or the
        target cannot be written.
    """
    source, target, dialect = Path(source), Path(target), dialect or Dialect()
    change, done = BoundedChange(features, function, bounds, outside), 0
    if not source.is_dir() and is_csv(source) != is_csv(target):
        raise TableError(
            "SFY-TAB-041", f"{target} must have the format of {source}: give it the same ending"
        )
    files = files_of(source)
    check_target(source, files, target, force)
    headers = [_header(source, file, features, dialect) for file in files]
    with (replacing_folder if source.is_dir() else replacing)(target) as new:
        for file, header in zip(files, headers, strict=True):
            place = file.relative_to(source)  # nothing for a single file
            (new / place).parent.mkdir(parents=True, exist_ok=True)
            task = new / place, [header.index(name) for name in features], change
            if is_csv(file):
                packed = compressed(target / place)
                parts = rewrite_csv(CsvFile(file, missing, dialect), *task, packed)
            else:
                parts = rewrite_parquet(file, *task, Cells(missing))
            with closing(parts):
                for part in parts:
                    change.count(part)
                    done += part.rows
                    if on_rows is not None:
                        on_rows(done, None)
        change.check(source)
    others = len(headers[0]) - len(features)
    return Transformed(len(files), done, len(features), others, change.found())


def _header(source: Path, file: Path, features: Sequence[str], dialect: Dialect) -> list[str]:
    """The agreed names of a file's columns, which must include all features."""
    header = column_names(file, dialect)
    for name in dialect.names(list(partition(file, source))):
        if name in features and name not in header:
            raise TableError(
                "SFY-TAB-042",
                f"{file}: column {name!r} is part of the names of folders, which stay unchanged; "
                "it cannot be transformed",
            )
    check_columns(file, features, header)
    return header


class BoundedChange:
    """A function of the values of all features, and the numbers of values outside their bounds.

    A block may be changed in any thread, and more than once; it counts once it is given to `count`.
    With the mode "error", blocks after the first value outside are counted, but not changed.
    """

    def __init__(
        self,
        features: Sequence[str],
        function: Callable[[Array], Array],
        bounds: tuple[ArrayLike, ArrayLike] | None,
        mode: OutsideMode,
    ) -> None:
        if mode not in OUTSIDE:
            raise InputError(
                "SFY-TAB-002", f"outside must be one of {', '.join(OUTSIDE)}, got {mode!r}"
            )
        self._features, self._function, self._mode = features, function, mode
        each = np.empty(len(features))
        self._lower, self._upper, _ = np.broadcast_arrays(*(bounds or (-inf, inf)), each)
        self._outside: Integers = np.zeros((2, len(features)), dtype=np.int64)

    def __call__(self, values: Array) -> Changed:
        """The new values of a block."""
        sides = values < self._lower, values > self._upper
        outside = np.array([np.count_nonzero(side, axis=0) for side in sides])
        if self._mode == "error" and (outside.any() or self._outside.any()):
            return Changed(len(values), None, outside)
        if self._mode == "clip":
            values = np.clip(values, self._lower, self._upper)
        return Changed(len(values), self._function(values) if len(values) else values, outside)

    def count(self, changed: Changed) -> None:
        """Count the values of a block that were outside."""
        self._outside = self._outside + changed.outside

    def found(self) -> dict[str, Outside]:
        """The features with values outside."""
        columns = *self._outside.tolist(), self._lower.tolist(), self._upper.tolist()
        found = zip(self._features, map(Outside, *columns), strict=True)
        return {name: one for name, one in found if one.below or one.above}

    def check(self, where: object) -> None:
        """Refuse values outside the bounds if they are an error."""
        if self._mode == "error" and (found := self.found()):
            raise TableError(
                "SFY-TAB-001",
                f"{where}: values lie outside the agreed bounds: {listed(found)}. Correct them; "
                "or, if they mean missing values, give --missing=-999 or similar; or give "
                "--outside clip to replace them by the bound, or --outside keep to transform them "
                "unchanged",
            )


def listed(found: dict[str, Outside]) -> str:
    """The features with values outside, for a message; the first few by name."""
    return first_few([f"{name!r} ({one})" for name, one in found.items()])


def check_target(source: Path, files: Sequence[Path], target: Path, force: bool) -> None:
    """Refuse to write over the source or within it, and over an existing table without `force`."""
    if _inside(target, source) or any(_inside(file, target) for file in files):
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
        if not path.is_dir() and not path.name.lower().endswith(ENDINGS):
            raise TableError(
                "SFY-TAB-040", f"{target} also contains {path.name}; remove that folder yourself"
            )


def _inside(path: Path, other: Path) -> bool:
    """Whether a path is the other one or lies inside it, also through links of any kind."""
    real = Path(os.path.realpath(path))
    above = [folder for folder in (real, *real.parents) if folder.exists()]
    return other.exists() and any(other.samefile(folder) for folder in above)
