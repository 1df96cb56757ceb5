"""The next file of a consortium: what is kept, what changes, and what is said about it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from securefedyj.cli.main import main
from securefedyj.network.consortium import Consortium
from securefedyj.network.consortium.succession import differences
from securefedyj.network.identity import keygen

NAMES = ("hub", "north", "east", "south", "west", "anew")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys, and a first file in which every entry differs from its default."""
    folder = tmp_path_factory.mktemp("life")
    for name in NAMES:
        keygen(name, folder)
    (folder / "features.csv").write_text(
        "name;lower;upper;unit;note\nlactate;0;40;mmol/L;arterial\nage;0;120;years;\n"
    )
    silos = [f"--silo={name}={folder / name}.pem" for name in ("north", "east", "south")]
    assert main(["new", str(folder / "first.toml"), "--name", "sepsis", *silos,
                 "--hub", "hub.example.org:7443", "--hub-certificate", str(folder / "hub.pem"),
                 "--features", str(folder / "features.csv"), "--max-steps", "29",
                 "--result-bits", "23", "--levels-per-exchange", "3", "--minimum-values", "31",
                 "--max-interruptions", "4", "--unverified"]) == 0  # fmt: skip
    return folder


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def succeed(folder: Path, file: Path, *options: str) -> int:
    return main(["new", str(file), "--from", str(folder / "first.toml"), *options])


def test_a_table_of_features_may_have_semicolons(folder):
    lactate, age = Consortium.read(folder / "first.toml").features
    assert (lactate.name, lactate.upper, lactate.unit, lactate.note) == (
        "lactate", 40.0, "mmol/L", "arterial")  # fmt: skip
    assert age.name == "age"


def test_all_else_is_kept(folder, tmp_path, capsys):
    west = f"west={folder / 'west.pem'}"
    assert succeed(folder, tmp_path / "next.toml", "--add", west, "--remove", "south",
                   "--bounds", "lactate:0:60") == 0  # fmt: skip
    before, after = Consortium.read(folder / "first.toml"), Consortium.read(tmp_path / "next.toml")
    assert [party.name for party in after.parties] == ["north", "east", "west"]
    assert after.committee == ("north", "east", "west")
    assert after.features[0].upper == 60.0
    same = {key: value for key, value in vars(before).items()
            if key not in ("parties", "committee", "features")}  # fmt: skip
    assert {key: getattr(after, key) for key in same} == same
    assert (after.features[0].unit, after.features[0].note) == ("mmol/L", "arterial")
    assert after.features[1] == before.features[1]
    said = capsys.readouterr().out
    for words in ("west is new", "south is no longer a party", "lactate from 0 to 60; was 0 to 40",
                  "the committee is north, east, west; was north, east, south",
                  "came or left with west and south",
                  "both files have the name 'sepsis', and a hub serves only one"):  # fmt: skip
        assert words in one_line(said)


def test_a_party_that_gets_the_file_sees_what_differs(folder, tmp_path, capsys):
    renewed = f"east={folder / 'anew.pem'}"
    assert succeed(folder, tmp_path / "next.toml", "--renew", renewed, "--name", "next") == 0
    made = capsys.readouterr().out.partition("Compared with")[2]
    files = [str(tmp_path / "next.toml"), "--before", str(folder / "first.toml")]
    assert main(["check", *files]) == 0
    checked = capsys.readouterr().out
    assert checked.partition("Compared with")[2] == made
    digest = Consortium.read(tmp_path / "next.toml").party("east").fingerprint
    assert f"east has another certificate: {digest}" in checked
    assert "difference of the results" not in checked


def test_a_member_who_stays_stays_a_member(folder, tmp_path):
    helper = f"--helper=coordinator={folder / 'west.pem'}"
    assert succeed(folder, tmp_path / "next.toml", helper, "--drop", "age", "--feature", "p:0:9",
                   "--verified", "--levels-per-exchange", "auto", "--rows", "100") == 0  # fmt: skip
    after = Consortium.read(tmp_path / "next.toml")
    assert after.committee == ("north", "east", "south")
    assert after.parties[-1].role == "helper"
    assert [feature.name for feature in after.features] == ["lactate", "p"]
    assert after.verified


def test_another_engine_has_another_committee(folder, tmp_path):
    assert succeed(folder, tmp_path / "next.toml", "--engine", "mpyc",
                   f"--add=west={folder / 'west.pem'}") == 0  # fmt: skip
    after = Consortium.read(tmp_path / "next.toml")
    assert after.committee == ("north", "east", "south", "west")


@pytest.mark.parametrize(
    ("options", "value", "code"),
    [
        (["--remove", "west"], "'west'", "SFY-CON-021"),
        (["--remove", "south"], "not 2", "SFY-CON-004"),
        (["--add", "east={west}"], "--renew east=CERT.pem", "SFY-CON-029"),
        (["--renew", "west={west}"], "'west'", "SFY-CON-021"),
        (["--bounds", "sodium:0:9"], "'sodium'", "SFY-CON-030"),
        (["--bounds", "Lactat:0:60"], "'Lactat' (perhaps 'lactate'?)", "SFY-CON-030"),
        (["--drop", "sodium"], "'sodium'", "SFY-CON-030"),
        (["--feature", "age:0:9"], "'age'", "SFY-CON-016"),
        (["--max-steps", "0"], "max_steps", "SFY-CON-001"),
        (["--levels-per-exchange", "auto", "--rows", "0"], "--rows", "SFY-CLI-018"),
    ],
)
def test_what_cannot_follow_is_refused(folder, tmp_path, capsys, options, value, code):
    options = [option.format(west=folder / "west.pem") for option in options]
    assert succeed(folder, tmp_path / "next.toml", *options) == 1
    said = one_line(capsys.readouterr().err)
    assert value in said
    assert f"[{code}]" in said
    assert not (tmp_path / "next.toml").exists()


def test_changes_need_a_file_before(tmp_path, capsys):
    assert main(["new", str(tmp_path / "next.toml"), "--remove", "south"]) == 1
    assert "--remove changes an earlier file; name it by --from FILE." in capsys.readouterr().err
    assert main(["new", str(tmp_path / "next.toml")]) == 1
    assert "needs a --name" in capsys.readouterr().err


def test_nothing_changed_is_said(folder, tmp_path, capsys):
    assert succeed(folder, tmp_path / "next.toml") == 0
    assert "that file would do as well" in one_line(capsys.readouterr().out)


@pytest.mark.parametrize("swapped", [("north.pem", "north.key"), ("north.pem", "north.pem"),
                                     ("north.key", "north.key")])  # fmt: skip
def test_a_key_and_a_certificate_that_are_swapped(folder, tmp_path, capsys, swapped):
    key, certificate = (str(folder / name) for name in swapped)
    assert main(["join", str(folder / "first.toml"), "--key", key, "--certificate", certificate,
                 "--output", str(tmp_path / "out")]) == 1  # fmt: skip
    assert "Are --key and --certificate swapped?" in one_line(capsys.readouterr().err).replace(
        ": are", ". Are"
    )


def test_three_that_came_or_left_are_listed(folder, tmp_path, capsys):
    pems = [f"--add=w{k}={folder / pem}" for k, pem in enumerate(("west.pem", "anew.pem"))]
    assert succeed(folder, tmp_path / "next.toml", *pems, "--remove", "south") == 0
    assert "came or left with w0, w1 and south." in one_line(capsys.readouterr().out)


def test_every_change_of_a_feature_is_listed(folder):
    before = Consortium.read(folder / "first.toml")
    lactate, age = before.features
    after = replace(before, features=(replace(lactate, unit="mg/dL", upper=360.0), age))
    assert differences(before, after) == [
        "lactate from 0 to 360; was 0 to 40",
        "lactate: unit is 'mg/dL'; was 'mmol/L'",
    ]
    noted = replace(before, features=(lactate, replace(age, note="at admission")))
    assert differences(before, noted) == []
