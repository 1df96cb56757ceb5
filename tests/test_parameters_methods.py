"""parameters.json of a run with several methods, and what transforms with it."""

from __future__ import annotations

import copy
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import securefedyj
from securefedyj import (
    SecureColumnTransformer,
    SecureFedYJ,
    SecureRobustScaler,
    SecureStandardScaler,
    parameters,
)
from securefedyj.estimators import FrozenColumns
from securefedyj.parameters import Parameters
from tests import five
from tests.refusals import refused


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> FrozenColumns:
    path = tmp_path_factory.mktemp("run") / "parameters.json"
    parameters.save(five.run(), path)
    found = securefedyj.load(path)
    assert isinstance(found, FrozenColumns)
    return found


def test_file_has_a_version_of_its_own_and_reads_back():
    found = Parameters.of(five.run())
    data = json.loads(found.to_bytes())
    assert data["version"] == 4
    assert [(one["name"], one["method"]) for one in data["features"]] == [
        ("lactate", "yeo-johnson"),
        ("crp", "box-cox"),
        ("age", "standard"),
    ]
    expected = {("lactate", "0.5"), ("stay", "0.2"), ("stay", "0.9")}
    expected |= {("creatinine", q) for q in ("0.25", "0.5", "0.75")}
    assert {(one["name"], one["quantile"]) for one in data["quantiles"]} == expected
    assert Parameters.from_json(data).to_bytes() == found.to_bytes()


def test_standardize_can_be_set_after_the_load(loaded):
    powers = clone(loaded).set_params(standardize=False)
    X = five.rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        Z, scaled = powers.transform(X), loaded.transform(X)
    found = Parameters.of(five.run(), standardize=False).estimator()
    np.testing.assert_array_equal(Z, found.transform(X))
    np.testing.assert_array_equal(Z[:, 2:], scaled[:, 2:])
    assert not np.isclose(Z[:, :2], scaled[:, :2]).any()
    np.testing.assert_allclose(powers.inverse_transform(Z), X)


def test_run_of_yeo_johnson_alone_has_the_file_that_earlier_releases_read():
    fitted = SecureFedYJ(engine="clear").fit([five.rows()])
    data = Parameters.of(fitted.transcript_).to_json()
    assert data["version"] == 3
    assert "quantiles" not in data
    assert "method" not in data["features"][0]


def test_box_cox_alone_is_loaded_as_one_transformation(tmp_path):
    X = five.rows()
    fitted = SecureFedYJ(engine="clear", method="box-cox", bounds=(0.125, 64)).fit([X])
    parameters.save(fitted.transcript_, tmp_path / "p.json")
    found = securefedyj.load(tmp_path / "p.json")
    np.testing.assert_array_equal(found.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(found.mean_, fitted.mean_)
    np.testing.assert_array_equal(found.to_sklearn().transform(X), fitted.to_sklearn().transform(X))


def test_loaded_columns_scale_as_the_estimators_of_a_run(loaded):
    X, bounds = five.frame(), [(one.lower, one.upper) for one in five.FEATURES]
    fed = SecureColumnTransformer(
        [
            ("yj", SecureFedYJ(bounds=bounds[0]), ["lactate"]),
            ("bc", SecureFedYJ(method="box-cox", bounds=bounds[1]), ["crp"]),
            ("standard", SecureStandardScaler(bounds=bounds[2]), ["age"]),
            ("robust", SecureRobustScaler(bounds=bounds[3], resolution="0.25"), ["creatinine"]),
        ],
        max_steps=30,
        result_bits=24,
        engine="clear",
    ).fit([X[:30], X[30:60], X[60:]])
    got = loaded.transform(X)
    np.testing.assert_array_equal(got[:, :4], fed.transform(X))
    np.testing.assert_array_equal(got[:, 4], X["stay"])  # its method only finds quantiles
    np.testing.assert_allclose(loaded.inverse_transform(got), X, rtol=1e-12)
    assert loaded.methods_ == ["yeo-johnson", "box-cox", "standard", "robust", ""]


@pytest.mark.parametrize(("use", "column"), [("median", "lactate"), ("mean", "age")])
def test_missing_values_become_the_median_or_mean_of_all_silos(loaded, use, column):
    X, frozen = five.frame(), clone(loaded).set_params(use=use)
    with pytest.warns(UserWarning, match=f"the run found no {use} of it"):
        filled = pd.DataFrame(frozen.transform(X), columns=five.NAMES)
    known = X[column].dropna()
    exact = np.quantile(known, 0.5, method="inverted_cdf") if use == "median" else known.mean()
    np.testing.assert_allclose(filled[column], X[column].fillna(exact), rtol=1e-6)
    np.testing.assert_array_equal(filled["crp"], X["crp"])
    np.testing.assert_array_equal(frozen.inverse_transform(filled.to_numpy()), filled)


def test_clone_is_fitted_and_another_use_is_refused(loaded):
    again = clone(loaded).fit(five.frame())
    np.testing.assert_array_equal(again.transform(five.frame()), loaded.transform(five.frame()))
    with refused("SFY-FIT-031"):
        again.set_params(use="mode").transform(five.frame())


def test_value_that_box_cox_does_not_transform_is_refused(loaded):
    X = five.frame()
    X.loc[3, "crp"] = 0.0
    with refused("SFY-FIT-017"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded.transform(X)


def test_column_whose_quantiles_were_refused_stays_as_it_is(tmp_path):
    """NaN in place of all its values would lose them."""
    fitted = SecureRobustScaler(bounds=(0, 64), resolution="0.25", minimum_values=5, engine="clear")
    with pytest.warns(UserWarning, match="Refused"):
        fitted.fit([five.rows()[:12]])
    parameters.save(fitted.transcript_, tmp_path / "p.json")
    data = json.loads((tmp_path / "p.json").read_text())
    refusals = [one for one in data["quantiles"] if one["refused"]]
    assert refusals
    assert all(one["value"] is None for one in refusals)
    frozen = securefedyj.load(tmp_path / "p.json")
    assert frozen.methods_ == [""] * 5
    with pytest.warns(UserWarning, match="a quantile of it was refused"):
        np.testing.assert_array_equal(frozen.transform(five.rows()), five.rows())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data["quantiles"].pop(), "SFY-PAR-011"),
        (lambda data: data.pop("quantiles"), "SFY-PAR-011"),
        (lambda data: data["quantiles"][0].update(quantile="0.6"), "SFY-PAR-011"),
        (lambda data: data["quantiles"][0].update(refused="why"), "SFY-PAR-011"),
        (lambda data: data["quantiles"][0].update(value=None), "SFY-PAR-011"),
        (lambda data: data["features"][0].update(method="box-cox"), "SFY-PAR-012"),
        (lambda data: data["features"][0].pop("method"), "SFY-PAR-010"),
        (lambda data: data["features"].pop(), "SFY-PAR-001"),
        (lambda data: data.update(version=5), "SFY-PAR-007"),
    ],
)
def test_file_that_does_not_fit_its_agreement_is_refused(change, code):
    data = copy.deepcopy(Parameters.of(five.run()).to_json())
    change(data)
    with refused(code):
        Parameters.from_json(data)
