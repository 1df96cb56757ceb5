"""Five columns with five methods: the same bits over the hub, with MPyC, and in Python."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj import (
    SecureColumnTransformer,
    SecureFedYJ,
    SecureQuantiles,
    SecureRobustScaler,
    SecureStandardScaler,
    load,
)
from securefedyj.cli import main
from securefedyj.network import local
from securefedyj.parameters import Parameters
from securefedyj.protocol.transcript import Transcript
from tests import five
from tests.network.test_participant import codes_and_logs

PARTIES = ("ana", "bob", "cem")
TABLES = dict(zip(PARTIES, np.array_split(five.rows(), 3), strict=True))
NUMBERS: dict[str, Any] = {"max_steps": 6, "result_bits": 8, "minimum_values": 5}


@cache
def in_python() -> SecureColumnTransformer:
    """The same, asked by the estimators."""
    bounds = [(one.lower, one.upper) for one in five.FEATURES]
    steps = [one.resolution or None for one in five.FEATURES]
    last: dict[str, Any] = {"bounds": bounds[4], "resolution": steps[4]}
    return SecureColumnTransformer(
        [
            ("yj", SecureFedYJ(bounds=bounds[0]), [0]),
            ("median", SecureQuantiles(bounds=bounds[0]), [0]),
            ("bc", SecureFedYJ(method="box-cox", bounds=bounds[1]), [1]),
            ("standard", SecureStandardScaler(bounds=bounds[2]), [2]),
            ("robust", SecureRobustScaler(bounds=bounds[3], resolution=steps[3]), [3]),
            (
                "bins",
                SecureQuantiles((0.2, 0.9), use="bins", **last),
                [4],
            ),
        ],
        **NUMBERS,
    ).fit(list(TABLES.values()))


def found(parameters: dict[str, Any]) -> list[Any]:
    """What a file holds of the result, without the names of columns."""
    return [
        [one[key] for key in sorted(one) if key != "name"]
        for one in (*parameters["features"], *parameters["quantiles"])
    ]


@pytest.mark.processes
@pytest.mark.parametrize(
    "engine", ["replicated", pytest.param("mpyc", marks=[pytest.mark.mpyc, pytest.mark.slow])]
)
def test_five_methods_over_the_hub_give_the_bits_of_the_estimators(engine, tmp_path, capsys):
    numbers = NUMBERS | {"engine": engine, "verified": engine == "replicated"}
    local.prepare(tmp_path, TABLES, five.FEATURES, **numbers)
    with local.Processes(tmp_path, reports=True) as processes:
        processes.start_hub()
        for name in PARTIES:
            processes.start_party(name, "--json")
        assert set(codes_and_logs(processes).values()) == {0}
    files = [(tmp_path / name / "parameters.json").read_bytes() for name in PARTIES]
    assert len(set(files)) == 1
    expected = Parameters.of(in_python().transcript_).to_json()
    assert found(json.loads(files[0])) == found(expected)
    for name in PARTIES:
        assert Transcript.read(tmp_path / name / "transcript.jsonl").audit().passed
        page = (tmp_path / name / "report.html").read_text(encoding="utf-8")
        assert page.count('class="own box"') == 3
    assert_commands_work(tmp_path, capsys)


def assert_commands_work(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a silo does after the run, and the bits of it."""
    capsys.readouterr()
    ana = folder / "ana"
    assert main(["audit", str(ana / "transcript.jsonl")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "A quantile, though, is the value of one row" in said
    assert "stay, quantile 0.9" in said
    arguments = ["transform", str(ana / "parameters.json"), str(folder / "ana.csv")]
    for options in ([], ["--impute", "median"], ["--impute", "mean"]):
        out = folder / "-".join(["out", *options[1:], "x.csv"])
        assert main([*arguments, "--output", str(out), *options]) == 0
    frozen = load(ana / "parameters.json").set_output(transform="default")
    Z = np.genfromtxt(folder / "out-x.csv", delimiter=",", skip_header=1)
    np.testing.assert_array_equal(Z, frozen.transform(TABLES["ana"]))
    fitted = in_python().named_transformers_
    for name, j in (("yj", 0), ("bc", 1), ("standard", 2), ("robust", 3)):
        np.testing.assert_array_equal(Z[:, j], fitted[name].transform(TABLES["ana"][:, [j]])[:, 0])
    filled = np.genfromtxt(folder / "out-median-x.csv", delimiter=",", skip_header=1)
    expected = fitted["median"].transform(TABLES["ana"][:, [0]])[:, 0]
    np.testing.assert_array_equal(filled[:, 0], expected)
