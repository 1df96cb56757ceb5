"""Parties that are processes, and go on past an opening only when a test lets them."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from securefedyj.network import local
from tests.patience import wait_until

_HELD = """
import os, time
from securefedyj.network.session.memory import Memory

revealed = Memory.revealed

def held(memory, transcript):
    revealed(memory, transcript)
    if len(transcript.reveals) >= {openings}:
        open({reached!r}, "w").close()
        while not os.path.exists({opened!r}):
            time.sleep(0.01)

Memory.revealed = held
"""


def held(openings: int, reached: Path, opened: Path) -> str:
    """Code that makes the party of a process say that it has come there, and wait."""
    return _HELD.format(openings=openings, reached=str(reached), opened=str(opened))


class Gate:
    """Holds a party as soon as it has kept so many openings: no run ends before `open`."""

    def __init__(self, processes: local.Processes, name: str, openings: int) -> None:
        self._processes, self._name = processes, name
        self._reached, self._opened = (processes.folder / f"{name} {w}" for w in ("held", "goes"))
        self._code = held(openings, self._reached, self._opened)

    def start_party(self, *options: str) -> None:
        with mock.patch.object(local, "_COMMAND", self._code + local._COMMAND):
            self._processes.start_party(self._name, *options)

    def wait(self) -> None:
        """Until the party has come there."""
        wait_until(self._reached.exists, lambda: self._processes.log(self._name))

    def open(self) -> None:
        self._opened.touch()
