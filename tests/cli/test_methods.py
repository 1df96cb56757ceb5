"""The commands, for a run with several methods."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from securefedyj import SecureFedYJ, load, parameters
from securefedyj.cli import main
from tests import five


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a silo has after a run."""
    folder = tmp_path_factory.mktemp("silo")
    five.run().write(folder / "transcript.jsonl")
    parameters.save(five.run(), folder / "parameters.json")
    table = five.frame().assign(patient=[f"p{i}" for i in range(90)])
    table.to_csv(folder / "table.csv", index=False)
    return folder


def transform(folder, *options: str) -> int:
    table, output = folder / "table.csv", folder / "out.csv"
    arguments = [str(folder / "parameters.json"), str(table), "--output", str(output), "--force"]
    return main(["transform", *arguments, *options])


def test_transform_scales_each_column_by_its_method(folder, capsys):
    assert transform(folder) == 0
    assert "90 rows, 4 columns transformed, 2 passed through." in capsys.readouterr().out
    got = pd.read_csv(folder / "out.csv")
    expected = load(folder / "parameters.json").transform(five.frame())
    np.testing.assert_array_equal(got[list(five.NAMES)], expected)
    assert list(got["patient"]) == [f"p{i}" for i in range(90)]


@pytest.mark.parametrize(
    ("kind", "filled", "columns"),
    [("median", ("lactate", "creatinine"), 2), ("mean", ("age",), 1)],
)
def test_transform_fills_missing_values_and_changes_nothing_else(
    folder, capsys, kind, filled, columns
):
    assert transform(folder, "--impute", kind) == 0
    shown = capsys.readouterr()
    assert f"{columns} columns filled with the {kind} of all silos, {6 - columns}" in shown.out
    assert f"stay missing, as the run found no {kind} of it" in shown.err
    before, after = pd.read_csv(folder / "table.csv"), pd.read_csv(folder / "out.csv")
    for name in before:
        known = before[name].dropna()
        if name not in filled:
            pd.testing.assert_series_equal(after[name], before[name])
            continue
        exact = known.quantile(0.5, "lower") if kind == "median" else known.mean()
        np.testing.assert_allclose(after[name], before[name].fillna(exact), rtol=1e-6)


def test_imputing_what_the_run_did_not_find_is_refused(folder, tmp_path, capsys):
    assert transform(folder, "--impute", "median", "--inverse") == 1
    assert "SFY-CLI-022" in capsys.readouterr().err
    fitted = SecureFedYJ(engine="clear").fit([five.frame()])
    parameters.save(fitted.transcript_, tmp_path / "p.json")
    arguments = ["transform", str(tmp_path / "p.json"), str(folder / "table.csv")]
    assert main([*arguments, "--output", str(tmp_path / "o.csv"), "--impute", "mean"]) == 1
    assert "SFY-CLI-023" in capsys.readouterr().err
