"""A process for each party, with the command line that its user types."""

from __future__ import annotations

import dataclasses
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from securefedyj import SecureFedYJ
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from securefedyj.protocol.transcript import Transcript
from tests.network.gate import Gate
from tests.patience import PATIENCE

pytestmark = pytest.mark.processes

X = load_breast_cancer().data[:, :6]
FEATURES = [
    Feature(str(name), 0.0, float(2 * X[:, j].max()))
    for j, name in enumerate(load_breast_cancer().feature_names[: X.shape[1]])
]


@functools.lru_cache
def in_one_process(max_steps: int, result_bits: int) -> SecureFedYJ:
    bounds = [(feature.lower, feature.upper) for feature in FEATURES]
    fit = SecureFedYJ(bounds=bounds, max_steps=max_steps, result_bits=result_bits)
    return fit.fit([X[:100], X[100:101], X[101:]])


@pytest.mark.parametrize("parties", [4, 10])
def test_any_number_of_processes_gives_the_bits_of_one(tmp_path, parties):
    parts = np.array_split(X, parties)
    tables: dict[str, Any] = {f"silo-{k}": part for k, part in enumerate(parts)}
    agreed = local.prepare(tmp_path, tables, FEATURES)
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        for name in tables:
            processes.start_party(name)
        codes = processes.wait(PATIENCE)
    assert codes == dict.fromkeys(tables, 0)
    expected = in_one_process(agreed.max_steps, agreed.result_bits)
    for name in tables:
        transcript = Transcript.read(tmp_path / name / "transcript.jsonl")
        assert transcript.result is not None
        np.testing.assert_array_equal(transcript.result.lmbda, expected.lambdas_)
        np.testing.assert_array_equal(transcript.result.mean, expected.mean_)
        np.testing.assert_array_equal(transcript.result.var, expected.var_)
        assert (tmp_path / name / "parameters.json").exists()


def typed(folder: Path, command: str, name: str, *options: str) -> None:
    """A command of a party, from its start to its end."""
    own = ["--key", f"{name}.key", "--certificate", f"{name}.pem", "--ledger", f"{name}.ledger"]
    program = [sys.executable, "-c", local._COMMAND, command, "consortium.toml", *own, *options]
    subprocess.run(program, cwd=folder, check=True, timeout=PATIENCE)


def test_silos_are_offline_between_submit_and_result(tmp_path):
    """Their processes have ended; the hub and a member are killed, and come back."""
    names, members = ("ana", "bob", "dua", "eva"), ("coordinator", "ana", "dua")
    parts = np.array_split(np.round(X[:, :2] / 0.5) * 0.5, 4)
    tables: dict[str, Any] = dict(zip(names, parts, strict=True)) | {"coordinator": None}
    features = [dataclasses.replace(feature, resolution="0.5") for feature in FEATURES[:2]]
    agreed = local.prepare(tmp_path, tables, features, committee=members, submitted=True)
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        for name in names:
            typed(tmp_path, "submit", name, "--data", f"{name}.csv")
            processes.kill("hub")
            processes.start_hub()
        gate = Gate(processes, "ana", openings=6)
        for name in ("coordinator", "dua"):
            processes.start_party(name)
        gate.start_party()
        gate.wait()
        processes.kill("ana")
        processes.start_party("ana")
        codes = processes.wait(PATIENCE)
        assert codes == dict.fromkeys(members, 0), {name: processes.log(name) for name in members}
        for name in ("bob", "eva"):
            typed(tmp_path, "result", name, "--data", f"{name}.csv", "--output", name)
    bounds = [(feature.lower, feature.upper) for feature in features]
    expected = SecureFedYJ(
        bounds=bounds, max_steps=agreed.max_steps, result_bits=agreed.result_bits
    ).fit(parts)
    for name in tables:
        result = Transcript.read(tmp_path / name / "transcript.jsonl").result
        assert result is not None
        np.testing.assert_array_equal(result.lmbda, expected.lambdas_)
        np.testing.assert_array_equal(result.mean, expected.mean_)
        np.testing.assert_array_equal(result.var, expected.var_)
    assert len({(tmp_path / name / "parameters.json").read_bytes() for name in tables}) == 1
