"""A process for each party, with the command line that its user types."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from securefedyj import SecureFedYJ
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from securefedyj.protocol.transcript import Transcript
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
