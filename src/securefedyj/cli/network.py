"""The commands of a consortium: keygen, new, check, plan, hub, join."""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import shutil
import signal
import sys
import textwrap
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from securefedyj.files import write_atomically
from securefedyj.network.consortium import (
    LEVELS_PER_EXCHANGE,
    MAX_STEPS,
    MINIMUM_VALUES,
    Consortium,
    Feature,
    Hub,
    Member,
)
from securefedyj.network.identity import Identity, check_private, fingerprint, keygen

if TYPE_CHECKING:
    from securefedyj.network.participant import Progress
    from securefedyj.numerics.arrays import Array
    from securefedyj.protocol.cost import Cost
    from securefedyj.protocol.transcript import Transcript
    from securefedyj.report import page as report

Commands = Any  # argparse's own type for this is private

OK, FAILED = 0, 1
_DELAY_MS, _MBIT = 20.0, 100.0  # a line that plans assume


def add_commands(commands: Commands) -> None:
    _add_keygen(commands)
    _add_new(commands)
    _add_check(commands)
    _add_plan(commands)
    _add_hub(commands)
    _add_join(commands)


def command(
    commands: Commands, name: str, summary: str, example: str, more: str = ""
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=textwrap.fill(f"{summary[0].upper()}{summary[1:]}. {more}", 78),
        epilog="example:\n  " + example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_missing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="TEXT",
        help="a further cell that stands for a missing value, besides empty, NA, N/A, NaN and "
        'null; for example --missing "?" or --missing=-999',
    )


def _add_keygen(commands: Commands) -> None:
    parser = command(
        commands,
        "keygen",
        "make a key and a certificate for a party, or for the hub",
        "securefedyj keygen north --folder ~/.securefedyj",
    )
    parser.add_argument("name", metavar="NAME", help="the party's name in the agreed file")
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="where NAME.key and NAME.pem go (default: here)"
    )
    parser.add_argument("--json", action="store_true", help="paths and fingerprint as JSON")
    parser.set_defaults(run=_run_keygen)


def _run_keygen(options: argparse.Namespace) -> int:
    identity = keygen(options.name, options.folder)
    print_ = fingerprint(identity.certificate.read_text(encoding="ascii"))
    if options.json:
        paths = {"key": str(identity.key), "certificate": str(identity.certificate)}
        print(json.dumps(paths | {"fingerprint": print_}))
        return OK
    print(f"Key (keep it here, show it to nobody): {identity.key}")
    print(f"Certificate (send it to whoever writes the agreed file): {identity.certificate}")
    print(f"Fingerprint (compare it by telephone):\n  {print_}")
    return OK


def _add_new(commands: Commands) -> None:
    parser = command(
        commands,
        "new",
        "write the agreed file of a consortium",
        "securefedyj new consortium.toml --name sepsis --hub hub.example.org:7443 \\\n"
        "    --hub-certificate hub.pem --party north=north.pem --party south=south.pem \\\n"
        "    --member coordinator=coordinator.pem \\\n"
        "    --feature lactate:0:40 --feature age:0:120",
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="the file to write; not overwritten"
    )
    parser.add_argument("--name", required=True, help="of the consortium")
    parser.add_argument(
        "--hub", required=True, metavar="HOST:PORT", help="where parties will reach the hub"
    )
    parser.add_argument(
        "--hub-certificate", required=True, type=Path, metavar="CERT.pem", help="of the hub"
    )
    parser.add_argument(
        "--party",
        action="append",
        default=[],
        metavar="NAME=CERT.pem",
        help="a silo: it has data; once for each",
    )
    parser.add_argument(
        "--member",
        action="append",
        default=[],
        metavar="NAME=CERT.pem",
        help="a party that computes only, such as a coordinator",
    )
    parser.add_argument(
        "--feature",
        action="append",
        default=[],
        metavar="NAME:LOWER:UPPER",
        help="a column and the bounds of its values; once for each",
    )
    parser.add_argument(
        "--features",
        type=Path,
        metavar="FILE.csv",
        help="the same as a table with the columns name, lower, upper, and if you like unit, note",
    )
    parser.add_argument(
        "--committee",
        metavar="A,B,C",
        help="the three that compute (default: the members, then the first parties)",
    )
    parser.add_argument(
        "--max-steps",
        type=int,
        default=MAX_STEPS,
        metavar="N",
        help="of the search for lambda (default: %(default)s)",
    )
    parser.add_argument(
        "--levels-per-exchange",
        type=int,
        default=LEVELS_PER_EXCHANGE,
        metavar="N",
        help="steps that are prepared at once; `plan` recommends a number (default: %(default)s)",
    )
    parser.add_argument(
        "--minimum-values",
        type=int,
        default=MINIMUM_VALUES,
        metavar="N",
        help="with fewer values of a feature over all silos, a run stops (default: %(default)s)",
    )
    parser.set_defaults(run=_run_new)


def _run_new(options: argparse.Namespace) -> int:
    silos = [_member(entry, "silo") for entry in options.party]
    members = [_member(entry, "member") for entry in options.member]
    default = [party.name for party in (*members, *silos)][:3]
    committee = options.committee.split(",") if options.committee else default
    features = [_feature(entry) for entry in options.feature]
    if options.features is not None:
        features += _features_of(options.features)
    consortium = Consortium(
        name=options.name,
        hub=Hub(options.hub, _pem(options.hub_certificate)),
        parties=(*silos, *members),
        committee=tuple(name.strip() for name in committee),
        features=tuple(features),
        max_steps=options.max_steps,
        levels_per_exchange=options.levels_per_exchange,
        minimum_values=options.minimum_values,
    )
    try:
        consortium.write(options.file)
    except FileExistsError:
        raise ValueError(f"{options.file} exists and is not overwritten; move it away.") from None
    print(f"Wrote {options.file}; give the same file to all. Its digest:\n  {consortium.digest()}")
    return OK


def _member(entry: str, role: str) -> Member:
    name, equals, path = entry.partition("=")
    if not equals:
        raise ValueError(f"{entry!r} must be NAME=CERT.pem, such as north=north.pem.")
    pem = _pem(Path(path))
    return Member(name, role, fingerprint(pem), pem)


def _pem(path: Path) -> str:
    try:
        pem = path.read_text(encoding="ascii")
        fingerprint(pem)
    except ValueError as error:
        reason = "this is no text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ValueError(f"{path}: {reason}.") from None
    return pem


def _feature(entry: str) -> Feature:
    try:
        name, lower, upper = entry.rsplit(":", 2)
        return Feature(name, float(lower), float(upper))
    except ValueError:
        raise ValueError(f"{entry!r} must be NAME:LOWER:UPPER, such as lactate:0:40.") from None


def _features_of(path: Path) -> list[Feature]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        missing = {"name", "lower", "upper"} - set(rows.fieldnames or ())
        if missing:
            raise ValueError(f"{path} has no column {sorted(missing)[0]!r}.")
        return [_feature_of(row, path, rows.line_num) for row in rows]


def _feature_of(row: dict[str, str], path: Path, line: int) -> Feature:
    try:
        lower, upper = float(row["lower"]), float(row["upper"])
    except (TypeError, ValueError):
        raise ValueError(f"{path}, line {line}: lower and upper must be numbers.") from None
    return Feature(row["name"], lower, upper, row.get("unit") or "", row.get("note") or "")


def _add_check(commands: Commands) -> None:
    parser = command(
        commands,
        "check",
        "check an agreed file, or a silo's table against it",
        "securefedyj check consortium.toml --data patients.csv",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a consortium.toml")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="TABLE",
        help="a .csv, .csv.gz or .parquet file of this silo; findings are shown here and nowhere "
        "else",
    )
    add_missing(parser)
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(run=_run_check)


def _run_check(options: argparse.Namespace) -> int:
    consortium = Consortium.read(options.file)
    if options.data is not None:
        return _check_table(consortium, options)
    if options.json:
        print(json.dumps({"name": consortium.name, "digest": consortium.digest()}
                         | {"agreement": consortium.agreement().to_json()}))  # fmt: skip
        return OK
    print(f"{options.file} is in order. All parties must see the same digest:")
    print(f"  {consortium.digest()}")
    print(f"Consortium {consortium.name!r}, hub at {consortium.hub.address}")
    for party in consortium.parties:
        roles = [party.role] + ["committee"] * (party.name in consortium.committee)
        print(f"  {party.name} ({', '.join(roles)})\n      {party.fingerprint}")
    print(f"{len(consortium.features)} features, each with at least "
          f"{consortium.minimum_values} values over all silos")  # fmt: skip
    for feature in consortium.features:
        bounds = f"{feature.lower:>12g} to {feature.upper:<12g}"
        print(f"  {feature.name:<32} {bounds} {feature.unit}".rstrip())
    return OK


def _check_table(consortium: Consortium, options: argparse.Namespace) -> int:
    """Findings about a silo's own table; the exit code is 1 if one of them would stop a run."""
    from securefedyj.tables import files as tables

    domain = consortium.agreement().domain
    names = [feature.name for feature in consortium.features]
    missing = (*tables.MISSING, *options.missing)
    findings = tables.check_table(options.data, names, domain.lower, domain.upper, missing)
    stops = any(finding.stops for finding in findings)
    if options.json:
        print(json.dumps({"stops": stops, "findings": [asdict(finding) for finding in findings]}))
        return FAILED if stops else OK
    for finding in findings:
        about = "" if finding.feature is None else f"{finding.feature}: "
        print(f"{'stops a run' if finding.stops else 'note'}: {about}{finding.text}")
    if not findings:
        print(f"{options.data} fits {options.file}: nothing to report.")
    return FAILED if stops else OK


def _add_plan(commands: Commands) -> None:
    parser = command(
        commands,
        "plan",
        "say what a run will cost, from the agreed file alone",
        "securefedyj plan consortium.toml --rows 50000 --delay-ms 30 --mbit 50",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a consortium.toml")
    parser.add_argument(
        "--rows", type=int, default=10_000, metavar="N", help="of each silo (default: %(default)s)"
    )
    parser.add_argument(
        "--delay-ms",
        type=float,
        default=_DELAY_MS,
        metavar="MS",
        help="milliseconds from party to party (default: %(default)g)",
    )
    parser.add_argument(
        "--mbit",
        type=float,
        default=_MBIT,
        metavar="N",
        help="Mbit per second of a party's line (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(run=_run_plan)


def _run_plan(options: argparse.Namespace) -> int:
    from securefedyj.network.forecast import forecast

    if options.rows < 1 or not options.delay_ms >= 0 or not options.mbit > 0:
        raise ValueError("--rows and --mbit must be positive, and --delay-ms not negative.")
    consortium = Consortium.read(options.file)
    outlook = forecast(
        consortium,
        rows=options.rows,
        delay=options.delay_ms / 1e3,
        bytes_per_second=options.mbit * 1e6 / 8,
    )
    if options.json:
        levels = [one._asdict() for one in outlook.forecasts]
        print(json.dumps({"levels": levels, "ring_bits": outlook.ring_bits,
                          "recommended": outlook.recommended}))  # fmt: skip
        return OK
    print(
        f"{len(consortium.features)} features, {len(consortium.parties)} parties, "
        f"{options.rows} rows each; {options.delay_ms:g} ms, {options.mbit:g} Mbit/s"
    )
    print(f"{'levels':>8} {'rounds':>8} {'MB sent':>10} {'seconds':>9}")
    for one in outlook.forecasts:
        print(f"{one.levels:>8} {one.rounds:>8} {one.megabytes:>10.2f} {one.seconds:>9.1f}")
    print(f"Rings of {', '.join(map(str, outlook.ring_bits))} bits. MB are those of the party that")
    print("sends most, seconds those of parties that each have a machine like this one.")
    print(f"Recommended: levels_per_exchange = {outlook.recommended}; the file has "
          f"{consortium.levels_per_exchange}.")  # fmt: skip
    return OK


def _add_hub(commands: Commands) -> None:
    parser = command(
        commands,
        "hub",
        "relay between the parties; the hub can read nothing",
        "securefedyj hub consortium.toml --certificate hub.pem --key hub.key",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="agreed files")
    parser.add_argument(
        "--certificate", type=Path, required=True, metavar="CERT.pem", help="the hub's, as in FILE"
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="KEY", help="of the certificate; mode 600"
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where to listen (default: on all interfaces, at the port of the hub in FILE)",
    )
    parser.set_defaults(run=_run_hub)


def _run_hub(options: argparse.Namespace) -> int:
    from securefedyj.network.hub import serve

    consortia = [Consortium.read(path) for path in options.files]
    ports = sorted({consortium.hub.port for consortium in consortia})
    if options.listen is None and len(ports) > 1:
        raise ValueError(
            f"The files name several ports of the hub ({', '.join(map(str, ports))}); choose one "
            f"with --listen, such as --listen 0.0.0.0:{ports[0]}."
        )
    listen = options.listen or f"0.0.0.0:{ports[0]}"
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"--listen must be HOST:PORT, not {listen!r}.")
    identity = _identity(options)
    asyncio.run(serve(consortia, identity, host.strip("[]"), int(port)))
    return OK


def _identity(options: argparse.Namespace) -> Identity:
    identity = Identity(options.key, options.certificate)
    open(identity.certificate, "rb").close()  # an error that names the file, where TLS would not
    check_private(identity.key)
    return identity


def _add_join(commands: Commands) -> None:
    parser = command(
        commands,
        "join",
        "take part in a run: as a silo with --data, as a member without",
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
    parser.add_argument("--data", type=Path, metavar="TABLE", help="rows; columns as in FILE")
    add_missing(parser)
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
        default=60.0,
        metavar="SECONDS",
        help="of silence, after which a party counts as lost (default: %(default)g)",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="to wait for parties to come, or to come back (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.set_defaults(run=_run_join)


def _run_join(options: argparse.Namespace) -> int:
    from securefedyj.network.participant import Settings
    from securefedyj.protocol.simulation import timed_silo

    if not (options.timeout > 0 and options.wait > 0):
        raise ValueError("--timeout and --wait must be positive.")
    consortium = Consortium.read(options.file)
    identity = _identity(options)
    party = consortium.party_with(_pem(options.certificate))
    table = _own_table(party, consortium, options)
    silo = timed_silo(consortium.agreement(), table)
    options.output.mkdir(parents=True, exist_ok=True)
    display = _Display()
    written: dict[str, Path] = {}

    def done(transcript: Transcript, cost: Cost | None) -> None:
        written.update(_write_results(transcript, cost, party.name, options.output))

    settings = Settings(
        consortium,
        party.name,
        identity,
        options.output,
        options.timeout,
        options.wait,
        display.say,
        display.progress,
        done,
    )
    try:
        transcript = asyncio.run(_until_signal(settings, silo))
        display.say("The result is here. Writing the report.")
        failed = _write_report(consortium, transcript, table, options.output)
    except KeyboardInterrupt:
        display.say(
            f"Stopped. The result is in {options.output}; there is no new report."
            if written
            else "Stopped; the others are told, and wait. The same command goes on from here."
        )
        raise
    finally:
        display.end()
    if not failed:
        written["report"] = options.output / "report.html"
    if options.json:
        paths = {name: str(path) for name, path in written.items()}
        print(json.dumps({"party": party.name, **paths}))
    else:
        print(f"Done. In {options.output}: {', '.join(path.name for path in written.values())}")
    if failed:
        print(f"securefedyj: {failed}", file=sys.stderr)
    return FAILED if failed else OK


def _own_table(party: Member, consortium: Consortium, options: argparse.Namespace) -> Array | None:
    """The rows of a silo; a member has none."""
    from securefedyj.tables import files as tables

    if (party.role == "silo") != (options.data is not None):
        raise ValueError(
            f"{party.name!r} is a {party.role}: it must join "
            + ("with --data." if party.role == "silo" else "without --data.")
        )
    if options.data is None:
        return None
    names = [feature.name for feature in consortium.features]
    return tables.read_table(options.data, names, (*tables.MISSING, *options.missing))


async def _until_signal(settings: Any, silo: Any) -> Transcript:
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


def _write_results(
    transcript: Transcript, cost: Cost | None, party: str, folder: Path
) -> dict[str, Path]:
    """Write what everybody may know, and our cost; each file appears complete or not at all."""
    from securefedyj import parameters

    paths = {"parameters": folder / "parameters.json", "transcript": folder / "transcript.jsonl"}
    parameters.save(transcript, paths["parameters"])
    transcript.write(paths["transcript"])
    if cost is not None:
        paths["cost"] = folder / "cost.json"
        content = cost.to_json(party)
        write_atomically(paths["cost"], (json.dumps(content, indent=2) + "\n").encode())
    return paths


def _write_report(
    consortium: Consortium, transcript: Transcript, table: Array | None, folder: Path
) -> str:
    """Write report.html; return why that failed, if it did: the result is more than its report."""
    from securefedyj.report import page as report

    try:
        cost = {f"plan for {_DELAY_MS:g} ms, {_MBIT:g} Mbit/s": _planned(consortium, transcript)}
        if (folder / "cost.json").exists():
            cost["this run"] = report.read_cost(folder / "cost.json")
        report.write(folder / "report.html", transcript, table, cost)
    except Exception as error:
        # Only the system's own words: others may quote rows.
        why = error if isinstance(error, OSError) else type(error).__name__
        return (
            f"The report could not be written ({why}); the result is in {folder}. "
            "Try again with `securefedyj report`."
        )
    return ""


def _planned(consortium: Consortium, transcript: Transcript) -> report.Cost:
    """What `plan` would have said, had it known the number of rows; but for the time at the hub.

    To measure that takes a hub with keys, which is nothing for a party to start on the way.
    """
    from securefedyj.network.crossing import Crossing
    from securefedyj.network.forecast import forecast
    from securefedyj.report import page as report

    silos = sum(party.role == "silo" for party in consortium.parties)
    outlook = forecast(
        consortium,
        rows=max(1, int(transcript.counts().max()) // silos),
        delay=_DELAY_MS / 1e3,
        bytes_per_second=_MBIT * 1e6 / 8,
        levels=[consortium.levels_per_exchange],
        crossing=Crossing(0.0, 0.0),
    )
    (plan,) = outlook.forecasts
    return report.Cost(plan.rounds, {}, round(1e6 * plan.megabytes), plan.seconds)


class _Display:
    """One line that is rewritten on a terminal; lines otherwise."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._open = False
        self._last = ""
        self._lock = threading.RLock()  # progress comes from the thread that computes

    def say(self, sentence: str) -> None:
        with self._lock:
            if sentence != self._last:  # such as that the hub cannot be reached, again and again
                self.end()
                print(sentence, file=sys.stderr, flush=True)
            self._last = sentence

    def progress(self, now: Progress) -> None:
        left = now.seconds_left
        text = (
            f"exchange {now.exchange}/{now.exchanges_at_most}, {now.features_open} features open, "
            f"{now.rounds} rounds, {now.bytes_sent / 1e6:.1f} MB sent, up to "
            + (f"{left:.0f} s left" if left < 120 else f"{left / 60:.0f} min left")
        )
        with self._lock:
            self._last = ""
            if self._terminal:
                text = text[: shutil.get_terminal_size().columns - 1]
                print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
                self._open = True
            else:
                print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        with self._lock:
            if self._open:
                print(file=sys.stderr, flush=True)
                self._open = False
