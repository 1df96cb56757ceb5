"""A system without locks on files: no run and no hub starts there, and all else works."""

from __future__ import annotations

import asyncio
import errno
import json
import subprocess
import sys

import numpy as np
import pytest

from securefedyj import join
from securefedyj.integrations.job import LOG, answer, named, notes, take_part
from securefedyj.joining.site import read_site
from securefedyj.network import lines, local
from securefedyj.network.consortium import Feature
from securefedyj.network.errors import OwnTrouble
from securefedyj.network.ledger import Ledger
from securefedyj.network.session.journal import FILE, JournalError, open_journal
from securefedyj.parameters import Parameters
from securefedyj.protocol.simulation import simulate
from tests.integrations.flare.test_carrier import Bus
from tests.integrations.flower import sites
from tests.joining.stage import Stage
from tests.network import harness
from tests.network.machines import AGREEMENT

SENTENCE = "This system cannot lock files"

PROGRAM = """
import asyncio, fcntl, os, signal, sys, types
from pathlib import Path
import numpy as np, pyarrow.dataset, jinja2, scipy.special, sklearn.preprocessing, cryptography.x509

# What Windows lacks; its own locks, by those of this system.
def locking(file, mode, size):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(13, "Permission denied") from None

sys.modules["fcntl"] = None
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
for name in ("pread", "sched_getaffinity", "sysconf", "register_at_fork", "fork", "getuid",
             "geteuid", "getpgid", "killpg", "setsid", "statvfs", "uname", "fchmod", "fchown"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGCHLD", "SIGPIPE", "pthread_sigmask"):
    delattr(signal, name)
def no_handler(*_):
    raise NotImplementedError
asyncio.SelectorEventLoop.add_signal_handler = no_handler

import securefedyj
from securefedyj.cli.main import main

rows = np.random.default_rng(0).lognormal(size=(90, 2))
assert securefedyj.ExpYJ().fit(rows).converged_.all()
securefedyj.SecureFedYJ().fit([rows[:30], rows[30:60], rows[60:]])
for command in (
    "keygen dua",
    "new new.toml --name new --hub 127.0.0.1:7443 --hub-certificate hub.pem --silo ana=ana.pem "
    "--silo bob=bob.pem --silo cem=cem.pem --features features.csv",
    "check consortium.toml",
    "check consortium.toml --data ana.csv --ledger ledger.jsonl",
    "transform parameters.json ana.csv --output transformed.csv",
    "audit transcript.jsonl",
    "report transcript.jsonl --output report.html",
    "plan consortium.toml",
    "features ana.csv --output proposed.csv",
    "example --output example",
    "submit usb/consortium.toml --key usb/ana.key --certificate usb/ana.pem --data usb/ana.csv "
    "--ledger submitted.jsonl --output ana.submission",
    "submission ana.submission --consortium usb/consortium.toml",
):
    assert main(command.split()) == 0, command
assert main("hub consortium.toml --key hub.key --certificate hub.pem".split()) == 1
for data in (["--data", "ana.csv"], []):
    join = "join consortium.toml --key ana.key --certificate ana.pem --output result".split()
    assert main(join + data) == 1
assert main(["demo"]) == 1  # after what works

from securefedyj.network.lines import LineFile

first, second = LineFile(Path("locked")), LineFile(Path("locked"))
first.lock()
try:
    second.lock(wait=False)
except BlockingIOError:
    first.close()
    second.lock()
else:
    raise AssertionError("two processes have the lock")
"""


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path, dict(harness.THREE))


@pytest.mark.processes
def test_on_windows_all_works_but_runs_and_hubs(stage):
    transcript, _ = simulate(stage.consortium.agreement(), list(harness.THREE.values()))
    (stage.folder / "parameters.json").write_bytes(Parameters.of(transcript).to_bytes())
    lines = [json.dumps(line) for line in transcript.to_lines()]
    (stage.folder / "transcript.jsonl").write_text("\n".join(lines) + "\n")
    (stage.folder / "features.csv").write_text("name,lower,upper\nlactate,0,1000\n")
    Ledger(stage.folder / "ledger.jsonl").prepare()
    (stage.folder / "usb").mkdir()
    local.prepare(stage.folder / "usb", dict.fromkeys(harness.THREE, np.array([[0.5], [1.5]])),
                  [Feature("lactate", 0.0, 40.0, resolution="0.5")], submitted=True)  # fmt: skip
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=stage.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SENTENCE) == 4
    assert (stage.folder / "submitted.jsonl").read_text().count('"event": "submitted"') == 1
    assert not (stage.folder / "result").exists()


@pytest.fixture
def _no_locks(monkeypatch):
    monkeypatch.setattr(lines, "fcntl", None)


@pytest.mark.usefixtures("_no_locks")
def test_join_says_what_works_and_writes_nothing(stage):
    before = set(stage.folder.iterdir())
    with pytest.raises(OwnTrouble, match=f"{SENTENCE}.*transform.*check"):
        join(**stage.arguments("ana"))
    assert set(stage.folder.iterdir()) == before


@pytest.mark.usefixtures("_no_locks")
def test_sites_of_flower_and_flare_refuse_too(tmp_path):
    digest = named(sites.prepare(tmp_path, sites.tables(1)))
    file = sites.file_of(tmp_path, "south")
    back = answer({"digest": digest}, file)
    assert "south cannot take part" in str(back["reason"])
    assert SENTENCE in (tmp_path / "south" / LOG).read_text()
    say, bus = notes(tmp_path), Bus().end_of("south")
    with pytest.raises(OwnTrouble, match=SENTENCE):
        asyncio.run(take_part(read_site(file), "south", digest, bus, say, lambda: False))
    assert not (tmp_path / "south" / FILE).exists()


@pytest.mark.usefixtures("_no_locks")
def test_journals_and_ledgers_are_not_written_without_locks(tmp_path):
    with pytest.raises(OwnTrouble, match=SENTENCE):
        open_journal(tmp_path, AGREEMENT, "f" * 64, "ana")
    with pytest.raises(OwnTrouble, match=SENTENCE):
        Ledger(tmp_path / "ledger.jsonl").prepare()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"", b""]


def test_a_folder_that_cannot_be_locked_is_not_one_in_use(tmp_path, monkeypatch):
    """As some network file systems: the sentence must not send anybody to look for a process."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(JournalError, match=r"cannot lock .*: No locks available"):
        open_journal(tmp_path, AGREEMENT, "f" * 64, "ana")
