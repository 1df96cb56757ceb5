"""The command line: what it prints, where it writes, and how it fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import securefedyj
from securefedyj.cli.display import Display
from securefedyj.cli.main import main
from securefedyj.demo import run as demo
from securefedyj.network.participant import Progress
from securefedyj.tables.files import read_table


def exit_code_of(*arguments: str) -> int | str | None:
    """What the process would end with, also where argparse ends it."""
    with pytest.raises(SystemExit) as end:
        sys.exit(main(arguments))
    return end.value.code


def test_version_is_that_of_the_package(capsys):
    assert exit_code_of("--version") == 0
    assert capsys.readouterr().out == f"securefedyj {securefedyj.__version__}\n"


def test_help_lists_the_commands(capsys):
    assert exit_code_of("--help") == 0
    assert "demo" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    ["example", "keygen", "new", "check", "plan", "hub", "join", "transform", "report", "audit"],
)
def test_help_has_an_example_and_fits_80_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert exit_code_of(command, "--help") == 0
    text = capsys.readouterr().out
    assert f"example:\n  securefedyj {command} " in text
    assert max(map(len, text.splitlines())) <= 80


def test_help_of_the_demo_names_its_default_folder(capsys):
    assert exit_code_of("demo", "--help") == 0
    assert "(default: out)" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [(), ("dance",), ("demo", "--colour")])
def test_wrong_usage_ends_with_2(arguments, capsys):
    assert exit_code_of(*arguments) == 2
    assert "usage: securefedyj" in capsys.readouterr().err


def test_comparison_tells_which_fit_is_better():
    X = np.random.default_rng(0).lognormal(size=(50, 3))
    X[:, 2] = 7.0
    comparison = demo.compare(X, ["a", "b", "c"])
    assert comparison.different == []
    assert sorted(comparison.alike) == [0, 1]
    assert list(comparison.constant) == [False, False, True]


def one_sentence(text: str) -> bool:
    return text.startswith("securefedyj: ") and text.count("\n") == 1 and text.endswith("\n")


def test_folder_that_cannot_be_made_ends_with_1_and_one_sentence(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert main(["demo", "--output", str(file / "below")]) == 1
    shown = capsys.readouterr()
    assert one_sentence(shown.err)
    assert f"cannot write {file / 'below'}" in shown.err
    assert "--output" in shown.err
    assert shown.out == ""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")
def test_folder_without_permission_ends_with_1_and_one_sentence(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert main(["demo", "--output", str(tmp_path)]) == 1
    assert one_sentence(capsys.readouterr().err)


def test_interrupt_ends_with_130_and_no_traceback(monkeypatch, capsys):
    def interrupted(output: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == ""


def test_example_silos_hold_the_rows_of_the_data(tmp_path, capsys):
    assert main(["example", "--silos", "4", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(" rows\n") == 4
    tables = [read_table(path) for path in tmp_path.glob("*/patients.csv")]
    rows = np.concatenate(tables)
    expected = load_breast_cancer().data
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(expected, axis=0))
    assert main(["example", "--silos", "1", "--output", str(tmp_path)]) == 1
    assert one_sentence(capsys.readouterr().err)


def test_progress_fits_the_terminal_and_nothing_is_said_twice_in_a_row(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    display = Display(terminal=True)
    for _ in range(3):
        display.say("Trying again.")
    display.progress(Progress(123, 456, 1000, 4321, 10**9, 1e4, 1e4))
    display.say("Trying again.")
    first, shown, last, _ = capsys.readouterr().err.split("\n")
    assert first == last == "Trying again."
    assert shown.startswith("\r\x1b[Kexchange 123/456, 1000 features open, 4321 rounds, 1000.0")
    assert len(shown.removeprefix("\r\x1b[K")) == 59
