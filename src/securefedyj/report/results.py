"""The files that a run writes into a party's folder, and reading them; see docs/parameters.md.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

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
from securefedyj.network.forecast import (
    DELAY_MS,
    MBIT,
    Forecast,
    bytes_per_second,
    forecast,
)
from securefedyj.network.local import Crossing
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import Parameters, digest_of
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import page

T = TypeVar("T")

PARAMETERS, TRANSCRIPT, COST, PROVENANCE, REPORT = (
    "parameters.json", "transcript.jsonl", "cost.json", "provenance.json", "report.html",
)  # fmt: skip
_TLS = "TLS 1.3, with the certificates of the agreed file"
_MOST_BYTES = 1 << 16

_LARGEST = 2**63 - 1  # bytes or seconds, far more than any run takes
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0, le=_LARGEST)]
_Bytes: TypeAlias = _Count | dict[str, _Count | dict[str, _Count]]
"""By party and peer, by party, or one number: that of the party itself."""
_PARTS = {
    "seconds_local": "sums of own rows",
    "seconds_secure": "secure computation",
    "seconds_waiting": "waiting for others",
}


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
            # There are no other channels (`network/session/channels.py`).
            _TLS if party in transcript.agreement.online else "",
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
    if consortium.engine == ENGINE:  # no other has forecasts
        cost[f"plan for {DELAY_MS:g} ms, {MBIT:g} Mbit/s"] = planned(consortium, transcript)
    if (folder / COST).exists():
        cost["this run"] = read_cost(folder / COST)
    known = _provenance(transcript, folder)
    more = {"provenance": known, "units": consortium.units}
    page.write(folder / REPORT, transcript, sample, cost=cost, rows=rows, **more)


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


class _CostFile(strict.Record, frozen=True, forbid_unknown_fields=False):
    """A cost.json (docs/parameters.md), or the cost of several parties."""

    bytes_sent: _Bytes
    bytes_received: _Bytes = msgspec.field(default_factory=dict)
    party: str = "this party"
    rounds: _Count | None = None
    seconds: _Amount | UnsetType = UNSET
    seconds_local: _Amount | UnsetType = UNSET
    seconds_secure: _Amount | UnsetType = UNSET
    seconds_waiting: _Amount | UnsetType = UNSET


class _Plan(strict.Record, frozen=True, forbid_unknown_fields=False):
    """What `securefedyj plan --json` prints for a number of levels per exchange."""

    levels: _Count
    rounds: _Count
    megabytes: _Amount
    seconds: _Amount


class _PlanFile(strict.Record, frozen=True, forbid_unknown_fields=False):
    levels: list[_Plan]


@dataclass(frozen=True)
class CostColumn:
    """A column of the table of costs. None, or a missing party, means not known."""

    rounds: int | None
    sent_by: dict[str, int]  # bytes, by party
    most_sent: int | None  # bytes, by the party that sends most
    seconds: float | None
    received_by: dict[str, int] = field(default_factory=dict)  # bytes, by party
    seconds_spent_on: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of_forecast(cls, forecast: Forecast | _Plan) -> CostColumn:
        return cls(forecast.rounds, {}, round(1e6 * forecast.megabytes), forecast.seconds)


def planned(consortium: Consortium, transcript: Transcript) -> CostColumn:
    """What `securefedyj plan` prints for this number of rows, without the hub's time.

    Measuring that takes a hub with keys, which a party should not start during a run.
    """
    outlook = forecast(
        consortium,
        rows=max(1, int(transcript.counts().max()) // len(consortium.silos)),
        delay=DELAY_MS / 1e3,
        bytes_per_second=bytes_per_second(MBIT),
        levels=[consortium.levels_per_exchange],
        crossing=Crossing(0.0, 0.0),
    )
    return CostColumn.of_forecast(*outlook.forecasts)


def read_cost(path: Path | str) -> CostColumn:
    """The cost of a run, from a cost.json or from a file with the cost of several parties."""
    words = (
        "the cost of a run, an object with the fields rounds, bytes_sent, and seconds or "
        "seconds_local and seconds_secure"
    )
    cost = _read(path, _CostFile, "SFY-REP-003", words)
    counts = cost.bytes_sent, cost.bytes_received
    sent, received = (_by_party(count, cost.party) for count in counts)
    # The bytes of one party do not show whether it sent most.
    most_sent = max(sent.values()) if len(sent) > 1 else None
    given = msgspec.to_builtins(cost)  # without what is not set
    parts = {words: given[name] for name, words in _PARTS.items() if name in given}
    times = [given[name] for name in ("seconds", *_PARTS) if name in given]
    return CostColumn(cost.rounds, sent, most_sent, sum(times) if times else None, received, parts)


def read_plan(path: Path | str, levels_per_exchange: int) -> CostColumn:
    """The cost that `securefedyj plan --json` printed for this number of levels per exchange."""
    words = "the output of `securefedyj plan --json`"
    for plan in _read(path, _PlanFile, "SFY-REP-004", words).levels:
        if plan.levels == levels_per_exchange:
            return CostColumn.of_forecast(plan)
    raise InputError(
        "SFY-REP-001", f"{path}: the plan has no cost for {levels_per_exchange} levels"
    )


def _by_party(count: int | dict[str, int | dict[str, int]], own: str) -> dict[str, int]:
    counts = count if isinstance(count, dict) else {own: count}
    return {party: sum(to.values()) if isinstance(to, dict) else to for party, to in counts.items()}


def _read(path: Path | str, kind: type[T], code: str, words: str) -> T:
    try:
        data = strict.parse(read_within(path, strict.MOST_BYTES))
    except (strict.Malformed, TooLarge) as error:
        raise InputError(code_of(error, "SFY-REP-005"), f"{path}: {error}") from None
    try:
        return strict.convert(data, kind, "it")
    except strict.Malformed as error:
        raise InputError(code, f"{path}: this is not {words}: {error}") from None
