"""What `securefedyj join` tells its user while it runs."""

from __future__ import annotations

import shutil
import sys
import threading
from typing import TYPE_CHECKING

from securefedyj.cli.common import tell, wrapped

if TYPE_CHECKING:
    from securefedyj.network.participant import Progress


class Display:
    """One line that is rewritten on a terminal; lines otherwise."""

    def __init__(self, terminal: bool | None = None) -> None:
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._open = False
        self._last = ""
        self._lock = threading.RLock()  # progress comes from the thread that computes

    def say(self, sentence: str) -> None:
        with self._lock:
            if sentence != self._last:  # such as that the hub cannot be reached, again and again
                self.end()
                tell(wrapped(sentence) if self._terminal else sentence, error=True)
            self._last = sentence

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
            if self._terminal:
                text = text[: shutil.get_terminal_size().columns - 1]
                print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
                self._open = True
            else:
                print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        with self._lock:
            if self._open:
                print(file=sys.stderr, flush=True)
                self._open = False
