"""Tables are transformed as they are: files, folders, types; and nothing is overwritten."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from securefedyj.tables.arrow import _row_groups
from securefedyj.tables.cells import MISSING
from securefedyj.tables.files import read_table, write_table
from securefedyj.tables.transforming import transform_table
from tests.refusals import refused

FORMATS = ["t.csv", "t.csv.gz", "t.parquet"]


def double(X):
    return 2 * X


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", FORMATS)
def test_declared_missing_numbers_are_written_as_missing(name, tmp_path):
    write_table(tmp_path / name, ["a", "b"], [[1.0, -999], [-999.0, -999], [np.nan, 3]])
    told = []
    done = transform_table(
        tmp_path / name, tmp_path / f"out_{name}", ["a"], double, (*MISSING, "-999"),
        on_rows=lambda *now: told.append(now),
    )  # fmt: skip
    assert done == (1, 3, 1, 1, {})
    assert told == [(3, None)]
    np.testing.assert_array_equal(
        read_table(tmp_path / f"out_{name}"), [[2, -999], [np.nan, -999], [np.nan, 3]]
    )


@pytest.mark.parametrize("name", FORMATS)
def test_values_outside_the_bounds_stop_it_or_not_by_option(name, tmp_path):
    source, target = tmp_path / name, tmp_path / f"out_{name}"
    write_table(source, ["b", "a"], [[1.0, -5], [20.0, 7], [30, np.nan], [2.0, 8]])
    bounds = ([0, 0], [7, 10])  # of a and b

    def run(outside):
        return transform_table(
            source, target, ["a", "b"], double, bounds=bounds, outside=outside, force=True
        )

    with refused("SFY-TAB-001") as error:
        run("error")
    assert "'a' (1 below 0, 1 above 7), 'b' (2 above 10)" in str(error.value)
    assert list(content(tmp_path)) == [name]
    clipped = run("clip")
    assert {name: one[:2] for name, one in clipped.outside.items()} == {"a": (1, 1), "b": (0, 2)}
    np.testing.assert_array_equal(read_table(target), [[2, 0], [20, 14], [20, np.nan], [4, 14]])
    assert run("keep") == clipped
    np.testing.assert_array_equal(read_table(target), [[2, -10], [40, 14], [60, np.nan], [4, 16]])
    with refused("SFY-TAB-002", naming="error, clip, keep"):
        run("drop")


def test_parquet_keeps_types_values_and_what_is_noted_in_the_schema(tmp_path):
    columns = {
        "when": pa.array([date(2020, 1, 2), None, date(2021, 3, 4)]),
        "x": pa.array([1, None, 3], pa.int32()),
        "code": pa.array(["007", "NA", None]).dictionary_encode(),
        "price": pa.array([Decimal("1.10"), None, Decimal("-2.00")]),
        "tags": pa.array([["a"], [], None]),
        "nan": pa.array([float("nan"), None, -0.0], pa.float32()),
        "y": pa.array([True, False, None]),
        "time": pa.array([0, 1, 2], pa.timestamp("ns", tz="UTC")),
    }
    table = pa.table(columns).replace_schema_metadata({"made": "here"})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2, compression="zstd")
    transform_table(tmp_path / "t.parquet", tmp_path / "u.parquet", ["y", "x"], double)
    table, got = (parquet.read_table(tmp_path / name) for name in ("t.parquet", "u.parquet"))
    assert got.column("x").to_pylist() == [2, None, 6]
    assert got.column("y").to_pylist() == [2, 0, None]
    for name in ("x", "y"):
        j = table.schema.get_field_index(name)
        assert got.schema.field(j).type == pa.float64()
        got = got.set_column(j, table.schema.field(j), table.column(j))
    assert got.schema.equals(table.schema, check_metadata=True)
    assert str(got.to_pylist()) == str(table.to_pylist())
    written = parquet.ParquetFile(tmp_path / "u.parquet").metadata
    assert [written.row_group(k).num_rows for k in range(written.num_row_groups)] == [2, 1]
    assert {written.row_group(0).column(j).compression for j in range(8)} == {"ZSTD"}


def test_parquet_without_rows_or_compression_stays_so(tmp_path):
    for rows, compression in ((0, "snappy"), (2, None)):
        table = pa.table({"a": pa.array([1.5] * rows, pa.float64()), "b": ["x"] * rows})
        parquet.write_table(table, tmp_path / "t.parquet", compression=compression)
        out = tmp_path / f"{rows}.parquet"
        transform_table(tmp_path / "t.parquet", out, ["a"], double, bounds=(0, 2))
        assert parquet.read_table(out).column("a").to_pylist() == [3] * rows
    file = parquet.ParquetFile(tmp_path / "2.parquet")
    assert file.metadata.row_group(0).column(1).compression == "UNCOMPRESSED"


def test_large_row_groups_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("securefedyj.tables.arrow.rows_at_once", lambda _: 10)
    monkeypatch.setattr("securefedyj.tables.arrow._MOST_BYTES", 150)
    table = pa.table({"a": np.arange(35.0)})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=30)
    with parquet.ParquetFile(tmp_path / "t.parquet") as file:
        assert [part.num_rows for part in _row_groups(file)] == [20, 10, 5]
    transform_table(tmp_path / "t.parquet", tmp_path / "u.parquet", ["a"], double)
    assert read_table(tmp_path / "u.parquet")[:, 0].tolist() == (2 * np.arange(35)).tolist()


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (["x"], ("'a'", "holds text")),
        ([1.0, np.inf], ("'a'", "row 2", "inf")),
    ],
)
def test_parquet_columns_that_cannot_be_transformed_are_named(column, named, tmp_path):
    parquet.write_table(pa.table({"a": column}), tmp_path / "t.parquet")
    with refused("SFY-TAB-100", naming=named):
        transform_table(tmp_path / "t.parquet", tmp_path / "u.parquet", ["a"], double)
    assert list(content(tmp_path)) == ["t.parquet"]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_folders_keep_their_files_and_partitions(ending, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    names = [f"year=2020/part-1.{ending}", f"year=2021/part-0.{ending}", f"z.{ending}"]
    for j, name in enumerate(names):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        write_table(source / name, ["a", "b"][:: 1 if j else -1], [[j, 10 + j]] * (j + 1))
    (source / "_SUCCESS").touch()
    told = []
    done = transform_table(source, target, ["b"], double, on_rows=lambda *now: told.append(now))
    assert done == (3, 6, 1, 1, {})
    assert told == [(1, None), (3, None), (6, None)]
    assert sorted(content(target)) == names
    assert read_table(target / names[0]).tolist() == [[0, 10]]  # b comes first there
    assert read_table(target / names[1], ["b"]).tolist() == [[22], [22]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    with refused("SFY-TAB-042", naming="'year'"):
        transform_table(source, tmp_path / "more", ["b", "year"], double)


def test_folder_is_checked_as_one_and_left_out_as_one(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write_table(source / "a.csv", ["x"], [[1], [11]])
    write_table(source / "b.csv", ["x"], [[12]])
    with refused("SFY-TAB-001", naming=("in: ", "'x' (2 above 10)")):
        transform_table(source, target, ["x"], double, bounds=(0, 10))
    (source / "b.csv").write_text("x\noops\n")
    with refused("SFY-TAB-100", naming=("b.csv", "oops")):
        transform_table(source, target, ["x"], double)
    write_table(source / "b.parquet", ["x"], [[12]])
    with refused("SFY-TAB-029"):
        transform_table(source, target, ["x"], double)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_file_that_is_there_is_replaced_by_force_alone_and_when_all_went_well(tmp_path):
    write_table(tmp_path / "t.csv", ["a"], [[1]])
    (tmp_path / "out.csv").write_text("old")
    with refused("SFY-TAB-038", naming="--force"):
        transform_table(tmp_path / "t.csv", tmp_path / "out.csv", ["a"], double)

    def interrupt(X):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        transform_table(tmp_path / "t.csv", tmp_path / "out.csv", ["a"], interrupt, force=True)
    assert content(tmp_path) == {"t.csv": b"a\n1.0\n", "out.csv": b"old"}
    transform_table(tmp_path / "t.csv", tmp_path / "out.csv", ["a"], double, force=True)
    assert content(tmp_path) == {"t.csv": b"a\n1.0\n", "out.csv": b"a\n2\n"}
    with refused("SFY-TAB-041"):
        transform_table(tmp_path / "t.csv", tmp_path / "out.parquet", ["a"], double)


def test_a_folder_that_is_there_is_replaced_if_it_holds_tables_alone(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write_table(source / "a.csv", ["x"], [[1]])
    target.mkdir()
    write_table(target / "old.csv", ["x"], [[1]])
    with refused("SFY-TAB-038"):
        transform_table(source, target, ["x"], double)
    (target / "thesis.doc").touch()
    with refused("SFY-TAB-040", naming=("out", "thesis.doc")):
        transform_table(source, target, ["x"], double, force=True)
    (target / "thesis.doc").unlink()
    transform_table(source, target, ["x"], double, force=True)
    assert content(tmp_path) == {"in/a.csv": b"x\n1.0\n", "out/a.csv": b"x\n2\n"}
    write_table(tmp_path / "t.csv", ["x"], [[1]])
    with refused("SFY-TAB-039"):
        transform_table(source, tmp_path / "t.csv", ["x"], double, force=True)


def test_the_input_is_never_overwritten(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    file = source / "a.csv"
    write_table(file, ["x"], [[1]])
    (tmp_path / "link.csv").symlink_to(file)
    os.link(file, tmp_path / "hard.csv")
    (tmp_path / "folder").symlink_to(source)
    (tmp_path / "outside").mkdir()
    write_table(tmp_path / "outside" / "b.csv", ["x"], [[2]])
    (source / "b.csv").symlink_to(tmp_path / "outside" / "b.csv")
    before = content(tmp_path)
    for table, target in [
        (file, file),
        (file, tmp_path / "link.csv"),
        (file, tmp_path / "hard.csv"),
        (tmp_path / "link.csv", file),
        (source, source),
        (source, source / "out"),
        (source, tmp_path),
        (source, tmp_path / "folder"),
        (source, tmp_path / "folder" / "out"),
        (source, tmp_path / "outside"),
    ]:
        same_kind = table.is_dir() or target.suffix == ".csv"
        with refused("SFY-TAB-037" if same_kind else "SFY-TAB-041"):
            transform_table(table, target, ["x"], double, force=True)
    assert content(tmp_path) == before
