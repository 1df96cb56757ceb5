"""The paper's experiments: the quick run gives every verdict, figure and number."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from experiments import precision, references, runner
from experiments.__main__ import main
from experiments.datasets import UCI, feature
from experiments.item import Settings, Verdict
from tests.oracle import optimum as slow_optimum

ROOT = Path(__file__).parents[2]


class Quick(NamedTuple):
    text: str
    folder: Path


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Quick:
    """All items once, as their reader runs them, without any data folder."""
    folder = tmp_path_factory.mktemp("paper")
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.delenv("SECUREFEDYJ_DATA", raising=False)
        assert main(["--quick", "--output", str(folder)]) == 0
    return Quick(printed.getvalue(), folder)


def test_every_item_has_a_verdict(quick: Quick) -> None:
    verdicts = "|".join(verdict.value for verdict in Verdict)
    for number, name in enumerate(runner.NAMES, 1):
        assert re.search(rf"\[ ?{number}/10\] {name} +({verdicts}) ", quick.text)


@pytest.mark.parametrize("name", [n for n in runner.NAMES if n not in ("accuracy", "survival")])
def test_what_holds_also_in_a_quick_run_is_confirmed(quick: Quick, name: str) -> None:
    assert re.search(rf"{name} +(confirmed|better) \(", quick.text)


def test_page_holds_every_item_and_loads_nothing_from_elsewhere(quick: Quick) -> None:
    page = (quick.folder / "paper.html").read_text(encoding="utf-8")
    for name, item in runner.ITEMS.items():
        assert f'id="{name}"' in page
        assert item.TITLE.replace("'", "&#x27;") in page
    assert page.count("The paper says:") == len(runner.ITEMS)
    assert 'name="viewport"' in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)


def test_page_says_which_data_there_were(quick: Quick) -> None:
    page = (quick.folder / "paper.html").read_text(encoding="utf-8")
    assert "3 of 24; not there: airfoil" in page
    assert "0 of 4; none in this run" in page


def test_every_figure_is_there_twice_and_not_empty(quick: Quick) -> None:
    from matplotlib.image import imread

    figures = quick.folder / "figures"
    pngs = sorted(figures.glob("*.png"))
    assert {path.name[3:].split("_")[0] for path in pngs} == set(runner.NAMES)
    for path in pngs:
        assert path.with_suffix(".svg").stat().st_size > 5_000
        image = imread(path)[..., :3]
        assert image.shape[1] > 600
        assert np.mean(np.any(image < 0.9, axis=2)) > 0.01


def test_data_of_every_item_are_written(quick: Quick) -> None:
    for number, name in enumerate(runner.NAMES, 1):
        path = quick.folder / "data" / f"{number:02d}_{name}.json"
        assert json.loads(path.read_text(encoding="utf-8"))
    table = quick.folder / "data" / "03_brent_datasets.csv"
    assert "breast cancer diagnostic,569,30,2" in table.read_text(encoding="utf-8")


def test_what_was_computed_is_kept(quick: Quick, capsys) -> None:
    assert main(["1", "search", "--quick", "--output", str(quick.folder)]) == 0
    assert capsys.readouterr().out.count("kept from before") == 2


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
