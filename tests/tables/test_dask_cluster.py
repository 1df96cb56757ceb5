"""A cluster of two worker processes: any partitions, and workers that die, give the same bits."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from dask.delayed import delayed
from distributed import LocalCluster, get_client
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj import ExpYJ
from securefedyj.numerics.passes import ChangedData
from securefedyj.numerics.streamed import silo_of
from securefedyj.numerics.sums import ArraySilo
from securefedyj.tables import dask_source
from securefedyj.tables.cells import MISSING
from securefedyj.tables.dask_source import DaskSource, kept
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.digest import rows_digest
from securefedyj.tables.files import check_table, write_table
from securefedyj.tables.source import as_source
from tests.refusals import refused
from tests.tables.test_dask import DOMAIN, KEY, KINDS, NAMES, asked_of, known, parts_of, table

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture(scope="module")
def reader():
    with pytest.MonkeyPatch.context() as patch:
        two = partial(LocalCluster, n_workers=2, threads_per_worker=1)
        patch.setattr("distributed.LocalCluster", two)
        with dask_source.cluster("local") as reader:
            yield reader


def expected(X: np.ndarray) -> list:
    return asked_of(ArraySilo(X, DOMAIN, NAMES), len(X))


@pytest.mark.usefixtures("reader")
@settings(deadline=None, max_examples=4)
@given(
    rows=st.integers(1, 200),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    kind=st.sampled_from(KINDS),
)
def test_sums_do_not_depend_on_partitions(rows, cuts, kind):
    X = table(rows)
    source = as_source(kind(parts_of(X, cuts)))
    assert asked_of(silo_of(source, DOMAIN, NAMES, 0), rows) == expected(X)


@pytest.mark.usefixtures("reader")
def test_a_pooled_fit_stays_on_the_cluster():
    X = table(100)
    fitted = ExpYJ().fit(known(parts_of(X, [30, 70])))
    np.testing.assert_array_equal(fitted.lambdas_, ExpYJ().fit(X).lambdas_)


def test_a_folder_that_workers_read_is_as_if_read_here(reader, tmp_path):
    X, folder = table(90), tmp_path / "t"
    for k, part in enumerate(parts_of(X, [30, 50])):
        (folder / f"year={k}").mkdir(parents=True)
        write_table(folder / f"year={k}" / "t.csv", NAMES, part)
    features, dialect = ["age", "year", "b"], Dialect(rename={"a": "age"})
    there = reader.source(folder, features, MISSING, dialect)
    here = as_source(folder, features, MISSING, dialect)
    assert rows_digest(there, features, KEY) == rows_digest(here, features, KEY)
    bounds = np.zeros(3), np.full(3, 2.0)
    checked = [
        check_table(folder, features, *bounds, MISSING, dialect, one) for one in (reader, None)
    ]
    assert repr(checked[0]) == repr(checked[1])
    (tmp_path / "empty").mkdir()
    with refused("SFY-TAB-028"):
        reader.source(tmp_path / "empty", NAMES, MISSING, Dialect())
    (folder / "year=2" / "t.csv").write_text("a,b,c\n1,x,2\n")
    with refused("SFY-TAB-100", naming=("t.csv", "'b'", "line 2", "'x'")):
        rows_digest(reader.source(folder, NAMES, MISSING, Dialect()), NAMES, KEY)


@pytest.mark.usefixtures("reader")
def test_a_worker_that_dies_changes_nothing(tmp_path):
    X, died = table(150), tmp_path / "died"

    def read(part: np.ndarray, deadly: bool) -> np.ndarray:
        if deadly and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    parts = parts_of(X, list(range(10, 150, 10)))
    source = DaskSource(kept([delayed(read)(part, k == 7) for k, part in enumerate(parts)]), NAMES)
    silo = silo_of(source, DOMAIN, NAMES, 0)
    assert asked_of(silo, 150) == expected(X)
    assert died.exists()
    victim = next(iter(get_client().run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    assert asked_of(silo, 150) == expected(X)
    assert rows_digest(source, NAMES, KEY) == rows_digest(X, NAMES, KEY)


def test_a_file_that_changed_is_not_read_again_for_a_worker_that_died(reader, tmp_path):
    path: Path = tmp_path / "t.csv"
    write_table(path, NAMES, table(20))
    source = reader.source(path, NAMES, MISSING, Dialect())
    silo = silo_of(source, DOMAIN, NAMES, 0)
    path.write_text(path.read_text().replace("0", "1"))
    assert asked_of(silo, 20) == expected(table(20))
    for process in get_client().run(os.getpid).values():
        os.kill(process, signal.SIGKILL)
    with refused("SFY-TAB-043", ChangedData, naming="t.csv"):
        asked_of(silo, 20)


def test_an_unreachable_scheduler_is_named(monkeypatch):
    monkeypatch.setattr(dask_source, "_SECONDS", 0.2)
    with (
        refused("SFY-TAB-010", naming=("tcp://127.0.0.1:9", "'local'")),
        dask_source.cluster("tcp://127.0.0.1:9"),
    ):
        pass
