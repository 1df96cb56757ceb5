"""What several commands share: exit codes, the look of their help, and files that they read."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from securefedyj.errors import InputError, code_of
from securefedyj.printable import printable_lines

if TYPE_CHECKING:
    from securefedyj.network.consortium import Consortium
    from securefedyj.protocol.transcript import Transcript
    from securefedyj.tables.dialect import Dialect
    from securefedyj.tables.files import TableReader

Commands = Any  # argparse's own type for this is private

OK, FAILED, INTERRUPTED = 0, 1, 130
VERIFIED = (
    "Verified: no result is accepted that is not right for the sums that the silos\n"
    "give, whatever one member of the committee does"
)
NOT_VERIFIED = "NOT verified: one member of the committee that cheats can falsify the result"

COLUMNS = 79
"""Of a terminal, but for the last, which some of them leave free."""


def tell(words: str, *, error: bool = False) -> None:
    """Print for the user; what others have written into it cannot control the terminal.

    Line breaks are ours: a text of others passes `printable` before it gets here.
    """
    print(printable_lines(words), file=sys.stderr if error else sys.stdout, flush=error)


def wrapped(sentence: str, columns: int = COLUMNS) -> str:
    """In lines that fit a terminal; names and paths stay whole."""
    return textwrap.fill(sentence, columns, break_on_hyphens=False, break_long_words=False)


def complain(sentence: str) -> None:
    """Say on standard error what went wrong; a terminal would break it within words."""
    words = f"securefedyj: {sentence}"
    tell(wrapped(words) if sys.stderr.isatty() else words, error=True)


def tell_differences(before: Consortium, after: Consortium, path: Path) -> None:
    """Say what an agreed file has otherwise than the one before it, which is at a path."""
    from securefedyj.network.consortium.succession import differences, note_on_two_results

    lines = differences(before, after)
    if not lines:
        tell(wrapped(f"It agrees with {path} in everything; that file would do as well."))
        return
    tell(f"Compared with {path}:")
    for line in lines:
        tell(f"  {line}")
    if note := note_on_two_results(before, after):
        tell(wrapped(note))


def command(
    commands: Commands, name: str, summary: str, example: str, more: str = ""
) -> argparse.ArgumentParser:
    """Add a command whose help ends with an example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=textwrap.fill(f"{summary[0].upper()}{summary[1:]}. {more}", 78),
        epilog="example:\n  " + example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a table is written: `missing_values`, `dialect_of` read them."""
    reading = parser.add_argument_group("how the table is written (docs/tables.md)")
    reading.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="TEXT",
        help="a further cell that stands for a missing value, besides empty, NA, N/A, NaN and "
        'null; for example --missing "?" or --missing=-999',
    )
    reading.add_argument(
        "--decimal", metavar="SIGN", help="in CSV: a comma, as in 1,5 (default: point)"
    )
    reading.add_argument(
        "--thousands",
        metavar="SIGN",
        help="in CSV: what groups digits, such as the comma in 10,286 (default: nothing)",
    )
    reading.add_argument(
        "--delimiter",
        metavar="SIGN",
        help='in CSV: what separates cells, or "tab" (default: comma, semicolon or tab, as the '
        "file has it)",
    )
    reading.add_argument(
        "--encoding",
        metavar="NAME",
        help="in CSV: such as windows-1252 (default: UTF-8, or UTF-16 with a byte order mark)",
    )
    reading.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="HERE=AGREED",
        help='a column that has another name here, such as --rename "Alter=age"; once for each',
    )
    reading.add_argument(
        "--columns",
        type=Path,
        metavar="FILE.toml",
        help='the same as a file: a table [columns] with lines such as "Alter" = "age"; your '
        "securefedyj.toml is one",
    )


def missing_values(options: argparse.Namespace) -> tuple[str, ...]:
    """The cells that stand for a missing value."""
    from securefedyj.tables.files import MISSING

    return (*MISSING, *options.missing)


def dialect_of(options: argparse.Namespace) -> Dialect:
    """How the table is written."""
    from securefedyj.tables.dialect import Dialect

    rename = dict(getattr(options, "own_columns", {}))  # of the site's own file
    if options.columns is not None:
        rename |= _columns_of(options.columns)
    for entry in options.rename:
        here, equals, agreed = entry.partition("=")
        if not (here and equals and agreed):
            raise InputError("SFY-CLI-002", f"{entry!r} must be HERE=AGREED, such as Alter=age.")
        rename[here] = agreed
    signs = {name: getattr(options, name) for name in ("decimal", "thousands")}
    given = {name: sign for name, sign in signs.items() if sign is not None}
    return Dialect(options.delimiter, encoding=options.encoding, rename=rename, **given)


def _columns_of(path: Path) -> dict[str, str]:
    from securefedyj.joining.site import read_entries

    columns: dict[str, str] | None = read_entries(path).get("columns")
    if columns is None:
        raise InputError("SFY-CLI-001", f"{path} has no table [columns]; add it.")
    return columns


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add the option --cache-mb."""
    parser.add_argument(
        "--cache-mb",
        type=int,
        metavar="N",
        help="memory, in MB, that may keep rows from one pass over the table to the next; without "
        "enough of it a run takes longer (default: a quarter of the machine's)",
    )


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """Add the option --ledger."""
    parser.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="your own list of runs, which is never sent: you are warned before another run over "
        "the same columns (default: ~/.securefedyj/ledger.jsonl)",
    )


def add_dask(parser: argparse.ArgumentParser) -> None:
    """Add the option --dask, which `reader_of` reads."""
    parser.add_argument(
        "--dask",
        metavar="SCHEDULER",
        help="let the workers of a Dask cluster read the table and sum: the address of its "
        "scheduler, such as tls://host:8786, or local (docs/tables.md)",
    )


@contextmanager
def reader_of(options: argparse.Namespace) -> Iterator[TableReader]:
    """Who reads the table."""
    from securefedyj.tables.files import HERE

    if options.dask is None or options.data is None:
        yield HERE
        return
    try:
        from securefedyj.tables.dask_cluster import cluster
    except ImportError:
        raise InputError(
            "SFY-CLI-003", "--dask needs Dask; `pip install securefedyj[dask]` installs it."
        ) from None
    with cluster(options.dask) as reader:
        yield reader


def read_transcript(path: Path) -> Transcript:
    """The transcript of a run; an error names the file."""
    from securefedyj.protocol.transcript import Transcript

    try:
        return Transcript.read(path)
    except IsADirectoryError:
        raise InputError(
            "SFY-CLI-004", f"{path}: this is a folder; give its transcript.jsonl"
        ) from None
    except ValueError as error:
        raise InputError(code_of(error, "SFY-CLI-005"), f"{path}: {error}") from None
