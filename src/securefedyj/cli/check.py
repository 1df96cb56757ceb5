"""`securefedyj check`: an agreed file, or a silo's table against it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from securefedyj.cli.common import (
    FAILED,
    NOT_VERIFIED,
    OK,
    VERIFIED,
    Commands,
    add_dask,
    add_ledger,
    add_reading,
    command,
    dialect_of,
    missing_values,
    reader_of,
    tell,
    tell_differences,
    wrapped,
)
from securefedyj.cli.overview import finding_lines, table_lines
from securefedyj.cli.site import add_site, fill_from_site, refuse_unless_given
from securefedyj.network.bookkeeping import warnings_before
from securefedyj.network.consortium import ENGINE, Consortium
from securefedyj.network.subtraction import note_on_missing, note_on_silos
from securefedyj.printable import printable
from securefedyj.protocol.secrecy import secrecy_of

if TYPE_CHECKING:
    from securefedyj.tables.files import TableReader


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "check",
        "check an agreed file, or a silo's table against it",
        "securefedyj check consortium.toml --data patients.csv",
    )
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="a consortium.toml")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="TABLE",
        help="a .csv, .csv.gz or .parquet file of this silo, or a folder of such files; what is "
        "found is shown here and nowhere else",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FILE",
        help="an earlier file of the consortium: say what differs, and nothing else",
    )
    add_reading(parser)
    add_dask(parser)
    add_ledger(parser)
    add_site(parser)
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(run=run, wrong_usage=parser.error)


def run(options: argparse.Namespace) -> int:
    if options.file is None or options.data is not None or options.site is not None:
        if read := fill_from_site(options):
            tell(wrapped(read), error=True)
        refuse_unless_given(options, "file")
    consortium = Consortium.read(options.file)
    if options.data is not None:
        with reader_of(options) as reader:
            return _check_table(consortium, options, reader)
    if options.json:
        tell(json.dumps({"name": consortium.name, "digest": consortium.digest(),
                         "max_interruptions": consortium.max_interruptions,
                         "agreement": consortium.agreement().to_json()}))  # fmt: skip
        return OK
    tell(f"{options.file} is in order. All parties must see the same digest:")
    tell(f"  {consortium.digest()}")
    if options.before is not None:
        tell_differences(Consortium.read(options.before), consortium, options.before)
        return OK
    hub = consortium.hub
    where = "without a hub" if hub is None else f"hub at {printable(hub.address)}"
    tell(f"Consortium {consortium.name!r}, {where}")
    for party in consortium.parties:
        roles = [party.role] + ["committee"] * (party.name in consortium.committee)
        tell(f"  {printable(party.name)} ({', '.join(roles)})\n      {party.fingerprint}")
    if consortium.engine != ENGINE:
        collusion = secrecy_of(consortium.engine).collusion
        tell(f"Engine {consortium.engine}: all parties compute. Who must not collude:")
        tell(f"  {collusion(consortium.committee, len(consortium.silos))}")
    tell(f"lambda in at most {consortium.max_steps} steps, mean and variance to "
         f"{consortium.result_bits} bits")  # fmt: skip
    tell(VERIFIED if consortium.verified else NOT_VERIFIED)
    most = consortium.max_interruptions
    tell(f"At most {most} interruption{'s' * (most != 1)}; with one more, a run ends")
    tell(f"{len(consortium.features)} features, each with at least "
          f"{consortium.minimum_values} values over all silos")  # fmt: skip
    for feature in consortium.features:
        bounds = f"{feature.lower:>12g} to {feature.upper:<12g}"
        tell(f"  {printable(feature.name):<32} {bounds} {printable(feature.unit)}".rstrip())
    if note := consortium.note_on_steps():
        tell(note)
    if note := note_on_silos(consortium):
        tell(wrapped(note))
    return OK


def _check_table(consortium: Consortium, options: argparse.Namespace, reader: TableReader) -> int:
    """A silo's own table; the exit code is 1 if something in it would stop a run."""
    from securefedyj.tables.files import check_table

    domain = consortium.agreement().domain
    names = [feature.name for feature in consortium.features]
    reading = missing_values(options), dialect_of(options)
    checked = check_table(options.data, names, domain.lower, domain.upper, *reading, reader)
    stops = any(finding.stops for finding in checked.findings)
    notes = [note] if (note := note_on_silos(consortium)) else []
    warnings: list[str] = []
    if not stops:  # else there is no table to take part with
        empty = [name for name, column in checked.columns.items() if not column.present]
        notes += [note] if (note := note_on_missing(consortium, empty)) else []
        source = reader.source(options.data, names, *reading)
        warnings = warnings_before(consortium, source, options.ledger)
    if options.json:
        tell(json.dumps({"stops": stops, "rows": checked.rows, "written": checked.written,
                         "columns": {name: column.to_json()
                                     for name, column in checked.columns.items()},
                         "findings": [asdict(finding) for finding in checked.findings],
                         "notes": notes, "warnings": warnings}))  # fmt: skip
        return FAILED if stops else OK
    tell(wrapped(f"{options.data}: {checked.rows:,} rows, {checked.written}"))
    for line in (
        *table_lines(checked, consortium.features),
        *finding_lines(checked.findings),
        *map(wrapped, notes),
        *(wrapped(f"Warning: {warning}") for warning in warnings),
    ):
        tell(line)
    fits = "does not fit" if stops else "fits"
    nothing = "" if checked.findings or notes or warnings else ": nothing to report"
    tell(wrapped(f"{options.data} {fits} {options.file}{nothing}."))
    return FAILED if stops else OK
