"""Run the examples of docs/transformation.md and the README, and compare the picture."""

from __future__ import annotations

import re
import runpy
import warnings
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

from securefedyj import ExpYJ, SecureFedYJ, parameters

matplotlib.use("Agg")

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"


def blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)


def available(code: str) -> bool:
    return all(find_spec(name) for name in ("onnx", "skl2onnx") if f" {name}" in code)


@pytest.fixture
def names(tmp_path, monkeypatch):
    """Where the examples run: a table, its labels, and the parameters.json of a run."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.lognormal(size=(60, 2)), columns=["lactate", "crp"])
    fitted = SecureFedYJ("clear", max_steps=20).fit([X[:30], X[30:]])
    parameters.save(fitted.transcript_, "parameters.json")
    return {"X": X, "y": np.arange(60) % 2}


def test_the_examples_of_the_page_run(names, tmp_path):
    ran = [code for code in blocks("docs/transformation.md") if available(code)]
    assert len(ran) >= 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        for code in ran:
            exec(code, names)
    assert (tmp_path / "lactate.png").stat().st_size > 1000
    assert len(names["scores"]) == 5


def test_the_example_of_the_readme_runs(names, capsys):
    X = names["X"].to_numpy()
    names |= {"X": X, "X_1": X[:20], "X_2": X[20:40], "X_3": X[40:]}
    (code,) = blocks("README.md")
    exec(code, names)
    assert abs(names["Z"].mean()) < 1e-9
    assert "passed" in capsys.readouterr().out


def test_the_front_pages_begin_with_the_same_words():
    readme, index = ((ROOT / page).read_text() for page in ("README.md", "docs/index.md"))
    assert readme.split("\n\n")[1] == index.split("\n\n")[1]
    assert len(readme.split()) <= 1200


def test_the_pictures_are_what_the_script_draws():
    for name, draw in runpy.run_path(str(IMAGES / "draw.py"))["PICTURES"].items():
        assert (IMAGES / name).read_text(encoding="utf-8") == draw()


def test_the_picture_draws_the_transformation_of_the_package():
    psi = runpy.run_path(str(IMAGES / "draw.py"))["psi"]
    fitted = ExpYJ(standardize=False).fit([[1.0], [2.0]])
    for lmbda in (-1, 0, 1, 2, 3):
        fitted.lambdas_ = np.array([lmbda])
        x = np.linspace(-4, 4, 9)
        expected = [psi(lmbda, value) for value in x.tolist()]
        np.testing.assert_allclose(fitted.transform(x[:, None])[:, 0], expected, rtol=1e-14)
