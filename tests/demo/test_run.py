"""The demo: what it prints, the picture it draws, and how it fails."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from securefedyj.cli.main import main
from securefedyj.demo import comparison
from securefedyj.demo.layout import command
from tests.cli.messages import one_sentence

pytestmark = pytest.mark.processes


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


def test_commands_that_the_demo_prints_work_as_printed(shown, monkeypatch):
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"), prepend=os.pathsep)
    (line,) = re.findall(r"^    (\S.*)$", shown.text, flags=re.M)
    assert line == f"securefedyj audit {Path('out', 'transcript.jsonl')}"
    done = subprocess.run(
        line, shell=True, cwd=shown.folder.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Audit: passed." in done.stdout


def test_a_command_is_printed_as_the_program_was_called(tmp_path, monkeypatch):
    """By its name only where that finds this very program."""
    ours, other = tmp_path / "my venv" / "securefedyj", tmp_path / "other" / "securefedyj"
    for script in (ours, other):
        script.parent.mkdir()
        script.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["my venv/securefedyj", "demo"])
    monkeypatch.setenv("PATH", str(other.parent))
    assert command("audit", "a b") == "'my venv/securefedyj' audit 'a b'"
    monkeypatch.setenv("PATH", str(ours.parent))
    assert command("audit", "ab") == "securefedyj audit ab"
    monkeypatch.setattr("sys.argv", [str(tmp_path / "cli" / "__main__.py"), "demo"])
    assert shlex.split(command("audit")) == [sys.executable, "-m", "securefedyj.cli", "audit"]


@pytest.fixture
def without_processes(monkeypatch):
    """The demo without its slowest part."""
    monkeypatch.setattr(comparison, "REPEATS", 1)
    monkeypatch.setattr("securefedyj.demo.run.federated_section", lambda cancer, path: "")


@pytest.mark.usefixtures("without_processes")
def test_demo_without_matplotlib_says_how_to_install_it(tmp_path, capsys, monkeypatch):
    for name in [*sys.modules, "matplotlib"]:
        if name.split(".")[0] == "matplotlib":
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "securefedyj.demo.plots", raising=False)
    assert main(["demo", "--output", str(tmp_path)]) == 0
    assert 'matplotlib is missing: pip install "securefedyj[plot]"' in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


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


@pytest.mark.usefixtures("without_processes")
def test_picture_that_cannot_be_saved_ends_with_1_and_one_sentence(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    (tmp_path / "demo.png").mkdir()
    assert main(["demo", "--output", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert one_sentence(shown.err)
    assert f"cannot write {tmp_path / 'demo.png'}" in shown.err
