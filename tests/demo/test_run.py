"""The demo: what it prints, the picture it draws, and how it fails."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from securefedyj.cli.main import main
from securefedyj.demo import comparison, federated
from securefedyj.demo.example import by_silo
from securefedyj.demo.run import command
from tests.cli.messages import one_sentence
from tests.protocol.small_run import small_verified_run

pytestmark = pytest.mark.processes


def test_demo_saves_a_picture(shown):
    path = shown.folder / "demo.svg"
    picture = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}svg"))) == 5  # with four charts
    assert path.stat().st_size > 5_000
    assert f"Picture: {Path('out', 'demo.svg')}" in shown.text


def test_demo_shows_where_scikit_learn_is_off(shown):
    words = " ".join(shown.text.split())
    assert "The worst is column 56 (pixel_7_0)" in words
    assert "-2592.52" in words
    # Log L at -n/ln 2 and at scikit-learn's lambda differ by thousands.
    assert float(words.split("lower by ")[1].split(". ")[0]) > 1000


def test_demo_accounts_for_every_feature(shown):
    words = " ".join(shown.text.split())
    (cancer,) = re.findall(r"^breast cancer +(\d+) +(\d+) +(\d+) ", shown.text, flags=re.M)
    assert cancer == ("30", "0", "30")
    (digits,) = re.findall(r"^digits +(\d+) +(\d+) +(\d+) ", shown.text, flags=re.M)
    missed = int(words.split("misses the optimum of ")[1].split()[0])
    assert (digits[0], digits[1]) == ("64", "3")
    assert 3 + int(digits[2]) + missed == 64


def test_demo_gives_the_time_as_a_ratio(shown):
    assert len(re.findall(r" ms, \d+x$", shown.text, flags=re.M)) == 2


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
    assert shlex.split(command("audit")) == [sys.executable, "-m", "securefedyj", "audit"]


@pytest.fixture
def without_processes(monkeypatch):
    """The demo without its slowest part."""
    monkeypatch.setattr(comparison, "REPEATS", 1)

    def fit(cancer):
        silos = by_silo(cancer.X, cancer.names, 3)
        equal = np.ones(len(cancer.names), dtype=bool)
        lambdas = cancer.ours.lambdas_
        return federated.FederatedFit(silos, lambdas, equal, small_verified_run(), 9, 0.1, 1.0)

    monkeypatch.setattr(federated, "fit", fit)


@pytest.mark.usefixtures("without_processes")
def test_demo_needs_no_matplotlib(tmp_path, capsys, monkeypatch):
    for name in [*sys.modules, "matplotlib"]:
        if name.split(".")[0] == "matplotlib":
            monkeypatch.setitem(sys.modules, name, None)
    assert main(["demo", "--output", str(tmp_path)]) == 0
    assert f"Picture: {tmp_path / 'demo.svg'}" in capsys.readouterr().out
    assert (tmp_path / "demo.svg").exists()


def test_folder_that_cannot_be_made_ends_with_1_and_one_sentence(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert main(["demo", "--output", str(file / "below")]) == 1
    shown = capsys.readouterr()
    assert one_sentence(shown.err)
    assert f"{file / 'below'}: a part of this path is a file" in shown.err
    assert shown.out == ""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")
def test_folder_without_permission_ends_with_1_and_one_sentence(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert main(["demo", "--output", str(tmp_path)]) == 1
    assert one_sentence(capsys.readouterr().err)


@pytest.mark.usefixtures("without_processes")
def test_picture_that_cannot_be_saved_ends_with_1_and_one_sentence(tmp_path, capsys):
    (tmp_path / "demo.svg").mkdir()
    assert main(["demo", "--output", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert one_sentence(shown.err)
    assert f"{tmp_path / 'demo.svg'}: this is a folder" in shown.err
