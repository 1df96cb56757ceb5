"""Type docs/flower.md into terminals: a simulation, then a SuperLink and three SuperNodes with TLS.

    python -m tests.integrations.flower.walk

Needs flwr[simulation], openssl and ssh-keygen; takes minutes. Fails unless the page shows what the
terminals show, and all results are, byte for byte, those of one process.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from securefedyj.network.consortium import Consortium
from securefedyj.network.local import free_port
from securefedyj.tables.cells import MISSING
from securefedyj.tables.files import read_table
from tests.docs import test_guide as guide
from tests.integrations.flower import sites
from tests.integrations.flower.federation import ANSI, ROOT, set_environment

PAGE = ROOT / "docs" / "flower.md"
PORTS = re.compile(r"(?<=127\.0\.0\.1:)\d{4}|(?<=--port )\d{4}")
# What keeps running, and what it shows as soon as it can be used.
READY = {
    "securefedyj hub ": " listening ",
    "flower-superlink ": "Uvicorn running on",
    "python -m securefedyj.integrations.flower.supernode ": "SuperNode ID",
}


class Desk(guide.Desk):
    """Terminals in which some commands keep running, until Ctrl-C or the end."""

    def follow(self, steps: list[guide.Typed]) -> list[guide.Typed]:
        commands = []
        for step in steps:
            if step.command == "^C":
                self._interrupt(step.terminal)
            else:
                commands.append(self._type(step))
        return commands

    def _type(self, step: guide.Typed) -> guide.Typed:
        print(f"{step.terminal}$ {step.command}", flush=True)
        if step.terminal not in self._terminals:
            self._terminals[step.terminal] = guide.Terminal(self._folder)
        really = self._last[step.terminal] = guide.Typed(step.terminal, step.command)
        self._terminals[step.terminal].type(step.command + "\n")
        ready = [words for start, words in READY.items() if step.command.startswith(start)]
        self._terminals[step.terminal].wait_for(*ready or [guide.PROMPT])
        if not ready:
            self._finish(step.terminal)
            really.shown = [ANSI.sub("", line) for line in really.shown]
            print(*really.shown, sep="\n", flush=True)
        return really

    def _interrupt(self, name: str) -> None:
        self._terminals[name].interrupt()
        self._terminals[name].wait_for(guide.PROMPT)


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="walk-"))
    set_environment(folder)
    activate = folder / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"PATH={sysconfig.get_path('scripts')}:$PATH\n")
    ports: dict[str, str] = {}
    page = PORTS.sub(
        lambda port: ports.setdefault(port[0], str(free_port())), PAGE.read_text(encoding="utf-8")
    )
    steps = guide.read(page)
    with Desk(folder) as desk:
        shown = desk.follow(steps)
    typed = [step for step in steps if step.command != "^C"]
    for step, really in zip(typed, shown, strict=True):
        if not step.command.startswith(tuple(READY)):
            said = f"{step.terminal}$ {step.command}\n" + "\n".join(really.shown)
            assert guide.matches(guide.stable(step), guide.stable(really)), said
    check_results(folder / "fed")
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def check_results(folder: Path) -> None:
    """All files of the result are that of one process."""
    consortium = Consortium.read(folder / "consortium.toml")
    names = [feature.name for feature in consortium.features]
    rows = {
        party.name: read_table(folder / party.name / "patients.csv", names, MISSING)
        for party in consortium.parties
    }
    expected = sites.in_process(consortium, rows)
    found = list(folder.rglob("parameters.json"))
    assert len(found) == 7, found
    assert all(path.read_bytes() == expected for path in found)
    print("simulation and deployment: the same bytes as in one process, at all sites")


if __name__ == "__main__":
    sys.exit(main())
