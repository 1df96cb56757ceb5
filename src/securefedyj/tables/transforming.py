"""Files and folders of them, with a function applied to some columns, block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from functools import partial
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.errors import InputError
from securefedyj.files import replacing, replacing_folder
from securefedyj.numerics.arrays import Array, Integers
from securefedyj.numerics.passes import OnRows
from securefedyj.tables.cells import MISSING, TableError, first_few
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.formats import FORMATS, format_found, format_of, in_folder, open_table
from securefedyj.tables.rewriting import Changed
from securefedyj.tables.source import (
    check_columns,
    files_of,
    partition,
)

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
    Files of the `FORMATS`, or folders of such files. The target
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
    if outside not in OUTSIDE:
        raise InputError(
            "SFY-TAB-002", f"outside must be one of {', '.join(OUTSIDE)}, got {outside!r}"
        )
    files = files_of(source)
    copies = format_found(files[0].path).copies
    if not source.is_dir() and format_of(target) is not FORMATS[copies]:
        raise TableError(
            "SFY-TAB-041",
            f"{target}: the name must end in {copies}, as {source} becomes such a file",
        )
    _check_target(source, [file.path for file in files], target, force)
    tables = [open_table(file.path, missing, dialect) for file in files]
    headers = [dialect.names(table.names) for table in tables]
    for file, header in zip(files, headers, strict=True):
        folders = dialect.names(list(partition(file.path, source)))
        if fixed := [key for key in folders if key in features and key not in header]:
            raise TableError(
                "SFY-TAB-042",
                f"{file.path}: column {fixed[0]!r} is part of the names of folders, which stay "
                "unchanged; it cannot be transformed",
            )
        check_columns(file.path, features, header)
    lower, upper, _ = np.broadcast_arrays(*(bounds or (-inf, inf)), np.empty(len(features)))
    counts: Integers = np.zeros((2, len(features)), dtype=np.int64)
    change, done = partial(_changed, function, lower, upper, outside == "clip"), 0
    with (replacing_folder if source.is_dir() else replacing)(target) as new:
        for file, table, header in zip(files, tables, headers, strict=True):
            place = new / file.path.relative_to(source)  # nothing more for a single file
            if source.is_dir() and format_of(place) is not FORMATS[copies]:
                place = place.with_name(place.name + copies)
            place.parent.mkdir(parents=True, exist_ok=True)
            columns = [header.index(name) for name in features]
            with closing(table.rewrite(place, columns, change)) as parts:
                for part in parts:
                    counts += part.outside
                    done += len(part.values)
                    if on_rows is not None:
                        on_rows(done, None)
            file.check()
        each = zip(features, *counts.tolist(), lower.tolist(), upper.tolist(), strict=True)
        found = {name: Outside(*sides) for name, *sides in each if sides[0] or sides[1]}
        if found and outside == "error":
            raise TableError(
                "SFY-TAB-001",
                f"{source}: values lie outside the agreed bounds: {listed(found)}. Correct them; "
                "or, if they mean missing values, give --missing=-999 or similar; or give "
                "--outside clip to replace them by the bound, or --outside keep to transform them "
                "unchanged",
            )
    return Transformed(len(files), done, len(features), len(headers[0]) - len(features), found)


def _changed(
    function: Callable[[Array], Array], lower: Array, upper: Array, clip: bool, values: Array
) -> Changed:
    """The new values of a block, which may be changed in any thread, and more than once."""
    outside = np.array([np.sum(values < lower, axis=0), np.sum(values > upper, axis=0)])
    if clip:
        values = np.clip(values, lower, upper)
    return Changed(function(values) if len(values) else values, outside)


def listed(found: dict[str, Outside]) -> str:
    """The features with values outside, for a message; the first few by name."""
    return first_few([f"{name!r} ({one})" for name, one in found.items()])


def _check_target(source: Path, files: Sequence[Path], target: Path, force: bool) -> None:
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
        if not path.is_dir() and not in_folder(path):
            raise TableError(
                "SFY-TAB-040", f"{target} also contains {path.name}; remove that folder yourself"
            )


def _inside(path: Path, other: Path) -> bool:
    """Whether a path is the other one or lies inside it, also through links of any kind."""
    real = Path(os.path.realpath(path))
    above = [folder for folder in (real, *real.parents) if folder.exists()]
    return other.exists() and any(other.samefile(folder) for folder in above)
