"""A silo's own list of the runs that its columns took part in. It is never sent anywhere.

One result tells little of a single row. The difference of two results over nearly the same rows
can tell the rows that differ, and several results over the same rows tell more of them than one.
So each run is noted, also one that fails, and the silo is warned before the next run over the same
columns (`repeats`).

The file has one JSON object per line: first a key, then one for each event of a run. Lines are
only ever added, each by one write under a lock. Columns are there as digests under the key;
as the key is beside them, the file is for its owner's eyes alone (mode 600).
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from securefedyj.errors import InputError, code_of
from securefedyj.network.locks import lock
from securefedyj.strict import NUMBER, Malformed, Types, check_fields, check_items, parse

FORMAT = "securefedyj ledger"
VERSION = 1
VARIABLE = "SECUREFEDYJ_LEDGER"
BEGAN, FINISHED, FAILED = "began", "finished", "failed"

_HEAD = {"format": str, "version": int, "key": str}
_EVENT = {"event": str, "id": str, "run": str, "consortium": str, "date": str, "party": str}
_BEGAN = {**_EVENT, "parties": list, "silos": list, "features": list, "folder": str,
          "columns": list}  # fmt: skip
_NEWER: tuple[tuple[str, str, Types], ...] = (BEGAN, "terms", dict), (FINISHED, "result", str)
"""What an event may have besides: version 0.2 has not written it."""
_TERMS = {"max_steps": int, "result_bits": int, "verified": bool, "lower": list, "upper": list}
_KEY_BYTES, _ID_BYTES, _RESULT_BYTES = 32, 8, 32


class LedgerError(InputError):
    """A ledger that cannot be used; the sentence says why and what to do."""


def default_path() -> Path:
    """Where the ledger is unless the user says otherwise."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    try:
        return Path.home() / ".securefedyj" / "ledger.jsonl"
    except RuntimeError:
        raise LedgerError(
            "SFY-LED-002",
            "You have no home folder to keep the list of your runs in; name a file with --ledger.",
        ) from None


class Terms(NamedTuple):
    """How precise a result the parties have agreed on, and whether it is verified."""

    max_steps: int
    result_bits: int
    verified: bool
    bounds: tuple[tuple[float, float], ...]
    """Of each feature."""


@dataclass(frozen=True)
class RunEntry:
    """A run as one party sees it, when it begins."""

    id: str
    """Random: the same agreed file may be run again, and that is another run."""
    digest: str
    """Of the agreed file."""
    consortium: str
    party: str
    parties: tuple[str, ...]
    silos: tuple[str, ...]
    """The parties with data."""
    features: tuple[str, ...]
    folder: str
    columns: Mapping[str, str]
    """The keyed digest of each feature that has values here (`column_digests`)."""
    terms: Terms | None = None
    """Unknown of a run that version 0.2 has noted."""
    date: str = ""


class Ledger:
    """The list, as read when this is made; lines that others add later are not seen.

    A file that is not there is an empty list, and is made with the first line that is added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: dict[str, RunEntry] = {}  # in the order in which they first began
        self._finished: dict[str, str] = {}  # the digests of their results, by their ids
        self.key = b""
        try:
            with _opened(path, os.O_RDONLY) as handle:
                content = _read(handle)
        except FileNotFoundError:
            content = b""
        self._parse(content)

    def prepare(self) -> None:
        """Make the file with a key if it is not there, so that columns can be compared later."""
        if self.key:
            return
        with _opened(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND) as handle:
            content = _read(handle)  # another process may have been faster
            if not content:
                key = secrets.token_hex(_KEY_BYTES)
                content = _line({"format": FORMAT, "version": VERSION, "key": key})
                _append(handle, self.path, content)
            self._parse(content)

    def id_of(self, digest: str, folder: str) -> str:
        """Of the run that goes on in a folder; a new one if none has begun there."""
        found = [
            run.id for run in self._runs.values() if (run.digest, run.folder) == (digest, folder)
        ]
        return found[-1] if found else self.new_id()

    @staticmethod
    def new_id() -> str:
        return secrets.token_hex(_ID_BYTES)

    def note(
        self, event: str, run: RunEntry, now: datetime.datetime | None = None, result: str = ""
    ) -> None:
        """Add a line about a run; `result` is the digest of the result of a finished one."""
        self.prepare()
        date = (now or datetime.datetime.now().astimezone()).isoformat(timespec="seconds")
        line: dict[str, Any] = {"event": event, "id": run.id, "run": run.digest}
        line |= {"consortium": run.consortium, "date": date, "party": run.party}
        if event == BEGAN:
            line |= {"parties": list(run.parties), "silos": list(run.silos)}
            line |= {"features": list(run.features), "folder": run.folder}
            line |= {"columns": [run.columns.get(name, "") for name in run.features]}
            if run.terms is not None:
                line["terms"] = _plain(run.terms)
        elif result:
            line["result"] = result
        with _opened(self.path, os.O_RDWR | os.O_APPEND) as handle:
            _append(handle, self.path, _line(line))
        if event == BEGAN:
            self._runs.setdefault(run.id, replace(run, date=date))
        elif event == FINISHED:
            self._finished.setdefault(run.id, result)

    def earlier(self, run: RunEntry) -> list[RunEntry]:
        """Other runs, the latest first."""
        return [other for other in reversed(self._runs.values()) if other.id != run.id]

    def unfinished(self, run: RunEntry) -> list[RunEntry]:
        """Earlier runs over any of the same columns that have begun and not finished.

        What such a run has revealed, a new one may reveal again and differently.
        """
        own = set(run.columns.values())
        return [
            other
            for other in self.earlier(run)
            if other.id not in self._finished and not own.isdisjoint(other.columns.values())
        ]

    def has_finished(self, run: RunEntry) -> bool:
        return run.id in self._finished

    def other_result(self, run: RunEntry, result: str) -> RunEntry | None:
        """The last run of the same agreed file over the same values whose result was another."""
        this = run.digest, run.party, run.columns
        for other in self.earlier(run):
            known = self._finished.get(other.id, "")
            if known not in ("", result) and (other.digest, other.party, other.columns) == this:
                return other
        return None

    def is_open(self, run: RunEntry) -> bool:
        """Whether this run has begun, in this process or before, and not finished."""
        return run.id in self._runs and run.id not in self._finished

    # Reading.

    def _parse(self, content: bytes) -> None:
        if not content:
            return
        *lines, rest = content.split(b"\n")
        for number, line in enumerate([*lines, rest] if rest else lines, 1):
            try:
                self._read_line(number, parse(line))
            except Malformed as error:
                raise LedgerError(
                    code_of(error, "SFY-LED-003"),
                    f"{self.path}, line {number}: {error}. The list of your runs is damaged. Keep "
                    "the file, it says what your columns were in; mend that line if you can, or "
                    "name another file with --ledger.",
                ) from None

    def _read_line(self, number: int, line: Any) -> None:
        if number == 1:
            head = check_fields(line, _HEAD, "the first line of a ledger")
            if (head["format"], head["version"]) != (FORMAT, VERSION):
                raise Malformed(f"this is not a {FORMAT} of version {VERSION}")
            self.key = _hexadecimal(head["key"], _KEY_BYTES, "the key")
            return
        kind = line.get("event") if isinstance(line, dict) else None
        fields: dict[str, Types] = {**(_BEGAN if kind == BEGAN else _EVENT)}
        for event, newer, types in _NEWER:
            if event == kind and newer in line:
                fields[newer] = types
        check_fields(line, fields, "an event")
        if kind == BEGAN:
            for name in ("parties", "silos", "features", "columns"):
                check_items(line[name], str, name)
            if len(line["columns"]) != len(line["features"]):
                raise Malformed("an event must have as many columns as features")
            self._runs.setdefault(line["id"], _run(line))
        elif kind == FINISHED:
            result = line.get("result", "")
            if "result" in line:
                result = _hexadecimal(result, _RESULT_BYTES, "the digest of a result").hex()
            self._finished.setdefault(line["id"], result)
        elif kind != FAILED:
            raise Malformed(f"an event must be {BEGAN}, {FINISHED} or {FAILED}")


def _hexadecimal(text: str, size: int, what: str) -> bytes:
    with suppress(ValueError):
        found = bytes.fromhex(text)
        if len(found) == size:
            return found
    raise Malformed(f"{what} must have {2 * size} hexadecimal digits")


def _run(event: Mapping[str, Any]) -> RunEntry:
    return RunEntry(
        event["id"],
        event["run"],
        event["consortium"],
        event["party"],
        tuple(event["parties"]),
        tuple(event["silos"]),
        tuple(event["features"]),
        event["folder"],
        {name: one for name, one in zip(event["features"], event["columns"], strict=True) if one},
        _terms(event["terms"], len(event["features"])) if "terms" in event else None,
        event["date"],
    )


def _terms(data: Any, n_features: int) -> Terms:
    check_fields(data, _TERMS, "terms")
    lower, upper = (check_items(data[name], NUMBER, name) for name in ("lower", "upper"))
    if not len(lower) == len(upper) == n_features:
        raise Malformed("terms must have as many bounds as the event has features")
    bounds = tuple(zip(lower, upper, strict=True))
    return Terms(data["max_steps"], data["result_bits"], data["verified"], bounds)


def _plain(terms: Terms) -> dict[str, Any]:
    data = terms._asdict()
    lower, upper = zip(*data.pop("bounds"), strict=True)
    return data | {"lower": lower, "upper": upper}


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


# The file. Whoever has it open holds its lock, and nobody else reads or writes meanwhile.


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    try:
        if flags & os.O_CREAT:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, flags, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        lock(handle, shared=flags == os.O_RDONLY)
        if os.fstat(handle).st_mode & 0o077:
            with suppress(OSError):  # somebody else's file
                os.chmod(path, 0o600)
        yield handle
    except OSError as error:
        raise _unusable(path, error) from None
    finally:
        os.close(handle)


def _unusable(path: Path, error: OSError) -> LedgerError:
    return LedgerError(
        "SFY-LED-001",
        f"{path}: {error.strerror}. The list of your runs cannot be kept there; name another file "
        "with --ledger.",
    )


def _read(handle: int) -> bytes:
    parts = []
    os.lseek(handle, 0, os.SEEK_SET)
    while part := os.read(handle, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _append(handle: int, path: Path, line: bytes) -> None:
    """Add a whole line, or nothing."""
    before = os.fstat(handle).st_size
    try:
        if before and os.pread(handle, 1, before - 1) != b"\n":
            line = b"\n" + line  # an editor may have taken away the end of the last line
        if os.write(handle, line) < len(line):
            raise OSError(0, "No space left on device")
        os.fsync(handle)
    except OSError as error:
        with suppress(OSError):
            os.ftruncate(handle, before)
        raise _unusable(path, error) from None
