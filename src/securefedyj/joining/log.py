"""A log of the messages that the user has seen."""

from __future__ import annotations

import os
import time
from pathlib import Path

from securefedyj.errors import with_code
from securefedyj.network.errors import JoinError
from securefedyj.printable import printable_lines
from securefedyj.protocol.schedule import TooFewValues


class JoinLog:
    """Appends lines with times to a file; only its owner can read a new file."""

    def __init__(self, path: Path) -> None:
        self._path: Path | None = path
        self._append("")

    def note(self, words: str) -> str:
        """Append a message on one line; return why that failed, the first time that it fails."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            self._append(f"{moment} {printable_lines(' '.join(words.splitlines()))}\n")
        except OSError as error:  # such as a full disk: the run matters more
            self._path = None
            return f"The log cannot be written ({error.strerror}); the run continues without it."
        return ""

    def _append(self, line: str) -> None:
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8", opener=_for_its_owner) as file:
                file.write(line)


def without_rows(error: Exception) -> str:
    """What a log may contain about an error: some messages quote the table."""
    if isinstance(error, JoinError | TooFewValues | OSError):
        return with_code(str(error), error)
    return f"Ended by an error that may quote the table: {type(error).__name__}."


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
