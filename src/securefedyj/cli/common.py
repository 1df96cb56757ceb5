"""What several commands share: exit codes, the look of their help, and files that they read."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from securefedyj.network.identity import Identity, check_private, fingerprint
from securefedyj.printable import printable_lines

if TYPE_CHECKING:
    from securefedyj.protocol.transcript import Transcript

Commands = Any  # argparse's own type for this is private

OK, FAILED, INTERRUPTED = 0, 1, 130
VERIFIED = (
    "Verified: no result is accepted that is not right for the sums that the silos\n"
    "give, whatever one member of the committee does"
)
NOT_VERIFIED = "NOT verified: one member of the committee that cheats can falsify the result"

_COLUMNS = 79


def tell(words: str, *, error: bool = False) -> None:
    """Print for the user; what others have written into it cannot control the terminal.

    Line breaks are ours: a text of others passes `printable` before it gets here.
    """
    print(printable_lines(words), file=sys.stderr if error else sys.stdout, flush=error)


def wrapped(sentence: str) -> str:
    """In lines that fit a terminal; names and paths stay whole."""
    return textwrap.fill(sentence, _COLUMNS, break_on_hyphens=False, break_long_words=False)


def complain(sentence: str) -> None:
    """Say on standard error what went wrong; a terminal would break it within words."""
    words = f"securefedyj: {sentence}"
    tell(wrapped(words) if sys.stderr.isatty() else words, error=True)


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


def add_missing(parser: argparse.ArgumentParser) -> None:
    """Add the option --missing, which `missing_values` reads."""
    parser.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="TEXT",
        help="a further cell that stands for a missing value, besides empty, NA, N/A, NaN and "
        'null; for example --missing "?" or --missing=-999',
    )


def missing_values(options: argparse.Namespace) -> tuple[str, ...]:
    """The cells that stand for a missing value."""
    from securefedyj.tables.files import MISSING

    return (*MISSING, *options.missing)


def read_certificate(path: Path) -> str:
    """A certificate in PEM form; an error names the file."""
    try:
        pem = path.read_text(encoding="ascii")
        fingerprint(pem)
    except ValueError as error:
        reason = "this is not text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ValueError(f"{path}: {reason}.") from None
    return pem


def read_identity(options: argparse.Namespace) -> Identity:
    """The key and the certificate of --key and --certificate, both there and the key private."""
    identity = Identity(options.key, options.certificate)
    open(identity.certificate, "rb").close()  # an error that names the file, where TLS would not
    check_private(identity.key)
    return identity


def read_transcript(path: Path) -> Transcript:
    """The transcript of a run; an error names the file."""
    from securefedyj.protocol.transcript import Transcript

    try:
        return Transcript.read(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
