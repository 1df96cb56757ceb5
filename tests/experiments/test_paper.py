"""The paper's experiments: the quick run gives every verdict, figure and number."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from experiments import runner
from experiments.__main__ import main
from experiments.item import Verdict

pytestmark = pytest.mark.slow


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
        assert re.search(rf"\[ ?{number}/{len(runner.NAMES)}\] {name} +({verdicts}) ", quick.text)


@pytest.mark.parametrize(
    "name", [n for n in runner.NAMES if n not in ("accuracy", "survival", "lattice")]
)
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


def test_what_was_computed_is_kept(quick: Quick, tmp_path, capsys) -> None:
    again = shutil.copytree(quick.folder, tmp_path / "again")
    assert main(["1", "search", "--quick", "--output", str(again)]) == 0
    assert capsys.readouterr().out.count("kept from before") == 2
