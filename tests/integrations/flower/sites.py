"""Three sites with their own files, that meet at a hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.numerics.arrays import Array
from tests.integrations.flare.sites import assert_nothing_shared, in_process, tables, write_site

__all__ = ["assert_nothing_shared", "in_process", "tables"]


def prepare(folder: Path, rows: Mapping[str, Array]) -> Consortium:
    """Keys, tables, the agreed file, and each site's own."""
    names = [f"feature {j}" for j in range(next(iter(rows.values())).shape[1])]
    consortium = local.prepare(folder, rows, [Feature(name, 0.0, 1000.0) for name in names])
    write_all(folder, rows)
    return consortium


def write_all(folder: Path, names: Iterable[str], output: str = "") -> None:
    """Each site's own file."""
    for name in names:
        result = "-".join(filter(None, [name, output]))
        write_site(folder, name, file_of(folder, name).parent, output=result)


def agreed(folder: Path) -> Consortium:
    return Consortium.read(folder / "consortium.toml")


def file_of(folder: Path, name: str) -> Path:
    """The site's own file."""
    return folder / "sites" / name / "securefedyj.toml"
