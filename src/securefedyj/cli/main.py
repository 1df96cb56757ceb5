"""The command `securefedyj`.

Exit codes: 0 done, 1 an error told in one sentence, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from securefedyj import __version__
from securefedyj.cli.network import add_commands, add_missing, command

OK, FAILED, INTERRUPTED = 0, 1, 130


class Refused(Exception):
    """A command that cannot run as it was called; the message says what to do."""


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
    except (OSError, ValueError, Refused) as error:
        print(f"securefedyj: {_sentence(error)}", file=sys.stderr)
        return FAILED


def _sentence(error: Exception) -> str:
    """What went wrong, without the numbers that systems have for it."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="securefedyj",
        description="Make features Gaussian: one Yeo-Johnson transformation per feature.",
    )
    parser.add_argument("--version", action="version", version=f"securefedyj {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_example(commands)
    add_commands(commands)
    _add_transform(commands)
    _add_report(commands)
    _add_audit(commands)
    _add_paper(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "fit example data beside scikit-learn, then by a hub and three parties on one machine"
    parser = commands.add_parser("demo", help=summary, description=summary.capitalize() + ".")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out"),
        metavar="FOLDER",
        help="where to save the picture and the transcript (default: %(default)s)",
    )
    parser.set_defaults(run=_run_demo)


def _run_demo(options: argparse.Namespace) -> int:
    from securefedyj.demo import run as demo  # scikit-learn's datasets take a while to import

    demo.run(options.output)
    return OK


def _add_example(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "write tables of example silos, to try a consortium with"
    parser = command(commands, "example", summary, "securefedyj example --output first")
    parser.add_argument("--silos", type=int, default=3, help="2 to 4 (default: %(default)s)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="for NAME/patients.csv of each silo, and features.csv (default: here)",
    )
    parser.set_defaults(run=_run_example)


def _run_example(options: argparse.Namespace) -> int:
    from securefedyj.demo import example

    for path, rows in example.write(options.output, options.silos):
        print(f"{path}: {rows} rows")
    print(f"{options.output / 'features.csv'}: names and bounds of the columns")
    return OK


def _add_audit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = command(
        commands,
        "audit",
        "check that a run revealed nothing that does not follow from its result",
        "securefedyj audit result/transcript.jsonl",
        "Say what was revealed to whom. The exit code is 0 if the transcript passes and 1 if it "
        "does not.",
    )
    parser.add_argument(
        "transcript", type=Path, metavar="FILE", help="a transcript.jsonl that a run has written"
    )
    parser.add_argument("--json", action="store_true", help="findings as JSON, for a script")
    parser.set_defaults(run=_run_audit)


def _run_audit(options: argparse.Namespace) -> int:
    from securefedyj.protocol.transcript import Transcript, TranscriptError

    try:
        audit = Transcript.read(options.transcript).audit()
    except TranscriptError as error:
        raise Refused(f"{options.transcript}: {error}") from None
    if options.json:
        print(json.dumps({"passed": audit.passed, "findings": audit.findings}))
    else:
        print(audit.statement())
    return OK if audit.passed else FAILED


def _add_paper(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "compute the paper's figures and tables again, write them and a page of all"
    parser = commands.add_parser("paper", help=summary, description=summary.capitalize() + ".")
    parser.add_argument(
        "items", nargs="*", metavar="ITEM", help="number or name of an item (default: all)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="datasets that come with no package (default: the variable SECUREFEDYJ_DATA)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer features, draws and points")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out/paper"),
        metavar="FOLDER",
        help="where paper.html, figures and data are saved (default: %(default)s)",
    )
    parser.set_defaults(run=_run_paper)


def _run_paper(options: argparse.Namespace) -> int:
    runner, item, datasets = (_experiments(name) for name in ("runner", "item", "datasets"))
    try:
        names = runner.identify(options.items)
    except ValueError as error:
        raise Refused(error) from None
    settings = item.Settings(quick=options.quick, data=datasets.folder(options.data))
    runner.run(names, settings, options.output)
    return OK


def _experiments(module: str) -> Any:
    """A module of the folder `experiments`, which is in the repository, not in the package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "experiments" / "runner.py").exists():
        raise Refused(
            "the folder 'experiments' is not there: it is part of the repository, not of the "
            "installed package. Clone the repository and run `make paper` in it."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return importlib.import_module(f"experiments.{module}")
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise Refused(f'{package} is missing: pip install "securefedyj[paper]"') from None


def _add_transform(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = command(
        commands,
        "transform",
        "apply the transformation of a run to a table",
        "securefedyj transform result/parameters.json rows.csv --output gaussian.csv",
        "The features are found by their names; all other columns, and missing values, stay as "
        "they are.",
    )
    parser.add_argument(
        "parameters", type=Path, metavar="PARAMETERS", help="a parameters.json of a run"
    )
    parser.add_argument(
        "table", type=Path, metavar="TABLE", help="a .csv, .csv.gz or .parquet file with a header"
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="OUT", help="the new table, same format"
    )
    parser.add_argument("--inverse", action="store_true", help="undo the transformation")
    add_missing(parser)
    parser.set_defaults(run=_run_transform)


def _run_transform(options: argparse.Namespace) -> int:
    import warnings

    from securefedyj import parameters
    from securefedyj.tables import files as tables

    read = parameters.read(options.parameters)
    fitted = read.estimator()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The columns were found by their names already.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        done = tables.transform_table(
            options.table,
            options.output,
            read.agreement.features,
            fitted.inverse_transform if options.inverse else fitted.transform,
            missing=(*tables.MISSING, *options.missing),
        )
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        print(f"securefedyj: note: {text}", file=sys.stderr)
    print(
        f"{options.output}: {done.rows} rows, {done.transformed} columns "
        f"{'transformed back' if options.inverse else 'transformed'}, "
        f"{done.passed_through} passed through."
    )
    return OK


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = command(
        commands,
        "report",
        "write a page about a run: its result, what it revealed, and plots of your own data",
        "securefedyj report result/transcript.jsonl --data rows.csv \\\n"
        "    --cost result/cost.json --output report.html",
        "With --data the page shows your own rows and should stay in your organization; nothing is "
        "sent.",
    )
    parser.add_argument(
        "transcript", type=Path, metavar="TRANSCRIPT", help="a transcript.jsonl of a run"
    )
    parser.add_argument("--data", type=Path, metavar="TABLE", help="your own table, to be drawn")
    parser.add_argument("--cost", type=Path, metavar="FILE", help="the cost of the run, as JSON")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="what `plan --json` had printed")
    parser.add_argument(
        "--plots",
        type=int,
        default=30,
        metavar="N",
        help="draw so many features at most (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the page (default: %(default)s)",
    )
    add_missing(parser)
    parser.set_defaults(run=_run_report)


def _run_report(options: argparse.Namespace) -> int:
    from securefedyj.protocol.transcript import Transcript
    from securefedyj.report import page as report
    from securefedyj.tables import files as tables

    try:
        transcript = Transcript.read(options.transcript)
    except ValueError as error:
        raise ValueError(f"{options.transcript}: {error}") from error
    cost = {}
    if options.plan is not None:
        levels = transcript.agreement.levels_per_exchange
        cost["plan"] = report.read_plan(options.plan, levels)
    if options.cost is not None:
        cost["this run"] = report.read_cost(options.cost)
    values = None
    if options.data is not None:
        missing = (*tables.MISSING, *options.missing)
        values = tables.read_table(options.data, transcript.agreement.features, missing)
    report.write(options.output, transcript, values, cost, max(options.plots, 0))
    print(f"{options.output}: written." + ("" if values is None else " It shows your own data."))
    return OK
