"""The commands that use what a run leaves: transform and report."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from securefedyj import SecureFedYJ, parameters
from securefedyj.cli.main import main
from securefedyj.network import local
from securefedyj.network.consortium import Feature


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder as a silo has it after a run: its table, the transcript, the parameters."""
    folder = tmp_path_factory.mktemp("silo")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"ldh": rng.lognormal(size=80), "crp": rng.exponential(size=80)})
    X.iloc[3, 0] = np.nan
    fitted = SecureFedYJ(bounds=(0, 1024), engine="clear").fit([X[:30], X[30:50], X[50:]])
    fitted.transcript_.write(folder / "transcript.jsonl")
    parameters.save(fitted.transcript_, folder / "parameters.json")
    table = X[:30].assign(patient=[f"p{i}" for i in range(30)])[["crp", "patient", "ldh"]]
    table.to_csv(folder / "table.csv", index=False)
    table.to_parquet(folder / "table.parquet")
    return folder, fitted, table


def read(path):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    columns = pd.read_csv(path, dtype=str)
    return columns.assign(**{name: columns[name].astype(float) for name in ("ldh", "crp")})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_transform_gives_the_bits_of_the_run_and_back(ending, run, tmp_path, capsys):
    folder, fitted, table = run
    out, back = tmp_path / f"out.{ending}", tmp_path / f"back.{ending}"
    arguments = [str(folder / "parameters.json"), str(folder / f"table.{ending}")]
    assert main(["transform", *arguments, "--output", str(out)]) == 0
    assert capsys.readouterr().out == (
        f"{out}: 30 rows, 2 columns transformed, 1 passed through.\n"
    )
    got = read(out)
    assert list(got.columns) == ["crp", "patient", "ldh"]
    expected = fitted.transform(table[["ldh", "crp"]])
    np.testing.assert_array_equal(got[["ldh", "crp"]].to_numpy(), expected)
    assert list(got["patient"]) == list(table["patient"])
    arguments = [arguments[0], str(out), "--inverse", "--output", str(back)]
    assert main(["transform", *arguments]) == 0
    again = read(back)
    np.testing.assert_allclose(again[["ldh", "crp"]], table[["ldh", "crp"]], rtol=1e-12)


def test_transform_names_the_column_that_is_missing(run, tmp_path, capsys):
    folder, _, _ = run
    (tmp_path / "t.csv").write_text("LDH,crp\n1,2\n")
    code = main(
        [
            "transform",
            str(folder / "parameters.json"),
            str(tmp_path / "t.csv"),
            "--output",
            str(tmp_path / "o.csv"),
        ]
    )
    error = capsys.readouterr().err
    assert code == 1
    assert error.count("\n") == 1
    assert "'ldh': there is no such column (perhaps 'LDH'?)" in error
    assert not (tmp_path / "o.csv").exists()


def test_values_without_original_are_noted_once(run, tmp_path, capsys):
    folder, _, _ = run
    (tmp_path / "t.csv").write_text("ldh,crp\n?,-999\n0,1e300\n")
    code = main(
        [
            "transform",
            str(folder / "parameters.json"),
            str(tmp_path / "t.csv"),
            "--inverse",
            "--missing",
            "?",
            "--missing=-999",
            "--output",
            str(tmp_path / "o.csv"),
        ]
    )
    shown = capsys.readouterr()
    assert code == 0
    assert "note: Some values in column crp have no original" in shown.err
    assert (tmp_path / "o.csv").read_text().splitlines()[1] == ","


def test_values_outside_the_agreed_bounds_stop_a_transformation_or_are_counted(
    run, tmp_path, capsys
):
    folder, fitted, _ = run
    (tmp_path / "t.csv").write_text("ldh,crp,id\n1,-2,01\n3000,4,02\n-999,5,03\n")
    arguments = ["transform", str(folder / "parameters.json"), str(tmp_path / "t.csv")]
    arguments += ["--output", str(tmp_path / "o.csv"), "--missing=-999"]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert "agreed bounds: 'ldh' (1 above 1024), 'crp' (1 below 0). Correct them" in error
    assert "give --missing=-999" in error
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    X = np.array([[1, -2], [3000, 4], [np.nan, 5]])
    for outside, values in (("clip", np.clip(X, 0, 1024)), ("keep", X)):
        assert main([*arguments, "--outside", outside, "--force"]) == 0
        shown = capsys.readouterr()
        assert shown.out.endswith("o.csv: 3 rows, 2 columns transformed, 1 passed through.\n")
        assert shown.err.count("\n") == 1
        assert "'ldh' (1 above 1024), 'crp' (1 below 0)" in shown.err
        got = pd.read_csv(tmp_path / "o.csv", dtype={"id": str})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            np.testing.assert_array_equal(got[["ldh", "crp"]], fitted.transform(values))
        assert list(got["id"]) == ["01", "02", "03"]
    assert main([*arguments, "--outside", "keep"]) == 1
    assert "SFY-TAB-038" in capsys.readouterr().err
    assert main([*arguments, "--outside", "keep", "--inverse"]) == 1
    assert "SFY-CLI-019" in capsys.readouterr().err


def test_a_folder_is_transformed_file_by_file(run, tmp_path, capsys):
    folder, _, table = run
    for part, rows in (("ward=1", table[:10]), ("ward=2", table[10:])):
        (tmp_path / "in" / part).mkdir(parents=True)
        rows.to_parquet(tmp_path / "in" / part / "0.parquet")
    arguments = ["transform", str(folder / "parameters.json"), str(tmp_path / "in")]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == (
        f"{tmp_path / 'out'}: 30 rows in 2 files, 2 columns transformed, 1 passed through.\n"
    )
    back = pd.read_parquet(tmp_path / "out")
    assert list(back["patient"]) == list(table["patient"])
    assert list(back["ward"].astype(int)) == [1] * 10 + [2] * 20


def test_file_that_is_no_parameters_file_ends_with_one_sentence(run, tmp_path, capsys):
    folder, _, _ = run
    code = main(
        [
            "transform",
            str(folder / "transcript.jsonl"),
            str(folder / "table.csv"),
            "--output",
            str(tmp_path / "o.csv"),
        ]
    )
    assert code == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_report_is_written_and_says_when_it_shows_data(run, tmp_path, capsys, monkeypatch):
    folder, _, _ = run
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(folder / "transcript.jsonl")]) == 0
    assert capsys.readouterr().out == "report.html: written.\n"
    data = ["--data", str(folder / "table.parquet"), "--output", "mine.html"]
    assert main(["report", str(folder / "transcript.jsonl"), *data]) == 0
    assert capsys.readouterr().out == "mine.html: written. It shows your own data.\n"
    other = ["--consortium", str(tmp_path / "consortium.toml"), "--output", "units.html"]
    local.prepare(tmp_path, dict.fromkeys("abc", np.ones((1, 1))), [Feature("ldh", 0.0, 1024.0)])
    capsys.readouterr()
    assert main(["report", str(folder / "transcript.jsonl"), *other]) == 1
    assert "[SFY-REP-010]" in capsys.readouterr().err
    assert "your own data" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "your own data" in (tmp_path / "mine.html").read_text(encoding="utf-8")


def test_report_of_something_else_ends_with_one_sentence(run, tmp_path, capsys):
    folder, _, _ = run
    output = ["--output", str(tmp_path / "r.html")]
    assert main(["report", str(folder / "parameters.json"), *output]) == 1
    assert main(["report", str(folder / "none.jsonl"), *output]) == 1
    assert main(["report", str(folder / "transcript.jsonl"), "--output", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 3
    assert "this is a folder" in errors
    assert (
        f"securefedyj: {folder / 'none.jsonl'}: there is no such file or folder; check the name, "
        "and the folder that it is in. [SFY-OS-ENOENT]\n" in errors
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["audit", "report"])
def test_the_folder_of_a_result_is_not_its_transcript(command, tmp_path, capsys):
    assert main([command, str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"securefedyj: {tmp_path}: this is a folder; give its transcript.jsonl [SFY-CLI-004]\n"
    )
