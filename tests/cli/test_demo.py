"""The demo: what it prints and saves, and what it leaves behind when it ends early."""

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

from securefedyj.cli.main import main
from securefedyj.demo import run as demo
from securefedyj.network import local
from securefedyj.protocol.transcript import Transcript
from tests.cli.test_cli import one_sentence

pytestmark = pytest.mark.processes


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


def test_picture_that_cannot_be_saved_ends_with_1_and_one_sentence(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "_REPEATS", 1)
    (tmp_path / "demo.png").mkdir()
    assert main(["demo", "--output", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert one_sentence(shown.err)
    assert f"cannot write {tmp_path / 'demo.png'}" in shown.err
