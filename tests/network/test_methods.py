"""Methods of features in the agreed file, and a run with all of them over the hub."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj.cli import main
from securefedyj.errors import InputError
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.protocol.simulation import simulate
from tests.network.clock import run
from tests.network.harness import ROWS, THREE, Loopback, prepare

WITH_METHODS = (
    Feature("lactate", 0.0, 1000.0, method="yeo-johnson,quantiles", quantiles="0.5 0.9"),
    Feature("age", 0.001, 1000.0, method="standard, robust, box-cox", resolution="0.01"),
)


@pytest.fixture
def consortium(tmp_path: Path) -> Consortium:
    before = prepare(tmp_path, minimum_values=5, result_bits=24)
    return dataclasses.replace(before, features=WITH_METHODS)


def test_the_agreement_has_the_methods_of_the_file(consortium, tmp_path):
    consortium.write(tmp_path / "methods.toml")
    again = Consortium.read(tmp_path / "methods.toml")
    assert again.features == WITH_METHODS
    agreement = again.agreement()
    assert agreement.methods == (
        {"yeo-johnson": (), "quantiles": ("0.5", "0.9")},
        {"box-cox": (), "standard": (), "robust": ("0.25", "0.5", "0.75")},
    )
    assert agreement.resolution == ("", "0.01")


def test_the_digest_depends_on_methods_and_not_on_how_they_are_written(consortium):
    first, second = WITH_METHODS
    as_written = dataclasses.replace(first, method=" quantiles yeo-johnson", quantiles="0.90,0.5")
    same = dataclasses.replace(consortium, features=(as_written, second))
    assert same.digest() == consortium.digest()
    changes: list[dict[str, Any]] = [
        {"quantiles": "0.5"},
        {"resolution": "1"},
        {"method": "quantiles"},
    ]
    digests = {
        dataclasses.replace(consortium, features=(dataclasses.replace(first, **change), second))
        for change in changes
    }
    assert len({one.digest() for one in (*digests, consortium)}) == 4


def test_a_file_without_methods_has_the_digest_that_it_had(consortium):
    """Parties with and without this release can compare digests."""
    features = tuple(Feature(one.name, one.lower, one.upper) for one in WITH_METHODS)
    plain = dataclasses.replace(consortium, features=features)
    named = [dataclasses.replace(one, method="yeo-johnson") for one in features]
    assert "method" not in plain.to_toml()
    assert "method" not in json.loads(plain.canonical())["agreement"]
    assert dataclasses.replace(plain, features=tuple(named)).digest() == plain.digest()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"method": "mean"}, "SFY-CON-033"),
        ({"method": ""}, "SFY-CON-033"),
        ({"method": "quantiles"}, "SFY-CON-034"),
        ({"method": "robust", "quantiles": "0.5"}, "SFY-CON-034"),
        ({"method": "quantiles", "quantiles": "1.5"}, "SFY-CON-032"),
        ({"method": "quantiles", "quantiles": "half"}, "SFY-CON-032"),
        ({"quantiles": "0.5"}, "SFY-CON-039"),
        ({"method": "quantiles " * 1000}, "SFY-CON-040"),
        ({"method": "robust", "resolution": "1/3"}, "SFY-CON-035"),
        ({"method": "robust", "resolution": "1e-30"}, "SFY-CON-035"),
        ({"method": "box-cox"}, "SFY-NUM-002"),
    ],
)
def test_what_is_not_a_method_is_refused(consortium, change, code):
    wrong = dataclasses.replace(Feature("lactate", 0.0, 1000.0), **change)
    with pytest.raises(InputError) as caught:
        dataclasses.replace(consortium, features=(wrong,))
    assert caught.value.code == code


def test_quantiles_need_a_minimum_of_values(consortium):
    """With fewer, a quantile could be the value of one row."""
    with pytest.raises(InputError) as caught:
        dataclasses.replace(consortium, minimum_values=4)
    assert caught.value.code == "SFY-CON-038"


def test_new_writes_methods_and_check_shows_them(consortium, tmp_path, capsys):
    consortium.write(tmp_path / "before.toml")
    after = tmp_path / "after.toml"
    options = ["--from", str(tmp_path / "before.toml"), "--name", "next"]
    given = ["--method", "age=robust", "--quantiles", "age=0.1,0.5,0.9", "--resolution", "age=0.5"]
    assert main(["new", str(after), *options, *given]) == 0
    said = capsys.readouterr().out
    assert "age: method is 'robust'; was 'standard, robust, box-cox'" in said
    assert Consortium.read(after).agreement().methods[1] == {"robust": ("0.1", "0.5", "0.9")}
    assert main(["check", str(after)]) == 0
    said = capsys.readouterr().out
    assert "yeo-johnson and quantiles (0.5, 0.9)" in said
    assert "robust (0.1, 0.5, 0.9 in steps of 0.5)" in said
    assert main(["new", str(tmp_path / "x.toml"), *options, "--method", "weight=robust"]) == 1
    assert "[SFY-CLI-021]" in capsys.readouterr().err


def test_a_table_of_features_has_methods(consortium, tmp_path, capsys):
    consortium.write(tmp_path / "before.toml")
    table = tmp_path / "features.csv"
    lines = ["name,lower,upper,method,quantiles", 'bmi,5,90,"robust,standard",', "crp,0,500,,"]
    table.write_text("\n".join(lines))
    after = tmp_path / "after.toml"
    before = str(tmp_path / "before.toml")
    assert main(["new", str(after), "--from", before, "--features", str(table)]) == 0
    *_, bmi, crp = Consortium.read(after).features
    assert (bmi.method, crp.method) == ("robust,standard", "yeo-johnson")


def test_plan_counts_a_run_with_methods(consortium, tmp_path, capsys):
    path = tmp_path / "methods.toml"
    consortium.write(path)
    assert main(["plan", str(path), "--rows", "20", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    levels = consortium.levels_per_exchange
    planned = next(one for one in plan["levels"] if one["levels"] == levels)
    tables: list[Any] = [ROWS[:20], ROWS[20:40], ROWS[40:]]
    _, cost = simulate(consortium.agreement(), tables)
    sent = max(sum(peers.values()) for peers in cost.bytes_sent.values())
    assert planned["rounds"] == pytest.approx(cost.rounds, rel=0.1)
    assert planned["megabytes"] * 1e6 == pytest.approx(sent, rel=0.25)


def test_a_run_over_the_hub_gives_the_bits_of_one_process(consortium, tmp_path):
    async def body() -> None:
        async with Loopback(tmp_path, consortium, THREE) as net:
            await net.start_hub()
            for name in THREE:
                net.start(name)
            found = await net.outcomes()
        expected, _ = simulate(consortium.agreement(), list(THREE.values()))
        for transcript in found.values():
            assert transcript.audit().passed
            assert transcript.quantiles()[0] == expected.quantiles()[0]
            assert transcript.quantiles()[1] == expected.quantiles()[1]
            for method in ("yeo-johnson", "box-cox", "standard"):
                (columns, fit), (_, other) = transcript.fit_of(method), expected.fit_of(method)
                assert len(columns) == 1
                for part in ("lmbda", "mean", "var"):
                    np.testing.assert_array_equal(getattr(fit, part), getattr(other, part))

    run(body())
