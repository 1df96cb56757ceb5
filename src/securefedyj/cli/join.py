"""`securefedyj join`: take part in a run."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from securefedyj.cli.common import (
    FAILED,
    OK,
    Commands,
    add_cache,
    add_dask,
    add_reading,
    cache_bytes,
    command,
    complain,
    dialect_of,
    missing_values,
    read_certificate,
    read_identity,
    reader_of,
    tell,
    wrapped,
)
from securefedyj.cli.display import Display
from securefedyj.cli.record import add_ledger
from securefedyj.network.bookkeeping import Record
from securefedyj.network.consortium import Consortium, PartyEntry
from securefedyj.network.patience import TIMEOUT, WAIT
from securefedyj.network.subtraction import note_on_missing, note_on_silos
from securefedyj.printable import printable

if TYPE_CHECKING:
    from securefedyj.network.participant import Settings
    from securefedyj.numerics.silo import TimedSilo
    from securefedyj.protocol.cost import Cost
    from securefedyj.protocol.transcript import Transcript
    from securefedyj.tables.census import Own
    from securefedyj.tables.files import Reader


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "join",
        "take part in a run: as a silo with --data, as a helper without",
        "securefedyj join consortium.toml --key north.key --certificate north.pem \\\n"
        "    --data rows.csv --output result",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a consortium.toml")
    parser.add_argument(
        "--key", type=Path, required=True, metavar="KEY", help="of the certificate; mode 600"
    )
    parser.add_argument(
        "--certificate", type=Path, required=True, metavar="CERT.pem", help="ours, as in FILE"
    )
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
        default=0,
        metavar="N",
        help="a feature of which this silo has fewer values counts as missing here (default: "
        "%(default)s)",
    )
    add_ledger(parser)
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="for parameters.json, transcript.jsonl, report.html and cost.json; to go on after an "
        "interruption, give the same folder again",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help="of silence, after which a party counts as lost (default: %(default)g)",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=WAIT,
        metavar="SECONDS",
        help="to wait for parties to come, to come back, or to compute (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    with reader_of(options) as reader:
        return _join(options, reader)


def _join(options: argparse.Namespace, reader: Reader) -> int:
    from securefedyj.network.participant import Settings
    from securefedyj.report.results import REPORT, write_results

    if not (options.timeout > 0 and options.wait > 0):
        raise ValueError("--timeout and --wait must be positive.")
    if options.own_minimum < 0:
        raise ValueError("--own-minimum must not be negative.")
    consortium = Consortium.read(options.file)
    consortium.agreed_hub()
    identity = read_identity(options)
    party = consortium.party_with(read_certificate(options.certificate))
    _refuse_result_without_state(options.output)
    display = Display()
    own = _own_table(party, consortium, options, display, reader)
    silo = _arranged(own, consortium, options, display)
    record = _record(party, consortium, own, options, display)
    options.output.mkdir(parents=True, exist_ok=True)
    written: dict[str, Path] = {}
    reported: list[str] = []  # why there is no report, or nothing, as soon as it was tried

    def report(transcript: Transcript) -> None:
        display.say("The result is here. Writing the report.")
        reported.append(_try_report(consortium, transcript, own, options.output, display))

    def done(transcript: Transcript, cost: Cost | None) -> None:
        written.update(write_results(transcript, cost, party.name, options.output, options.data))
        if record is not None:
            record.finished(display.say)
        if cost is None:  # it was there from the start, and others may not come for long
            report(transcript)

    settings = Settings(
        consortium,
        party.name,
        identity,
        options.output,
        timeout=options.timeout,
        wait=options.wait,
        rows=_digest_of(own, consortium),
        earlier=0 if record is None else record.unfinished,
        started=(lambda: None) if record is None else record.began,
        say=display.say,
        progress=display.progress,
        done=done,
    )
    try:
        transcript = asyncio.run(_until_signal(settings, silo))
        if not reported:
            report(transcript)
    except KeyboardInterrupt:
        display.say(_on_leaving(options.output, written=bool(written), reported=bool(reported)))
        raise
    except Exception:
        if record is not None and not written:
            record.failed(display.say)
        raise
    finally:
        display.end()
    (failed,) = reported
    if not failed:
        written["report"] = options.output / REPORT
    if options.json:
        paths = {name: str(path) for name, path in written.items()}
        tell(json.dumps({"party": party.name, **paths}))
    else:
        tell(f"Done. In {options.output}: {', '.join(path.name for path in written.values())}")
    if failed:
        complain(failed)
    return FAILED if failed else OK


def _on_leaving(output: Path, *, written: bool, reported: bool) -> str:
    """What to tell a user who has pressed Ctrl-C."""
    if not written:
        return "Stopped; the others are told, and wait. The same command goes on from here."
    if not reported:
        return f"Stopped. The result is in {output}, its report is not; the same command writes it."
    return f"Stopped. The result is in {output}."


def _refuse_result_without_state(output: Path) -> None:
    """A run would find a result that is not its own when it comes to its end."""
    from securefedyj.network.journal import FILE as STATE
    from securefedyj.report.results import PARAMETERS

    if (output / PARAMETERS).exists() and not (output / STATE).exists():
        raise ValueError(
            f"{output} has a {PARAMETERS} and no {STATE}: it is not the folder of a run that could "
            "go on. Nothing is replaced; choose another --output."
        )


def _own_table(
    party: PartyEntry,
    consortium: Consortium,
    options: argparse.Namespace,
    display: Display,
    reader: Reader,
) -> Own | None:
    """The rows of a silo, of which it is told what stays out; a helper has none."""
    from securefedyj.tables.census import taken_in
    from securefedyj.tables.minimum import few_values, without

    if (party.role == "silo") != (options.data is not None):
        raise ValueError(
            f"{party.name!r} is a {party.role}: it must join "
            + ("with --data." if party.role == "silo" else "without --data.")
        )
    if options.data is None:
        return None
    names = [feature.name for feature in consortium.features]
    source = reader.source(options.data, names, missing_values(options), dialect_of(options))
    # The other half is for the same rows, arranged.
    own = taken_in(source, cache_bytes(options) // 2, partial(display.rows, "read"))
    display.say(f"Read {own.census.rows:,} rows of {len(names):,} features.")
    few = few_values(own.census, options.own_minimum)
    for j in few:
        display.say(
            f"{printable(names[j])}: fewer than {options.own_minimum} values here; it counts as "
            "missing."
        )
    return without(own, few)


def _arranged(
    own: Own | None, consortium: Consortium, options: argparse.Namespace, display: Display
) -> TimedSilo | None:
    """The rows as the protocol asks for them; each exchange is a pass over them."""
    from securefedyj.protocol.silos import timed_silo
    from securefedyj.tables.memory import HeldSource

    if own is None:
        return None
    held = own.source.nbytes if isinstance(own.source, HeldSource) else 0
    room, told = cache_bytes(options) - held, partial(display.rows, "summed")
    return timed_silo(consortium.agreement(), own.source, room, told)


def _digest_of(own: Own | None, consortium: Consortium) -> Callable[[bytes], str] | None:
    """What tells later, under a key, whether these are still the same rows."""
    from securefedyj.tables.digest import rows_digest

    if own is None:
        return None
    return partial(rows_digest, own.source, [feature.name for feature in consortium.features])


def _record(
    party: PartyEntry,
    consortium: Consortium,
    own: Own | None,
    options: argparse.Namespace,
    display: Display,
) -> Record | None:
    """A silo's run in its ledger; the silo is told what results could tell, before anybody else."""
    from securefedyj.report.results import PARAMETERS
    from securefedyj.tables.minimum import missing_everywhere

    said = [note_on_silos(consortium)]
    record = None
    if own is not None:
        names = [feature.name for feature in consortium.features]
        empty = [names[j] for j in missing_everywhere(own.census)]
        said.append(note_on_missing(consortium, empty))
        record = Record(consortium, party.name, own.source, options.output, options.ledger)
        said += [f"Warning: {warning}" for warning in record.warnings()]
    if not (options.output / PARAMETERS).exists():  # else there is nothing more to run
        for sentence in filter(None, said):
            display.say(wrapped(sentence))
    return record


async def _until_signal(settings: Settings, silo: TimedSilo | None) -> Transcript:
    """Take part; at SIGINT or SIGTERM take leave of the others first."""
    from securefedyj.network.participant import participate

    task = asyncio.ensure_future(participate(settings, silo))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _warn_of_implausible(transcript: Transcript, own: Own | None, display: Display) -> None:
    """Tell the silo, and nobody else, where lambda does not go with its own rows."""
    from securefedyj.report.plausibility import implausible_for, warning

    if own is not None and transcript.result is not None:
        doubtful = implausible_for(own, transcript.result)
        names = [transcript.agreement.features[j] for j in doubtful.nonzero()[0]]
        if names:
            display.say(wrapped(f"Warning: {warning(names)}"))


def _try_report(
    consortium: Consortium,
    transcript: Transcript,
    own: Own | None,
    folder: Path,
    display: Display,
) -> str:
    """Write the report; return why that failed, if it did: the result is more than its report."""
    from securefedyj.report.results import write_report

    try:
        _warn_of_implausible(transcript, own, display)
        sample, rows = (None, None) if own is None else (own.drawn, own.census.rows)
        write_report(consortium, transcript, sample, rows, folder)
    except Exception as error:
        # Only the system's own words: others may quote rows.
        why = error if isinstance(error, OSError) else type(error).__name__
        return (
            f"The report could not be written ({why}); the result is in {folder}. "
            "Try again with `securefedyj report`."
        )
    return ""
