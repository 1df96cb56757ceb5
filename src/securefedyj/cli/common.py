"""What several commands share: exit codes, the look of their help, and what they print."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from securefedyj.errors import InputError, code_of
from securefedyj.network.consortium import Consortium
from securefedyj.network.consortium.succession import differences, note_on_two_results
from securefedyj.printable import printable_lines
from securefedyj.protocol.transcript import Transcript

OK, FAILED, INTERRUPTED = 0, 1, 130
VERIFIED = (
    "Verified: all parties reject a result that is wrong for the sums of the silos,\n"
    "even if one member of the committee cheats"
)
NOT_VERIFIED = "NOT verified: one cheating member of the committee can falsify the result"

_LONGEST_NUMBER = 8  # characters
COLUMNS = 79
"""Of a terminal, without the last, which some terminals leave free."""


class Help(NamedTuple):
    """What the help of a command shows besides its options."""

    summary: str
    example: str
    more: str = ""


def tell(words: str, *, error: bool = False) -> None:
    """Print for the user; text of others in it cannot control the terminal.

    Line breaks are ours: a text of others passes `printable` before it gets here.
    """
    print(printable_lines(words), file=sys.stderr if error else sys.stdout, flush=error)


def wrapped(sentence: str, indent: str = "") -> str:
    """In lines that fit a terminal; names and paths stay whole."""
    columns = COLUMNS - len(indent)
    lines = textwrap.fill(sentence, columns, break_on_hyphens=False, break_long_words=False)
    return textwrap.indent(lines, indent)


def complain(sentence: str) -> None:
    """Print an error; a terminal itself would break it within words."""
    words = f"securefedyj: {sentence}"
    tell(wrapped(words) if sys.stderr.isatty() else words, error=True)


def tell_differences(before: Consortium, after: Consortium, path: Path) -> None:
    """Print how an agreed file differs from an earlier one, which is at a path."""
    lines = differences(before, after)
    if not lines:
        tell(wrapped(f"It agrees with {path} in everything; that file would do as well."))
        return
    tell(f"Compared with {path}:")
    for line in lines:
        tell(f"  {line}")
    if note := note_on_two_results(before, after):
        tell(wrapped(note))


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


def read_transcript(path: Path) -> Transcript:
    """The transcript of a run; an error names the file."""
    try:
        return Transcript.read(path)
    except IsADirectoryError:
        raise InputError(
            "SFY-CLI-004", f"{path}: this is a folder; give its transcript.jsonl"
        ) from None
    except ValueError as error:
        raise InputError(code_of(error, "SFY-CLI-005"), f"{path}: {error}") from None


def short(value: float, most: int = 4) -> str:
    """A number in few characters and, unless it is whole, few digits; a dash for NaN."""
    if value != value:
        return "-"
    if value == round(value) and abs(value) < 10 ** (_LONGEST_NUMBER - 1):
        return f"{value + 0.0:.0f}"
    for digits in range(most, 1, -1):
        mantissa, e, power = f"{value:.{digits}g}".partition("e")
        text = f"{mantissa}e{int(power)}" if e else mantissa
        if 0 < int(power or 0) < _LONGEST_NUMBER - 2:  # 1390 rather than 1.39e3
            return f"{value:.0f}"
        if len(text) <= _LONGEST_NUMBER:
            return text
    return f"{value:.0e}"
