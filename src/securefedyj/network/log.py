"""The hub's log: one line per event, few lines about strangers, never contents. And a party's."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from securefedyj.errors import reason_of, with_code
from securefedyj.network.errors import JoinError
from securefedyj.printable import printable_lines
from securefedyj.protocol.schedule import TooFewValues

LONGEST_VALUE = 600  # characters
BURST, PAUSE = 40, 2.0
"""Lines at once about refused connections, then seconds per line."""

EventLog = Callable[..., None]


def log_line(event: str, **fields: object) -> None:
    """Print one line for people and scripts to stderr: time, event, key=value."""
    pairs = " ".join(f"{key}={json.dumps(_short(value))}" for key, value in fields.items())
    print(_with_time(f"{event} {pairs}".rstrip()), file=sys.stderr, flush=True)


def log_json(event: str, **fields: object) -> None:
    """The same as one object in JSON, for a collector of logs."""
    values = {key: _short(value) for key, value in fields.items()}
    print(json.dumps({"time": _now(), "event": event, **values}), file=sys.stderr, flush=True)


LOG_FORMATS: dict[str, EventLog] = {"text": log_line, "json": log_json}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _short(value: object) -> object:
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        return value[: LONGEST_VALUE - 3] + "..."
    return value


def _with_time(words: str) -> str:
    """A line of a log."""
    return printable_lines(f"{_now()} {words}")


class Throttle:
    """Limits log lines, so that connecting again and again does not fill the disk."""

    def __init__(self, now: float) -> None:
        self._lines, self._since = float(BURST), now
        self._left_out = 0

    def lets_through(self, now: float) -> bool:
        """Whether to write a line; if not, count it."""
        self._lines = min(float(BURST), self._lines + (now - self._since) / PAUSE)
        self._since = now
        if self._lines < 1:
            self._left_out += 1
            return False
        self._lines -= 1
        return True

    def left_out(self) -> dict[str, int]:
        """The field of the next line that counts those left out before it, if any."""
        number, self._left_out = self._left_out, 0
        return {"left_out": number} if number else {}


class JoinLog:
    """The messages that a user has seen, with times; only its owner can read a new file."""

    def __init__(self, path: Path) -> None:
        self._path: Path | None = path
        self._append("")

    def note(self, words: str) -> str:
        """Append a message on one line; return why that failed, the first time that it fails."""
        try:
            self._append(_with_time(" ".join(words.splitlines())) + "\n")
        except OSError as error:  # such as a full disk: the run matters more
            self._path = None
            return f"The run continues without a log: {reason_of(error)}."
        return ""

    def _append(self, line: str) -> None:
        if self._path is not None:
            for_its_owner = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(for_its_owner, "a", encoding="utf-8") as file:
                file.write(line)


def without_rows(error: Exception) -> str:
    """What a log may contain about an error: some messages quote the table."""
    if isinstance(error, JoinError | TooFewValues | OSError):
        return with_code(str(error), error)
    return f"Ended by an error that may quote the table: {type(error).__name__}."
