"""The files that a run writes into a party's folder; docs/parameters.md describes them.

Each file is written completely or not at all, and a run never replaces another result.

Transcript and parameters.json are the same at all parties, to the last bit. What only one party
knows about its result, such as when it was written and from which table, is in provenance.json,
for its owner alone, and in the report.
"""

from __future__ import annotations

import datetime
import getpass
import json
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from securefedyj import __version__, strict
from securefedyj.errors import InputError, code_of
from securefedyj.files import (
    TooLarge,
    lines_within,
    read_within,
    write_atomically,
    write_together,
)
from securefedyj.network.consortium import ENGINE, Consortium
from securefedyj.network.forecast import DELAY_MS, MBIT
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import Parameters, digest_of
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import page
from securefedyj.report.cost import planned, read_cost

PARAMETERS, TRANSCRIPT, COST, PROVENANCE, REPORT = (
    "parameters.json", "transcript.jsonl", "cost.json", "provenance.json", "report.html",
)  # fmt: skip
_TLS = "TLS 1.3, with the certificates of the agreed file"
_MOST_BYTES = 1 << 16


class ResultError(InputError):
    """A result that would replace another one."""


class Provenance(strict.Record, frozen=True):
    """The content of provenance.json (docs/parameters.md); an empty text means unknown."""

    format: Literal["securefedyj provenance 1"]
    party: str
    user: str  # the account at that party's machine
    finished: str  # date and time, UTC
    release: str  # the version of securefedyj there
    connections: str  # how those to the other parties were protected; each handshake checks it
    transcript_sha256: str
    table: str  # the name of the file or folder with the silo's rows
    rows_digest: str  # of these rows, under the key in state.jsonl

    @classmethod
    def of_run(
        cls, transcript: Transcript, party: str, table: Path | None, folder: Path
    ) -> Provenance:
        """The provenance of a run that `participate` has just finished in this folder."""
        user = ""
        with suppress(OSError, KeyError, ImportError):  # an account may have no name
            user = getpass.getuser()
        return cls(
            "securefedyj provenance 1",
            party,
            user,
            datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            __version__,
            _TLS,  # there are no other channels (`network/session/channels.py`)
            digest_of(transcript),
            "" if table is None else table.resolve().name,
            _rows_digest(folder / STATE),
        )

    @classmethod
    def read(cls, path: Path | str) -> Provenance:
        """Read a provenance.json."""
        try:
            return strict.convert(strict.parse(read_within(path, _MOST_BYTES)), cls, "it")
        except (strict.Malformed, TooLarge) as error:
            raise InputError(
                code_of(error, "SFY-REP-008"), f"{path}: this is not a provenance.json: {error}"
            ) from None


def write_results(
    transcript: Transcript, cost: Cost | None, party: str, folder: Path, table: Path | None = None
) -> dict[str, Path]:
    """Write parameters and transcript, and the party's own cost, if known, and provenance.

    Parameters and transcript get the usual permissions of new files, since other users may need
    them; the other files are for their owner alone. Returns the paths by content. If the folder has
    another result, it stays as it is, nothing is written, and ResultError is raised.
    """
    paths = {"parameters": folder / PARAMETERS, "transcript": folder / TRANSCRIPT}
    # The parameters come last: if they exist, the transcript exists, too.
    contents = {
        paths["transcript"]: transcript.to_text().encode(),
        paths["parameters"]: Parameters.of(transcript).to_bytes(),
    }
    write_together({path: data for path, data in contents.items() if not _exists(path, data)})
    if cost is not None:
        paths["cost"] = folder / COST
        _write_private(paths["cost"], cost.to_json(party))
    paths["provenance"] = folder / PROVENANCE
    if _provenance(transcript, folder) is None:  # otherwise it has the date of the result
        known = Provenance.of_run(transcript, party, table, folder)
        _write_private(paths["provenance"], msgspec.structs.asdict(known))
    return paths


def write_report(
    consortium: Consortium,
    transcript: Transcript,
    sample: Array | None,
    rows: int | None,
    folder: Path,
) -> None:
    """Write report.html with the cost of the run and the plan, and plots of a silo's own rows.

    `rows` is the number of all rows, `sample` those to draw. Cost and provenance come from the
    folder, where `write_results` has put them.
    """
    cost = {}
    if consortium.engine == ENGINE:  # no other can be planned
        cost[f"plan for {DELAY_MS:g} ms, {MBIT:g} Mbit/s"] = planned(consortium, transcript)
    if (folder / COST).exists():
        cost["this run"] = read_cost(folder / COST)
    known = _provenance(transcript, folder)
    page.write(folder / REPORT, transcript, sample, cost=cost, rows=rows, provenance=known)


def _provenance(transcript: Transcript, folder: Path) -> Provenance | None:
    """The provenance of this result in the folder, unless it is that of an earlier one."""
    try:
        known = Provenance.read(folder / PROVENANCE)
    except (FileNotFoundError, ValueError):
        return None
    return known if known.transcript_sha256 == digest_of(transcript) else None


def _exists(path: Path, content: bytes) -> bool:
    """Whether the file exists with this content; a file with another content must stay."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return False
    if found != content:
        raise ResultError(
            "SFY-REP-009",
            f"{path} holds another result, which is not replaced, and nothing was written. Compare "
            "it with the files of the other parties. To get the result of this run, move that file "
            "away and rerun the command.",
        )
    return True


def _write_private(path: Path, content: object) -> None:
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode(), private=True)


def _rows_digest(state: Path) -> str:
    """The digest of its rows that the party noted when the run began."""
    with suppress(OSError, ValueError, StopIteration):
        header = strict.parse(next(lines_within(state, strict.MOST_BYTES, strict.MOST_BYTES)))
        return str(header.get("rows", "")) if isinstance(header, dict) else ""
    return ""
