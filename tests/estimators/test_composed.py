"""SecureColumnTransformer: several transformers in one run, with what each finds alone."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from securefedyj import (
    SecureColumnTransformer,
    SecureFedYJ,
    SecureQuantiles,
    SecureRobustScaler,
    SecureStandardScaler,
)
from tests.refusals import refused

NAMES = ["age", "crp", "lactate", "weight"]
BOUNDS = (0.01, 1000)
ALL: list[tuple[str, Any, Any]] = [
    ("normal", SecureFedYJ(bounds=BOUNDS), ["crp"]),
    ("box-cox", SecureFedYJ(method="box-cox", bounds=BOUNDS), "lactate"),
    ("standard", SecureStandardScaler(), ["weight", "crp"]),
    ("robust", SecureRobustScaler(bounds=(0, 200), resolution=1), ["age"]),
    ("filled", SecureQuantiles((0.5, 0.9)), ["age", "lactate"]),
    ("wide", SecureRobustScaler(quantile_range=(5, 95)), ["age"]),
]
OUT = ["normal__crp", "box-cox__lactate", "standard__weight", "standard__crp", "robust__age",
       "filled__age", "filled__lactate", "wide__age"]  # fmt: skip


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    values = [
        rng.integers(18, 95, 240).astype(float),
        rng.lognormal(2, 1, 240).clip(0.1, 900),
        rng.gamma(2, 1, 240).clip(0.1, 90),
        rng.normal(70, 12, 240),
    ]
    frame = pd.DataFrame(dict(zip(NAMES, values, strict=True)))
    frame.loc[::9, "lactate"] = np.nan
    return frame


@pytest.fixture(scope="module")
def silos(frame) -> list[pd.DataFrame]:
    return [frame[:40], frame[40:150], frame[150:]]


def by_number(transformers: list[tuple[str, Any, Any]]) -> list[tuple[str, Any, Any]]:
    return [
        (name, own, [NAMES.index(c) for c in ([columns] if type(columns) is str else columns)])
        for name, own, columns in transformers
    ]


@pytest.fixture(scope="module")
def fitted(silos) -> SecureColumnTransformer:
    return SecureColumnTransformer(ALL).fit(silos)


def test_each_finds_what_it_finds_alone(fitted, frame, silos):
    Z, place = fitted.transform(frame), 0
    bounds = {"age": (0, 200), "crp": BOUNDS, "lactate": BOUNDS, "weight": (-(2**20), 2**20)}
    grid = {"age": 1}
    for name, own, columns in ALL:
        columns = [columns] if isinstance(columns, str) else columns
        chosen = [bounds[c] for c in columns]
        alone = clone(own).set_params(engine="clear", bounds=chosen)
        if "resolution" in alone.get_params():
            alone.set_params(resolution=[grid.get(c) for c in columns])
        alone.fit([silo[columns] for silo in silos])
        expected = alone.transform(frame[columns])
        np.testing.assert_array_equal(Z[:, place : place + len(columns)], expected, err_msg=name)
        place += len(columns)
    assert place == Z.shape[1] == len(OUT)


def test_it_is_one_run_with_hardly_more_rounds_than_yeo_johnson(fitted: Any, silos: Any) -> None:
    alone: Any = SecureFedYJ(bounds=BOUNDS).fit([silo[["crp"]] for silo in silos])
    assert fitted.cost_.rounds <= alone.cost_.rounds + 5
    assert fitted.transcript_.audit().passed
    assert fitted.transcript_.agreement.features == ("crp", "lactate", "weight", "age")
    for own in fitted.named_transformers_.values():
        assert own.transcript_ is fitted.transcript_
        assert own.cost_ is fitted.cost_


@pytest.mark.parametrize("options", [{"engine": "clear"}, {"verified": True}])
def test_engine_verification_and_numbers_instead_of_names_change_no_bit(
    fitted, frame, silos, options
):
    other = SecureColumnTransformer(by_number(ALL), levels_per_exchange=2, **options)
    other.fit([silo.to_numpy() for silo in reversed(silos)])
    expected = fitted.transform(frame)
    np.testing.assert_array_equal(other.transform(frame.to_numpy()), expected)
    numbered = [f"{name.split('__')[0]}__x{NAMES.index(name.split('__')[1])}" for name in OUT]
    assert other.get_feature_names_out().tolist() == numbered
    assert other.get_feature_names_out(NAMES).tolist() == OUT
    assert other.transcript_.agreement.features == ("0", "1", "2", "3")


@pytest.mark.mpyc
def test_mpyc_gives_the_same(fitted, frame, silos):
    other = SecureColumnTransformer(ALL, engine="mpyc").fit(silos)
    np.testing.assert_array_equal(other.transform(frame), fitted.transform(frame))


def test_by_name_other_columns_may_hold_anything_in_any_order(fitted, frame, tmp_path):
    more = frame.assign(ward="west")[["ward", "weight", "lactate", "crp", "age"]]
    more[:40].to_csv(tmp_path / "t.csv", index=False)
    given = [tmp_path / "t.csv", pl.from_pandas(more[40:150]), more[150:]]
    other = SecureColumnTransformer(ALL, engine="clear").fit(given)
    expected = fitted.transform(frame)
    assert other.feature_names_in_.tolist() == ["crp", "lactate", "weight", "age"]
    for table in (more, pl.from_pandas(more), frame):
        np.testing.assert_array_equal(other.transform(table), expected)
    np.testing.assert_array_equal(other.transform(tmp_path / "t.csv"), expected[:40])


def test_output_is_a_frame_where_that_is_asked_for(silos, frame):
    other = SecureColumnTransformer(ALL, engine="clear").set_output(transform="pandas").fit(silos)
    Z: Any = other.transform(frame[5:9])
    assert list(Z.columns) == OUT
    assert Z.index.tolist() == [5, 6, 7, 8]


def test_pickles_and_clones(fitted, frame):
    again = pickle.loads(pickle.dumps(fitted))
    assert again.transform(frame).tobytes() == fitted.transform(frame).tobytes()
    copied = clone(fitted)
    assert not hasattr(copied, "transformers_")
    assert [name for name, _, _ in copied.transformers] == [name for name, _, _ in ALL]
    assert all(not hasattr(own, "transcript_") for _, own, _ in ALL)


def test_to_sklearn_is_a_column_transformer_that_stays_fitted(fitted, frame):
    theirs: Any = pickle.loads(pickle.dumps(fitted.to_sklearn()))
    assert isinstance(theirs, ColumnTransformer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Z = theirs.transform(frame)
    np.testing.assert_allclose(Z, fitted.transform(frame), rtol=1e-9, atol=1e-9)
    assert theirs.get_feature_names_out().tolist() == OUT
    rows = frame.dropna()
    model = make_pipeline(clone(theirs), StandardScaler(), LinearRegression())
    model.fit(rows, np.arange(len(rows)))
    np.testing.assert_array_equal(model[0].transform(frame), Z)
    shown = theirs.set_output(transform="pandas").transform(frame)
    assert list(shown.columns) == OUT


def test_to_sklearn_takes_arrays_where_the_fit_did(frame):
    X = frame.to_numpy()
    own = SecureColumnTransformer(by_number(ALL)[2:4], engine="clear").fit([X])
    np.testing.assert_allclose(own.to_sklearn().transform(X), own.transform(X), rtol=1e-12)


def test_warnings_name_columns_by_their_number_in_the_table(frame):
    X = frame.to_numpy()
    some = [
        ("s", SecureStandardScaler(bounds=(0, 500)), [3]),
        ("q", SecureQuantiles((0.5, 0.01)), [2]),
    ]
    with pytest.warns(UserWarning, match="quantile 0.01 of 2: its rank is 3") as caught:
        own = SecureColumnTransformer(some, engine="clear", minimum_values=5).fit([X])
    assert caught[0].filename == __file__
    X = X.copy()
    X[0, 3] = 600
    with pytest.warns(UserWarning, match="feature 3 lie outside") as caught:
        own.transform(X)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("transformers", "code"),
    [
        ([], "SFY-FIT-025"),
        ([("a", SecureStandardScaler(), [0]), ("a", SecureQuantiles(), [1])], "SFY-FIT-025"),
        ([("a", StandardScaler(), [0])], "SFY-FIT-026"),
        ([("a", "passthrough", [0])], "SFY-FIT-026"),
        ([("a", SecureStandardScaler(verified=True), [0])], "SFY-FIT-027"),
        ([("a", SecureStandardScaler(minimum_values=9), [0])], "SFY-FIT-027"),
        ([("a", SecureStandardScaler(), [4])], "SFY-FIT-028"),
        ([("a", SecureStandardScaler(), ["age"])], "SFY-FIT-028"),
        ([("a", SecureStandardScaler(), [True, False, True, True])], "SFY-FIT-028"),
        ([("a", SecureStandardScaler(), [-1])], "SFY-FIT-028"),
        ([("a", SecureStandardScaler(), [])], "SFY-FIT-030"),
        (
            [
                ("a", SecureStandardScaler(bounds=(0, 1000)), [0]),
                ("b", SecureQuantiles(bounds=(0, 99)), [1, 0]),
            ],
            "SFY-FIT-029",
        ),
        (
            [
                ("a", SecureRobustScaler(resolution=1), [0]),
                ("b", SecureQuantiles(resolution="0.5"), [0]),
            ],
            "SFY-FIT-029",
        ),
        ([("a", SecureFedYJ(method="log"), [0])], "SFY-FIT-019"),
    ],
)
def test_what_makes_no_sense_is_refused(frame, transformers, code):
    with refused(code):
        SecureColumnTransformer(transformers, engine="clear").fit([frame.to_numpy()])


def test_what_a_transformer_sets_for_the_run_may_be_what_the_run_has(frame):
    own = SecureStandardScaler(engine="clear", result_bits=20)
    both = SecureColumnTransformer([("a", own, slice(1, 3))], engine="clear", result_bits=20)
    fitted = both.fit([frame.to_numpy()])
    assert fitted.transform(frame.to_numpy()).shape == (240, 2)
    assert fitted.transcript_.agreement.result_bits == 20
