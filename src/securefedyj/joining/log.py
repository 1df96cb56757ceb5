"""What the user was told, with times, in a file for later."""

from __future__ import annotations

import os
import time
from pathlib import Path

from securefedyj.errors import with_code
from securefedyj.network.errors import JoinError
from securefedyj.printable import printable_lines
from securefedyj.protocol.program import TooFewValues


class Log:
    """Lines at the end of a file that its owner alone can read, if it is a new one."""

    def __init__(self, path: Path) -> None:
        self._path: Path | None = path
        self._append("")

    def note(self, words: str) -> str:
        """Keep a sentence on one line; return why that failed, the first time that it does."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            self._append(f"{moment} {printable_lines(' '.join(words.splitlines()))}\n")
        except OSError as error:  # such as a full disk: the run is more than its log
            self._path = None
            return f"The log cannot be written ({error.strerror}); the run goes on without it."
        return ""

    def _append(self, line: str) -> None:
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8", opener=_for_its_owner) as file:
                file.write(line)


def without_rows(error: Exception) -> str:
    """What a log may say of an error: the sentences of some errors quote the table."""
    if isinstance(error, JoinError | TooFewValues | OSError):
        return with_code(str(error), error)
    return f"Ended by an error that may quote the table: {type(error).__name__}."


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
