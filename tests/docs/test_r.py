"""docs/r/securefedyj.R transforms as this package does, and the example of docs/r.md runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import securefedyj
from securefedyj import ExpYJ, SecureFedYJ, parameters
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import Parameters
from securefedyj.protocol.simulation import simulate
from tests import five
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "r" / "securefedyj.R"
R = shutil.which("Rscript")


def there() -> bool:
    """Whether there are R and jsonlite."""
    asked = [R or "", "-e", "library(jsonlite)"]
    return R is not None and subprocess.run(asked, capture_output=True).returncode == 0


pytestmark = [pytest.mark.processes, pytest.mark.skipif(not there(), reason="no R with jsonlite")]


def run_r(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "code.R"
    file.write_text(f"source({json.dumps(str(SCRIPT))})\n{code}", encoding="utf-8")
    return subprocess.run([R or "", file.name], cwd=folder, capture_output=True, text=True,
                          encoding="utf-8", timeout=PATIENCE)  # fmt: skip


def in_r(folder: Path, X: Array, names: list[str], options: str) -> Array:
    """What `predict` in R makes of X with the parameters.json of a folder."""
    np.asfortranarray(X).T.tofile(folder / "rows")  # all bits: R rounds decimals
    ended = run_r(
        f"""
        values <- readBin("rows", "double", {X.size})
        rows <- as.data.frame(matrix(values, ncol = {len(names)}))
        names(rows) <- c({", ".join(map(json.dumps, names))})
        rows$other <- "stays"
        made <- predict(read_parameters("parameters.json"), rows{options})
        stopifnot(made$other == "stays", names(made) == names(rows))
        writeBin(unlist(made[seq_len({len(names)})], use.names = FALSE), "made")
        """,
        folder,
    )
    assert ended.returncode == 0, ended.stderr
    return np.fromfile(folder / "made").reshape(len(names), -1).T


def compare(folder: Path, X: Array, names: list[str], frozen: Any) -> None:
    """There and back, standardized or not."""
    for standardize, word in ((True, "TRUE"), (False, "FALSE")):
        frozen.set_params(standardize=standardize)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn adds up the largest numbers
            Z = frozen.transform(X)
            back = frozen.inverse_transform(Z)
        option = f', outside = "keep", standardize = {word}'
        np.testing.assert_allclose(in_r(folder, X, names, option), Z, rtol=1e-12, atol=1e-300)
        got = in_r(folder, Z, names, f"{option}, inverse = TRUE")
        np.testing.assert_allclose(got, back, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
def test_fits_of_all_kinds_give_the_same_numbers(method, tmp_path):
    rng = np.random.default_rng(2)
    columns = [
        rng.lognormal(size=60),
        1e9 + rng.random(60),  # close values far from zero
        np.exp(rng.normal(size=60) * 4),
        1 / (1 + np.arange(60.0)) ** 9,
        np.where(np.arange(60) == 3, 1.0, 2.0),  # lambda of thousands
        np.full(60, 3.0),  # constant
        rng.lognormal(mean=300, sigma=9, size=60),
        np.where(rng.random(60) < 0.2, np.nan, rng.gamma(2.0, size=60)),
    ]
    if method == "yeo-johnson":
        columns += [rng.normal(size=60), -rng.lognormal(size=60) * 1e5, rng.standard_cauchy(60)]
    X = np.column_stack(columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = ExpYJ(method=method).fit(X)
    kept = np.isfinite(fitted.mean_ + fitted.var_)
    names = [f"column {j}, µ" for j in range(kept.sum())]
    frame = pd.DataFrame(X[:, kept], columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parameters.save(ExpYJ(method=method).fit(frame), tmp_path / "parameters.json")
    probes = np.concatenate([X[:, kept], X[:, kept] * 1.5, np.full((1, kept.sum()), np.nan)])
    compare(tmp_path, probes, names, securefedyj.load(tmp_path / "parameters.json"))


def test_branches_of_the_formulas_meet(tmp_path):
    """Where logarithms would divide by zero, or powers overflow before they are divided."""
    lambdas = (0.0, 2.0, 1e-12, 2 + 1e-12, -70.0, 70.0)
    fits = [(m, c, w) for m in lambdas for c in (-5.0, 0.0, 1e-9, 3e5) for w in (1e-6, 1.0)]
    magnitudes = np.geomspace(1e-12, 1e6, 30)
    x = np.concatenate([-magnitudes, [0.0], magnitudes])
    X = np.repeat(x[:, None], len(fits), axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transcript = SecureFedYJ(engine="clear", max_steps=1).fit([X]).transcript_
    data = Parameters.of(transcript).to_json()
    for feature, (lmbda, center, width) in zip(data["features"], fits, strict=True):
        feature |= {"lambda": lmbda, "center": center, "width": width, "center_low": 0.0}
    (tmp_path / "parameters.json").write_text(json.dumps(data))
    names = [str(j) for j in range(len(fits))]
    compare(tmp_path, X, names, securefedyj.load(tmp_path / "parameters.json"))


def test_run_with_all_methods_gives_the_same_numbers(tmp_path):
    parameters.save(five.run(), tmp_path / "parameters.json")
    frozen, names = securefedyj.load(tmp_path / "parameters.json"), list(five.NAMES)
    compare(tmp_path, five.rows(), names, frozen)
    for use in ("median", "mean"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            filled = frozen.set_params(use=use).transform(five.rows())
        option = f', use = "{use}"'
        np.testing.assert_array_equal(in_r(tmp_path, five.rows(), names, option), filled)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_all_versions_are_read(version, tmp_path):
    X = five.rows()
    fitted = SecureFedYJ(engine="clear").fit([X])
    data = Parameters.of(fitted.transcript_).to_json()
    data["version"] = version
    if version < 3:
        for name in ("result_bits", "helpers", "verified"):
            del data["agreement"][name]
        data["agreement"]["version"] = version
    if version == 1:
        for feature in data["features"]:
            del feature["center_low"], feature["converged"]
    (tmp_path / "parameters.json").write_text(json.dumps(data))
    names = [str(j) for j in range(X.shape[1])]
    compare(tmp_path, X, names, securefedyj.load(tmp_path / "parameters.json"))


def test_refused_quantile_leaves_a_column_as_it_is_with_a_warning(tmp_path):
    transcript = simulate(five.agreement(minimum_values=40), np.array_split(five.rows(), 3))[0]
    parameters.save(transcript, tmp_path / "parameters.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        Z = securefedyj.load(tmp_path / "parameters.json").transform(five.rows())
    np.testing.assert_array_equal(Z[:, 3], five.rows()[:, 3])
    got = in_r(tmp_path, five.rows(), list(five.NAMES), "")
    np.testing.assert_allclose(got, Z, rtol=1e-12)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("predict(fit, data.frame(lactate = 1))", "has no column 'crp', 'age'"),
        ("rows$age <- 'old'; predict(fit, rows)", "'age' does not hold numbers"),
        ("rows$age <- 200; predict(fit, rows)", "1 values of 'age' lie outside"),
        ("rows$crp <- 0; predict(fit, rows, outside = 'keep')", "positive values"),
        ("read_parameters('transcript.json')", "is not a parameters.json"),
        ("read_parameters('later.json')", "version 5"),
    ],
)
def test_what_cannot_be_done_is_said(code, reason, tmp_path):
    parameters.save(five.run(), tmp_path / "parameters.json")
    data = json.loads((tmp_path / "parameters.json").read_text())
    (tmp_path / "later.json").write_text(json.dumps(data | {"version": 5}))
    (tmp_path / "transcript.json").write_text("{}")
    begin = "fit <- read_parameters('parameters.json')\n"
    begin += "rows <- data.frame(lactate = 1, crp = 1, age = 1, creatinine = 1, stay = 1)\n"
    ended = run_r(begin + code, tmp_path)
    assert ended.returncode != 0
    assert reason in re.sub(r"[‘’]", "'", " ".join(ended.stderr.split()))
    clipped = "rows$age <- 200; stopifnot(predict(fit, rows, outside = 'clip')$age > 30)"
    assert run_r(begin + clipped, tmp_path).returncode == 0


def test_example_of_the_page_runs(tmp_path):
    page = (ROOT / "docs" / "r.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```r\n(.*?)^```", page, flags=re.M | re.S)
    parameters.save(five.run(), tmp_path / "parameters.json")
    five.frame().to_csv(tmp_path / "rows.csv", index=False)
    shutil.copy(SCRIPT, tmp_path)
    ended = run_r(code, tmp_path)
    assert ended.returncode == 0, ended.stderr
    again = pd.read_csv(tmp_path / "again.csv")
    np.testing.assert_allclose(again, five.frame(), rtol=1e-12)
