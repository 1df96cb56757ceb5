"""`securefedyj join`: take part in a run."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from securefedyj.cli import options as shared
from securefedyj.cli.display import FAILED, OK, Display, complain, tell, wrapped
from securefedyj.cli.options import Commands, command, flag, option
from securefedyj.joining.options import JoinOptions
from securefedyj.network.log import JoinLog, without_rows

if TYPE_CHECKING:
    from securefedyj.joining.run import JoinRun
    from securefedyj.joining.submit import SubmitRun
    from securefedyj.tables.files import TableReader

_DECLARED = ("consortium", "key", "certificate", "data", "without", "output", "own_minimum",
             "ledger", "cache_mb", "timeout", "wait", "proxy")  # fmt: skip
_EXAMPLE = """\
securefedyj join consortium.toml --key north.key --certificate north.pem \\
    --data rows.csv --output result"""


def add(commands: Commands) -> None:
    summary = "take part in a run: as a silo with --data, as a helper without"
    parser = command(commands, "join", run, summary, _EXAMPLE)
    shared.add_declared(parser, *_DECLARED)
    shared.add_reading(parser, dask=True)
    option(parser, "--log", "FILE", "append what the terminal shows to a file, with times", Path)
    flag(parser, "--no-report", "write no report.html; `securefedyj report` can write it later")
    flag(parser, "--json", "print the paths of the written files as JSON")


def run(options: argparse.Namespace) -> int:
    path = shared.fill_from_site(options, options.data)
    shared.refuse_unless_given(options, "consortium", "key", "certificate", "output")
    display = Display(log=None if options.log is None else JoinLog(options.log))
    if path:
        display.say(f"Options that are not given here are read from {path}.")
    try:
        with shared.reader_of(options) as reader:
            return _join(options, reader, display)
    except Exception as error:
        display.note(without_rows(error))
        raise


def _join(options: argparse.Namespace, reader: TableReader, display: Display) -> int:
    from securefedyj.joining.run import JoinRun

    given = {**vars(options), "report": not options.no_report}
    run = JoinRun(
        JoinOptions.of(given, shared.reading_of(options)[1]),
        reader=reader,
        say=display.say,
        warn=lambda sentence: display.say(wrapped(sentence)),
        progress=display.progress,
        rows=display.rows,
    )
    carry_out(run, display)
    done = f"Done. In {options.output}: {', '.join(path.name for path in run.written.values())}"
    if options.json:
        paths = {name: str(path) for name, path in run.written.items()}
        tell(json.dumps({"party": run.party.name, **paths}))
    else:
        tell(wrapped(done))
    display.note(done)
    if run.no_report:
        complain(run.no_report)
        display.note(run.no_report)
    return FAILED if run.no_report else OK


def carry_out(run: JoinRun | SubmitRun, display: Display) -> Any:
    """Take part, and return the result."""
    try:
        return asyncio.run(_until_signal(run))
    except (KeyboardInterrupt, asyncio.CancelledError):
        display.say(run.on_leaving("command"))
        raise KeyboardInterrupt from None
    finally:
        display.end()


async def _until_signal(run: JoinRun | SubmitRun) -> Any:
    """Take part; at SIGINT or SIGTERM notify the other parties first."""
    task: asyncio.Future[Any] = asyncio.ensure_future(run.take_part())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    return await task
