"""What the experiments are made of: options, references, digits, and the paper's own table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments import precision, references, runner
from experiments.__main__ import main
from experiments.datasets import UCI, feature
from experiments.item import Settings
from tests.oracle import optimum as slow_optimum

ROOT = Path(__file__).parents[2]


def test_parameters_change_the_key() -> None:
    assert runner._key("shapes", {"n": 1}) != runner._key("shapes", {"n": 2})
    assert runner._key("shapes", {}) != runner._key("search", {})


def test_unknown_item_is_told_with_those_there_are(capsys) -> None:
    assert main(["dance"]) == 1
    message = capsys.readouterr().err
    assert "'dance'" in message
    assert "1 shapes" in message


def test_data_folder_that_is_not_there_is_told(tmp_path: Path, capsys) -> None:
    assert main(["1", "--data", str(tmp_path / "gone")]) == 1
    assert "--data or SECUREFEDYJ_DATA" in capsys.readouterr().err


@pytest.mark.processes
def test_package_that_is_not_there_is_told() -> None:
    program = (
        "import sys; sys.modules['sksurv'] = None\n"
        "from experiments.__main__ import main; sys.exit(main(['1']))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == 'experiments: sksurv is missing: pip install "securefedyj[paper]"\n'


@pytest.mark.filterwarnings("ignore")
def test_reference_of_then_reproduces_the_papers_minus_14_53() -> None:
    x = feature("breast cancer", "mean area").x
    assert references.brent(x) == pytest.approx(-14.53, abs=0.005)


def test_two_computations_in_many_digits_agree() -> None:
    generator = np.random.default_rng(3)
    for x in (
        generator.normal(size=30),
        generator.lognormal(size=20),
        -generator.lognormal(size=9),
    ):
        expected = float(slow_optimum(x))
        assert precision.optimum(x, expected + 0.01) == pytest.approx(expected, rel=1e-14)


def test_optimum_that_is_not_found_is_an_error() -> None:
    with pytest.raises(ArithmeticError):
        precision.optimum(np.array([0.0, 1.0, 1e6]), 1e9)


def test_paper_table_is_copied_right() -> None:
    assert len(UCI) == 24
    assert sum(row.features for row in UCI) == 437
    assert sum(row.instabilities for row in UCI) == 5


def test_settings_choose_by_mode() -> None:
    assert Settings(quick=True).choose("full", "quick") == "quick"
    assert Settings().choose("full", "quick") == "full"
