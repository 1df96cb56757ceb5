"""The command line: what it prints, where it writes, and how it fails."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import securefedyj
from securefedyj import kernel
from securefedyj.cli.display import Display
from securefedyj.cli.main import main
from securefedyj.demo import run as demo
from securefedyj.network.session.participant import Progress


def exit_code_of(*arguments: str) -> int | str | None:
    """What the process would end with, also where argparse ends it."""
    with pytest.raises(SystemExit) as end:
        sys.exit(main(arguments))
    return end.value.code


def test_version_is_that_of_the_package(capsys):
    assert exit_code_of("--version") == 0
    said = f"securefedyj {securefedyj.__version__} ({kernel.described()})\n"
    assert capsys.readouterr().out == said


def test_an_error_is_broken_between_words_on_a_terminal_and_one_line_elsewhere(
    capsys, monkeypatch, tmp_path
):
    path = tmp_path / ("long " * 20) / "none.jsonl"
    assert main(["audit", str(path)]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["audit", str(path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert " ".join(lines).split() == line.split()
    assert all(len(one) < 80 for one in lines)


def test_help_lists_the_commands(capsys):
    assert exit_code_of("--help") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "demo" in shown
    assert "A consortium types keygen, new, check, hub and join, in this order" in shown


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


def test_interrupt_ends_with_130_and_no_traceback(monkeypatch, capsys):
    def interrupted(output: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == ""


def test_rows_of_a_pass_are_told_now_and_then_and_do_not_stay(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    clock: Any = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("securefedyj.cli.display.time", clock)
    display = Display(terminal=True)
    for clock.now, count in ((0.1, 1000), (1.0, 2000), (1.1, 3000)):
        display.rows("read", count, None)
    display.say("Read 4,000 rows.")
    display.progress(Progress(1, 9, 2, 3, 0, 1.0, 1.0))
    clock.now = 2.0
    display.rows("summed", 1000, 4000)
    display.say("Done.")
    line = "exchange 1/9, 2 features open, 3 rounds, 0.0 MB sent, up to"
    said, shown, done, _ = capsys.readouterr().err.split("\n")
    assert said == "\r\x1b[K2,000 rows read\r\x1b[KRead 4,000 rows."
    passing = f"1,000 of 4,000 rows summed; {line}"[:59]
    assert shown == "".join(f"\r\x1b[K{text}" for text in (line, passing, line))
    assert done == "Done."


def test_without_a_terminal_there_is_a_line_for_an_exchange_or_for_ten_seconds(capsys, monkeypatch):
    clock: Any = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("securefedyj.cli.display.time", clock)
    display = Display(terminal=False)
    for clock.now, count in ((1.0, 1000), (11.0, 2000), (12.0, 3000)):
        display.rows("read", count, None)
    for clock.now, exchange, rounds in ((13.0, 1, 3), (14.0, 1, 4), (15.0, 2, 5), (26.0, 2, 6)):
        display.progress(Progress(exchange, 9, 2, rounds, 0, 1.0, 120.0))
    display.progress(Progress(3, 9, 0, 7, 0, 1.0, 0.0))
    assert capsys.readouterr().err.splitlines() == [
        "2,000 rows read",
        *(
            f"exchange {k}/9, 2 features open, {rounds} rounds, 0.0 MB sent, up to 2 min left"
            for k, rounds in ((1, 3), (2, 5), (2, 6))
        ),
        "exchange 3/9, 0 features open, 7 rounds, 0.0 MB sent",
    ]


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
