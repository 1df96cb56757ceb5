"""`check --data` and `features`: what a silo sees of its own table, and how it says what it has."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from securefedyj.cli.main import main
from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.tables.files import write_table
from tests.cli.messages import one_sentence

AGE, LACTATE = Feature("age", 0.0, 120.0), Feature("lactate", 0.0, 40.0)


def check(folder: Path, features: list[Feature], table: bytes | str, *options: str) -> int:
    """A silo's table against an agreed file with these features."""
    rows = np.ones((2, len(features)))
    if not (folder / "consortium.toml").exists():
        local.prepare(folder, {"north": rows, "east": rows, "south": rows}, features)
    data = folder / "table.csv"
    data.write_bytes(table.encode() if isinstance(table, str) else table)
    return main(["check", str(folder / "consortium.toml"), "--data", str(data),
                 "--ledger", str(folder / "ledger.jsonl"), *options])  # fmt: skip


def flat(text: str) -> str:
    return " ".join(text.split())


def many(first: str, row: str) -> str:
    return first + "".join(row.format(k) for k in range(40))


def test_table_is_shown_beside_the_agreed_bounds(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert check(Path(), [AGE, LACTATE], many("age,lactate\n", "{0},{0}.25\n") + ",1\n") == 0
    assert capsys.readouterr().out.splitlines() == [
        "table.csv: 41 rows, separated by commas, UTF-8",
        "feature missing distinct  min median  max agreed   verdict",
        "age        2.4%       40    0   19.5   39 0 to 120 fits",
        "lactate       0       41 0.25   19.2 39.2 0 to 40  fits",
        "table.csv fits consortium.toml.",
    ]


def test_each_finding_comes_with_its_remedy(tmp_path, capsys):
    table = many("Age;lactate;x;x\n", "{0};{0},5;1;1\n").replace(";7,5;", ";-999;")
    twice = Feature("x", 0.0, 1.0)
    assert check(tmp_path, [AGE, LACTATE, twice], table) == 1
    shown = flat(capsys.readouterr().out)
    assert "age - - - - - 0 to 120 no column" in shown
    assert "stops a run: age: there is no such column (perhaps 'Age'?) Add it; it may be" in shown
    assert 'give --rename "name in the table=agreed name".' in shown
    assert "x - - - - - 0 to 1 twice" in shown
    assert "stops a run: x: 2 columns have this name Remove all but one" in shown
    assert "lactate: 39 cells are not finite numbers: '0,5' (line 2), '1,5' (line 3)" in shown
    assert "'0,5' would be 0.5 with --decimal ,." in shown
    assert shown.endswith("consortium.toml.")
    assert "table.csv does not fit " in shown
    assert (
        check(tmp_path, [], table.replace("x;x", "x;y"), "--decimal", ",", "--rename=Age=age") == 1
    )
    shown = flat(capsys.readouterr().out)
    assert "separated by semicolons, UTF-8, decimal comma" in shown
    assert "lactate 0 40 -999 20 39.5 0 to 40 outside" in shown
    assert (
        "lactate: 1 below and 0 above the agreed bounds 0 to 40, first in line 9; the values range "
        "from -999 to 39.5" in shown
    )
    assert "x 0 1 1 1 1 0 to 1 constant" in shown
    fixed = ("--decimal", ",", "--rename=Age=age", "--missing=-999")
    assert check(tmp_path, [], table.replace("x;x", "x;y"), *fixed) == 0


def test_what_might_be_a_missing_column_is_named(tmp_path, capsys):
    table = "pid;Alter;Laktate\n" + "1;60;1.5\n" * 40
    assert check(tmp_path, [AGE, LACTATE], table) == 1
    shown = flat(capsys.readouterr().out)
    assert (
        "age: there is no such column; not agreed on, but here: 'pid', 'Alter', 'Laktate'" in shown
    )
    assert "lactate: there is no such column (perhaps 'Laktate'?)" in shown


def test_values_of_some_thousands_are_not_shown_as_powers(tmp_path, capsys):
    table = "age;lactate\n" + "".join(f"{k};{k + 1390.4}\n" for k in range(40))
    check(tmp_path, [AGE, LACTATE], table)
    assert "lactate 0 40 1390 1410 1429 0 to 40 outside" in flat(capsys.readouterr().out)


def test_names_of_columns_may_be_in_a_file(tmp_path, capsys):
    table = many("Alter,Laktat\n", "{0},{0}\n").encode("utf-16")
    columns = tmp_path / "columns.toml"
    columns.write_text('[columns]\n"Alter" = "age"\nLaktat = "lactate"\n')
    assert check(tmp_path, [AGE, LACTATE], table, "--columns", str(columns)) == 0
    assert "separated by commas, UTF-16" in flat(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[columns\n", "is not a TOML file"),
        (
            "Alter = 'age'\n",
            "the file has an unknown key 'Alter'; it may have below_limit, cache_mb",
        ),
        ("decimal = ','\n", "has no table [columns]; add it."),
        ("[columns]\nAlter = 7\n", "columns: 'Alter' must be a text"),
    ],
)
def test_file_of_names_that_is_none_is_refused(content, reason, tmp_path, capsys):
    (tmp_path / "columns.toml").write_text(content)
    columns = str(tmp_path / "columns.toml")
    assert check(tmp_path, [AGE], "age\n1\n", "--columns", columns) == 1
    error = capsys.readouterr().err
    assert one_sentence(error)
    assert reason in error


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--rename=Alter", "'Alter' must be HERE=AGREED"),
        ("--decimal=;", "SFY-TAB-020"),
        ("--encoding=windows", "unknown encoding 'windows'"),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_sentence(option, reason, tmp_path, capsys):
    assert check(tmp_path, [AGE], "age\n1\n", option) == 1
    error = capsys.readouterr().err
    assert one_sentence(error)
    assert reason in error


def test_many_features_with_long_names_fit_80_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = [f"abundance of protein {k:04d} in plasma, log2" for k in range(200)]
    names[7] *= 4
    scale = 10.0 ** np.random.default_rng(0).integers(-90, 25, 200)
    rows = np.random.default_rng(1).standard_normal((50, 200)) * scale
    rows[:, :60] = 0
    local.prepare(Path(), {"north": rows, "east": rows, "south": rows},
                  [Feature(name, -1.2345678e-5, 123456789.125) for name in names])  # fmt: skip
    assert main(["check", "consortium.toml", "--data", "north.csv", "--ledger", "l"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 80
    assert sum(" -1.23e-5 to 1.235e8 " in line for line in lines) == 200
    assert lines[-1] == "north.csv does not fit consortium.toml."
    assert sum(line.startswith("note: abundance") for line in lines) == 10
    assert "note: and 50 more columns: constant" in lines


def test_json_has_the_table_as_well(tmp_path, capsys):
    assert check(tmp_path, [AGE, LACTATE], "age,lactate\n1,\n3,\n", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == 2
    assert told["columns"]["age"]["median"] == 2
    assert told["columns"]["lactate"]["least"] is None


def test_features_are_drafted_with_wide_round_bounds(tmp_path, capsys):
    table, output = tmp_path / "t.csv", tmp_path / "features.csv"
    rows = "".join(
        f"p{k};{k + 20};{k / 7};-0,0{k};;{k % 2};{k};0;5\n".replace(".", ",") for k in range(50)
    )
    table.write_text("id;age;crp;change;empty;sex;x;x; no\n" + rows)
    assert main(["features", str(table), "--decimal", ",", "--output", str(output)]) == 0
    drafted = list(csv.DictReader(output.open()))
    assert [(row["name"], row["lower"], row["upper"]) for row in drafted] == [
        ("age", "0", "1000"),
        ("crp", "0", "100"),
        ("change", "-1", "0"),
        ("sex", "0", "10"),
    ]
    shown = flat(capsys.readouterr().out)
    assert "age: 0 to 1000 (here 20 to 69)" in shown
    assert "sex: 0 to 10 (here 0 to 1; distinct values: 2)" in shown
    assert "id (no numbers)" in shown
    assert "empty (empty)" in shown
    assert "x (appears twice)" in shown
    assert "no (its name)" in shown
    assert "This is a draft, and nothing is agreed on." in shown
    # What the rows hold is shown, and not written: the file is for others.
    assert "69" not in output.read_text()
    assert main(["features", str(table), "--output", str(output)]) == 1
    assert "exists and is not overwritten" in capsys.readouterr().err


def test_drafted_features_are_taken_by_new(tmp_path, capsys):
    local.prepare(tmp_path, {"north": np.ones((2, 1)), "east": None, "south": None}, [AGE])
    write_table(tmp_path / "t.csv", ["mass, kg", "b"], [[70.5, -3], [1e-3, 4]])
    output = str(tmp_path / "features.csv")
    assert main(["features", str(tmp_path / "t.csv"), "--output", output]) == 0
    parties = [f"--silo={name}={tmp_path / name}.pem" for name in ("north", "east", "south")]
    assert main(["new", str(tmp_path / "new.toml"), "--name", "n", "--hub", "localhost:1",
                 "--hub-certificate", str(tmp_path / "hub.pem"), *parties,
                 "--features", output]) == 0  # fmt: skip
    capsys.readouterr()
    assert main(["check", str(tmp_path / "new.toml")]) == 0
    shown = flat(capsys.readouterr().out)
    assert "mass, kg 0 to 1000" in shown
    assert "b -10 to 10" in shown


def test_table_without_numbers_gives_no_draft(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,b\nx,y\n")
    assert main(["features", str(tmp_path / "t.csv"), "--output", str(tmp_path / "f.csv")]) == 1
    assert "has no column of numbers" in capsys.readouterr().err


def test_draft_says_what_to_type_for_columns_that_are_nearly_numbers(tmp_path, capsys):
    table = tmp_path / "t.csv"
    table.write_text("pid;age;crp;late\n" + "P1;60;?;1\nP2;61;2,5;2\n" * 60 + "P3;62;3,5;?\n")
    assert main(["features", str(table), "--output", str(tmp_path / "a.csv")]) == 0
    shown = flat(capsys.readouterr().out)
    assert "Left out: pid (no numbers)" in shown
    assert "Left out: crp: '2,5' would be 2.5 with --decimal ,." in shown
    assert "Left out: late: line 122: '?' is not a finite number." in shown
    options = ["--decimal", ",", "--missing", "?", "--output", str(tmp_path / "b.csv")]
    assert main(["features", str(table), *options]) == 0
    assert "b.csv: 3 features" in capsys.readouterr().out


def test_draft_says_once_what_to_type_for_several_columns(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("age;crp;lactate\n60;1,5;2,5\n61;2,5;3,5\n")
    assert main(["features", str(tmp_path / "t.csv"), "--output", str(tmp_path / "f.csv")]) == 0
    shown = flat(capsys.readouterr().out)
    assert "Left out: crp: '1,5' would be 1.5 with --decimal , (also in lactate)." in shown
    assert shown.count("Left out") == 1


def test_draft_of_decimal_commas_alone_says_so(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a;b\n1,5;x\n")
    assert main(["features", str(tmp_path / "t.csv"), "--output", str(tmp_path / "f.csv")]) == 1
    assert "'a': '1,5' would be 1.5 with --decimal ,." in capsys.readouterr().err


def test_draft_proposes_a_method_for_each_column_and_says_why(tmp_path, capsys):
    """One column of each shape that docs/tables.md lists, and the lower bound of Box-Cox."""
    rng = np.random.default_rng(0)
    normal, skewed = rng.normal(50, 5, 400), rng.lognormal(0, 1, 400)
    far = normal.copy()
    far[7] = 900
    columns = {
        "normal": (normal, "standard"),
        "far": (far, "robust"),
        "skewed": (10 * np.minimum(skewed, 20), "yeo-johnson"),
        "left": (100 - 10 * np.minimum(skewed, 9), "yeo-johnson"),
        "wide": (rng.lognormal(0, 2, 400), "box-cox"),
        "small": (skewed / 1000, "box-cox"),
        "zeros": (np.where(np.arange(400) % 5, 0, skewed), "standard"),
        "few": (rng.integers(0, 9, 400), "standard"),
    }
    table, output = tmp_path / "t.csv", tmp_path / "features.csv"
    write_table(table, list(columns), np.column_stack([values for values, _ in columns.values()]))
    assert main(["features", str(table), "--output", str(output)]) == 0
    drafted = {row["name"]: row for row in csv.DictReader(output.open())}
    assert {name: row["method"] for name, row in drafted.items()} == {
        name: method for name, (_, method) in columns.items()
    }
    for name in ("wide", "small"):
        lower, least = float(drafted[name]["lower"]), columns[name][0].min()
        assert 0 < lower <= least / 2 <= 10 * lower
    shown = flat(capsys.readouterr().out)
    assert "robust: about symmetric, with values far from all others" in shown
    assert "yeo-johnson: skewed to the left" in shown
    assert "box-cox: skewed, and positive values far below 1" in shown
    assert "another silo may propose others" in shown


def test_numbers_that_often_mean_a_missing_value_are_suspected(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rare, often = np.arange(400) % 50 == 0, np.arange(400) % 3 == 0
    pulse, ferritin = rng.normal(80, 9, 400), rng.lognormal(5, 0.6, 400)
    columns = {
        "pulse": np.where(rare, -99, pulse),
        "ferritin": np.where(often, 9999, ferritin),
        "high": np.minimum(3 * ferritin, 999),
        "below": np.where(rare, -99, rng.normal(-90, 3, 400)),
    }
    table = tmp_path / "t.csv"
    write_table(table, list(columns), np.column_stack([*columns.values()]))
    assert main(["features", str(table), "--output", str(tmp_path / "f.csv")]) == 0
    shown = flat(capsys.readouterr().out)
    assert "Does -99 mean a missing value? Then repeat this with --missing=-99. ferritin:" in shown
    assert "Does 9999 mean a missing value? Then repeat this with --missing=9999. high:" in shown
    assert shown.count("mean a missing value?") == 2


def test_a_column_that_is_left_out_is_not_even_read(tmp_path, capsys):
    table = many("age,lactate\n", "{0},high\n")
    assert check(tmp_path, [AGE, LACTATE], table) == 1
    capsys.readouterr()
    assert check(tmp_path, [AGE, LACTATE], table, "--without", "lactate") == 0
    shown = flat(capsys.readouterr().out)
    assert "0 to 40 left out" in shown
    assert "note: lactate: a run gets no values of it from here" in shown
    assert check(tmp_path, [AGE, LACTATE], table, "--without", "Lactate") == 1
    assert "[SFY-CON-060]" in capsys.readouterr().err


def test_a_table_of_features_that_is_not_utf_8_is_refused(tmp_path, capsys):
    (tmp_path / "f.csv").write_bytes("name,lower,upper\nGröße,0,250\n".encode("cp1252"))
    assert (
        main(
            [
                "new",
                str(tmp_path / "new.toml"),
                "--name",
                "n",
                "--features",
                str(tmp_path / "f.csv"),
            ]
        )
        == 1
    )
    assert "[SFY-CLI-030]" in capsys.readouterr().err


def test_files_that_an_editor_of_windows_has_saved_are_read(tmp_path, capsys):
    """With a byte order mark, and with its line ends."""
    local.prepare(tmp_path, dict.fromkeys(("north", "east", "south"), np.ones((2, 1))), [AGE])
    text = (tmp_path / "consortium.toml").read_text()
    (tmp_path / "saved.toml").write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    for name in ("consortium", "saved"):
        assert main(["check", str(tmp_path / f"{name}.toml"), "--json"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    features = "name;lower;upper;unit\r\nTemperatur;30;45;°C\r\n"
    (tmp_path / "f.csv").write_bytes(features.encode("utf-8-sig"))
    parties = [f"--silo={name}={tmp_path / name}.pem" for name in ("north", "east", "south")]
    new = str(tmp_path / "new.toml")
    assert main(["new", new, "--name", "n", *parties, "--features", str(tmp_path / "f.csv")]) == 0
    (feature,) = Consortium.read(new).features
    assert feature == Feature("Temperatur", 30.0, 45.0, unit="°C")
