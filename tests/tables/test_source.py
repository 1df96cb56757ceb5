"""Sources: the same rows give the same bits, whatever holds them."""

from __future__ import annotations

import decimal
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pyarrow import dataset, parquet

from securefedyj.numerics import passes
from securefedyj.numerics.passes import ChangedData
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import write_table
from securefedyj.tables.source import as_array, as_source, is_table
from tests.refusals import refused

NAMES = ["a", "b.c", "d"]
NAN = np.nan

values = st.one_of(
    st.just(NAN), st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, 5e-324, 0.1, 1 / 3])
)

tables = arrays(np.float64, st.tuples(st.integers(1, 12), st.just(3)), elements=values)


class Stream:
    """A table of any library that offers Arrow's C stream, such as a relation of DuckDB."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def columns(self) -> list[str]:
        return self._table.column_names

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def folder_of(folder: Path, X: np.ndarray, cuts: list[int], ending: str) -> Path:
    folder.mkdir()
    for k, part in enumerate(np.split(X, np.clip(sorted(cuts), 0, len(X)))):
        write_table(folder / f"part-{k}{ending}", NAMES, part)
    return folder


def same(source, X: np.ndarray) -> None:
    assert list(source.names) == NAMES
    assert source.rows in (None, len(X))
    got = as_array(source)
    assert got.dtype == np.float64
    there = ~np.isnan(X)
    assert got[there].tobytes() == X[there].tobytes()  # zeros have signs
    assert np.isnan(got[~there]).all()
    for columns in ([2, 0], [1], [0, 1, 2]):
        blocks = [np.asarray(block) for block in source.blocks(columns)]
        np.testing.assert_array_equal(np.concatenate([*blocks, X[:0, columns]]), X[:, columns])


@settings(
    deadline=None,
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(X=tables, cuts=st.lists(st.integers(0, 12), max_size=3), size=st.integers(1, 5))
def test_all_kinds_have_the_same_rows(X, cuts, size, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("tables")
    frame = pd.DataFrame(X, columns=NAMES)
    frame.to_parquet(tmp_path / "one.parquet", row_group_size=size)
    write_table(tmp_path / "one.csv", NAMES, X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "_FEWEST_ROWS", size)
        patch.setattr(passes, "BLOCK_VALUES", 1)
        for data in (
            frame,
            frame.astype("Float64"),
            pl.from_pandas(frame),
            pl.from_pandas(frame).lazy(),
            pa.Table.from_pandas(frame),
            pa.Table.from_pandas(frame).to_batches()[0],
            dataset.dataset(tmp_path / "one.parquet"),
            Stream(pa.Table.from_pandas(frame)),
            tmp_path / "one.parquet",
            str(tmp_path / "one.csv"),
            folder_of(tmp_path / "csv", X, cuts, ".csv"),
            folder_of(tmp_path / "parquet", X, cuts, ".parquet"),
        ):
            source = as_source(data)
            same(source, X)
            same(pickle.loads(pickle.dumps(source)), X)
            other = as_array(as_source(source, ["d", "a"]))
            np.testing.assert_array_equal(other, X[:, [2, 0]])


def test_arrays_are_sources_of_numbered_columns():
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    source = as_source(X)
    assert list(source.names) == ["0", "1"]
    assert as_array(source).dtype == np.float64
    np.testing.assert_array_equal(as_array(as_source(X, ["1"], missing=["3"])), [[1], [NAN], [5]])
    with refused("SFY-TAB-035", naming="1"):
        as_source([1.0, 2.0])


NUMBERS = {
    "integers with gaps": (pa.array([1, None, 2**53 + 1]), [1, NAN, 2.0**53]),
    "decimals": (
        pa.array([decimal.Decimal("48550311.71"), None, decimal.Decimal("0.10")]),
        [48550311.71, NAN, 0.1],
    ),
    "dictionary": (pa.array([0.5, None, 0.5]).dictionary_encode(), [0.5, NAN, 0.5]),
    "float32": (pa.array([0.1, None, 3], pa.float32()), [float(np.float32(0.1)), NAN, 3]),
    "booleans": (pa.array([True, None, False]), [1, NAN, 0]),
    "nothing": (pa.nulls(3), [NAN, NAN, NAN]),
    "unsigned": (pa.array([2**64 - 1, 0, 7], pa.uint64()), [2.0**64, 0, 7]),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_columns_of_parquet_become_the_numbers_that_a_person_reads(kind, tmp_path):
    column, expected = NUMBERS[kind]
    table = pa.table({"x": column, "text": ["a", "b", "c"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    for data in (table, tmp_path / "t.parquet", table.to_pandas(types_mapper=pd.ArrowDtype)):
        np.testing.assert_array_equal(as_array(as_source(data, ["x"]))[:, 0], expected)


@pytest.mark.parametrize(
    ("column", "held"),
    [
        (pa.array(["1", "2"]), "holds text"),
        (pa.array(["1", "2"]).dictionary_encode(), "holds text"),
        (pa.array([[1.0], [2.0]]), "list<"),
        (pa.array([{"y": 1.0}, {"y": 2.0}]), "struct<"),
        (pa.array([0, 1], pa.timestamp("s")), "holds dates"),
    ],
)
def test_columns_without_numbers_are_refused_by_name_before_anything_is_read(
    column, held, tmp_path
):
    table = pa.table({"x": column, "y": [1, 2]})
    parquet.write_table(table, tmp_path / "t.parquet")
    for data in (table, tmp_path / "t.parquet"):
        with refused("SFY-TAB-100", naming=("'x'", held)):
            as_source(data)
        assert as_array(as_source(data, ["y"])).tolist() == [[1], [2]]


def test_text_in_a_frame_is_refused():
    with refused("SFY-TAB-100", naming=("'x'", "holds text")):
        as_array(as_source(pd.DataFrame({"x": ["a"]})))
    with refused("SFY-TAB-033", naming="'x'"):
        as_array(as_source(pd.DataFrame({"x": ["a", 1]})))
    with refused("SFY-TAB-100", naming=("'x'", "holds text")):
        as_source(pl.DataFrame({"x": ["a"]}).lazy())


def test_numbers_that_stand_for_missing_values_and_infinite_ones(tmp_path):
    table = pa.table({"x": [1.0, -999.0, 2.0], "y": [1.0, 2.0, -np.inf]})
    source = as_source(table, ["x"], missing=["-999"])
    np.testing.assert_array_equal(as_array(source)[:, 0], [1, NAN, 2])
    with refused("SFY-TAB-100", naming=("'y'", "row 3", "-inf")):
        as_array(as_source(table, ["x", "y"]))


def test_missing_and_doubled_columns_are_named():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "b"])
    with refused("SFY-TAB-027", naming=("'A'", "perhaps 'a'?")):
        as_source(frame, ["A"])
    with refused("SFY-TAB-027", naming="'b'"):
        as_source(frame, ["b"])
    assert as_array(as_source(frame, ["a"])).tolist() == [[1]]


def test_folders_named_after_values_are_columns(tmp_path):
    for year, x in (("2020", 1.0), ("2021", 2.0), ("__HIVE_DEFAULT_PARTITION__", 3.0)):
        (tmp_path / f"blood%20year={year}" / "site=north").mkdir(parents=True)
        write_table(tmp_path / f"blood%20year={year}/site=north/p.parquet", ["x"], [[x], [x]])
    (tmp_path / "_SUCCESS").touch()
    source = as_source(tmp_path, ["blood year", "x"])
    assert source.rows == 6
    expected = [[2020, 1]] * 2 + [[2021, 2]] * 2 + [[NAN, 3]] * 2
    np.testing.assert_array_equal(as_array(source), expected)
    np.testing.assert_array_equal(
        np.concatenate(list(source.blocks([0]))), np.array(expected)[:, :1]
    )
    with refused("SFY-TAB-030", naming="site=north"):
        as_source(tmp_path)


def test_files_of_a_folder_may_keep_numbers_differently_but_must_have_them(tmp_path):
    parquet.write_table(pa.table({"x": [1, None], "y": [0, 0]}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"y": [True], "x": [0.5]}), tmp_path / "2.parquet")
    np.testing.assert_array_equal(as_array(as_source(tmp_path)), [[1, 0], [NAN, 0], [0.5, 1]])
    parquet.write_table(pa.table({"x": [1]}), tmp_path / "3.parquet")
    assert as_source(tmp_path, ["x"]).rows == 4
    with refused("SFY-TAB-027", naming=("3.parquet", "'y'", "All tables of a folder")):
        as_source(tmp_path)
    parquet.write_table(pa.table({"x": ["a"]}), tmp_path / "3.parquet")
    with refused("SFY-TAB-100", naming=("3.parquet", "'x'", "holds text")):
        as_source(tmp_path, ["x"])
    write_table(tmp_path / "4.csv", ["x"], [[1.0]])
    with refused("SFY-TAB-029"):
        as_source(tmp_path, ["x"])


def test_folder_without_tables_and_file_of_another_kind_are_refused(tmp_path):
    (tmp_path / "notes.md").touch()
    with refused("SFY-TAB-028", naming=".csv, "):
        as_source(tmp_path)
    with refused("SFY-TAB-034", naming=".csv, "):
        as_source(tmp_path / "notes.md")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    with refused("SFY-TAB-036"):
        as_source(tmp_path / "broken.parquet")


def test_file_that_is_changed_between_passes_is_an_error(tmp_path):
    write_table(tmp_path / "t.parquet", NAMES, np.zeros((5, 3)))
    source = as_source(tmp_path)
    as_array(source)
    write_table(tmp_path / "t.parquet", NAMES, np.ones((6, 3)))
    with refused("SFY-TAB-043", ChangedData, naming="t.parquet"):
        as_array(source)


def test_what_is_read_in_passes():
    frame = pl.DataFrame({"blocks": [1.0], "names": [2.0]})
    assert is_table(frame.lazy())
    assert is_table("t.csv")
    assert is_table(Stream(frame.to_arrow()))
    assert is_table(dataset.dataset(frame.to_arrow()))
    assert is_table(frame.to_arrow().to_reader())
    assert is_table(as_source(frame))
    for data in (frame, frame.to_pandas(), np.zeros((2, 2)), [[1.0]]):
        assert not is_table(data)


def test_a_reader_of_batches_is_held_because_it_reads_only_once():
    table = pa.table({"a": [1.0, 2.0, None], "text": list("xyz")})
    source = as_source(table.to_reader(max_chunksize=2), ["a"])
    for _ in range(2):
        np.testing.assert_array_equal(as_array(source), [[1.0], [2.0], [NAN]])


def test_single_columns_are_not_tables():
    column = pd.Series([1.0, 2.0])
    for data in (column, pl.from_pandas(column), pa.array(column), pa.chunked_array([column])):
        assert not is_table(data)
        with refused("SFY-TAB-035"):
            as_source(data)


def test_a_renamed_source_is_one_itself(tmp_path):
    write_table(tmp_path / "t.csv", NAMES, np.zeros((5, 3)))
    source = as_source(tmp_path / "t.csv", dialect=Dialect(rename={NAMES[0]: "other"}))
    assert as_source(source) is source
    assert source.names[0] == "other"


@pytest.mark.parametrize(
    "values",
    [
        [1, "x"],
        [2**70, 1],
        [2**63, -1],
        [1 + 2j, 3],
        [decimal.Decimal("Infinity"), decimal.Decimal(1)],
        ["\ud800", "b"],
        [object(), 1],
        [{"a": 1}, {1: 2}],
    ],
    ids=["text", "beyond 64 bits", "both ends", "complex", "infinite", "no text", "any", "tables"],
)
def test_a_column_of_pandas_that_cannot_be_read_is_named(values):
    frame = pd.DataFrame({"age": pd.Series(values, dtype=object)})
    with refused("SFY-TAB-033", naming="'age'"):
        as_array(as_source(frame))


def test_so_is_a_sparse_one():
    sparse = pd.Series(pd.arrays.SparseArray([0.0, 1.5]))
    with refused("SFY-TAB-033", naming="'age'"):
        as_array(as_source(pd.DataFrame({"age": sparse})))
    dense = pd.DataFrame({"age": sparse.astype(float)})
    np.testing.assert_array_equal(as_array(as_source(dense)), [[0.0], [1.5]])
