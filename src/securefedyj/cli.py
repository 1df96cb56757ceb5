"""The command `securefedyj`.

Exit codes: 0 done, 1 an error told in one sentence, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from securefedyj import __version__
from securefedyj.cli_network import add_commands

OK, FAILED, INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is returned."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (OSError, ValueError) as error:
        print(f"securefedyj: {error}", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="securefedyj",
        description="Make features Gaussian: one Yeo-Johnson transformation per feature.",
    )
    parser.add_argument("--version", action="version", version=f"securefedyj {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_audit(commands)
    add_commands(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "fit example data beside scikit-learn, print the results, save a picture"
    parser = commands.add_parser("demo", help=summary, description=summary.capitalize() + ".")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="FOLDER",
        help="where demo.png and transcript.jsonl are saved (default: %(default)s)",
    )
    parser.set_defaults(run=_run_demo)


def _run_demo(options: argparse.Namespace) -> int:
    from securefedyj import demo  # scikit-learn's datasets take a while to import

    demo.run(options.output)
    return OK


def _add_audit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "check that a run revealed nothing that does not follow from its result"
    parser = commands.add_parser(
        "audit",
        help=summary,
        description=summary.capitalize() + ", and say what was revealed to whom. "
        "The exit code is 0 if the transcript passes and 1 if it does not.",
    )
    parser.add_argument(
        "transcript", type=Path, metavar="FILE", help="a transcript.jsonl that a run has written"
    )
    parser.add_argument("--json", action="store_true", help="findings as JSON, for a script")
    parser.set_defaults(run=_run_audit)


def _run_audit(options: argparse.Namespace) -> int:
    from securefedyj.transcript import Transcript

    try:
        audit = Transcript.read(options.transcript).audit()
    except ValueError as error:
        raise ValueError(f"{options.transcript}: {error}") from error
    if options.json:
        print(json.dumps({"passed": audit.passed, "findings": audit.findings}))
    else:
        print(audit.statement())
    return OK if audit.passed else FAILED
