"""How the demo writes: lines of 80 columns, and one sentence where it cannot write a file."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

WIDTH = 80


def underlined(title: str) -> str:
    return f"{title}\n{'-' * len(title)}"


def wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False)


def show_status(text: str) -> None:
    """Rewrite one line, for somebody who waits at a terminal."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{text[: WIDTH - 1]}", end="", flush=True)


def cannot_write(path: Path, error: OSError) -> OSError:
    reason = error.strerror or error
    return OSError(f"cannot write {path} ({reason}): choose another folder with --output")
