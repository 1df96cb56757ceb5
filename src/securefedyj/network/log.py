"""The hub's log: one line per event, few lines about strangers, never contents."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from securefedyj.printable import printable_lines

LONGEST_VALUE = 600  # characters
BURST, PAUSE = 40, 2.0
"""Lines at once about refused connections, then seconds per line."""

EventLog = Callable[..., None]


def log_line(event: str, **fields: object) -> None:
    """Print one line for people and scripts to stderr: time, event, key=value."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    pairs = " ".join(f"{key}={json.dumps(_short(value))}" for key, value in fields.items())
    print(printable_lines(f"{moment} {event} {pairs}".rstrip()), file=sys.stderr, flush=True)


def _short(value: object) -> object:
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        return value[: LONGEST_VALUE - 3] + "..."
    return value


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
