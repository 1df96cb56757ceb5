"""What a command shows, and the exit codes that it may end with."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
import time

from securefedyj.errors import reason_of, with_code
from securefedyj.network.log import JoinLog
from securefedyj.network.session.events import Progress
from securefedyj.printable import printable, printable_lines

OK, FAILED, INTERRUPTED = 0, 1, 130
COLUMNS = 79
"""Of a terminal, without the last, which some terminals leave free."""
_LONGEST_NUMBER = 8  # characters
_SECONDS_BETWEEN, _SECONDS_BETWEEN_LINES = 0.2, 10.0
_LONGEST_SENTENCE = 4000  # characters; it may quote a file
TOO_LARGE = "the input is too large, or nested too deeply."


def tell(words: str, *, error: bool = False) -> None:
    """Print for the user; text of others in it cannot control the terminal.

    Line breaks are ours: a text of others passes `printable` before it gets here.
    """
    print(printable_lines(words), file=sys.stderr if error else sys.stdout, flush=error)


def wrapped(sentence: str, indent: str = "") -> str:
    """In lines that fit a terminal; names and paths stay whole."""
    columns = COLUMNS - len(indent)
    lines = textwrap.fill(sentence, columns, break_on_hyphens=False, break_long_words=False)
    return textwrap.indent(lines, indent)


def complain(sentence: str) -> None:
    """Print an error; a terminal itself would break it within words."""
    words = f"securefedyj: {sentence}"
    tell(wrapped(words) if sys.stderr.isatty() else words, error=True)


def short(value: float, most: int = 4) -> str:
    """A number in few characters and, unless it is whole, few digits; a dash for NaN."""
    if value != value:
        return "-"
    if value == round(value) and abs(value) < 10 ** (_LONGEST_NUMBER - 1):
        return f"{value + 0.0:.0f}"
    for digits in range(most, 1, -1):
        mantissa, e, power = f"{value:.{digits}g}".partition("e")
        text = f"{mantissa}e{int(power)}" if e else mantissa
        if 0 < int(power or 0) < _LONGEST_NUMBER - 2:  # 1390 rather than 1.39e3
            return f"{value:.0f}"
        if len(text) <= _LONGEST_NUMBER:
            return text
    return f"{value:.0e}"


def sentence_of(error: Exception) -> str:
    """What went wrong, with the code of the error."""
    text = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        where = "" if error.filename is None else f"{printable(os.fsdecode(error.filename))}: "
        text = f"{where}{reason_of(error)}."
    return with_code(
        text if len(text) <= _LONGEST_SENTENCE else f"{text[:_LONGEST_SENTENCE]}...", error
    )


class Display:
    """One line that is rewritten on a terminal; lines otherwise."""

    def __init__(self, terminal: bool | None = None, log: JoinLog | None = None) -> None:
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._log, self._last = log, ""
        # The open line, and the progress of the run in it: rows of a pass do not stay.
        self._line = self._now = ""
        self._next = time.monotonic() + _SECONDS_BETWEEN  # when rows may be shown again
        self._exchange = -1  # of the last line, and when the next one may follow within it
        self._due = time.monotonic() + _SECONDS_BETWEEN_LINES
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
            f"{now.bytes_sent / 1e6:.1f} MB sent"
        )
        if left >= 1:
            text += (
                f", up to {left:.0f} s left" if left < 120 else f", up to {left / 60:.0f} min left"
            )
        with self._lock:
            self._last = ""
            if self._terminal:
                self._now = text
                self._rewrite(text)
            if now.exchange == self._exchange and time.monotonic() < self._due:
                return
            self._exchange, self._due = now.exchange, time.monotonic() + _SECONDS_BETWEEN_LINES
            if not self._terminal:
                tell(text, error=True)
            self.note(text)

    def rows(self, done: str, count: int, total: int | None) -> None:
        """How many rows of a pass were read or summed; not too often."""
        if time.monotonic() < (self._next if self._terminal else self._due):
            return
        of = "" if total is None else f" of {total:,}"
        with self._lock:
            self._next = time.monotonic() + _SECONDS_BETWEEN
            if self._terminal:
                self._rewrite("; ".join(filter(None, [f"{count:,}{of} rows {done}", self._now])))
            else:
                self._due = time.monotonic() + _SECONDS_BETWEEN_LINES
                tell(f"{count:,}{of} rows {done}", error=True)

    def _rewrite(self, text: str) -> None:
        cut = text[: shutil.get_terminal_size().columns - 1]
        print(f"\r\x1b[K{cut}", end="", file=sys.stderr, flush=True)
        self._line = text

    def end(self) -> None:
        with self._lock:
            if self._line != self._now:
                self._rewrite(self._now)
            if self._line:
                print(file=sys.stderr, flush=True)
            self._line = self._now = ""
