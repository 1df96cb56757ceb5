"""The command line: what it prints, where it writes, and how it fails."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import securefedyj
from securefedyj.cli.display import Display
from securefedyj.cli.main import main
from securefedyj.demo import run as demo
from securefedyj.network import local
from securefedyj.network.participant import Progress
from securefedyj.protocol.transcript import Transcript
from securefedyj.tables.files import read_table


class Shown(NamedTuple):
    text: str
    folder: Path


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """The demo, run once as its user does: with its default folder below the current one."""
    folder = tmp_path_factory.mktemp("demo")
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.chdir(folder)
        patch.setattr(demo, "_REPEATS", 1)
        assert main(["demo"]) == 0
    return Shown(output.getvalue(), folder / "out")


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


def test_demo_saves_a_picture(shown):
    image = pytest.importorskip("matplotlib.image")
    path = shown.folder / "demo.png"
    pixels = image.imread(path)
    assert path.stat().st_size > 20_000
    assert pixels.shape[1] >= 1000
    assert np.std(pixels[..., :3]) > 0.1  # not an empty sheet
    assert f"Picture: {Path('out', 'demo.png')}" in shown.text


def test_demo_shows_where_scikit_learn_is_off(shown):
    (line,) = [line for line in shown.text.splitlines() if line.startswith("column 56 ")]
    assert "-2592.52" in line
    # Log L at -n/ln 2 and at scikit-learn's lambda differ by thousands.
    assert float(line.split("lower by")[1]) > 1000


def test_demo_accounts_for_every_feature(shown):
    cancer, digits = shown.text.split("Digits: 1797 rows, 64 features")
    assert "25 other features agree" in cancer
    listed = sum(line.startswith("column ") for line in digits.splitlines())
    assert f"{64 - 3 - listed} other features agree" in digits
    assert "3 are constant" in digits


def test_demo_gives_the_time_as_a_ratio(shown):
    assert shown.text.count("times as long") == 2


def test_demo_is_readable_in_80_columns_of_ascii(shown):
    assert max(map(len, shown.text.splitlines())) <= 80
    assert shown.text.isascii()


def test_demo_has_the_same_bits_from_processes_as_from_one(shown):
    text = " ".join(shown.text.split())
    assert "30 of 30 features have the same lambda, mean and variance at all three parties" in text
    transcript = Transcript.read(shown.folder / "transcript.jsonl")
    assert transcript.agreement.parties == demo.SILOS
    assert transcript.audit().passed


def test_demo_whose_party_fails_ends_with_1_and_one_sentence(tmp_path, capsys, monkeypatch):
    def spoilt(folder: Path, tables: Any, *rest: Any, **options: Any) -> None:
        local.prepare(folder, tables, *rest, **options)
        (folder / "south.csv").write_text("no,such,columns\n1,2,3\n")

    monkeypatch.setattr(demo, "_REPEATS", 1)
    monkeypatch.setattr(demo, "prepare", spoilt)
    assert main(["demo", "--output", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert one_sentence(shown.err)
    assert "party south of the demo failed" in shown.err


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are seen in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_no_process_and_no_key(tmp_path, number):
    program = (
        "import sys; from securefedyj.demo import run as demo\n"
        "from securefedyj.cli.main import main\n"
        "demo._REPEATS = 1; sys.exit(main(['demo']))"
    )
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    running = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("securefedyj-demo-*/south.log")):
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.send_signal(number)
    assert running.wait(30) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not [command for command in commands() if str(tmp_path) in command]


def commands() -> list[str]:
    """Of all processes that there are."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().decode(errors="replace"))
    return found


def test_comparison_tells_which_fit_is_better():
    X = np.random.default_rng(0).lognormal(size=(50, 3))
    X[:, 2] = 7.0
    comparison = demo.compare(X, ["a", "b", "c"])
    assert comparison.different == []
    assert sorted(comparison.alike) == [0, 1]
    assert list(comparison.constant) == [False, False, True]


def test_demo_without_matplotlib_says_how_to_install_it(tmp_path):
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from securefedyj.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "demo", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'matplotlib is missing: pip install "securefedyj[plot]"' in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["transcript.jsonl"]


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


def test_picture_that_cannot_be_saved_ends_with_1_and_one_sentence(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "_REPEATS", 1)
    (tmp_path / "demo.png").mkdir()
    assert main(["demo", "--output", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert one_sentence(shown.err)
    assert f"cannot write {tmp_path / 'demo.png'}" in shown.err


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
