"""Rows in a file, in a folder and on a Dask cluster: one run, and the bits of one table."""

from __future__ import annotations

import numpy as np
import pytest
from distributed import LocalCluster

from securefedyj import SecureFedYJ
from securefedyj.cli.main import main
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from securefedyj.protocol.transcript import Transcript
from securefedyj.tables import dask_source
from securefedyj.tables.files import write_table
from tests.patience import PATIENCE

pytestmark = pytest.mark.processes

NAMES = ["age", "lactate"]
QUICK: dict = {"processes": False, "protocol": "tcp://", "dashboard_address": ":0"}
FEATURES = [Feature("age", 0.0, 130.0), Feature("lactate", 0.0, 50.0)]


def rows(n: int) -> np.ndarray:
    random = np.random.default_rng(n)
    X = np.column_stack([random.normal(60, 10, n), random.lognormal(size=n)])
    X[random.random(X.shape) < 0.1] = np.nan
    return X


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler with two workers, which are threads here: they start quickly."""
    with LocalCluster(n_workers=2, threads_per_worker=1, **QUICK) as cluster:
        yield cluster.scheduler_address


def test_workers_must_be_there_and_have_the_same_version(scheduler, monkeypatch):
    monkeypatch.setattr(dask_source, "__version__", "9.9")
    with (
        pytest.raises(ValueError, match=r"other versions of securefedyj \(.*\) than .* \(9\.9\)"),
        dask_source.cluster(scheduler),
    ):
        pass
    with (
        LocalCluster(n_workers=0, **QUICK) as empty,
        pytest.raises(ValueError, match="has no workers"),
        dask_source.cluster(empty.scheduler_address),
    ):
        pass


def write_folder(folder, values: np.ndarray, parts: int) -> None:
    folder.mkdir()
    for k, part in enumerate(np.array_split(values, parts)):
        write_table(folder / f"{k}.parquet", NAMES, part)


def test_a_file_a_folder_and_a_cluster_give_the_bits_of_one_table(tmp_path, scheduler, capsys):
    tables = {name: rows(n) for name, n in (("file", 80), ("folder", 70), ("cluster", 90))}
    agreed = local.prepare(tmp_path, tables, FEATURES)
    for name, parts in (("folder", 3), ("cluster", 4)):
        write_folder(tmp_path / f"{name}-rows", tables[name], parts)
    on_cluster = "--dask", scheduler
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        processes.start_party("file")
        processes.start_party("folder", table=tmp_path / "folder-rows")
        processes.start_party("cluster", *on_cluster, table=tmp_path / "cluster-rows")
        codes = processes.wait(PATIENCE)
    assert codes == dict.fromkeys(tables, 0), processes.log("cluster")
    assert "Read 90 rows of 2 features." in processes.log("cluster")
    fit = SecureFedYJ(
        bounds=[(feature.lower, feature.upper) for feature in FEATURES],
        max_steps=agreed.max_steps,
        result_bits=agreed.result_bits,
    ).fit([np.concatenate(list(tables.values())), None, None])
    for name in tables:
        result = Transcript.read(tmp_path / name / "transcript.jsonl").result
        np.testing.assert_array_equal(result.lmbda, fit.lambdas_)
        np.testing.assert_array_equal(result.mean, fit.mean_)
        np.testing.assert_array_equal(result.var, fit.var_)
    own = [str(tmp_path / "consortium.toml"), "--data", str(tmp_path / "cluster-rows")]
    ledger = "--ledger", str(tmp_path / "none.jsonl")
    shown = []
    for more in (on_cluster, ()):
        assert main(["check", *own, *ledger, *more]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
