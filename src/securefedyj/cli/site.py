"""The site's own file, `securefedyj.toml`: it has the options that were not given."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from securefedyj.cli.common import tell
from securefedyj.printable import printable

_READING = ("missing", "decimal", "thousands", "delimiter", "encoding", "columns")


def add_site(parser: argparse.ArgumentParser) -> None:
    """Add the option --site, which `fill_from_site` reads."""
    parser.add_argument(
        "--site",
        type=Path,
        metavar="FILE.toml",
        help="your own file with the options that are not given (default: securefedyj.toml beside "
        "the data, or in this folder without --data; docs/site.md)",
    )


def fill_from_site(options: argparse.Namespace) -> str:
    """Fill in what was not given; return a sentence about the file, if there is one."""
    path, entries = _entries_of(options, options.data)
    if path is None:
        return ""
    options.file = options.file or entries.get("consortium")
    _fill(options, entries)
    return f"What is not given here is read from {printable(str(path))}."


def add_site_of_table(parser: argparse.ArgumentParser) -> None:
    """Add the option --site, of which `fill_reading_from_site` reads how the table is written."""
    parser.add_argument(
        "--site",
        type=Path,
        metavar="FILE.toml",
        help="your own file, of which counts here how the table is written (default: "
        "securefedyj.toml beside the table; docs/site.md)",
    )


def fill_reading_from_site(options: argparse.Namespace, table: Path) -> None:
    """Fill in how a table is written where that was not given, and say so."""
    path, entries = _entries_of(options, table)
    reading = {key: entries[key] for key in _READING if entries.get(key)}
    if reading:
        _fill(options, reading)
        tell(f"How the table is written is read from {printable(str(path))}.")


def _entries_of(options: argparse.Namespace, table: Path | None) -> tuple[Path | None, Any]:
    """The site's own file and what it says, if there is one."""
    from securefedyj.joining.site import FILE, read_entries

    path: Path = options.site or (table or Path(FILE)).parent / FILE
    if options.site is None and not path.exists():
        return None, {}
    return path, read_entries(path)


def _fill(options: argparse.Namespace, entries: dict[str, Any]) -> None:
    options.own_columns = entries.pop("columns", {})
    options.missing = [*entries.pop("missing", ()), *options.missing]
    for key in entries.keys() & vars(options).keys():
        if getattr(options, key) is None:
            setattr(options, key, entries[key])


def refuse_unless_given(options: argparse.Namespace, *names: str) -> None:
    """End with the usage if something was given neither here nor in the site's own file."""
    lacking = [name for name in names if getattr(options, name) is None]
    if lacking:
        words = ", ".join("FILE" if name == "file" else f"--{name}" for name in lacking)
        options.wrong_usage(f"the following arguments are required: {words}")
