"""`securefedyj submit`: send a silo's rows once, sealed; and `submission`, what is public of it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from securefedyj.cli import options as shared
from securefedyj.cli.display import OK, Display, tell
from securefedyj.cli.join import carry_out, fetching, finish
from securefedyj.cli.options import Commands, command, flag, option
from securefedyj.files import read_within
from securefedyj.joining.options import JoinOptions
from securefedyj.network.consortium import Consortium
from securefedyj.printable import printable

if TYPE_CHECKING:
    from securefedyj.tables.files import TableReader

_DECLARED = ("consortium", "key", "certificate", "data", "without", "own_minimum", "ledger",
             "timeout", "wait", "proxy")  # fmt: skip
_PUBLIC = ("silo", "consortium", "digest", "fingerprint", "date")
_EXAMPLE = """\
securefedyj submit consortium.toml --key north.key --certificate north.pem \\
    --data rows.csv"""


def add(commands: Commands) -> None:
    summary = "submit a silo's rows once, sealed for the members of the committee"
    more = "A second submission for the same agreed file is not made: the first is sent again."
    parser = command(commands, "submit", run_submit, summary, _EXAMPLE, more)
    parser.set_defaults(no_report=False, cache_mb=None)
    shared.add_declared(parser, *_DECLARED)
    words = (
        "only make this file, and send it to nobody: give it to all members yourself (default: "
        "NAME.submission, which the hub gets if the agreed file has one)"
    )
    option(parser, "--output", "FILE", words, Path)
    words = "then wait for the result, and write it to this folder, as `securefedyj result` does"
    option(parser, "--result", "FOLDER", words, Path)
    shared.add_reading(parser, dask=True)
    flag(parser, "--json", "print the path of the file as JSON")
    summary = "show what is public about a submission"
    example = "securefedyj submission north.submission --consortium consortium.toml"
    parser = command(commands, "submission", run_submission, summary, example)
    option(parser, "file", "FILE", "submission, such as north.submission", Path)
    words = "agreed file, to check the signature and all parts"
    option(parser, "--consortium", "FILE", words, Path)
    flag(parser, "--json", "print JSON")


def run_submit(options: argparse.Namespace) -> int:
    path = shared.fill_from_site(options, options.data, *_DECLARED, *shared.READING, "columns")
    shared.refuse_unless_given(options, "consortium", "key", "certificate")
    display = Display()
    if path:
        display.say(f"Options that are not given here are read from {path}.")
    with shared.reader_of(options) as reader:
        made = _submit(options, reader, display)
        if options.result is None:
            if options.json:
                tell(json.dumps({"submission": str(made)}))
            return OK
        options.output = options.result
        return finish(options, fetching, reader, display)


def _submit(options: argparse.Namespace, reader: TableReader, display: Display) -> Path:
    from securefedyj.joining.submit import SubmitRun

    run = SubmitRun(
        JoinOptions.of(
            {**vars(options), "output": options.output or Path()}, shared.reading_of(options)[1]
        ),
        send=options.output is None,
        reader=reader,
        say=display.say,
        warn=display.say,
        rows=display.rows,
    )
    made: Path = carry_out(run, display)
    return made


def run_submission(options: argparse.Namespace) -> None:
    """Nothing in the file is trusted unless the agreed file is there."""
    from securefedyj.network.submission import MOST_HEAD, most_bytes, peek, read

    size = options.file.stat().st_size
    if checked := options.consortium is not None:
        consortium = Consortium.read(options.consortium)
        found = read(read_within(options.file, most_bytes(consortium.agreement())), consortium)
        header = found.header
    else:
        with open(options.file, "rb") as file:
            header = peek(file.read(MOST_HEAD))
    public = {name: getattr(header, name) for name in _PUBLIC} | {"bytes": size}
    if options.json:
        print(json.dumps(public | {"checked": checked}))
        return
    for name, value in public.items():
        tell(f"{name:<12} {printable(str(value))}")
    tell("")
    tell(
        "The signature is right, and nothing is missing."
        if checked
        else "Not checked: give --consortium to check the signature and that nothing is missing."
    )
