"""`securefedyj join` takes part in a run; `securefedyj result` fetches that of a submitted run."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from securefedyj.cli import options as shared
from securefedyj.cli.display import FAILED, OK, Display, complain, tell, wrapped
from securefedyj.cli.options import Commands, command, flag, option
from securefedyj.joining.options import JoinOptions
from securefedyj.network.log import JoinLog, without_rows

if TYPE_CHECKING:
    from securefedyj.joining.own import OwnPart
    from securefedyj.tables.files import TableReader

_PARTY = ("consortium", "key", "certificate", "data", "without", "output")
_NETWORK = ("timeout", "wait", "proxy")
_JOINING = (*_PARTY, "submissions", "own_minimum", "ledger", "cache_mb", *_NETWORK)
_FETCHING = (*_PARTY, "ledger", "cache_mb", *_NETWORK)
_EXAMPLE = """\
securefedyj join consortium.toml --key north.key --certificate north.pem \\
    --data rows.csv --output result"""
_RESULT = """\
securefedyj result consortium.toml --key north.key --certificate north.pem \\
    --data rows.csv --output result"""


def add(commands: Commands) -> None:
    summary = "take part in a run: as a silo with --data, as a helper without"
    _declare(command(commands, "join", join, summary, _EXAMPLE), _JOINING)
    summary = "fetch the result of a submitted run, signed by two of its members"
    more = "With --data the report shows your own rows; nothing is sent."
    parser = command(commands, "result", result, summary, _RESULT, more)
    _declare(parser, _FETCHING)
    words = "the members' files MEMBER.result, if they came by another way than the hub's mailbox"
    option(parser, "--files", "FILE", words, Path, (), nargs="+")


def _declare(parser: argparse.ArgumentParser, names: tuple[str, ...]) -> None:
    shared.add_declared(parser, *names)
    shared.add_reading(parser, dask=True)
    option(parser, "--log", "FILE", "append what the terminal shows to a file, with times", Path)
    flag(parser, "--no-report", "write no report.html; `securefedyj report` can write it later")
    flag(parser, "--json", "print the paths of the written files as JSON")


def join(options: argparse.Namespace) -> int:
    def made(given: JoinOptions, display: Display, **callbacks: Any) -> OwnPart:
        from securefedyj.joining.run import JoinRun

        return JoinRun(given, progress=display.progress, **callbacks)

    return _take_part(options, made)


def result(options: argparse.Namespace) -> int:
    def made(given: JoinOptions, display: Display, **callbacks: Any) -> OwnPart:
        return fetching(given, display, files=options.files, **callbacks)

    return _take_part(options, made)


def fetching(given: JoinOptions, _: Display, **more: Any) -> OwnPart:
    """What fetches a result."""
    from securefedyj.joining.fetching import ResultRun

    return ResultRun(given, **more)


def _take_part(options: argparse.Namespace, made: Callable[..., OwnPart]) -> int:
    path = shared.fill_from_site(options, options.data)
    shared.refuse_unless_given(options, "consortium", "key", "certificate", "output")
    display = Display(log=None if options.log is None else JoinLog(options.log))
    if path:
        display.say(f"Options that are not given here are read from {path}.")
    try:
        with shared.reader_of(options) as reader:
            return finish(options, made, reader, display)
    except Exception as error:
        display.note(without_rows(error))
        raise


def finish(
    options: argparse.Namespace,
    made: Callable[..., OwnPart],
    reader: TableReader,
    display: Display,
) -> int:
    """Take part, and say what is in the output folder."""
    given = {**vars(options), "report": not options.no_report}
    part = made(
        JoinOptions.of(given, shared.reading_of(options)[1]),
        display,
        reader=reader,
        say=display.say,
        warn=lambda sentence: display.say(wrapped(sentence)),
        rows=display.rows,
    )
    carry_out(part, display)
    done = f"Done. In {options.output}: {', '.join(path.name for path in part.written.values())}"
    if options.json:
        paths = {name: str(path) for name, path in part.written.items()}
        tell(json.dumps({"party": part.party.name, **paths}))
    else:
        tell(wrapped(done))
    display.note(done)
    if part.no_report:
        complain(part.no_report)
        display.note(part.no_report)
    return FAILED if part.no_report else OK


def carry_out(part: OwnPart, display: Display) -> Any:
    """Take part, and return what it leads to."""
    try:
        return asyncio.run(_until_signal(part))
    except (KeyboardInterrupt, asyncio.CancelledError):
        display.say(part.on_leaving("command"))
        raise KeyboardInterrupt from None
    finally:
        display.end()


async def _until_signal(part: OwnPart) -> Any:
    """Take part; at SIGINT or SIGTERM notify the other parties first."""
    task = asyncio.ensure_future(part.take_part())
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # on Windows, which can fetch a result
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
    return await task
