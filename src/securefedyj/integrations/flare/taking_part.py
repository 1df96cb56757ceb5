"""What a site does when a job asks it to: what `securefedyj join` does, over another carrier."""

from __future__ import annotations

import datetime
from functools import partial
from pathlib import Path

from securefedyj.integrations.flare.carrier import Bus, PacketDialer
from securefedyj.integrations.flare.site import Site, SiteError
from securefedyj.network.bookkeeping import Record
from securefedyj.network.consortium import Consortium, PartyEntry
from securefedyj.network.identity import Identity, check_private
from securefedyj.network.journal import FILE as STATE
from securefedyj.network.participant import Settings, participate
from securefedyj.network.subtraction import note_on_missing, note_on_silos
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import Parameters
from securefedyj.printable import printable_lines
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.silos import timed_silo
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.results import PARAMETERS, write_report, write_results
from securefedyj.tables.digest import rows_digest
from securefedyj.tables.files import MISSING, read_table
from securefedyj.tables.minimum import missing_everywhere, without_few

LOG = "securefedyj.log"


class Refused(ValueError):
    """A site does not do what a job asks for; the sentence is for all to read."""


class Notes:
    """What is said to the site: in its own file, as FLARE's logs are not for the site alone."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / LOG

    def say(self, sentence: str) -> None:
        now = datetime.datetime.now(datetime.UTC)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{now:%Y-%m-%d %H:%M:%S} {printable_lines(sentence)}\n")


def named(consortium: Consortium) -> str:
    """What a job calls an agreed file. FLARE would take the bare digits for a secret."""
    return f"sha256:{consortium.digest()}"


def check_job(site: Site, client: str, digest: str) -> tuple[Consortium, PartyEntry]:
    """What the site has agreed on, if the job is about that; Refused if it is not."""
    consortium = Consortium.read(site.consortium)
    party = consortium.party_with(site.certificate.read_text(encoding="ascii"))
    if digest != named(consortium):
        raise Refused(
            f"{party.name} refuses this job: it is about an agreed file with another digest than "
            f"{named(consortium)}. Nothing was computed; submit a job with the file that the "
            "parties have agreed on."
        )
    if client != party.name:
        raise Refused(
            f"{party.name} refuses this job: FLARE calls this site {client!r}. Parties and sites "
            "must have the same names; agree on a file with those of FLARE."
        )
    return consortium, party


async def take_part(
    site: Site, consortium: Consortium, party: PartyEntry, bus: Bus, notes: Notes
) -> bytes:
    """Take part until the result is there and written; return the bytes of parameters.json."""
    _refuse_result_without_state(site.output)
    table = _own_table(site, consortium, party, notes)
    record = _record(site, consortium, party, table, notes)
    written: list[Path] = []

    def done(transcript: Transcript, cost: Cost | None) -> None:
        written.extend(write_results(transcript, cost, party.name, site.output).values())
        if record is not None:
            record.finished(notes.say)

    check_private(site.key)
    names = [feature.name for feature in consortium.features]
    settings = Settings(
        consortium,
        party.name,
        Identity(site.key, site.certificate),
        site.output,
        timeout=site.timeout,
        wait=site.wait,
        rows=None if table is None else partial(rows_digest, table, names),
        earlier=0 if record is None else record.unfinished,
        started=(lambda: None) if record is None else record.began,
        say=notes.say,
        done=done,
        dialer=PacketDialer(bus, [one.name for one in consortium.parties if one != party]),
    )
    try:
        transcript = await participate(settings, timed_silo(consortium.agreement(), table))
    except Exception:
        if record is not None and not written:
            record.failed(notes.say)
        raise
    _try_report(consortium, transcript, table, site.output, notes)
    return Parameters.of(transcript).to_bytes()


def _refuse_result_without_state(output: Path) -> None:
    if (output / PARAMETERS).exists() and not (output / STATE).exists():
        raise SiteError(
            f"{output} has a {PARAMETERS} and no {STATE}: it is not the folder of a run that could "
            "go on. Nothing is replaced; choose another output."
        )


def _own_table(site: Site, consortium: Consortium, party: PartyEntry, notes: Notes) -> Array | None:
    if (party.role == "silo") != (site.data is not None):
        needs = "needs" if party.role == "silo" else "must not have"
        raise SiteError(f"{party.name!r} is a {party.role}: its file {needs} 'data'.")
    if site.data is None:
        return None
    names = [feature.name for feature in consortium.features]
    table = read_table(site.data, names, (*MISSING, *site.missing))
    table, few = without_few(table, site.own_minimum)
    for j in few:
        notes.say(f"{names[j]}: fewer than {site.own_minimum} values here; it counts as missing.")
    return table


def _record(
    site: Site, consortium: Consortium, party: PartyEntry, table: Array | None, notes: Notes
) -> Record | None:
    """The run in the silo's ledger; what results could tell is noted before anybody is told."""
    said, record = [note_on_silos(consortium)], None
    if table is not None:
        names = [feature.name for feature in consortium.features]
        said.append(note_on_missing(consortium, [names[j] for j in missing_everywhere(table)]))
        record = Record(consortium, party.name, table, site.output, site.ledger)
        said += [f"Warning: {warning}" for warning in record.warnings()]
    for sentence in filter(None, said):
        notes.say(sentence)
    return record


def _try_report(
    consortium: Consortium, transcript: Transcript, table: Array | None, folder: Path, notes: Notes
) -> None:
    try:
        write_report(consortium, transcript, table, folder)
    except Exception as error:  # the result is more than its report
        why = error if isinstance(error, OSError) else type(error).__name__
        notes.say(f"The report could not be written ({why}); try again with `securefedyj report`.")
