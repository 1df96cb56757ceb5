"""What a command shows while it runs."""

from __future__ import annotations

import shutil
import sys
import threading
import time

from securefedyj.cli.common import tell, wrapped
from securefedyj.joining.log import JoinLog
from securefedyj.network.session.events import Progress

_SECONDS_BETWEEN = 0.2


class Display:
    """One line that is rewritten on a terminal; lines otherwise."""

    def __init__(self, terminal: bool | None = None, log: JoinLog | None = None) -> None:
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._log = log
        self._open = False
        self._last = ""
        self._now = ""  # the progress of the run in the open line
        self._passing = False  # whether that line also has the rows of a pass, which do not stay
        self._next = time.monotonic() + _SECONDS_BETWEEN  # when rows may be shown again
        self._lock = threading.RLock()  # progress comes from the thread that computes

    def say(self, sentence: str) -> None:
        with self._lock:
            if sentence != self._last:  # such as repeated failures to reach the hub
                self.end()
                tell(wrapped(sentence) if self._terminal else sentence, error=True)
                self.note(sentence)
            self._last = sentence

    def note(self, words: str) -> None:
        """Log what was shown elsewhere."""
        if self._log is not None and (failed := self._log.note(words)):
            self.say(failed)

    def progress(self, now: Progress) -> None:
        left = now.seconds_left
        text = (
            f"exchange {now.exchange}/{now.exchanges_at_most}, "
            f"{now.features_unfinished} features open, {now.rounds} rounds, "
            f"{now.bytes_sent / 1e6:.1f} MB sent, up to "
            + (f"{left:.0f} s left" if left < 120 else f"{left / 60:.0f} min left")
        )
        with self._lock:
            self._last = ""
            self._now, self._passing = text, False
            if self._terminal:
                self._rewrite(text)
            else:
                print(text, file=sys.stderr, flush=True)
            self.note(text)

    def rows(self, done: str, count: int, total: int | None) -> None:
        """How many rows of a pass were read or summed; on a terminal alone, and not too often."""
        if not self._terminal or time.monotonic() < self._next:
            return
        of = "" if total is None else f" of {total:,}"
        with self._lock:
            self._next = time.monotonic() + _SECONDS_BETWEEN
            self._passing = True
            self._rewrite("; ".join(filter(None, [f"{count:,}{of} rows {done}", self._now])))

    def _rewrite(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        self._open = True

    def end(self) -> None:
        with self._lock:
            if self._passing:
                self._rewrite(self._now)
            if self._open and self._now:
                print(file=sys.stderr, flush=True)
            self._open = self._passing = False
            self._now = ""
