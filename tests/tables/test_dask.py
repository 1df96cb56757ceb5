"""Tables of Dask: the same bits for any partitions, and nothing but sums comes here."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Sequence
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj import ExpYJ, SecureFedYJ
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.passes import ChangedData, over_blocks
from securefedyj.numerics.streamed import silo_of
from securefedyj.numerics.sums import ArraySilo, OutOfBounds
from securefedyj.tables import dask_source
from securefedyj.tables.cells import BadCellsError
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.digest import column_digests, rows_digest
from securefedyj.tables.silo_table import SiloTable, few_values, load_or_stream, summarize, without
from securefedyj.tables.source import as_array, as_source, is_table
from tests.refusals import refused

NAMES = ["a", "b", "c"]
DOMAIN = Domain.from_bounds([(-5, 100), (0, 40), (-20, 0)], 3)
KEY = bytes(range(32))


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def table(rows: int) -> np.ndarray:
    random = np.random.default_rng(rows)
    X = np.column_stack([
        random.standard_normal(rows), random.lognormal(size=rows), -random.exponential(size=rows)
    ])  # fmt: skip
    X[random.random(X.shape) < 0.1] = np.nan
    return np.clip(X, DOMAIN.lower, DOMAIN.upper)


def parts_of(X: np.ndarray, cuts: Sequence[int]) -> list[np.ndarray]:
    return np.split(X, np.clip(sorted(cuts), 0, len(X)))


def known(parts: list[np.ndarray]) -> da.Array:
    """With chunks of two columns and of one."""
    sizes = tuple(map(len, parts)), (2, 1)
    return da.from_array(np.concatenate(parts), chunks=sizes)


def unknown(parts: list[np.ndarray]) -> da.Array:
    chunks = [da.from_delayed(delayed(part), (np.nan, 3), dtype=float) for part in parts]
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


def frame(parts: list[np.ndarray]) -> dd.DataFrame:
    frames = [delayed(pd.DataFrame)(part, columns=NAMES) for part in parts]
    return dd.from_delayed(frames, meta=pd.DataFrame(np.empty((0, 3)), columns=NAMES))


KINDS = [known, unknown, frame]


def asked_of(silo, rows: int, features: Sequence[int] = (0, 1, 2, 1)) -> list:
    """Everything that the protocol asks a silo for."""
    feature = np.array(features)
    lmbda = np.linspace(-3.0, 4.0, len(feature))
    encoding = choose_encoding(DOMAIN.take(feature), np.full(len(feature), rows + 1), lmbda)
    limbs = int(encoding.limbs.max())
    sums = silo.sums(feature, lmbda, encoding, limbs)
    return [part.tolist() for part in (*sums, silo.phi_sum(np.arange(3), limbs), silo.count)]


@settings(deadline=None, max_examples=20)
@given(
    rows=st.integers(1, 200),
    cuts=st.lists(st.integers(0, 200), max_size=20),
    kind=st.sampled_from(KINDS),
)
def test_sums_digests_and_summaries_do_not_depend_on_partitions(rows, cuts, kind):
    X = table(rows)
    source = as_source(kind(parts_of(X, cuts)))
    silo = silo_of(source, DOMAIN, NAMES, 0)
    for features in ((0, 1, 2, 1), (2,)):
        assert asked_of(silo, rows, features) == asked_of(
            ArraySilo(X, DOMAIN, NAMES), rows, features
        )
    assert rows_digest(source, NAMES, KEY) == rows_digest(X, NAMES, KEY)
    assert column_digests(source, NAMES, KEY) == column_digests(X, NAMES, KEY)
    bounds = np.zeros(3), np.ones(3)
    assert repr(summarize(source, *bounds)) == repr(summarize(as_source(X), *bounds))


@pytest.mark.parametrize("kind", KINDS)
def test_estimators_take_tables_of_dask(kind):
    X = table(120)
    there = kind(parts_of(X, [1, 50, 50]))
    assert is_table(there)
    bounds = list(zip(DOMAIN.lower, DOMAIN.upper, strict=True))
    expected = SecureFedYJ(engine="clear", bounds=bounds).fit([X])
    fitted = SecureFedYJ(engine="clear", bounds=bounds).fit([there])
    pooled, expected_pooled = ExpYJ().fit(there), ExpYJ().fit(X)
    for one, other in ((fitted, expected), (pooled, expected_pooled)):
        np.testing.assert_array_equal(one.lambdas_, other.lambdas_)
        np.testing.assert_array_equal(one.var_, other.var_)


@pytest.mark.parametrize("dtype", ["float32", "int16", "Float64", "boolean"])
def test_other_numbers_become_float64_first(dtype):
    column = pd.Series([0, 1, 1, 0, 1], dtype=dtype)
    there = dd.from_pandas(pd.DataFrame({"a": column, "text": list("vwxyz")}), npartitions=2)
    source = as_source(there, ["a"])
    expected = rows_digest(np.array([[0.0], [1], [1], [0], [1]]), ["a"], KEY)
    assert rows_digest(source, ["a"], KEY) == expected


def test_names_numbers_that_mean_missing_and_few_values_count_as_elsewhere():
    X = np.where(np.isnan(table(60)), -999.0, table(60))
    there = frame(parts_of(X, [20]))
    names = ["z", "a"]
    source = as_source(there, names, ["-999"], Dialect(rename={"c": "z"}))
    here = as_source(pd.DataFrame(X, columns=NAMES), names, ["-999"], Dialect(rename={"c": "z"}))
    assert source.names == here.names == ("z", "a")
    own, ours = load_or_stream(source, 10**9), load_or_stream(here, 10**9)
    np.testing.assert_array_equal(own.census.count, ours.census.count)
    few = few_values(own.census, int(own.census.count.max()))
    assert len(few) == 1
    digests = [rows_digest(without(one, few).source, names, KEY) for one in (own, ours)]
    assert digests[0] == digests[1] != rows_digest(source, names, KEY)


def test_no_row_comes_here(monkeypatch):
    """The requests of `join` and `check` return little, and no value."""
    X = table(5000)
    came = []
    compute = dask.compute

    def watched(*tasks):
        results = compute(*tasks)
        came.append(results)
        return results

    monkeypatch.setattr(dask, "compute", watched)
    source = as_source(known(parts_of(X, [1000, 3000])))
    own = load_or_stream(source, 10**9)
    assert own.drawn is None
    without(own, few_values(own.census, 10))
    silo = silo_of(own.source, DOMAIN, NAMES, 10**9)
    asked_of(silo, len(X))
    rows_digest(source, NAMES, KEY)
    column_digests(source, NAMES, KEY)
    assert len(came) == 6
    assert max(len(pickle.dumps(one)) for one in came) < 3000
    values = {value for value in X.ravel().tolist() if value == value}
    for one in came:
        assert not values & set(_numbers(one))


def _numbers(value: object):
    if isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    elif isinstance(value, tuple):
        for one in value:
            yield from _numbers(one)
    elif hasattr(value, "__dict__"):
        yield from _numbers(tuple(vars(value).values()))


def test_rows_are_not_handed_out():
    fitted = ExpYJ().fit(table(50))
    there = known(parts_of(table(50), [20]))
    with refused("SFY-TAB-011"):
        as_array(as_source(there))
    with refused("SFY-TAB-011", naming="map_blocks"):
        fitted.transform(there)
    named = ExpYJ().fit(frame([table(50)]))
    moved = frame(parts_of(table(50), [20])).map_partitions(named.transform).compute()
    np.testing.assert_array_equal(moved, fitted.transform(table(50)))


def test_values_outside_are_counted_in_the_whole_table_before_they_are_refused():
    X = table(200)
    X[[3, 150, 199], 1] = 41.0
    with pytest.raises(OutOfBounds, match=r"feature 'b' has 3 value\(s\) outside .* \[0, 40\]"):
        silo_of(as_source(known(parts_of(X, [20, 180]))), DOMAIN, NAMES, 0)


def test_a_table_that_changes_between_passes_is_an_error():
    parts = [table(30)]
    grown = delayed(lambda: parts[-1], pure=False)()
    silo = silo_of(dask_source.DaskSource([grown], NAMES), DOMAIN, NAMES, 0)
    parts.append(table(40))
    with refused("SFY-NUM-006", ChangedData, naming=("30", "40")):
        asked_of(silo, 40)


def test_errors_of_workers_are_raised_here_and_reveal_no_more_than_they_should():
    X = table(20)
    X[13, 2] = np.inf
    source = as_source(frame(parts_of(X, [10])))
    with refused("SFY-TAB-100", naming=("partition 2", "'c'", "row 4", "inf")):
        load_or_stream(source, 0)

    def fails(block: np.ndarray) -> float:
        raise KeyError(f"{block[0]}")

    good = as_source(frame([table(20)]))
    with pytest.raises(RuntimeError, match=r"^A worker of the cluster has failed: KeyError\.$"):
        over_blocks(good, range(3), fails, operator.add, partial(float))
    with refused("SFY-TAB-027", naming="'x'"):
        as_source(frame([X]), ["x"])
    with refused("SFY-TAB-100", naming="holds text"):
        load_or_stream(as_source(dd.from_pandas(pd.DataFrame({"a": ["x"]}), npartitions=1)), 0)
    with refused("SFY-TAB-012"):
        as_source(da.zeros(3))


def test_a_refusal_survives_the_way_from_a_worker():
    error = BadCellsError("t.csv", {"a": "line 3: 'x' is not a finite number."}, ": ")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.where, again.columns) == (str(error), error.where, error.columns)


def test_a_whole_run_of_an_own_table_knows_what_is_implausible():
    from securefedyj.report.plausibility import implausible, implausible_for

    X = table(300)
    transcript = SecureFedYJ(engine="clear").fit([X]).transcript_
    agreed, result = transcript.agreement, transcript.result
    for shift in (0.0, 30.0):
        moved = result._replace(lmbda=result.lmbda + shift)
        own: SiloTable = load_or_stream(as_source(known(parts_of(X, [100]))), 0)
        np.testing.assert_array_equal(
            implausible_for(own, agreed, moved), implausible(X, agreed, moved)
        )
    assert implausible(X, agreed, moved).any()
