"""What an agreed file says: `securefedyj check`, also of a silo's table, and `securefedyj plan`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from securefedyj.cli import options as shared
from securefedyj.cli import rehearse
from securefedyj.cli.display import COLUMNS, FAILED, OK, short, tell, wrapped
from securefedyj.cli.options import Commands, command, flag, option
from securefedyj.engines.registry import facts_of
from securefedyj.errors import InputError
from securefedyj.network.consortium import ENGINE, Consortium, Feature
from securefedyj.network.consortium.succession import differences, note_on_two_results
from securefedyj.network.forecast import (
    DELAY_MS,
    MBIT,
    Outlook,
    bytes_per_second,
    forecast,
)
from securefedyj.network.repeats import LedgerRun, note_on_missing, note_on_silos
from securefedyj.network.submission import note_on_submission
from securefedyj.numerics.passes import Source
from securefedyj.numerics.tally import tally_of
from securefedyj.printable import in_words, printable
from securefedyj.protocol.methods import DEFAULT
from securefedyj.protocol.secrecy import secrecy_of
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import (
    HERE,
    Checked,
    TableFinding,
    TableReader,
    check_table,
    point_findings,
)
from securefedyj.tables.silo_table import MOST_DISTINCT, Summary
from securefedyj.tables.source import lacking

_KNOWN = """\
Only engine 'replicated' has forecasts. Measured for 'mpyc', with 30 steps, levels 1 and
all parties on a machine with two cores: 650 to 720 rounds, each at least as long as a
message takes; for each feature, with 3 parties 2 to 7 seconds and 3 MB that a party
sends, with 5 parties 8 to 15 seconds and 7 MB."""
_NOT_VERIFIED = "NOT verified: one cheating member of the committee can falsify the result"
HEADER = ("feature", "missing", "distinct", "min", "median", "max", "agreed", "verdict")
KINDS = {
    "missing column": (
        "no column",
        "Add it; it may be empty if this silo does not have the values. If it has another name "
        'here, give --rename "name in the table=agreed name".',
    ),
    "duplicate column": ("twice", "Remove all but one, or rename the others."),
    "no number": ("text", ""),
    "out of bounds": (
        "outside",
        "Often the unit differs, or -999 means a missing value (then give --missing=-999). If the "
        "values are right, agree on wider bounds with all silos: securefedyj new NEXT.toml --from "
        "FILE --bounds NAME:LOWER:UPPER.",
    ),
    "no point": (
        "off",
        "Correct the values, or agree on a finer resolution, on more digits, or on round = true, "
        "which takes the next point: securefedyj new NEXT.toml --from FILE --round NAME=true.",
    ),
    "next point": ("rounded", ""),
    "left out": ("left out", ""),
    "no rows": ("", "This is allowed: this silo has no values of any feature."),
    "few distinct values": (
        "few values",
        "An exact mean and variance can then reveal how many patients of all silos have each "
        "value. Leave the column out, agree on fewer result_bits, or on more silos.",
    ),
    "constant": ("constant", ""),
    "all missing": ("empty", "This is allowed."),
    "missing values": ("", ""),
}
"""The kinds of findings: the verdict on a column, and what to do; bad cells have own advice."""
ABOUT = "~ marks the median of a sample of the rows."
_FINDINGS_OF_A_KIND = 10


def add(commands: Commands) -> None:
    summary = "check an agreed file, or a silo's table against it"
    example = "securefedyj check consortium.toml --data patients.csv"
    more = "Findings about a table are shown here and nowhere else."
    parser = command(commands, "check", check, summary, example, more)
    shared.add_declared(parser, "consortium", "data", "ledger", "without")
    words = "earlier agreed file: show only the differences from it"
    option(parser, "--before", "FILE", words, Path)
    shared.add_reading(parser, dask=True)
    flag(parser, "--json", "print JSON")
    group = parser.add_argument_group("the way to the hub")
    words = "reach the hub, and say who is there, without taking part"
    flag(group, "--connect", words)
    shared.add_declared(group, "key", "certificate", "proxy")
    summary = "forecast the cost of a run from the agreed file alone"
    example = "securefedyj plan consortium.toml --rows 50000 --delay-ms 30 --mbit 50"
    parser = command(commands, "plan", plan, summary, example)
    option(parser, "file", "FILE", "agreed file, consortium.toml", Path)
    add_line(parser)
    flag(parser, "--json", "print JSON")


def check(options: argparse.Namespace) -> int:
    given = (options.data, options.site, options.connect or None)
    if options.consortium is None or any(one is not None for one in given):
        if path := shared.fill_from_site(options, options.data):
            tell(f"Options that are not given here are read from {path}.", error=True)
        shared.refuse_unless_given(options, "consortium")
    consortium = Consortium.read(options.consortium)
    if options.connect:
        return rehearse.connect(consortium, options)
    if options.data is not None:
        with shared.reader_of(options) as reader:
            return _check_table(consortium, options, reader)
    if options.json:
        tell(json.dumps({"name": consortium.name, "digest": consortium.digest(),
                         "max_interruptions": consortium.max_interruptions,
                         "agreement": consortium.agreement().to_json()}))  # fmt: skip
        return OK
    if options.before is not None:
        tell(f"{options.consortium} is valid. All parties must see the same digest:")
        tell(f"  {consortium.digest()}")
        tell_differences(Consortium.read(options.before), consortium, options.before)
        return OK
    collusion = ""
    if consortium.engine != ENGINE:
        who = secrecy_of(consortium.agreement()).collusion
        collusion = who(consortium.committee, len(consortium.silos))
    notes = [consortium.note_on_steps()]
    about = (note_on_submission, note_on_silos, note_on_engine)
    notes += [wrapped(note(consortium)) for note in about]
    shown = {"path": options.consortium, "collusion": collusion, "asked_of": _asked_of,
             "points": _points_of(consortium)}  # fmt: skip
    tell(_text("agreed.txt", consortium, notes=filter(None, notes), **shown))
    return OK


def note_on_engine(consortium: Consortium) -> str:
    """What this machine lacks to take part; empty if nothing."""
    try:
        facts_of(consortium.engine).check_ready()
    except ImportError as error:
        return f"Warning: this machine cannot take part yet. {error}."
    return ""


def tell_differences(before: Consortium, after: Consortium, path: Path) -> None:
    """Print how an agreed file differs from an earlier one, which is at a path."""
    lines = differences(before, after)
    if not lines:
        tell(wrapped(f"It agrees with {path} in everything; that file would do as well."))
        return
    tell(f"Compared with {path}:")
    for line in lines:
        tell(f"  {line}")
    if note := note_on_two_results(before, after):
        tell(wrapped(note))


def _asked_of(feature: Feature) -> str:
    """What is fitted to a feature; empty if it is what is fitted to any."""
    asked = []
    for method, quantiles in feature.methods.items() if feature.methods != DEFAULT else ():
        points = f" in steps of {feature.resolution}" * bool(feature.resolution)
        asked.append(f"{method} ({', '.join(quantiles)}{points})" if quantiles else method)
    return in_words(asked) if asked else ""


def _points_of(consortium: Consortium) -> dict[str, str]:
    """The points of each feature that is submitted."""
    words = {}
    for feature, points in zip(consortium.features, consortium.agreement().points, strict=True):
        digits = f"of {feature.digits} significant digits" if feature.digits else ""
        steps = f"in steps of {feature.resolution}" if feature.resolution else ""
        if len(points):
            kinds = " ".join(filter(None, [digits, steps]))
            moves = "; a value counts as the next one" * feature.round
            if len(points) > consortium.claimed_points:
                moves += "; negative counts would not be detected"
            words[feature.name] = f"{len(points):,} points {kinds}{moves}"
    return words


class Examined(NamedTuple):
    """What a silo should know of its own table before a run."""

    checked: Checked
    notes: list[str]
    warnings: list[str]

    @property
    def stops(self) -> bool:
        """Whether something in the table would stop a run."""
        return any(finding.stops for finding in self.checked.findings)

    def rows(self, features: Sequence[Feature]) -> Iterator[tuple[str, ...]]:
        """Of each feature: its name, and what is below the other words of `HEADER`."""
        verdicts: dict[str | None, str] = {}
        for finding in self.checked.findings:
            if verdict := KINDS[finding.kind][0]:
                verdicts.setdefault(finding.feature, verdict)
        for feature in features:
            agreed = f"{short(feature.lower)} to {short(feature.upper)}"
            cells = _cells(self.checked.columns.get(feature.name))
            yield printable(feature.name), *cells, agreed, verdicts.get(feature.name, "fits")

    def sentences(self) -> Iterator[tuple[str, str]]:
        """Findings by kind, notes and warnings, each with its weight; "remedy" has what to do.

        Missing values are in the table already.
        """
        order = list(KINDS)
        more = [finding for finding in self.checked.findings if finding.kind != "missing values"]
        more.sort(key=lambda finding: order.index(finding.kind))
        for kind, group in groupby(more, key=lambda finding: finding.kind):
            same = list(group)
            weight = "stops a run" if same[0].stops else "note"
            for finding in same[:_FINDINGS_OF_A_KIND]:
                about = "" if finding.feature is None else f"{printable(finding.feature)}: "
                yield weight, f"{weight}: {about}{finding.text}"
            if (left := len(same) - _FINDINGS_OF_A_KIND) > 0:
                yield weight, f"{weight}: and {left} more columns: {KINDS[kind][0]}"
            if remedy := KINDS[kind][1]:
                yield "remedy", remedy
        yield from (("note", note) for note in self.notes)
        yield from (("warning", f"Warning: {warning}") for warning in self.warnings)


def examine(
    consortium: Consortium,
    data: Path,
    reading: tuple[tuple[str, ...], Dialect],
    ledger: Path | None,
    reader: TableReader = HERE,
    without: Sequence[str] = (),
) -> Examined:
    """Compare a silo's own table with the agreed file and with earlier runs."""
    domain, names = consortium.agreement().domain, consortium.feature_names
    left_out = consortium.places_of(without)
    kept = [j for j in range(len(names)) if j not in left_out]
    chosen = ([names[j] for j in kept], domain.lower[kept], domain.upper[kept])
    checked = check_table(data, *chosen, *reading, reader)
    for name in without:
        text = "a run gets no values of it from here"
        checked.findings.append(TableFinding("left out", name, text, stops=False))

    def source() -> Source:
        return lacking(reader.source(data, names, *reading), left_out)

    examined = Examined(checked, [note_on_silos(consortium), note_on_engine(consortium)], [])
    if not examined.stops and consortium.submitted:
        where = (data, reading[1]) if reader is HERE else (data, None)
        checked.findings.extend(_off_points(consortium, source(), *where))
    if not examined.stops:  # else there is no table to take part with
        empty = [name for name, column in checked.columns.items() if not column.present]
        examined.notes.append(note_on_missing(consortium, [*without, *empty]))
        record = LedgerRun(consortium, source(), ledger)
        examined.warnings.extend([*record.refused(), *record.warnings()])
    return examined._replace(notes=[note for note in examined.notes if note])


def _off_points(
    consortium: Consortium, source: Source, data: Path, dialect: Dialect | None
) -> Iterator[TableFinding]:
    """The values that `submit` would refuse, or move to a point."""
    agreement, names = consortium.agreement(), consortium.feature_names
    tally = tally_of(source, agreement.points, agreement.domain)
    rounded = [feature.round for feature in consortium.features]
    yield from point_findings(tally, names, rounded, data, dialect)


def _check_table(consortium: Consortium, options: argparse.Namespace, reader: TableReader) -> int:
    """A silo's own table; the exit code is 1 if something in it would stop a run."""
    reading = shared.reading_of(options)
    given = (options.data, reading, options.ledger, reader, options.without)
    examined = examine(consortium, *given)
    checked, stops = examined.checked, examined.stops
    if options.json:
        tell(json.dumps({"stops": stops, "rows": checked.rows, "written": checked.written,
                         "columns": {name: column.to_json()
                                     for name, column in checked.columns.items()},
                         "findings": [asdict(finding) for finding in checked.findings],
                         "notes": examined.notes, "warnings": examined.warnings}))  # fmt: skip
        return FAILED if stops else OK
    tell(wrapped(f"{options.data}: {checked.rows:,} rows, {checked.written}"))
    for line in _table_lines(list(examined.rows(consortium.features))):
        tell(line)
    if any(not column.exact for column in checked.columns.values()):
        tell(ABOUT)
    said = list(examined.sentences())
    for weight, sentence in said:
        tell(wrapped(sentence, "  " * (weight == "remedy")))
    fits = "does not fit" if stops else "fits"
    nothing = "" if said or checked.findings else ": nothing to report"
    tell(wrapped(f"{options.data} {fits} {options.consortium}{nothing}."))
    return FAILED if stops else OK


def _table_lines(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """One line for each feature; a long name has a line of its own."""
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    room = COLUMNS - sum(widths[1:]) - len(widths) + 1
    room = max(min(room, widths[0]), 0)
    for name, *row in (HEADER, *rows):
        if len(name) > room:
            yield wrapped(name)
            name = ""
        numbers = " ".join(
            cell.rjust(width) for cell, width in zip(row[:5], widths[1:], strict=False)
        )
        yield f"{name:<{room}} {numbers} {row[5]:<{widths[6]}} {row[6]}"


def _cells(column: Summary | None) -> tuple[str, ...]:
    if column is None:
        return ("-",) * 5
    share = column.missing / column.rows if column.rows else 0.0
    about = "" if column.exact else "~"
    return (
        "0" if not share else "all" if share == 1 else "<0.1%" if share < 0.001 else f"{share:.1%}",
        f"{MOST_DISTINCT}+" if column.distinct == MOST_DISTINCT else str(column.distinct),
        short(column.least, 3),
        "-" if column.median != column.median else about + short(column.median, 3),
        short(column.greatest, 3),
    )


def add_line(parser: argparse.ArgumentParser) -> None:
    """Add the options that a run is planned for: rows, and the line between parties."""
    option(parser, "--rows", "N", "number of rows per silo", int, 10_000)
    option(parser, "--delay-ms", "MS", "milliseconds from party to party", float, DELAY_MS)
    option(parser, "--mbit", "N", "bandwidth of a party's line in Mbit/s", float, MBIT)


def outlook_of(consortium: Consortium, options: argparse.Namespace, **more: Any) -> Outlook | None:
    """The forecast for the rows and the line of the options; None for other engines."""
    if options.rows < 1 or not options.delay_ms >= 0 or not options.mbit > 0:
        raise InputError(
            "SFY-CLI-018", "--rows and --mbit must be positive, and --delay-ms not negative."
        )
    if consortium.engine != ENGINE:
        return None
    line = {"delay": options.delay_ms / 1e3, "bytes_per_second": bytes_per_second(options.mbit)}
    return forecast(consortium, rows=options.rows, **line, **more)


def plan(options: argparse.Namespace) -> None:
    consortium = Consortium.read(options.file)
    outlook = outlook_of(consortium, options, compare=True)
    if outlook is None:
        tell(json.dumps({"engine": consortium.engine, "known": _KNOWN}) if options.json else _KNOWN)
        return
    if options.json:
        levels = [one._asdict() for one in outlook.forecasts]
        without = outlook.unverified
        print(json.dumps({"levels": levels, "ring_bits": outlook.ring_bits,
                          "recommended": outlook.recommended, "verified": consortium.verified,
                          "unverified": without and without._asdict()}))  # fmt: skip
        return
    line = {"rows": options.rows, "delay_ms": options.delay_ms, "mbit": options.mbit,
            "submission": wrapped(note_on_submission(consortium))}  # fmt: skip
    tell(_text("plan.txt", consortium, outlook=outlook, **line))


def _text(template: str, consortium: Consortium, **more: Any) -> str:
    """What to print about an agreed file."""
    from securefedyj.report import templates  # Jinja2 takes a while to import

    more |= {"consortium": consortium, "not_verified": _NOT_VERIFIED}
    return templates(__package__).get_template(template).render(more).rstrip()
