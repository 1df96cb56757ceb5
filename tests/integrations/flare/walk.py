"""Types what docs/flare.md says to type on one machine, up to a section of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "flare.md"
PATIENCE = 300.0  # seconds
_BLOCK = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = "import sys; from securefedyj.cli.main import main; sys.exit(main())"


def section(title: str) -> str:
    """What the page has below a title, up to the next one."""
    (found,) = re.findall(
        rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    return str(found)


def type_out(title: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Write the files of a section, and type its commands; return all that was shown.

    Blocks that count have a second word: the name of the file, or `trial` for a terminal.
    """
    (folder / "bin").mkdir(exist_ok=True)
    for name, program in {"securefedyj": ["-c", _COMMAND], "python": []}.items():
        words = " ".join(f"'{word}'" for word in [sys.executable, *program])
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (folder / "bin" / name).chmod(0o700)
    environment = {**environment, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    first, shown = folder / "first", ""
    for language, name, body in _BLOCK.findall(section(title)):
        if language != "console":
            (first / name).write_text(body, encoding="utf-8")
            continue
        typed = "".join(line.removeprefix("$ ") for line in body.splitlines(True))
        run = subprocess.run(
            ["bash", "-e", "-c", typed],
            cwd=first if first.exists() else folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        shown += run.stdout
        assert run.returncode == 0, run.stdout
    return shown
