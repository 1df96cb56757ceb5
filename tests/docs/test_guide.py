"""Guides work as typed: their commands go into real terminals, and show what they say.

Blocks of a guide begin with ```console and the name of a terminal. Lines after `$ ` are typed
there, `^C` is pressed, all others are what the terminal shows; a block without a command goes on
with the last one of its terminal.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sysconfig
import termios
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from securefedyj.network.local import free_port
from tests.network.gate import held
from tests.patience import PATIENCE

DOCS = Path(__file__).parents[2] / "docs"
PORT = "7443"
PROMPT = "\x01"
BLOCK = re.compile(r"^```console (\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass
class Typed:
    """A command, or Ctrl-C, and what the terminal shows after it."""

    terminal: str
    command: str
    shown: list[str] = field(default_factory=list)


def read(text: str) -> list[Typed]:
    """What a guide says to type, in its order."""
    steps: list[Typed] = []
    for terminal, body in BLOCK.findall(text):
        lines = iter(body.splitlines())
        for line in lines:
            if line.startswith("$ "):
                command = line[2:]
                while command.endswith("\\") or command.count("'") % 2:
                    command += "\n" + next(lines)
                steps.append(Typed(terminal, command))
                continue
            commands = [s for s in steps if s.terminal == terminal and s.command != "^C"]
            commands[-1].shown.append(line)
            if "^C" in line:
                steps.append(Typed(terminal, "^C"))
    return steps


class Terminal:
    """A shell with 80 columns."""

    def __init__(self, folder: Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = dict(os.environ, PS1=PROMPT, PS2="", TERM="xterm", OPENBLAS_NUM_THREADS="1")
        environment.pop("COLUMNS", None)
        self._shell = subprocess.Popen(
            ["setsid", "--ctty", "--wait", "bash", "--norc", "--noprofile", "--noediting", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=environment,
        )
        os.close(slave)
        self._seen, self._news = "", threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_for(PROMPT)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            with self._news:
                self._seen += data.decode(errors="replace")
                self._news.notify_all()

    def type(self, text: str) -> None:
        """Type into a clean screen."""
        with self._news:
            self._seen = ""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        os.write(self._master, b"\x03")

    def wait_for(self, text: str) -> None:
        """Wait until the terminal shows it; that the command ends before is an error."""
        with self._news:
            self._news.wait_for(lambda: text in self._seen or PROMPT in self._seen, PATIENCE)
            assert text in self._seen, f"no {text!r} in:\n{self._seen}"

    def lines(self, typed: str) -> list[str]:
        """What came after the typed text; of a line that was written over, its last state."""
        text = self._seen.partition(PROMPT)[0].replace("\r\n", "\n").removeprefix(typed)
        return [re.split(r"\r\x1b\[K|\r", line)[-1] for line in text.split("\n")][:-1]

    def close(self) -> None:
        self._shell.send_signal(signal.SIGHUP)  # which it passes on to what runs in it
        self._shell.wait(PATIENCE)
        self._reader.join(PATIENCE)
        os.close(self._master)


def opened(folder: Path) -> Path:
    return folder / "interrupted"


def hold(folder: Path) -> str:
    """Let no slow run of a guide come to its end before a party is interrupted in its exchange 5.

    Returns what the shell has to know.
    """
    place = folder / ".held"
    place.mkdir()
    code = held(6, place / "reached", opened(folder))
    (place / "sitecustomize.py").write_text(
        f"import sys\nif {{'join', 'slow.toml'}} <= set(sys.orig_argv): exec({code!r})\n"
    )
    return f"export PYTHONPATH={place}:$PYTHONPATH\n"


class Desk:
    """All terminals of a guide, in a folder that has .venv/bin/activate."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, str(free_port())
        self._terminals: dict[str, Terminal] = {}
        self._last: dict[str, Typed] = {}

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        for terminal in self._terminals.values():
            terminal.close()

    def follow(self, steps: list[Typed]) -> list[Typed]:
        """Do what the guide says; return the commands with what they really show."""
        commands = []
        for step in steps:
            if step.command == "^C":
                self._interrupt(step.terminal)
            else:
                commands.append(self._type(step))
        for name in self._terminals:
            self._finish(name)
        return commands

    def _type(self, step: Typed) -> Typed:
        if step.terminal not in self._terminals:
            self._terminals[step.terminal] = Terminal(self._folder)
        else:
            self._finish(step.terminal)
        really = self._last[step.terminal] = Typed(step.terminal, step.command)
        terminal = self._terminals[step.terminal]
        terminal.type(step.command.replace(PORT, self._port) + "\n")
        if step.command.startswith("securefedyj hub "):
            terminal.wait_for(" listening ")
        elif not step.command.startswith("securefedyj join "):
            terminal.wait_for(PROMPT)
        return really

    def _interrupt(self, name: str) -> None:
        if self._last[name].command.startswith("securefedyj hub "):
            for other in self._terminals:
                if other != name:
                    self._finish(other)
        else:
            self._terminals[name].wait_for("exchange 5/")
        self._terminals[name].interrupt()
        self._finish(name)
        opened(self._folder).touch()

    def _finish(self, name: str) -> None:
        """Wait until the terminal's command ends, and keep what it has shown."""
        terminal, typed = self._terminals[name], self._last[name]
        terminal.wait_for(PROMPT)
        shown = terminal.lines(typed.command.replace(PORT, self._port) + "\n")
        typed.shown = [line.replace(self._port, PORT) for line in shown]


def stable(step: Typed) -> list[str]:
    """What a terminal shows every time, as far as it is the same."""
    lines: list[str] = []
    for line in step.shown:
        if line.startswith(("Waiting for ", "There is no result yet")):  # depends on who is faster
            continue
        # It is the hub, the party itself or another that is first to tell.
        line = re.sub(r"^Party (\w+) (left|was stopped there) in", r"Party \1 left in", line)
        line = re.sub(r"(interruptions, by \w+), as \w+ says", r"\1", line)
        line = re.sub(r"(?<= of )\d{4}-\d\d-\d\d(?=,)", "DATE", line)
        line = re.sub(r"[0-9a-f]{64}", "HEX", line).replace("^C", "")  # may be written over
        # The signature of a submission has one of several lengths, and its date.
        line = re.sub(r"\b[\d,]+ bytes|(?<=^bytes        )\d+|(?<=^date         )\S+", "0", line)
        if re.search(
            r"exchange \d|levels_per_exchange|Recommended|Rings of |result adds |^\d{4}-|seconds_"
            r"|^ +\d+ +\d+ +[\d.]+ +[\d.]+$",
            line,
        ):
            line = re.sub(r"[\d.]+(, [\d.]+)*", "0", re.sub(r", up to .* left", "", line))
            line = re.sub(" +", " ", line)
        if line.startswith("exchange ") and lines and lines[-1].startswith("Party "):
            continue  # what was being computed when a party left
        # The word of another party may come before that of the hub.
        told = line.startswith("Party ") and lines and "interruptions, by " in lines[-1]
        lines.insert(len(lines) - bool(told), line)
    return sorted(lines) if step.command.startswith("securefedyj hub ") else lines


def matches(expected: list[str], actual: list[str]) -> bool:
    """Whether the lines are the same; a line `...` stands for any number of lines."""
    pattern = "".join(r"(.*\n)*?" if e == "..." else re.escape(e) + r"\n" for e in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None


@pytest.mark.processes
@pytest.mark.skipif(os.name != "posix", reason="needs terminals of Unix")
@pytest.mark.parametrize("page", ["first-consortium.md", "life.md", "submit.md"])
def test_a_page_works_as_typed(tmp_path, page):
    activate = tmp_path / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    path = f"PATH={sysconfig.get_path('scripts')}:$PATH\n"
    activate.write_text(path + hold(tmp_path))
    steps = read((DOCS / page).read_text(encoding="utf-8"))
    with Desk(tmp_path) as desk:
        shown = desk.follow(steps)
    expected = [step for step in steps if step.command != "^C"]
    for guide, really in zip(expected, shown, strict=True):
        said = f"In terminal {guide.terminal}:\n$ {guide.command}\n" + "\n".join(really.shown)
        assert matches(stable(guide), stable(really)), said


def test_a_line_that_changes_is_noticed():
    assert matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert matches(["a", "..."], ["a"])
    assert not matches(["a", "d"], ["a", "b", "d"])
    assert not matches(["a", "..."], ["b"])
    told = ["Party east was stopped there in exchange 6.", "1 of at most 5 interruptions, by east."]
    late = ["1 of at most 5 interruptions, by east, as north says.", told[0]]
    assert stable(Typed("t", "c", told)) == stable(Typed("t", "c", late))
    left = [Typed("t", "c", [f"exchange {n}/9, 3 features open, up to {n} s left"]) for n in (1, 2)]
    assert stable(left[0]) == stable(left[1])
    assert stable(left[0]) != stable(Typed("t", "c", ["exchange 1/9, 3 features shut"]))
