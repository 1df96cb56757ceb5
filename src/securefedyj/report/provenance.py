"""Where a result comes from: who has written it down, when, and which table was read for it.

What all parties know alike, the consortium and the digest of its agreed file, is in the transcript
and in parameters.json, which are the same everywhere to the last bit. The rest each party knows for
itself alone: it is in provenance.json beside them, for its owner's eyes, and in the report.
"""

from __future__ import annotations

import datetime
import getpass
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from securefedyj import __version__, strict
from securefedyj.errors import InputError, code_of
from securefedyj.files import TooLarge, lines_within, read_within, write_atomically
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.parameters import digest_of
from securefedyj.protocol.transcript import Transcript

FORMAT = "securefedyj provenance 1"
TLS = "TLS 1.3, with the certificates of the agreed file"
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class Provenance:
    """The content of provenance.json (docs/parameters.md); a text is empty where nothing is known.

    Attributes
    ----------
    party
        Who has taken part.
    user
        The account at that party's machine.
    finished
        When the result was written there: date and time, UTC.
    release
        The version of securefedyj there.
    connections
        How the connections to the other parties were protected, as checked in each handshake.
    transcript_sha256
        Which result this is about.
    table
        The name of the file or folder with the silo's rows.
    rows_digest
        Of these rows, under the key that is in state.jsonl.
    """

    party: str
    user: str
    finished: str
    release: str
    connections: str
    transcript_sha256: str
    table: str
    rows_digest: str

    def write(self, path: Path) -> None:
        """Write the file, for its owner alone."""
        content = json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n"
        write_atomically(path, content.encode(), private=True)


def of_run(transcript: Transcript, party: str, table: Path | None, folder: Path) -> Provenance:
    """Of a run that `participate` has finished in this folder just now."""
    now = datetime.datetime.now(datetime.UTC)
    return Provenance(
        party,
        _user(),
        now.isoformat(timespec="seconds"),
        __version__,
        TLS,  # there are no other channels (`network/session/channels.py`)
        digest_of(transcript),
        "" if table is None else table.resolve().name,
        _rows_digest(folder / STATE),
    )


def read(path: Path | str) -> Provenance:
    """Read a provenance.json; a ValueError names the file and what is wrong with it."""
    try:
        data = strict.parse(read_within(path, _MOST_BYTES))
        names = ["format", *(field.name for field in fields(Provenance))]
        found = dict(strict.check_fields(data, dict.fromkeys(names, str), "it"))
        if found.pop("format") != FORMAT:
            raise strict.Malformed(f"it is not of the form {FORMAT!r}")
        return Provenance(**found)
    except (strict.Malformed, TooLarge) as error:
        raise InputError(
            code_of(error, "SFY-REP-008"), f"{path}: this is not a provenance.json: {error}"
        ) from None


def _rows_digest(state: Path) -> str:
    """What the party has noted of its rows when the run began."""
    with suppress(OSError, ValueError, StopIteration):
        header = strict.parse(next(lines_within(state, strict.MOST_BYTES, strict.MOST_BYTES)))
        return str(header.get("rows", "")) if isinstance(header, dict) else ""
    return ""


def _user() -> str:
    with suppress(OSError, KeyError, ImportError):  # an account may have no name
        return getpass.getuser()
    return ""
