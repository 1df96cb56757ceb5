"""The ONNX model computes what `transform` does, in float64 and with missing values."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from securefedyj import ExpYJ
from securefedyj.numerics.arrays import Array

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

rng = np.random.default_rng(0)
N = 60
FEATURES = {
    "positive": rng.lognormal(size=N),
    "negative": -rng.gamma(3, size=N),
    "mixed": rng.standard_t(4, size=N),
    "constant": np.full(N, 3.0),
    "empty": np.full(N, np.nan),
    "close": 10 + 1e-4 * rng.normal(size=N) ** 2,
    "close below": -10 - 1e-4 * rng.normal(size=N) ** 2,
    "huge": 1e300 * rng.lognormal(size=N),
    "tiny": 1e-12 * rng.lognormal(size=N),
    "rare": 1.0 * (np.arange(N) == 7),
    "rare below": -1.0 * (np.arange(N) == 7),
    "years": 2000 + 10 * rng.normal(size=N),
    "around zero": 1e-3 * rng.normal(size=N),
    "log": np.expm1(rng.normal(size=N) ** 2),
}


def run(model: object, X: Array) -> Array:
    session = runtime.InferenceSession(
        model.SerializeToString(),  # type: ignore[attr-defined]
        providers=["CPUExecutionProvider"],
    )
    (Z,) = session.run(["Z"], {"X": X})
    return np.asarray(Z)


@pytest.mark.parametrize("standardize", [True, False])
def test_the_model_transforms_alike(standardize: bool) -> None:
    """Also values on the other side of zero, far away, close to zero, and missing ones."""
    X = np.column_stack(list(FEATURES.values()))
    X[::7, :4] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = ExpYJ(standardize=standardize).fit(X)
        p = X.shape[1]
        extremes = [np.zeros((1, p)), np.full((1, p), 1e308), np.full((1, p), -1e308)]
        new = np.concatenate([X, -X, 1.1 * X, 1e-9 * X, *extremes])
        expected = fitted.transform(new)
    Z = run(fitted.to_onnx(), new)
    assert Z.dtype == np.float64
    np.testing.assert_array_equal(np.isnan(Z), np.isnan(expected))
    # Where |lambda| times the logarithm is large, its last digit is as much of the result.
    np.testing.assert_allclose(Z, expected, rtol=1e-12, atol=1e-14 if standardize else 0)


@pytest.mark.parametrize("lmbda", [0.0, 1e-13, 1e-5, 1.0, 2.0 - 1e-13, 2.0])
def test_lambdas_at_which_the_formula_changes(lmbda: float) -> None:
    fitted = ExpYJ(standardize=False).fit(np.arange(4.0)[:, None])
    fitted.lambdas_ = np.array([lmbda])
    X = np.array([0.0, 1e-300, 1e-17, 1e-8, 0.5, 3, 1e9, 1e300])
    X = np.concatenate([X, -X])[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 1e300 becomes the largest float64
        expected = fitted.transform(X)
    np.testing.assert_allclose(run(fitted.to_onnx(), X), expected, rtol=1e-13)


def test_the_model_knows_the_names_of_its_columns() -> None:
    X = pd.DataFrame({"a": [1.0, 2.0, 4.0], "größe": [0.0, 1.0, 3.0]})
    model = ExpYJ().fit(X).to_onnx()
    (names,) = [entry.value for entry in model.metadata_props if entry.key == "feature_names"]
    assert json.loads(names) == ["a", "größe"]
