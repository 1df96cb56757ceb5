"""Jobs in FLARE's simulator, whose sites are processes; without nvflare there is nothing to do."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from securefedyj.network.consortium import Consortium
from securefedyj.tables.files import read_table
from tests import five
from tests.integrations.flare import sites, walk
from tests.patience import PATIENCE

pytest.importorskip("nvflare")
pytestmark = [pytest.mark.processes, pytest.mark.slow]


def simulate(folder: Path, consortium: Path, **environment: str) -> str:
    """Run a job among the sites of `sites`; return what FLARE prints."""
    for site in sites.tables(1):
        sites.write_site(folder, site, folder / "workspace" / "fit" / "local" / site)
    program = ["-m", "tests.integrations.flare.simulate", str(folder), str(consortium)]
    run = subprocess.run(
        [sys.executable, *program, *sites.tables(1)],
        env=sites.watched(folder, **environment),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return run.stdout + run.stderr


def test_page_works_as_typed_and_the_server_sees_no_share(tmp_path):
    environment = sites.watched(tmp_path, LOSE="2")
    walk.type_out("Three sites on one machine", tmp_path, environment)
    printed = walk.type_out("The simulator", tmp_path, environment)
    assert "All parties have returned the same parameters.json" in printed
    first = tmp_path / "first"
    consortium = Consortium.read(first / "consortium.toml")
    names = [feature.name for feature in consortium.features]
    rows = {p.name: read_table(first / p.name / "patients.csv", names) for p in consortium.parties}
    expected = sites.in_process(consortium, rows)
    for name in rows:
        assert (first / name / "result" / "parameters.json").read_bytes() == expected
    assert list((tmp_path / "watched").glob("*.lost"))
    sites.assert_nothing_shared(tmp_path / "watched", expected)
    assert not list((first / "simulated").rglob("custom"))  # no code came with the job


def test_five_methods_give_the_bits_of_one_process(tmp_path):
    """FLARE carries them without a change."""
    rows = dict(zip(sites.tables(1), np.array_split(five.rows(), 3), strict=True))
    consortium = sites.prepare(tmp_path, rows, five.FEATURES)
    printed = simulate(tmp_path, tmp_path / "consortium.toml")
    expected = sites.in_process(consortium, rows)
    assert json.loads(expected)["version"] == 4
    for name in rows:
        path = tmp_path / name / "parameters.json"
        assert path.exists(), printed
        assert path.read_bytes() == expected


def test_server_would_see_shares_without_our_tls(tmp_path):
    rows = sites.tables(1)
    consortium = sites.prepare(tmp_path, rows)
    simulate(tmp_path, tmp_path / "consortium.toml", IN_THE_CLEAR="1")
    with pytest.raises(sites.Shared):
        sites.assert_nothing_shared(tmp_path / "watched", sites.in_process(consortium, rows))


def test_job_with_another_agreed_file_is_refused(tmp_path):
    consortium = sites.prepare(tmp_path, sites.tables(1))
    dataclasses.replace(consortium, result_bits=44).write(tmp_path / "altered.toml")
    printed = simulate(tmp_path, tmp_path / "altered.toml")
    assert "refuses this job: it is about an agreed file with another digest than" in printed
    assert not list(tmp_path.rglob("parameters.json"))


def test_server_that_swaps_two_sites_is_refused(tmp_path):
    sites.prepare(tmp_path, sites.tables(1))
    printed = simulate(tmp_path, tmp_path / "consortium.toml", SWAP="north,south")
    assert list((tmp_path / "watched").glob("*.swapped"))
    refusal = "was changed on its way and is not used"
    assert refusal in printed, printed
    assert not list(tmp_path.rglob("parameters.json"))
    assert all('"reveal"' not in state.read_text() for state in tmp_path.rglob("state.jsonl"))
