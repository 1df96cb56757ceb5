"""Where a new table may go: never over what it is made of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from securefedyj.tables.cells import TableError
from securefedyj.tables.kinds import ENDINGS


def check_target(source: Path, files: Sequence[Path], target: Path, force: bool) -> None:
    """Refuse a target that is part of the source, or the source of it, or that is there already."""
    inside = any(_same(above, source) for above in _above(target))
    if inside or any(_same(above, target) for file in files for above in _above(file)):
        raise TableError(
            "SFY-TAB-037", f"{target} is, holds or lies within the table that is read; give another"
        )
    if not os.path.lexists(target):
        return
    if not force:
        raise TableError(
            "SFY-TAB-038", f"{target} is there already; give another name, or --force to replace it"
        )
    if source.is_dir() != target.is_dir():
        raise TableError(
            "SFY-TAB-039",
            f"{target} is there already, and of another kind than {source}; remove it",
        )
    for path in target.rglob("*"):
        if not path.is_dir() and not path.name.lower().endswith(ENDINGS):
            raise TableError(
                "SFY-TAB-040", f"{target} holds {path.name} as well; remove that folder yourself"
            )


def _above(path: Path) -> list[Path]:
    """A path and the folders above it, wherever links lead."""
    real = Path(os.path.realpath(path))
    return [real, *real.parents]


def _same(one: Path, other: Path) -> bool:
    """Whether both are there and the same, also by hard links."""
    return one.exists() and other.exists() and os.path.samefile(one, other)
