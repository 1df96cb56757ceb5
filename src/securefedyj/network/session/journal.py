"""The journal: what a party remembers of a run, line by line on disk (docs/security.md, section 6).

A line is there before the message that it is about is sent. A line that was cut short by a crash
is the last one, and nothing was sent after it: it is dropped.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from securefedyj.errors import code_of
from securefedyj.network.bounds import largest_record
from securefedyj.network.errors import EndOfRun, OwnTrouble
from securefedyj.network.locks import lock
from securefedyj.network.session.memory import NEW_RUN, Memory
from securefedyj.network.session.outcome import digest_of
from securefedyj.network.session.progress import exchanges_done
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.transcript import Origin, read_reveal
from securefedyj.strict import Malformed, check_fields, parse

FILE = "state.jsonl"
FORMAT = 3
_KEY_BYTES = 32

_NUMBERS = ("exchange", "opening", "repeat", "session")
_TEXTS = ("confirmed", "failed")


class JournalError(OwnTrouble):
    """A journal that a run cannot go on from."""


class Journal(Memory):
    """The memory of a run in a folder; a new one if there is none yet.

    Parameters
    ----------
    folder
        The output folder of the party.
    agreement, digest
        What the parties have agreed upon, and the digest of the agreed file.
    name
        The party. A session that was running when the last process ended was ended by us.
    rows
        Gives the digest of the rows under a key, or None for a party without data.
    consortium
        Its name, for the result; nothing if none is to be named there.
    """

    def __init__(
        self,
        folder: Path,
        agreement: Agreement,
        digest: str,
        name: str,
        rows: Callable[[bytes], str] | None = None,
        consortium: str = "",
    ) -> None:
        origin = Origin(consortium, digest) if consortium else None
        super().__init__(agreement, member=name in agreement.committee, origin=origin)
        self.path = folder / FILE
        self._digest, self._rows = digest, rows
        self._writing = threading.Lock()  # by the thread that computes
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._lock()
            if os.fstat(self._file).st_size > 4 * largest_record(agreement):
                raise JournalError(
                    "SFY-JOIN-023",
                    f"{self.path} is larger than a run can make it; choose another --output.",
                )
            with open(self._file, "rb", closefd=False) as file:
                content = file.read()
            if b"\n" in content:
                self._read(content)
            else:
                self._start()
        except BaseException:
            self.close()
            raise
        if self.running and not self.finished:
            self.interrupt(name, exchanges_done(self.transcript) + 1)

    def close(self) -> None:
        """Let go of the file; whatever computes still can write no more."""
        with self._writing:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def _lock(self) -> None:
        """One process at a time: two could send the same opening twice."""
        try:
            lock(self._file, wait=False)
        except BlockingIOError:
            raise JournalError(
                "SFY-JOIN-024",
                f"Another process takes part with {self.path}; let it end, or stop it.",
            ) from None
        except OSError as error:
            raise JournalError(
                "SFY-JOIN-025",
                f"cannot lock {self.path}: {error.strerror}. Choose another --output, on a file "
                "system that has locks.",
            ) from None

    def _start(self) -> None:
        key = secrets.token_bytes(_KEY_BYTES)
        os.ftruncate(self._file, 0)
        self._write(
            {
                "state": FORMAT,
                "file": self._digest,
                "key": key.hex(),
                "rows": "" if self._rows is None else self._rows(key),
                "agreement": self.agreement.to_json(),
            }
        )
        self._sync()

    def _read(self, content: bytes) -> None:
        whole, _, torn = content.rpartition(b"\n")
        if torn:
            os.ftruncate(self._file, len(whole) + 1)
        first, *others = whole.split(b"\n")
        try:
            header = parse(first)
            self._check_format(header)
            if not others:  # nothing was ever begun here
                self._start()
                return
            self._check_header(header)
            for number, line in enumerate(others, start=2):
                self._take_line(number, line)
        except (Malformed, UnicodeDecodeError) as error:
            raise JournalError(
                code_of(error, "SFY-JOIN-026"),
                f"{self.path} cannot be read: {error}. Choose another --output.",
            ) from None
        if self.failed:
            raise EndOfRun("SFY-JOIN-018", self.failed)
        if self.confirmed:
            self._check_confirmed()

    def _check_format(self, header: Any) -> None:
        version = header.get("state") if isinstance(header, dict) else None
        if type(version) is int and version < FORMAT:
            raise JournalError(
                "SFY-JOIN-019",
                f"{self.path}: an older release wrote it, and only that release can go on with "
                f"this run. {NEW_RUN}",
            )
        if version != FORMAT:
            raise Malformed(f"this is not a state of format {FORMAT}")

    def _check_header(self, header: dict[str, Any]) -> None:
        fields = {"state": int, "file": str, "key": str, "rows": str, "agreement": dict}
        check_fields(header, fields, "line 1")
        if header["file"] != self._digest:
            raise JournalError(
                "SFY-JOIN-020",
                f"{self.path} is from a run with another agreed file; choose another --output.",
            )
        try:
            key = bytes.fromhex(header["key"])
        except ValueError:
            raise Malformed("the key of the rows is not hexadecimal") from None
        if header["rows"] != ("" if self._rows is None else self._rows(key)):
            raise JournalError(
                "SFY-JOIN-021",
                f"The rows are not those that this run began with ({self.path}): two results over "
                "rows that differ a little can tell the difference. Give the same table again, or "
                "agree on a new run for the new rows: with a new name in the agreed file and a new "
                "--output.",
            )

    def _check_confirmed(self) -> None:
        digest = ""
        with contextlib.suppress(EndOfRun):  # it does not pass the audit
            digest = digest_of(self, self.outcome()) if self.finished else ""
        if digest != self.confirmed:
            raise JournalError(
                "SFY-JOIN-022",
                f"{self.path} is not as it was when all parties confirmed the result; choose "
                "another --output.",
            )

    def _take_line(self, number: int, text: bytes) -> None:
        line = parse(text)
        try:
            if not isinstance(line, dict):
                raise Malformed("it is not an object")
            if "reveal" in line:
                self._add(read_reveal(line, len(self.agreement.features)))
            else:
                self._apply(_checked(line))
        except (Malformed, ValueError, OverflowError) as error:
            raise Malformed(f"line {number}: {error}") from None

    def _write(self, line: dict[str, Any]) -> None:
        data = (json.dumps(line) + "\n").encode()
        try:
            with self._writing:
                while data:
                    data = data[os.write(self._file, data) :]
        except OSError as error:  # such as a full disk: nothing may be sent after it
            raise OwnTrouble(
                "SFY-JOIN-027", f"cannot write {self.path}: {error.strerror}"
            ) from error

    def _sync(self) -> None:
        try:
            with self._writing:
                os.fsync(self._file)
        except OSError as error:
            raise OwnTrouble(
                "SFY-JOIN-028", f"cannot write {self.path}: {error.strerror}"
            ) from error


def _checked(line: dict[str, Any]) -> dict[str, Any]:
    """A note, if it is one."""
    kind = next(iter(line), "")
    if kind in _NUMBERS:
        check_fields(line, {kind: int}, "the note")
        if not 0 <= line[kind] < 1 << 32:
            raise Malformed(f"{kind} must not be {line[kind]}")
    elif kind in _TEXTS:
        check_fields(line, {kind: str}, "the note")
    elif kind == "interruption":
        check_fields(line, {kind: dict}, "the note")
        check_fields(line[kind], {"by": str, "exchange": int}, "the interruption")
    elif kind == "accepted":
        check_fields(line, {kind: dict}, "the note")
        check_fields(line[kind], {"opening": int, "session": str, "bits": str}, "the part")
        bytes.fromhex(line[kind]["bits"])
    else:
        raise Malformed(f"unknown note {kind!r}")
    return line
