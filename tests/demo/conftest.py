"""The demo, run once for all tests that read what it shows."""

from __future__ import annotations

import contextlib
import io
import os
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

from securefedyj.cli.main import main
from securefedyj.demo import comparison


class Shown(NamedTuple):
    text: str
    folder: Path


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """The demo, run once as its user does: with its default folder below the current one."""
    folder = tmp_path_factory.mktemp("demo")
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.chdir(folder)
        scripts = sysconfig.get_path("scripts")
        patch.setattr("sys.argv", [f"{scripts}/securefedyj", "demo"])
        patch.setenv("PATH", scripts, prepend=os.pathsep)
        patch.setattr(comparison, "REPEATS", 1)
        assert main(["demo"]) == 0
    return Shown(output.getvalue(), folder / "out")
