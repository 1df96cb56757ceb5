"""How the demo writes: lines of 80 columns, commands as they can be typed, errors as sentences."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from pathlib import Path

WIDTH = 80


def underlined(title: str) -> str:
    return f"{title}\n{'-' * len(title)}"


def wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False)


def command(*arguments: str) -> str:
    """A command of this program that works as printed, in the folder where this one was called."""
    called = Path(sys.argv[0])
    if called.stem != "securefedyj":
        program = [sys.executable, "-m", "securefedyj.cli"]
    else:
        found = shutil.which(called.name)
        on_path = found is not None and Path(found).resolve() == called.resolve()
        program = ["securefedyj" if on_path else str(called)]
    return shlex.join([*program, *arguments])


def show_status(text: str) -> None:
    """Rewrite one line, for somebody who waits at a terminal."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{text[: WIDTH - 1]}", end="", flush=True)


def cannot_write(path: Path, error: OSError) -> OSError:
    reason = error.strerror or error
    return OSError(f"cannot write {path} ({reason}): choose another folder with --output")
