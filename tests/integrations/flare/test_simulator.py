"""A job in FLARE's simulator, whose sites are processes; without nvflare there is nothing to do."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.flare import sites

pytest.importorskip("nvflare")
pytestmark = [pytest.mark.processes, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
WATCH = Path(__file__).parent / "watch"


def simulate(folder: Path, name: str, consortium: Path, **environment: str) -> str:
    """Run a job among the sites; return what FLARE prints."""
    local = folder / "workspace" / name / "local"
    for site in sites.tables(1):
        sites.write_site(folder, site, local / site)
    (folder / "watched").mkdir(exist_ok=True)
    own = [str(WATCH), os.environ.get("PYTHONPATH", ""), str(ROOT / "src"), str(ROOT)]
    path = os.pathsep.join(filter(None, own))
    program = ["-m", "tests.integrations.flare.simulate", str(folder), name, str(consortium)]
    run = subprocess.run(
        [sys.executable, *program, *sites.tables(1)],
        env={**os.environ, "PYTHONPATH": path, "WATCH": str(folder / "watched"), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return run.stdout + run.stderr


def test_result_is_that_of_one_process_and_the_server_sees_no_share(tmp_path):
    rows = sites.tables(2)
    consortium = sites.prepare(tmp_path, rows)
    printed = simulate(tmp_path, "fit", tmp_path / "consortium.toml", LOSE="5")
    assert "All parties have returned the same parameters.json" in printed, printed
    expected = sites.in_process(consortium, rows)
    job = tmp_path / "workspace" / "fit"
    assert (job / "server" / "simulate_job" / "parameters.json").read_bytes() == expected
    for name in rows:
        assert (tmp_path / name / "parameters.json").read_bytes() == expected
    assert list((tmp_path / "watched").glob("*.lost"))
    sites.assert_nothing_shared(tmp_path / "watched", expected)
    assert not list(job.rglob("custom"))  # no code came with the job


def test_job_with_another_agreed_file_is_refused(tmp_path):
    consortium = sites.prepare(tmp_path, sites.tables(1))
    dataclasses.replace(consortium, result_bits=44).write(tmp_path / "altered.toml")
    printed = simulate(tmp_path, "fit", tmp_path / "altered.toml")
    assert "refuses this job: it is about an agreed file with another digest than" in printed
    assert not list(tmp_path.rglob("parameters.json"))
