"""`securefedyj join`: take part in a run."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from securefedyj.cli.common import (
    FAILED,
    OK,
    Commands,
    add_cache,
    add_dask,
    add_ledger,
    add_reading,
    command,
    complain,
    dialect_of,
    reader_of,
    tell,
    wrapped,
)
from securefedyj.cli.display import Display
from securefedyj.cli.site import add_site, fill_from_site, refuse_unless_given
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import read_certificate, read_identity
from securefedyj.network.session.peers import TIMEOUT, WAIT

if TYPE_CHECKING:
    from securefedyj.joining.part import Part
    from securefedyj.joining.run import Run
    from securefedyj.tables.files import TableReader


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "join",
        "take part in a run: as a silo with --data, as a helper without",
        "securefedyj join consortium.toml --key north.key --certificate north.pem \\\n"
        "    --data rows.csv --output result",
    )
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="a consortium.toml")
    parser.add_argument("--key", type=Path, metavar="KEY", help="of the certificate; mode 600")
    parser.add_argument("--certificate", type=Path, metavar="CERT.pem", help="ours, as in FILE")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="TABLE",
        help="rows, in a file or in a folder of files; columns as in FILE",
    )
    add_reading(parser)
    add_cache(parser)
    add_dask(parser)
    parser.add_argument(
        "--own-minimum",
        type=int,
        metavar="N",
        help="a feature of which this silo has fewer values counts as missing here (default: 0)",
    )
    add_ledger(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="for parameters.json, transcript.jsonl, cost.json, provenance.json and report.html; "
        "to go on after an interruption, give the same folder again",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help=f"of silence, after which a party counts as lost (default: {TIMEOUT:g})",
    )
    parser.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        help=f"to wait for parties to come, to come back, or to compute (default: {WAIT:g})",
    )
    add_site(parser)
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="to keep what the terminal shows, with times"
    )
    parser.add_argument(
        "--proxy",
        metavar="URL",
        help="of an HTTP proxy on the way to the hub, such as http://proxy.example.org:3128 "
        "(default: https_proxy of the environment, but for no_proxy); its user name and password "
        "in the environment only: SECUREFEDYJ_PROXY_AUTH=USER:PASSWORD",
    )
    parser.add_argument(
        "--no-report",
        action="store_true",
        help="write no report.html; `securefedyj report` makes one at any time",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.set_defaults(run=run, wrong_usage=parser.error)


def run(options: argparse.Namespace) -> int:
    from securefedyj.joining.log import Log, without_rows

    read = fill_from_site(options)
    refuse_unless_given(options, "file", "key", "certificate", "output")
    display = Display(log=None if options.log is None else Log(options.log))
    if read:
        display.say(read)
    try:
        with reader_of(options) as reader:
            return _join(options, reader, display)
    except Exception as error:
        display.note(without_rows(error))
        raise


def _join(options: argparse.Namespace, reader: TableReader, display: Display) -> int:
    from securefedyj.joining.run import Run

    part = _part(options, reader, display)
    run = Run(part)
    try:
        asyncio.run(_until_signal(run))
    except KeyboardInterrupt:
        display.say(run.on_leaving("command"))
        raise
    finally:
        display.end()
    names = ", ".join(path.name for path in run.written.values())
    done = f"Done. In {options.output}: {names}"
    if options.json:
        paths = {name: str(path) for name, path in run.written.items()}
        tell(json.dumps({"party": part.party.name, **paths}))
    else:
        tell(wrapped(done))
    display.note(done)
    if run.no_report:
        complain(run.no_report)
        display.note(run.no_report)
    return FAILED if run.no_report else OK


def _part(options: argparse.Namespace, reader: TableReader, display: Display) -> Part:
    from securefedyj.joining.part import Part

    consortium = Consortium.read(options.file)
    return Part(
        consortium,
        consortium.party_with(read_certificate(options.certificate)),
        read_identity(options.key, options.certificate),
        options.output,
        data=options.data,
        missing=options.missing,
        dialect=dialect_of(options),
        reader=reader,
        cache_mb=options.cache_mb,
        own_minimum=options.own_minimum or 0,
        ledger=options.ledger,
        timeout=TIMEOUT if options.timeout is None else options.timeout,
        wait=WAIT if options.wait is None else options.wait,
        report=not options.no_report,
        proxy=options.proxy,
        say=display.say,
        warn=lambda sentence: display.say(wrapped(sentence)),
        progress=display.progress,
        rows=display.rows,
    )


async def _until_signal(run: Run) -> None:
    """Take part; at SIGINT or SIGTERM take leave of the others first."""
    task = asyncio.ensure_future(run.take_part())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
