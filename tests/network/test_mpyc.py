"""Engine `mpyc` among processes: all parties compute, and go on after one of them was killed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj import SecureFedYJ
from securefedyj.cli.main import main
from securefedyj.errors import InputError
from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.identity import keygen
from securefedyj.protocol.transcript import Transcript
from tests.datasets import table
from tests.network.gate import Gate
from tests.network.test_participant import codes_and_logs
from tests.refusals import refused

X = np.column_stack([table("iris")[:, 1], table("wine")[:150, 0]])
FEATURES = [Feature("sepal width", 0.0, 8.0), Feature("alcohol", 0.0, 32.0)]
TABLES = dict(zip(("ana", "bob", "cem"), np.array_split(X, 3), strict=True))
NUMBERS: dict[str, Any] = {"max_steps": 4, "levels_per_exchange": 1, "result_bits": 8}


def prepare(folder: Path) -> Consortium:
    return local.prepare(folder, TABLES, FEATURES, engine="mpyc", verified=False, **NUMBERS)


def notes(folder: Path, kind: str) -> list[int]:
    """What a party has noted of a kind, such as the numbers of the openings that it has sent."""
    lines = map(json.loads, (folder / "state.jsonl").read_text().splitlines())
    return [line[kind] for line in lines if kind in line]


@pytest.mark.mpyc
@pytest.mark.processes
def test_a_killed_party_comes_back_and_the_bits_are_those_of_the_other_engine(tmp_path):
    prepare(tmp_path)
    with local.Processes(tmp_path, reports=True) as processes:
        processes.start_hub()
        for name in ("ana", "bob"):
            processes.start_party(name, "--json")
        cem = Gate(processes, "cem", 3)
        cem.start_party("--json")
        cem.wait()
        processes.kill("cem")
        before = len(notes(tmp_path / "cem", "opening"))
        processes.start_party("cem", "--json")
        assert set(codes_and_logs(processes).values()) == {0}
        assert "resuming after exchange" in processes.log("ana")
    bounds = [(feature.lower, feature.upper) for feature in FEATURES]
    fit = SecureFedYJ(bounds=bounds, **NUMBERS)
    expected = fit.fit(list(TABLES.values()))
    for name in TABLES:
        folder = tmp_path / name
        result = Transcript.read(folder / "transcript.jsonl").result
        assert result is not None
        np.testing.assert_array_equal(result.lmbda, expected.lambdas_)
        np.testing.assert_array_equal(result.mean, expected.mean_)
        np.testing.assert_array_equal(result.var, expected.var_)
        sent, again = notes(folder, "opening"), notes(folder, "repeat")
        assert len(again) <= 1
        assert sorted(sent) == sorted([*range(len(set(sent))), *again])
    assert min(notes(tmp_path / "cem", "session")[1:]) >= before - 1 > 0
    report = (tmp_path / "ana" / "report.html").read_text()
    assert "2 or more of the 3 parties" in report
    assert json.loads((tmp_path / "ana" / "cost.json").read_text())["rounds"] > 20


def test_the_agreed_file_says_who_computes_with_which_engine(tmp_path, capsys):
    agreed = prepare(tmp_path)
    path = tmp_path / "consortium.toml"
    assert Consortium.read(path).digest() == agreed.digest()
    assert agreed.committee == tuple(TABLES)
    assert agreed.agreement().engine == "mpyc"
    assert main(["check", str(path)]) == 0
    assert "2 or more of the 3 parties" in capsys.readouterr().out
    assert main(["plan", str(path)]) == 0
    assert "Only engine 'replicated' has forecasts" in capsys.readouterr().out
    for changes, code in (
        ({"verified": True}, "SFY-CON-009"),
        ({"engine": "clear"}, "SFY-CON-008"),
        ({"committee": ("bob", "ana", "cem")}, "SFY-CON-017"),
    ):
        with refused(code, InputError):
            replace(agreed, **changes)


def test_new_writes_it(tmp_path, capsys):
    parties = [keygen(name, tmp_path).certificate for name in ("hub", *"abcde")]
    silos = [f"--silo={path.stem}={path}" for path in parties[1:5]]
    arguments = ["new", str(tmp_path / "c.toml"), "--name=x", "--hub=h:1", *silos]
    arguments += [f"--hub-certificate={parties[0]}", f"--helper=e={parties[5]}"]
    arguments += ["--feature=f:0:1", "--engine=mpyc"]
    assert main(arguments) == 1
    assert "--unverified" in capsys.readouterr().err
    assert main([*arguments, "--unverified"]) == 0
    agreed = Consortium.read(tmp_path / "c.toml")
    assert (agreed.engine, agreed.committee) == ("mpyc", tuple("abcde"))
    assert "committee" not in capsys.readouterr().out


def join(folder: Path) -> int:
    options = [f"--{key}={folder / value}" for key, value in {
        "key": "ana.key", "certificate": "ana.pem", "data": "ana.csv", "output": "ana",
        "ledger": "ledger.jsonl"}.items()]  # fmt: skip
    return main(["join", str(folder / "consortium.toml"), *options])


def test_without_the_library_a_party_is_told_what_to_install(tmp_path, monkeypatch, capsys):
    prepare(tmp_path)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.12")
    assert join(tmp_path) == 1
    said = capsys.readouterr().err
    assert "needs MPyC 0.11, and 0.12 is here: pip install 'securefedyj[mpyc]'" in said
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda x: None if x == "mpyc" else there(x))
    for data in ([], ["--data", str(tmp_path / "ana.csv"), "--ledger", str(tmp_path / "ledger")]):
        assert main(["check", str(tmp_path / "consortium.toml"), *data]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "this machine cannot take part yet. Engine 'mpyc' needs the MPyC library" in told
    assert join(tmp_path) == 1
    assert "needs the MPyC library: pip install 'securefedyj[mpyc]'" in capsys.readouterr().err
