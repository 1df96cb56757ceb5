"""A silo's own list of the runs that its columns took part in. It is never sent anywhere.

One result tells little about a single row. The difference of two results over nearly the same rows
can reveal the rows that differ, and several results over the same rows reveal more than one. So
the silo notes each run, also one that fails, and is warned before the next run over the same
columns (`repeats`).

The file has one JSON object per line: first a key, then one for each event of a run. Columns are
in it as digests under that key; so the file is for its owner's eyes alone (mode 600).
"""

from __future__ import annotations

import datetime
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from securefedyj.errors import InputError
from securefedyj.network.lines import LineFile
from securefedyj.strict import Finite, Malformed, Record, convert, hexadecimal, parse

LEDGER_VARIABLE = "SECUREFEDYJ_LEDGER"
BEGAN, SUBMITTED, FINISHED, FAILED = "began", "submitted", "finished", "failed"


class LedgerError(InputError):
    """A ledger that cannot be used."""


class LedgerHead(Record, frozen=True):
    """The first line."""

    format: Literal["securefedyj ledger"]
    version: Literal[1]
    key: Annotated[str, hexadecimal(32)]


class RunTerms(Record, frozen=True):
    """How precise a result the parties have agreed on, and whether it is verified."""

    max_steps: int
    result_bits: int
    verified: bool
    lower: tuple[Finite, ...]
    """The bounds of each feature."""
    upper: tuple[Finite, ...]
    methods: tuple[dict[str, tuple[str, ...]], ...] | UnsetType = UNSET
    """Of each feature, with their quantiles; not written where all have yeo-johnson alone."""


class _RunEvent(Record, frozen=True, kw_only=True, tag_field="event"):
    """What all lines about a run have."""

    id: str
    """Random: the same agreed file may be run again, and that is another run."""
    digest: str = msgspec.field(name="run")
    """Of the agreed file."""
    consortium: str
    date: str
    party: str


class RunEntry(_RunEvent, frozen=True, kw_only=True, tag=BEGAN):
    """A run as one party sees it, when it begins."""

    parties: tuple[str, ...]
    silos: tuple[str, ...]
    """The parties with data."""
    features: tuple[str, ...]
    folder: str
    columns: tuple[str, ...]
    """The keyed digest of each feature (`column_digests`); empty if it has no values here."""
    terms: RunTerms | UnsetType = UNSET
    """Version 0.2 has not written it."""

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.features):
            raise Malformed("there must be as many columns as features")
        if self.terms and not len(self.terms.lower) == len(self.terms.upper) == len(self.features):
            raise Malformed("there must be as many bounds as features")
        if self.terms and len(self.terms.methods or self.features) != len(self.features):
            raise Malformed("there must be as many methods as features")

    def digests(self) -> dict[str, str]:
        """The digests of the features that have values here."""
        return {name: one for name, one in zip(self.features, self.columns, strict=True) if one}


class RunFinished(_RunEvent, frozen=True, tag=FINISHED):
    """The end of a run with a result."""

    result: Annotated[str, hexadecimal(32)] | UnsetType = UNSET
    """Its digest; version 0.2 has not written it."""
    n: tuple[Annotated[int, Meta(ge=0, le=2**63 - 1)], ...] | UnsetType = UNSET
    """How many values each feature had over all silos; written where quantiles were found."""


class RunFailed(_RunEvent, frozen=True, tag=FAILED):
    """The end of a run without a result."""


class RunSubmitted(_RunEvent, frozen=True, tag=SUBMITTED):
    """A silo has made its submission, and will make no other for this agreed file."""

    file: str
    sha256: Annotated[str, hexadecimal(32)]


_LINE: Any = RunEntry | RunSubmitted | RunFinished | RunFailed


def default_path() -> Path:
    """Where the ledger is unless the user names another place."""
    if named := os.environ.get(LEDGER_VARIABLE):
        return Path(named)
    try:
        return Path.home() / ".securefedyj" / "ledger.jsonl"
    except RuntimeError:
        raise LedgerError(
            "SFY-LED-002",
            "You have no home folder for the list of your runs; name a file with --ledger.",
        ) from None


class Ledger:
    """The list, as read when this is made; lines that others add later are not seen.

    A missing file is an empty list; the first line that is added creates it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key = b""
        self._runs: dict[str, RunEntry] = {}  # in the order in which they first began
        self._finished: dict[str, RunFinished] = {}  # by their ids
        self._submitted: dict[tuple[str, str], RunSubmitted] = {}
        with suppress(FileNotFoundError), self._opened(os.O_RDONLY) as file:
            self._parse(file.read())

    def prepare(self) -> None:
        """Create the file with a key unless it exists, so that columns can be compared later."""
        if self.key:
            return
        with self._opened(os.O_RDWR | os.O_CREAT) as file:
            if not file.size:  # otherwise another process was faster
                head = LedgerHead("securefedyj ledger", 1, secrets.token_hex(32))
                file.append(msgspec.to_builtins(head), sync=True)
            self._parse(file.read())

    def submission(self, digest: str, party: str) -> RunSubmitted | None:
        """What a party has submitted for an agreed file."""
        return self._submitted.get((digest, party))

    def submitted_run(self, digest: str, party: str) -> RunEntry | None:
        """The run that a party has submitted for."""
        made = self.submission(digest, party)
        return None if made is None else self._runs.get(made.id)

    def id_of(self, digest: str, folder: str, party: str) -> str:
        """The id of the run to resume in a folder, or of a submission; otherwise a new one."""
        if made := self.submission(digest, party):
            return made.id
        for run in reversed(self._runs.values()):
            if (run.digest, run.folder) == (digest, folder):
                return run.id
        return secrets.token_hex(8)

    def note(
        self,
        event: str,
        run: RunEntry,
        now: datetime.datetime | None = None,
        result: str = "",
        n: tuple[int, ...] = (),
    ) -> None:
        """Add a line about a run; of a finished one with the digest of the result, and n."""
        self.prepare()
        line: _RunEvent = _dated(run, now)
        if event == FAILED:
            line = RunFailed(**_common(line))
        elif event == FINISHED:
            line = RunFinished(**_common(line), result=result or UNSET, n=n or UNSET)
        with self._opened(os.O_RDWR) as file:
            file.append(msgspec.to_builtins(line), sync=True)
        self._take(line)

    def submit(self, run: RunEntry, path: Path, sha256: str) -> None:
        """Note the only submission of a party for an agreed file, before it has its name."""
        self.prepare()
        began = _dated(run)
        line = RunSubmitted(**_common(began), file=str(path), sha256=sha256)
        with self._opened(os.O_RDWR) as file:
            self._parse(file.read())
            if self.submission(run.digest, run.party):  # another process was faster
                raise LedgerError(
                    "SFY-LED-005",
                    f"Another process has just submitted for {run.party!r}; nothing was made here. "
                    "Type the command again to send that submission.",
                )
            for one in (began, line):
                file.append(msgspec.to_builtins(one), sync=True)
        self._take(began)
        self._take(line)

    def earlier(self, run: RunEntry) -> list[RunEntry]:
        """Other runs, the latest first."""
        return [other for other in reversed(self._runs.values()) if other.id != run.id]

    def over_same_values(self, run: RunEntry) -> list[RunEntry]:
        """Other runs over the same values of any column, the latest first."""
        own = set(run.columns) - {""}
        return [other for other in self.earlier(run) if not own.isdisjoint(other.columns)]

    def unfinished(self, run: RunEntry) -> list[RunEntry]:
        """Those that have begun and not finished.

        A new run may reveal again, and differently, what such a run has revealed.
        """
        return [other for other in self.over_same_values(run) if not self.has_finished(other)]

    def has_finished(self, run: RunEntry) -> bool:
        return run.id in self._finished

    def counts_of(self, run: RunEntry) -> dict[str, int]:
        """How many values the features of a finished run had over all silos, where it is known."""
        end = self._finished.get(run.id)
        return dict(zip(run.features, (end and end.n) or (), strict=False))

    def other_result(self, run: RunEntry, result: str) -> RunEntry | None:
        """The last run of the same agreed file over the same values that had another result."""
        this = run.digest, run.party, run.columns
        for other in self.earlier(run):
            end = self._finished.get(other.id)
            known = (end and end.result) or result
            if known != result and (other.digest, other.party, other.columns) == this:
                return other
        return None

    def is_open(self, run: RunEntry) -> bool:
        """Whether this run has begun, in this process or before, and not finished."""
        return run.id in self._runs and run.id not in self._finished

    def _parse(self, lines: list[bytes]) -> None:
        for number, text in enumerate(lines, 1):
            try:
                if number == 1:
                    self.key = bytes.fromhex(convert(parse(text), LedgerHead, "the head").key)
                else:
                    self._take(convert(parse(text), _LINE, "the event"))
            except Malformed as error:
                raise LedgerError(
                    "SFY-LED-003",
                    f"{self.path}, line {number}: {error}. The list of your runs is damaged. Keep "
                    "the file, since it lists the runs of your columns; correct that line, or "
                    "name another file with --ledger.",
                ) from None

    def _take(self, line: _RunEvent) -> None:
        if isinstance(line, RunEntry):
            self._runs.setdefault(line.id, line)
        elif isinstance(line, RunSubmitted):
            self._submitted.setdefault((line.digest, line.party), line)
        elif isinstance(line, RunFinished):
            self._finished.setdefault(line.id, line)

    @contextmanager
    def _opened(self, flags: int) -> Iterator[LineFile]:
        try:
            if flags & os.O_CREAT:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with LineFile(self.path, flags) as file:
                file.lock()
                yield file
        except FileNotFoundError:
            raise
        except OSError as error:
            raise LedgerError(
                "SFY-LED-001",
                f"{self.path}: {error.strerror}. The list of your runs cannot be kept there; name "
                "another file with --ledger.",
            ) from None


def _dated(run: RunEntry, now: datetime.datetime | None = None) -> RunEntry:
    """The run with the present time."""
    date = (now or datetime.datetime.now().astimezone()).isoformat(timespec="seconds")
    return msgspec.structs.replace(run, date=date)


def _common(line: _RunEvent) -> dict[str, Any]:
    """What all lines about a run have."""
    return {name: getattr(line, name) for name in _RunEvent.__struct_fields__}
