"""The agreed file: it reads back the same, and says what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path

import pytest

from securefedyj.cli.main import main
from securefedyj.network.consortium import (
    Consortium,
    ConsortiumError,
    Feature,
    HubEntry,
    PartyEntry,
)
from securefedyj.network.identity import fingerprint, keygen, read_certificate
from tests.refusals import refused


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("hub", "ana", "bob", "cem", "dua"):
        keygen(name, folder)
    return folder


def pem(folder: Path, name: str) -> str:
    return read_certificate(folder / f"{name}.pem")


def entry(folder: Path, name: str, role: str = "silo") -> PartyEntry:
    return PartyEntry(name, role, fingerprint(pem(folder, name)), pem(folder, name))


@pytest.fixture
def consortium(pems: Path) -> Consortium:
    return Consortium(
        name='Sepsis "2026" \\ Zürich',
        hub=HubEntry("hub.example.org:7443", pem(pems, "hub")),
        parties=(entry(pems, "ana"), entry(pems, "bob"), entry(pems, "cem", "helper")),
        committee=("cem", "ana", "bob"),
        features=(
            Feature("lactate", 0.0, 0.1 + 0.2, "mmol/L", 'a "note"\twith\nlines'),
            Feature("ΔBP", -1e-7, 1e20),
        ),
    )


def test_file_reads_back_the_same(consortium, tmp_path):
    path = tmp_path / "consortium.toml"
    consortium.write(path)
    again = Consortium.read(path)
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")  # by an editor
    assert Consortium.read(path).digest() == again.digest() == consortium.digest()
    assert again.features == consortium.features
    assert again.agreement().to_bytes() == consortium.agreement().to_bytes()
    assert again.to_toml() == dataclasses.replace(again).to_toml()


@pytest.mark.parametrize(
    "change",
    [
        {"max_steps": 41},
        {"levels_per_exchange": 3},
        {"minimum_values": 31},
        {"result_bits": 44},
        {"max_interruptions": 6},
        {"committee": ("ana", "cem", "bob")},
        {"name": "other"},
        {"features": (Feature("lactate", 0.0, 0.3, "mg/dL"),)},
    ],
)
def test_digest_changes_with_all_that_matters(consortium, change):
    assert dataclasses.replace(consortium, **change).digest() != consortium.digest()


def test_digest_stays_when_the_hub_moves(consortium):
    hub = dataclasses.replace(consortium.hub, address="10.0.0.1:1")
    assert dataclasses.replace(consortium, hub=hub).digest() == consortium.digest()


def test_hub_may_be_left_out(consortium, tmp_path):
    without = dataclasses.replace(consortium, hub=None)
    without.write(tmp_path / "consortium.toml")
    assert "[hub]" not in without.to_toml()
    assert Consortium.read(tmp_path / "consortium.toml") == without
    assert without.digest() == consortium.digest()
    with refused("SFY-CON-025"):
        without.agreed_hub()


@pytest.mark.parametrize(
    ("old", "new", "code", "value"),
    [
        ("format = 1", "format = 2", "SFY-CON-024", "the format is 2"),
        ("format = 1\n", "", "SFY-CON-023", ""),
        ("max_steps = 30", "max_step = 30", "SFY-CON-027", "'max_step'"),
        ("max_steps = 30", "max_steps = 0", "SFY-CON-027", "max_steps must be a whole number >= 1"),
        ("max_steps = 30", "max_steps = true", "SFY-CON-027", "max_steps"),
        ("result_bits = 24", "result_bits = 45", "SFY-CON-027", "result_bits"),
        ("result_bits = 24", "result_bits = 7", "SFY-CON-027", ">= 8, not 7"),
        ("max_interruptions = 5", "max_interruptions = -1", "SFY-CON-027", ">= 0, not -1"),
        ("max_interruptions = 5", "max_interruptions = 1001", "SFY-CON-027", "<= 1000, not 1001"),
        ('"mmol/L"', r'"mmol/L\u001b[2J"', "SFY-CON-002", r"feature 'lactate' is 'mmol/L\x1b[2J'"),
        ('"mmol/L"', r'"mmol\u202e/L"', "SFY-CON-002", r"mmol\u202e/L"),
        ("lines", r"lines\u001b[2J", "SFY-CON-011", "feature 'lactate'"),
        ("hub.example.org", r"hub\u001b[H.example.org", "SFY-CON-003", r"'hub\x1b[H.example"),
        ("hub.example.org", "hub example.org", "SFY-CON-003", "hub example.org"),
        ("7443", "٧٤٤٣", "SFY-CON-003", "hub"),
        ("7443", "7" * 5000, "SFY-CON-003", "777"),
        ("max_steps = 30", f"max_steps = {'9' * 5000}", "SFY-CON-027", "not a TOML file"),
        ("lower = 0.0", f"lower = {'9' * 400}", "SFY-CON-027", "number of 1329 bits"),
        ("max_steps = 30", f"max_steps = {'[' * 5000}", "SFY-CON-027", "nested too deeply"),
        ("max_steps = 30", f"max_steps = [{'1, ' * 5000}]", "SFY-CON-027", "max_steps must be"),
        ('["cem", "ana", "bob"]', f"[{'1, ' * 5000}]", "SFY-CON-027", "committee[0]"),
        ('["cem", "ana", "bob"]', '["cem", "ana"]', "SFY-CON-010", "['cem', 'ana']"),
        ('["cem", "ana", "bob"]', '["cem", "ana", "eva"]', "SFY-CON-010", "'eva'"),
        ('["cem", "ana", "bob"]', '["cem", "ana", "ana"]', "SFY-CON-010", "'ana', 'ana'"),
        ('["cem", "ana", "bob"]', '["cem", "ana", 3]', "SFY-CON-027", "committee[2]"),
        ('["cem", "ana", "bob"]', '[["cem"], "ana", "bob"]', "SFY-CON-027", "committee[0]"),
        ('name = "bob"', 'name = "ana"', "SFY-CON-016", "party named 'ana'"),
        ('name = "ΔBP"', 'name = "lactate"', "SFY-CON-016", "feature named 'lactate'"),
        ("sha256:", "sha256:0", "SFY-CON-014", "'ana'"),
        ('role = "helper"', 'role = "boss"', "SFY-CON-007", "'boss'"),
        ('role = "helper"', 'role = "member"', "SFY-CON-006", '"helper"'),
        ("lower = 0.0", "lower = 7.0", "SFY-CON-018", "feature 'lactate' are 7.0"),
        ("lower = 0.0", "lower = nan", "SFY-CON-018", "nan"),
        ("lower = 0.0", 'lower = "0"', "SFY-CON-027", "number 1: lower must be a number"),
        ("lower = 0.0\n", "", "SFY-CON-027", "[[feature]] number 1 lacks 'lower'"),
        ("hub.example.org:7443", "hub.example.org", "SFY-CON-003", "'hub.example.org'"),
        ("[hub]", "[hub", "SFY-CON-026", "TOML"),
        ("[hub]\n", "[hub]\ncolour = 1\n", "SFY-CON-027", "[hub] has an unknown field 'colour'"),
        ("[hub]\n", "[hubs]\n", "SFY-CON-027", "'hubs'; it may have claimed_points, "),
        ("BEGIN CERTIFICATE", "BEGIN", "SFY-KEY-004", "the hub"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(consortium, tmp_path, old, new, code, value):
    path = tmp_path / "consortium.toml"
    text = consortium.to_toml()
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with refused(code, ConsortiumError) as caught:
        Consortium.read(path)
    assert str(caught.value).startswith(str(path))
    assert value in str(caught.value)
    assert len(str(caught.value)) < 1500
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"max_steps": 0}, "SFY-CON-001"),
        ({"max_steps": 30.0}, "SFY-CON-001"),
        ({"max_interruptions": 1001}, "SFY-CON-001"),
        ({"name": " "}, "SFY-CON-002"),
        ({"features": ()}, "SFY-CON-012"),
        ({"features": (Feature("a", 0.0, 2.0**101),)}, "SFY-CON-018"),
        ({"features": (Feature("a", 0.0, 1e-20),)}, "SFY-NUM-004"),
        ({"features": (Feature("a", 0.0, 1e-300),)}, "SFY-NUM-003"),
        ({"committee": ("ana", "bob", "eva")}, "SFY-CON-010"),
    ],
)
def test_what_is_made_in_python_is_checked_as_well(consortium, change, code):
    with refused(code):
        dataclasses.replace(consortium, **change)


def test_a_consortium_needs_a_silo(consortium, pems):
    helpers = tuple(entry(pems, name, "helper") for name in ("ana", "bob", "cem"))
    with refused("SFY-CON-005"):
        dataclasses.replace(consortium, parties=helpers)


def test_one_certificate_cannot_stand_for_two(consortium, pems):
    twin = dataclasses.replace(entry(pems, "ana"), name="twin")
    with refused("SFY-CON-015"):
        dataclasses.replace(consortium, parties=(*consortium.parties, twin))


def test_two_parties_are_too_few(consortium):
    with refused("SFY-CON-004"):
        dataclasses.replace(consortium, parties=consortium.parties[:2])


def new(
    folder: Path, file: Path, *options: str, silo: str = "--silo", helper: str = "--helper"
) -> int:
    silos = [f"{silo}={name}={folder / name}.pem" for name in ("ana", "bob")]
    hub = ["--hub", "127.0.0.1:7443", "--hub-certificate", str(folder / "hub.pem")]
    coordinator = f"{helper}=cem={folder / 'cem.pem'}"
    if "--levels-per-exchange" not in options:  # to plan them takes seconds
        options = (*options, "--levels-per-exchange", "4")
    return main(["new", str(file), "--name", "test", *hub, *silos, coordinator, *options])


def test_earlier_names_of_the_options_still_work(pems, tmp_path):
    feature = ("--feature", "a:0:1")
    assert new(pems, tmp_path / "now.toml", *feature) == 0
    assert new(pems, tmp_path / "then.toml", *feature, silo="--party", helper="--member") == 0
    assert (tmp_path / "then.toml").read_bytes() == (tmp_path / "now.toml").read_bytes()
    parties = Consortium.read(tmp_path / "now.toml").parties
    assert [party.role for party in parties] == ["silo", "silo", "helper"]


def test_earlier_names_of_the_options_are_not_shown(capsys):
    with pytest.raises(SystemExit):
        main(["new", "--help"])
    shown = capsys.readouterr().out
    assert "--silo" in shown
    assert "--helper" in shown
    assert "--party" not in shown
    assert "--member " not in shown


def test_new_check_and_plan(pems, tmp_path, capsys):
    file = tmp_path / "consortium.toml"
    table = tmp_path / "features.csv"
    table.write_text("name,lower,upper,unit,note\nage,0,120,years,\n")
    assert new(pems, file, "--feature", "lac:tate:0:40", "--features", str(table)) == 0
    consortium = Consortium.read(file)
    assert consortium.committee == ("ana", "bob", "cem")
    expected = [("lac:tate", 0.0, 40.0, ""), ("age", 0.0, 120.0, "years")]
    assert [(f.name, f.lower, f.upper, f.unit) for f in consortium.features] == expected
    assert new(pems, file, "--feature", "a:0:1") == 1
    assert "not overwritten" in capsys.readouterr().err
    assert main(["check", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == consortium.digest()
    assert main(["check", str(file)]) == 0
    assert consortium.digest() in capsys.readouterr().out


def test_precision_is_small_unless_agreed_otherwise(pems, tmp_path, capsys):
    file, feature = tmp_path / "consortium.toml", ("--feature", "a:0:1")
    assert new(pems, file, *feature) == 0
    consortium = Consortium.read(file)
    agreed = consortium.max_steps, consortium.result_bits, consortium.max_interruptions
    assert agreed == (30, 24, 5)
    file = tmp_path / "exact.toml"
    exact = ("--max-steps", "40", "--result-bits", "44", "--max-interruptions", "0")
    assert new(pems, file, *feature, *exact) == 0
    capsys.readouterr()
    assert main(["check", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "lambda in at most 40 steps, mean and variance to 44 bits" in shown
    assert "At most 0 interruptions; one more ends a run" in shown
    assert main(["check", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agreement"]["result_bits"], found["max_interruptions"]) == (44, 0)


def test_agreement_knows_precision_and_helpers(consortium):
    agreement = dataclasses.replace(consortium, result_bits=17).agreement()
    assert (agreement.result_bits, agreement.helpers) == (17, ("cem",))
    assert agreement.silos == tuple(party.name for party in consortium.silos)


@pytest.mark.parametrize(
    ("options", "committee", "said"),
    [
        (
            (),
            ("ana", "bob", "cem"),
            "The committee is ana, bob, cem: cem comes last, where a helper",
        ),
        (("--helper=dua",), ("ana", "cem", "dua"), "ana, cem, dua: cem and dua come last"),
        (("--committee=ana,bob,cem",), ("ana", "bob", "cem"), "cem comes last"),
        (
            ("--committee=cem,ana,bob",),
            ("cem", "ana", "bob"),
            "In the last place cem would see less",
        ),
        (("--silo=dua", "--committee=ana,bob,dua"), ("ana", "bob", "dua"), ""),
    ],
)
def test_a_helper_gets_the_place_where_it_sees_least(
    options, committee, said, pems, tmp_path, capsys
):
    more = [o if "committee" in o else f"{o}={pems / 'dua.pem'}" for o in options]
    assert new(pems, tmp_path / "c.toml", "--feature", "a:0:1", *more) == 0
    assert Consortium.read(tmp_path / "c.toml").committee == committee
    shown = capsys.readouterr().out.replace("\n", " ")
    assert said in shown
    assert ("committee" in shown) == bool(said)


def test_plan_counts_what_a_run_then_takes(pems, tmp_path, capsys):
    import numpy as np

    from securefedyj.protocol.simulation import simulate

    file = tmp_path / "consortium.toml"
    assert new(pems, file, "--feature", "a:0:1000", "--feature", "b:0:1000",
               "--levels-per-exchange", "4") == 0  # fmt: skip
    capsys.readouterr()
    assert main(["plan", str(file), "--rows", "400", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    four = next(one for one in plan["levels"] if one["levels"] == 4)
    rows = np.random.default_rng(0).lognormal(size=(800, 2))
    tables = [rows[:400], rows[400:], None]
    _, cost = simulate(Consortium.read(file).agreement(), tables)
    sent = max(sum(peers.values()) for peers in cost.bytes_sent.values())
    assert four["rounds"] == pytest.approx(cost.rounds, rel=0.1)
    assert four["megabytes"] * 1e6 == pytest.approx(sent, rel=0.25)
    assert plan["recommended"] in (1, 2, 4, 8)


def test_written_file_is_toml_of_the_documented_form(consortium):
    data = tomllib.loads(consortium.to_toml())
    assert set(data) == {
        "format", "name", "committee", "max_steps", "result_bits", "levels_per_exchange",
        "minimum_values", "max_interruptions", "verified", "hub", "party", "feature",
    }  # fmt: skip
