"""The command `securefedyj`.

Exit codes: 0 done, 1 an error with one message, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from securefedyj import __version__, kernel
from securefedyj.cli import (
    check,
    desk,
    features,
    first_steps,
    hub,
    join,
    new,
    rehearse,
    results,
    submit,
)
from securefedyj.cli.display import FAILED, INTERRUPTED, OK, TOO_LARGE, complain, sentence_of

# In the order of their use. The function `add` of each declares one to three commands; the
# function that carries out a command imports what takes long to import.
_MODULES = (first_steps, features, new, check, hub, rehearse, join, submit, desk, results)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is returned."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals that do not know Unicode
    options = parsers()[0].parse_args(arguments)
    try:
        return int(options.run(options) or OK)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (OSError, ValueError) as error:
        complain(sentence_of(error))
        return FAILED
    except (MemoryError, RecursionError, OverflowError):
        complain(TOO_LARGE)
        return FAILED


class _Version(argparse.Action):
    """Prints the version, and the kernel in use: without one, everything is slower."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"securefedyj {__version__} ({kernel.described()})")
        parser.exit()


def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of a whole command line, and those of the commands by their names."""
    parser = argparse.ArgumentParser(
        prog="securefedyj",
        description="Make features Gaussian: one Yeo-Johnson transformation per feature.",
        epilog="A consortium types keygen, new, check, hub and join, in this order; see "
        "docs/first-consortium.md. `securefedyj COMMAND --help` has an example of each.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in _MODULES:
        module.add(commands)
    return parser, commands.choices
