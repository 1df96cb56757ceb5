"""What `features`, `new` and `check` say about a run that silos submit to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from securefedyj.cli.main import main
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import keygen
from securefedyj.network.submission import make, part_sizes
from securefedyj.tables.files import write_table

NAMES = ("north", "east", "south")
HEAD = "name,lower,upper,resolution,digits,round\n"
FEATURES = "age,0,120,1,,\ncrp,0,500,0.1,,true\nplatelets,1000,2000000,,3,false\nheight,0,250,,,\n"


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        keygen(name, tmp_path)
    (tmp_path / "features.csv").write_text(HEAD + FEATURES)
    return tmp_path


def new(*more: str, file: str = "c.toml", features: str = "features.csv") -> int:
    silos = [part for name in NAMES for part in ("--silo", f"{name}={name}.pem")]
    command = ["new", file, "--name", "c", *silos, "--features", features]
    return main([*command, "--levels-per-exchange", "4", *more])


def write(rows: list[list[float]], names: str = "age,crp,platelets,height") -> None:
    write_table(Path("rows.csv"), names.split(","), np.array(rows))


def test_new_and_check_say_how_many_points_and_how_large_a_submission_is(place, capsys):
    assert new("--submitted") == 0
    made = capsys.readouterr().out
    consortium = Consortium.read("c.toml")
    assert [feature.digits for feature in consortium.features] == [0, 0, 3, 0]
    assert [feature.round for feature in consortium.features] == [False, True, False, False]
    counts = [len(points) for points in consortium.agreement().points]
    assert counts == [121, 5001, 3 * 900 + 101, 0]
    assert main(["check", "c.toml"]) == 0
    shown = capsys.readouterr().out
    for text in (" ".join(one.split()) for one in (made, shown)):
        assert "one file of about 254 kB" in text
        assert "each of 7,923 points" in text
        assert "All silos also join: height has no" in text
    assert "121 points in steps of 1\n" in shown
    assert "5,001 points in steps of 0.1; a value counts as the next one; negative" in shown
    assert shown.count("negative counts would not be detected") == 1
    assert "2,801 points of 3 significant digits" in shown
    size = len(make(consortium, "north", place / "north.key", np.zeros(7923, dtype=np.int64)))
    assert abs(size - 254_000) < 1000
    assert sum(part_sizes(consortium.agreement())) < size


def test_a_live_file_says_nothing_of_submissions(place, capsys):
    assert new() == 0
    assert main(["check", "c.toml"]) == 0
    out = capsys.readouterr().out
    assert "ubmi" not in out
    assert "points" not in out


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ("age,0,120,1,x,", "SFY-CLI-024"),
        ("age,0,120,1,,maybe", "SFY-CLI-024"),
        ("age,0,120,1,10,", "SFY-CLI-024"),
        ("age,0,120,0.0001,,", "SFY-NUM-020"),
        ("age,0,120,,,", "SFY-CON-041"),
    ],
)
def test_features_that_cannot_be_submitted_are_refused(place, capsys, cells, code):
    (place / "odd.csv").write_text(f"{HEAD}{cells}\n")
    assert new("--submitted", features="odd.csv") == 1
    assert f"[{code}]" in capsys.readouterr().err
    assert not (place / "c.toml").exists()


def test_options_and_later_files_change_points(place, capsys):
    assert new("--submitted", "--resolution", "height=1", "--round", "age=True") == 0
    later = ["new", "d.toml", "--from", "c.toml", "--name", "d", "--digits", "crp=2"]
    assert main([*later, "--round", "crp=false", "--claimed-points", "100"]) == 0
    out = capsys.readouterr().out
    assert "claimed_points is 100; was 4096" in out
    assert Consortium.read("d.toml").claimed_points == 100
    assert "Only the committee connects." in out.replace("\n", " ")
    assert "crp: digits is 2; was 0" in out
    assert "crp: round is False; was True" in out
    assert main(["new", "e.toml", "--from", "d.toml", "--name", "e", "--live"]) == 0
    assert "submitted is False; was True" in capsys.readouterr().out
    assert main(["new", "f.toml", "--from", "d.toml", "--digits", "weight=2"]) == 1
    assert "[SFY-CLI-021]" in capsys.readouterr().err


def test_check_tells_what_would_move_and_refuses_what_may_not(place, capsys):
    assert new("--submitted", "--unverified") == 1  # a submitted run is always verified
    assert "[SFY-CON-041]" in capsys.readouterr().err
    assert new("--submitted") == 0
    command = ["check", "c.toml", "--data", "rows.csv", "--ledger", "ledger.jsonl"]
    write([[30, 3.14, 251000, 170.123], [31, np.nan, 1230, 180], [32, 0.2, 99900, 1]])
    capsys.readouterr()
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "note: crp: 1 of 2 values move to the next point, by at most 0.04" in out
    write([[30, 3.14, 251000, 170], [31.5, np.nan, 1234, 180], [32.25, 0.2, 99900, 1]])
    assert main(command) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "age: 2 of 3 values are not among the agreed points, first 31.5 in line 3" in out
    assert "they are at most 0.5 away from one" in out
    assert "platelets: 1 of 3 values" in out
    assert main([*command, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["stops"] is True
    kinds = {(one["feature"], one["kind"], one["count"]) for one in found["findings"]}
    assert {("age", "no point", 2), ("platelets", "no point", 1), ("crp", "next point", 1)} <= kinds


def test_features_proposes_points_that_all_values_are_among(place, capsys):
    rng = np.random.default_rng(8)
    names = "age,crp,platelets,ratio,small,whole"
    rows = np.column_stack(
        [
            rng.integers(18, 96, 400),
            rng.lognormal(1, 1.5, 400).round(1),
            rng.normal(250_000, 50_000, 400).round(-3),
            rng.random(400),
            (rng.lognormal(-4, 0.5, 400) + 0.001).round(3),
            np.arange(400),
        ]
    )
    write(rows.tolist(), names)
    assert main(["features", "rows.csv", "--output", "draft.csv"]) == 0
    out = capsys.readouterr().out
    assert "resolution 1: 1,001 points" in out
    assert "resolution 1, 3 significant digits: 3,701 points" in out
    assert "ratio:" in out
    assert new("--submitted", features="draft.csv") == 0
    capsys.readouterr()
    consortium = Consortium.read("c.toml")
    proposed = {one.name: (one.resolution, one.digits) for one in consortium.features}
    assert proposed["age"] == ("1", 0)
    assert proposed["crp"] == ("0.1", 0)
    assert proposed["platelets"] == ("1", 3)
    assert proposed["ratio"] == ("", 0)
    assert proposed["small"] == ("0.001", 0)
    assert main(["check", "c.toml", "--data", "rows.csv", "--ledger", "ledger.jsonl"]) == 0
    assert "not among" not in capsys.readouterr().out
