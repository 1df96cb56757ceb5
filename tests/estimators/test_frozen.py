"""What `load` returns, among other estimators: it is fitted and stays so."""

from __future__ import annotations

import datetime
import json
import os
import pickle
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from securefedyj import FrozenYJ, SecureFedYJ, load, parameters
from tests.datasets import table
from tests.refusals import refused

NAMES = ["alcohol", "malic acid", "ash", "alcalinity"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame(table("wine")[:, :4], columns=NAMES)


@pytest.fixture(scope="module")
def y() -> np.ndarray:
    return np.repeat([0, 1, 2], [59, 71, 48])


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory) -> Path:
    """The fit of a consortium whose rows are not those of `frame`, but for half of them."""
    others = pd.concat([frame[::2], 1.5 * frame[::3]])
    fitted = SecureFedYJ("clear", bounds=(0, 100)).fit([others[:50], others[50:]])
    file = tmp_path_factory.mktemp("run") / "parameters.json"
    parameters.save(fitted.transcript_, file)
    return file


@pytest.fixture
def loaded(path) -> FrozenYJ:
    return load(path)


def test_fit_learns_nothing(loaded, path, frame, y):
    expected = load(path).transform(frame)
    assert loaded.fit(frame, y) is loaded
    assert loaded.fit(frame[:0]) is loaded
    np.testing.assert_array_equal(loaded.transform(frame), expected)
    np.testing.assert_array_equal(loaded.fit_transform(frame[:9]), expected[:9])


def test_columns_are_found_by_name(loaded, frame):
    expected = loaded.transform(frame)
    shuffled = frame[NAMES[::-1]].assign(site="a")
    np.testing.assert_array_equal(loaded.fit(shuffled).transform(shuffled), expected)
    np.testing.assert_array_equal(loaded.transform(pl.from_pandas(shuffled)), expected)


def test_fit_checks_the_columns(loaded, frame, tmp_path):
    for use in (loaded.fit, loaded.transform):
        with refused("SFY-TAB-027"):
            use(frame[NAMES[:3]])
    del loaded.feature_names_in_
    with pytest.raises(ValueError, match="X has 3 features, but FrozenYJ is expecting 4"):
        loaded.fit(frame.to_numpy()[:, :3])


def test_fit_checks_the_columns_of_a_file(loaded, frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    loaded.fit(tmp_path / "t.csv")
    frame[NAMES[:3]].to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="'alcalinity': there is no such column"):
        loaded.fit(tmp_path / "t.csv")


def test_what_is_loaded_says_which_run_it_is_from_and_which_columns_it_has(path, tmp_path):
    data = json.loads(path.read_text())
    data["consortium"] = {"name": "icu", "digest": "0" * 64}
    (tmp_path / "parameters.json").write_text(json.dumps(data))
    os.utime(tmp_path / "parameters.json", (1.6e9, 1.6e9))
    day = datetime.date.fromtimestamp(1.6e9)
    named = "alcohol, malic acid, ash and alcalinity"
    assert repr(load(tmp_path / "parameters.json")) == (
        f"<FrozenYJ() of run 'icu', file of {day}: {named}>"
    )
    assert repr(FrozenYJ()) == "FrozenYJ()"


def test_without_a_file_there_is_no_fit(frame):
    with pytest.raises(NotFittedError, match=r"securefedyj\.load"):
        FrozenYJ().fit(frame)
    with pytest.raises(NotFittedError):
        FrozenYJ().transform(frame)


def test_a_clone_is_fitted_and_has_parameters_of_its_own(loaded, frame):
    expected = loaded.transform(frame)
    copy = clone(loaded)
    check_is_fitted(copy)
    np.testing.assert_array_equal(copy.transform(frame), expected)
    copy.set_params(standardize=False).set_output(transform="pandas")
    assert loaded.get_params()["standardize"] is True
    assert isinstance(loaded.transform(frame), np.ndarray)
    copy.lambdas_[:] = 1
    np.testing.assert_array_equal(loaded.transform(frame), expected)


@pytest.mark.parametrize("keep", ["pickle", "joblib"])
def test_what_is_kept_transforms_alike(loaded, frame, keep, tmp_path):
    if keep == "pickle":
        again = pickle.loads(pickle.dumps(loaded))
    else:
        joblib.dump(loaded, tmp_path / "yj.joblib")
        again = joblib.load(tmp_path / "yj.joblib")
    np.testing.assert_array_equal(again.transform(frame), loaded.transform(frame))
    assert again.agreement_.to_bytes() == loaded.agreement_.to_bytes()


def test_every_fold_of_a_cross_validation_has_the_transformation_of_the_run(
    loaded, frame, y, monkeypatch
):
    seen = []
    transform = FrozenYJ.transform

    def watched(self, X):
        seen.append(self.lambdas_.tobytes())
        return transform(self, X)

    monkeypatch.setattr(FrozenYJ, "transform", watched)
    scores = cross_val_score(make_pipeline(loaded, LogisticRegression()), frame, y, cv=3)
    assert scores.mean() > 0.7
    assert len(seen) == 6  # three folds, each fitted and scored
    assert set(seen) == {loaded.lambdas_.tobytes()}


def test_grid_search_tries_parameters_and_leaves_the_given_one_alone(loaded, frame, y):
    pipeline = Pipeline([("yj", loaded), ("model", LogisticRegression(max_iter=500))])
    search = GridSearchCV(pipeline, {"yj__standardize": [True, False]}, cv=2).fit(frame, y)
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    np.testing.assert_array_equal(
        search.best_estimator_.named_steps["yj"].lambdas_, loaded.lambdas_
    )
    assert loaded.standardize


def test_column_transformer_and_set_output(loaded, frame, y):
    wide = frame.assign(site=["a", "b"] * 89)
    columns = make_column_transformer(
        (loaded, NAMES), ("passthrough", ["site"]), verbose_feature_names_out=False
    ).set_output(transform="pandas")
    out = columns.fit_transform(wide, y)
    assert out.columns.tolist() == [*NAMES, "site"]
    np.testing.assert_array_equal(out[NAMES].to_numpy(), loaded.transform(frame))


def test_float32_stays_float32(loaded, frame):
    narrow = frame.astype(np.float32)
    Z = loaded.transform(narrow)
    assert Z.dtype == np.float32
    np.testing.assert_array_equal(Z, loaded.transform(narrow.astype(np.float64)).astype(np.float32))
    assert (loaded.set_output(transform="pandas").transform(narrow).dtypes == np.float32).all()


def test_values_outside_the_agreed_bounds_warn_also_in_a_pipeline(loaded, frame, y):
    pipeline = make_pipeline(loaded, LogisticRegression()).fit(frame, y)
    far = frame.copy()
    far.iloc[3, 0] = 101
    with pytest.warns(UserWarning, match=r"feature alcohol lie outside the agreed bounds \(1 in"):
        pipeline.predict(far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.predict(frame)
