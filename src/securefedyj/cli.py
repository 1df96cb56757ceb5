"""The command `securefedyj`.

Exit codes: 0 done, 1 an error told in one sentence, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from securefedyj import __version__

OK, FAILED, INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is returned."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        print(f"securefedyj: {error}", file=sys.stderr)
        return FAILED
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="securefedyj",
        description="Make features Gaussian: one Yeo-Johnson transformation per feature.",
    )
    parser.add_argument("--version", action="version", version=f"securefedyj {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "fit example data beside scikit-learn, print the results, save a picture"
    parser = commands.add_parser("demo", help=summary, description=summary.capitalize() + ".")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="FOLDER",
        help="where demo.png is saved (default: %(default)s)",
    )
    parser.set_defaults(run=_run_demo)


def _run_demo(options: argparse.Namespace) -> None:
    from securefedyj import demo  # scikit-learn's datasets take a while to import

    demo.run(options.output)
