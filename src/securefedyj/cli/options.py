"""How a command and its options are declared; those of `joining.options`, and the site's file."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from securefedyj.cli.display import tell
from securefedyj.errors import InputError
from securefedyj.joining.options import DECLARED, DIALECT, dialect_of
from securefedyj.joining.site import FILE, read_entries
from securefedyj.printable import printable
from securefedyj.tables.cells import MISSING
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import HERE, TableReader

READING = ("missing", *DIALECT)
"""The options about how a table is written."""
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    summary: str,
    example: str,
    more: str = "",
) -> argparse.ArgumentParser:
    """Add a command, which `run` carries out; the rest is for its help."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=textwrap.fill(f"{summary[0].upper()}{summary[1:]}. {more}", 78),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, wrong_usage=parser.error)
    return parser


def option(
    parser: argparse._ActionsContainer,
    name: str,
    metavar: str,
    words: str,
    kind: Callable[[str], Any] = str,
    default: Any = None,
    **more: Any,
) -> None:
    """Add an option with a value, or an argument; its default is part of the help."""
    if default is not None:
        words += f" (default: {f'{default:g}' if isinstance(default, float) else default})"
    parser.add_argument(name, metavar=metavar, help=words, type=kind, default=default, **more)


def repeated(parser: argparse._ActionsContainer, name: str, metavar: str, words: str) -> None:
    """Add an option that may be given several times."""
    words += "; may be repeated"
    parser.add_argument(name, action="append", default=[], metavar=metavar, help=words)


def flag(parser: argparse._ActionsContainer, name: str, words: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=words)


def add_declared(parser: argparse._ActionsContainer, *names: str) -> None:
    """Add options by their names. What is not typed is None, and may be in the site's own file."""
    for one in map(DECLARED.__getitem__, names):
        words = one.help
        if isinstance(one.default, int | float):
            words += f" (default: {one.default:g})"
        if one.name == "consortium":
            option(parser, one.name, one.metavar, words, Path, nargs="?")
        elif one.kind is tuple:
            repeated(parser, one.flag, one.metavar, words)
        elif one.kind is not dict:  # a table, for which `add_reading` has two options
            option(parser, one.flag, one.metavar, words, one.kind)


def add_reading(parser: argparse.ArgumentParser, *, dask: bool = False) -> None:
    """Add the options about the table, and --site."""
    parser.set_defaults(own_columns={})
    group = parser.add_argument_group("how the table is written (docs/tables.md)")
    add_declared(group, *READING)
    words = 'agreed name of a column that has another name here, such as --rename "Alter=age"'
    repeated(group, "--rename", "HERE=AGREED", words)
    words = 'file with such names: a table [columns] with lines such as "Alter" = "age"'
    option(group, "--columns", "FILE.toml", words, Path)
    if dask:
        words = (
            "let the workers of a Dask cluster read the table and sum; the address of the "
            "scheduler, such as tls://host:8786, or local"
        )
        option(parser, "--dask", "SCHEDULER", words)
    add_site(parser)


def add_site(parser: argparse.ArgumentParser) -> None:
    words = (
        f"file with options that are not given here (default: {FILE} in the folder of the table, "
        "or in the current folder; docs/site.md)"
    )
    option(parser, "--site", "FILE.toml", words, Path)


def fill_from_site(options: argparse.Namespace, table: Path | None, *names: str) -> str:
    """Fill in what was not typed, of options with these names; return the file that was read."""
    path: Path = options.site or (table or Path(FILE)).parent / FILE
    if options.site is None and not path.exists():
        return ""
    entries = {key: value for key, value in read_entries(path).items() if not names or key in names}
    options.own_columns = entries.get("columns", {})
    for key in ("missing", "without"):
        setattr(options, key, [*entries.get(key, ()), *(getattr(options, key, None) or ())])
    for key in entries.keys() & vars(options).keys() - {"columns", "missing"}:
        if getattr(options, key) is None:
            setattr(options, key, entries[key])
    return printable(str(path)) if entries else ""


def refuse_unless_given(options: argparse.Namespace, *names: str) -> None:
    """End with the usage if an option was neither typed nor in the site's own file."""
    lacking = [DECLARED[name] for name in names if getattr(options, name) is None]
    if lacking:
        words = ", ".join("FILE" if one.name == "consortium" else one.flag for one in lacking)
        options.wrong_usage(f"the following arguments are required: {words}")


def reading_of(
    options: argparse.Namespace, table: Path | None = None
) -> tuple[tuple[str, ...], Dialect]:
    """The texts that stand for a missing value, and the dialect of the table.

    If a table is given, options that were not typed come from the site's own file.
    """
    if table is not None and (path := fill_from_site(options, table, *READING)):
        tell(f"How the table is written is read from {path}.")
    columns = dict(options.own_columns)
    if options.columns is not None:
        entries = read_entries(options.columns)
        if "columns" not in entries:
            raise InputError("SFY-CLI-001", f"{options.columns} has no table [columns]; add it.")
        columns |= entries["columns"]
    columns |= renamed(options.rename)
    dialect = dialect_of({**vars(options), "columns": columns})
    return (*MISSING, *options.missing), dialect


def renamed(entries: Iterable[str]) -> dict[str, str]:
    """The agreed names of columns that have other names in the table."""
    columns = {}
    for entry in entries:
        here, equals, agreed = entry.partition("=")
        if not (here and equals and agreed):
            raise InputError("SFY-CLI-002", f"{entry!r} must be HERE=AGREED, such as Alter=age.")
        columns[here] = agreed
    return columns


@contextmanager
def reader_of(options: argparse.Namespace) -> Iterator[TableReader]:
    """What reads the table: this process, or a Dask cluster."""
    if options.dask is None or options.data is None:
        yield HERE
        return
    try:
        from securefedyj.tables.dask_source import cluster
    except ImportError:
        raise InputError(
            "SFY-CLI-003", "--dask needs Dask; `pip install securefedyj[dask]` installs it."
        ) from None
    with cluster(options.dask) as reader:
        yield reader
