"""Each mistake that people make ends with a sentence: its cause, a remedy and a code."""

from __future__ import annotations

import errno
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from securefedyj.cli.main import main
from securefedyj.network import local
from tests.cli.mistakes import ANA, JOIN, MISTAKES, Mistake, make_files
from tests.patience import PATIENCE, wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("mistakes")
    make_files(made)
    return made


def test_there_are_forty_of_them():
    assert len(MISTAKES) >= 40


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_each_ends_with_its_cause_a_remedy_and_a_code(mistake, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        typed = shlex.split(mistake.typed.replace("{taken}", str(taken.getsockname()[1])))
        try:
            ended: object = main(typed)
        except SystemExit as error:  # of the parser
            ended = error.code
    shown = capsys.readouterr()
    assert ended == mistake.exits
    check(shown.out + shown.err, mistake)


def check(shown: str, mistake: Mistake) -> None:
    last = shown.strip().splitlines()[-1]
    for never in ("Traceback", "Errno", "errno", "Error:"):
        assert never not in shown.replace("error: ", "")
    if mistake.code:
        assert last.endswith(f" [{mistake.code}]"), last
    assert mistake.cause in shown
    assert mistake.remedy in shown


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full; free some space"),
        (errno.EACCES, "this account may not read or write it; ask its owner"),
        (errno.EROFS, "nothing can be written there; choose another place"),
    ],
)
def test_what_the_system_refuses_names_the_file_and_a_remedy(
    number, words, folder, monkeypatch, capsys
):
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.chdir(folder)
    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert main(["features", "ana.csv", "--output", "drafted.csv"]) == 1
    code = f"SFY-OS-{errno.errorcode[number]}"
    check(capsys.readouterr().err, Mistake("", code, "drafted.csv: ", words))


def test_a_clock_that_is_off_is_told_from_a_certificate_that_is_over(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    clock = type("clock", (), {"time": staticmethod(lambda: 0.0)})
    monkeypatch.setattr("securefedyj.cli.rehearse.time", clock)
    assert main(["check", "consortium.toml", "--connect", *shlex.split(ANA)]) == 1
    mistake = Mistake("", "SFY-CON-028", "says 1970-01-01 00:00 UTC", "Set the clock")
    check(capsys.readouterr().err, mistake)


@pytest.mark.processes
def test_a_second_process_with_the_same_folder_is_refused(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    with local.Processes(folder) as processes:
        processes.start_party("ana", "--wait", str(PATIENCE))
        wait_until(lambda: "Trying again" in processes.log("ana"))
        typed = f"{JOIN} --output ana --data ana.csv"
        assert main(shlex.split(typed)) == 1
    mistake = Mistake("", "SFY-JOIN-024", "Another process takes part", "wait until it ends")
    check(capsys.readouterr().err, mistake)


# Sends itself what Ctrl-C sends, as soon as a module is imported.
_INTERRUPTED = """\
import os, runpy, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = {typed!r}
runpy.run_module("securefedyj", run_name="__main__")
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    "module", ["securefedyj.cli.main", "numpy", "cryptography", "securefedyj.joining.run"]
)
def test_an_interruption_at_the_very_start_is_no_traceback(module, folder):
    code = _INTERRUPTED.format(
        module=module, typed=shlex.split(f"{JOIN} --output q --data ana.csv")
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode == 130
    assert "Traceback" not in ended.stderr
    assert "KeyboardInterrupt" not in ended.stderr
