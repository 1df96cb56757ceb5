"""The federated fit of the demo: the same bits, and no process left behind."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from securefedyj.cli.main import main
from securefedyj.demo import comparison, federated
from securefedyj.demo.example import SILOS
from securefedyj.network import local
from securefedyj.protocol.transcript import Transcript
from tests.cli.messages import one_sentence
from tests.patience import PATIENCE, wait_until

pytestmark = pytest.mark.processes


def test_demo_has_the_same_bits_from_processes_as_from_one(shown):
    text = " ".join(shown.text.split())
    assert "30 of 30 features have the same lambda, mean and variance, bit for bit" in text
    assert "Verified: yes. Audit: passed." in text
    transcript = Transcript.read(shown.folder / "transcript.jsonl")
    assert transcript.agreement.parties == SILOS[:3]
    assert transcript.audit().passed


def test_demo_whose_party_fails_ends_with_1_and_one_sentence(tmp_path, capsys, monkeypatch):
    def spoilt(folder: Path, tables: Any, *rest: Any, **options: Any) -> None:
        local.prepare(folder, tables, *rest, **options)
        (folder / "south.csv").write_text("no,such,columns\n1,2,3\n")

    monkeypatch.setattr(comparison, "REPEATS", 1)
    monkeypatch.setattr(federated, "prepare", spoilt)
    assert main(["demo", "--output", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert one_sentence(shown.err)
    assert "party south of the demo failed" in shown.err


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are seen in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_no_process_and_no_key(tmp_path, number):
    program = (
        "import subprocess, sys, time\n"
        "from securefedyj.cli.main import main\n"
        "from securefedyj.demo import comparison\n"
        "from securefedyj.demo import federated\n"
        "def not_yet(*_, **__): time.sleep(0.1); raise subprocess.TimeoutExpired('', 0)\n"
        "federated.Processes.wait = not_yet\n"  # the demo does not end by itself
        "comparison.compare_digits = comparison.compare_breast_cancer\n"
        "comparison.REPEATS = 1; sys.exit(main(['demo']))"
    )
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    running = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    logs = functools.partial(tmp_path.glob, "securefedyj-demo-*/south.log")
    wait_until(lambda: list(logs()) or running.poll() is not None)
    assert running.poll() is None
    running.send_signal(number)
    assert running.wait(PATIENCE) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not [command for command in commands() if str(tmp_path) in command]


def commands() -> list[str]:
    """Of all processes that there are."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().decode(errors="replace"))
    return found
