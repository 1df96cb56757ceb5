"""SecureFedYJ as an estimator: scikit-learn's contract, tables of all kinds, ways out of it."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from mpmath import mp
from scipy.stats import boxcox_llf
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import PowerTransformer

from securefedyj import ExpYJ, SecureFedYJ
from securefedyj.tables.cells import TableError
from securefedyj.tables.source import as_source
from tests import oracle
from tests.datasets import table
from tests.refusals import refused

COLUMNS = ["alcohol", "malic acid", "ash", "alcalinity"]


@pytest.fixture(scope="module")
def wine() -> np.ndarray:
    """Four columns of wine; the second is shifted to have both signs."""
    X = table("wine")[:, :4].copy()
    X[:, 1] -= 2.5
    return X


@pytest.fixture(scope="module")
def silos(wine) -> list[np.ndarray]:
    return np.split(wine, [50, 120])


@pytest.fixture(scope="module")
def fitted(silos) -> SecureFedYJ:
    return SecureFedYJ(max_steps=55).fit(silos)


# --- The contract ----------------------------------------------------------------------------


def test_silos_may_keep_their_rows_in_different_ways(tmp_path):
    X = np.random.default_rng(5).lognormal(size=(90, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame[:20].to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "folder").mkdir()
    frame[20:50][["b", "a"]].to_parquet(tmp_path / "folder" / "1.parquet")
    silos = [tmp_path / "t.csv", str(tmp_path / "folder"), pl.from_pandas(frame[50:]).lazy(), None]
    expected = SecureFedYJ("clear", max_steps=12).fit([frame])
    for cache_bytes in (None, 0):
        fitted = SecureFedYJ("clear", max_steps=12, cache_bytes=cache_bytes).fit(silos)
        assert fitted.lambdas_.tolist() == expected.lambdas_.tolist()
        assert fitted.var_.tolist() == expected.var_.tolist()
        assert fitted.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"silo 2: X has 2 features, but .* is expecting 1"):
        SecureFedYJ("clear").fit([X[:, :1], tmp_path / "t.csv"])
    with pytest.raises(ValueError, match=r"silo 2: .*'c': there is no such column"):
        SecureFedYJ("clear").fit([pd.DataFrame({"c": [1.0, 2.0]}), tmp_path / "t.csv"])
    with pytest.raises(ValueError, match="a list with one table per silo"):
        SecureFedYJ().fit(str(tmp_path / "t.csv"))


PARAMETERS: dict[str, Any] = {
    "engine": "clear",
    "max_steps": 12,
    "levels_per_exchange": 3,
    "bounds": [(0, 1), (-2, 2)],
    "standardize": False,
    "result_bits": 24,
    "verified": True,
    "cache_bytes": 10**6,
    "copy": False,
    "method": "box-cox",
    "minimum_values": 5,
    "submitted": True,
    "resolution": "0.5",
    "digits": [2, 0],
    "round": True,
}


def test_parameters_are_stored_as_they_come_and_cloned():
    model = SecureFedYJ(**PARAMETERS)
    assert model.get_params() == PARAMETERS
    assert model.bounds is PARAMETERS["bounds"]
    assert clone(model).get_params() == PARAMETERS
    defaults = {
        "engine": "replicated",
        "max_steps": 40,
        "levels_per_exchange": 4,
        "bounds": None,
        "standardize": True,
        "result_bits": 44,
        "verified": False,
        "cache_bytes": None,
        "copy": True,
        "method": "yeo-johnson",
        "minimum_values": 0,
        "submitted": False,
        "resolution": None,
        "digits": None,
        "round": False,
    }
    assert SecureFedYJ().get_params() == defaults
    # What is wrong with a parameter is said by fit.
    assert SecureFedYJ(max_steps=-1).set_params(engine="nonsense").engine == "nonsense"


def test_its_repr_shows_parameters_and_nothing_learned(fitted):
    assert repr(SecureFedYJ()) == "SecureFedYJ()"
    assert repr(SecureFedYJ(engine="clear", bounds=(0, 1))) == (
        "SecureFedYJ(bounds=(0, 1), engine='clear')"
    )
    assert repr(fitted) == "SecureFedYJ(max_steps=55)"


def test_fit_returns_itself_learns_and_forgets(silos):
    model = SecureFedYJ(engine="clear", max_steps=10)
    assert model.fit(silos) is model
    assert model.n_features_in_ == 4
    for name in ("lambdas_", "mean_", "var_", "at_bound_", "n_samples_seen_"):
        assert getattr(model, name).shape == (4,)
    assert model.n_samples_seen_.tolist() == [178] * 4
    assert not hasattr(clone(model), "lambdas_")
    model.fit([silo[:, :2] for silo in silos])
    assert model.n_features_in_ == len(model.lambdas_) == 2


def test_before_fit_nothing_works(wine):
    for call in ("transform", "inverse_transform", "log_likelihood"):
        with pytest.raises(NotFittedError):
            getattr(SecureFedYJ(), call)(wine)
    with pytest.raises(NotFittedError):
        SecureFedYJ().to_sklearn()


def test_fit_leaves_the_tables_alone(silos):
    before = [silo.copy() for silo in silos]
    for silo in silos:
        silo.flags.writeable = False
    SecureFedYJ(engine="clear", max_steps=5).fit(silos)
    for silo, old in zip(silos, before, strict=True):
        assert np.array_equal(silo, old)


def test_pickle_keeps_every_bit(fitted, wine):
    again = pickle.loads(pickle.dumps(fitted))
    assert again.transform(wine).tobytes() == fitted.transform(wine).tobytes()
    assert list(again.transcript_.to_lines()) == list(fitted.transcript_.to_lines())
    assert again.cost_ == fitted.cost_
    assert again.get_params() == fitted.get_params()


def test_names_of_the_output_are_those_of_the_input(fitted):
    assert fitted.get_feature_names_out().tolist() == ["x0", "x1", "x2", "x3"]


# --- Tables ----------------------------------------------------------------------------------


def frames(kind, silos):
    make = {
        "pandas": lambda X: pd.DataFrame(X, columns=COLUMNS),
        "polars": lambda X: pl.DataFrame(X, schema=COLUMNS),
    }[kind]
    return [make(silo) for silo in silos]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_give_the_bits_of_arrays_and_keep_their_names(kind, silos):
    arrays = SecureFedYJ(engine="clear", max_steps=15).fit(silos)
    named = SecureFedYJ(engine="clear", max_steps=15).fit(frames(kind, silos))
    assert named.lambdas_.tobytes() == arrays.lambdas_.tobytes()
    assert named.feature_names_in_.tolist() == COLUMNS
    assert named.transcript_.agreement.features == tuple(COLUMNS)
    assert named.get_feature_names_out().tolist() == COLUMNS
    assert not hasattr(arrays, "feature_names_in_")
    assert arrays.transcript_.agreement.features == ("0", "1", "2", "3")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_output_comes_in_the_container_that_was_asked_for(kind, silos, fitted):
    named = SecureFedYJ(engine="clear", max_steps=15).fit(frames(kind, silos))
    named.set_output(transform=kind)
    given = frames(kind, silos)[0]
    out: Any = named.transform(given)
    assert type(out) is type(given)
    assert list(out.columns) == COLUMNS
    if kind == "pandas":
        assert out.index.equals(given.index)
    values = SecureFedYJ(engine="clear", max_steps=15).fit(silos).transform(silos[0])
    assert np.array_equal(out.to_numpy(), values)


def test_integers_lists_and_float32_are_taken_as_float64():
    numbers = [[1, 2], [3, 5], [8, 13], [21, 34]]
    expected = SecureFedYJ(engine="clear", max_steps=10).fit([np.array(numbers, dtype=float)])
    for dtype in (np.int64, np.uint8, np.float32):
        other = SecureFedYJ(engine="clear", max_steps=10).fit([np.array(numbers, dtype=dtype)])
        assert other.lambdas_.tobytes() == expected.lambdas_.tobytes()
    listed = SecureFedYJ(engine="clear", max_steps=10).fit([numbers[:2], numbers[2:]])
    assert listed.lambdas_.tobytes() == expected.lambdas_.tobytes()


# --- The transformation ----------------------------------------------------------------------


def test_transform_is_the_formula_with_the_fitted_parameters(fitted, wine):
    plain = clone(fitted).set_params(standardize=False).fit(np.split(wine, [9, 99]))
    assert plain.lambdas_.tobytes() == fitted.lambdas_.tobytes()
    X = np.concatenate([wine[::20], [[0.0, -0.0, 1e-9, 1e5]]])
    Z, Y = fitted.transform(X), plain.transform(X)
    for j in range(4):
        with mp.workdps(50):
            exact = oracle.transform(X[:, j], fitted.lambdas_[j])
            standardized = [
                (v - mp.mpf(fitted.mean_[j])) / mp.sqrt(mp.mpf(fitted.var_[j])) for v in exact
            ]
        np.testing.assert_allclose(Y[:, j], [float(v) for v in exact], rtol=2e-15)
        # The mean has 44 bits beyond the standard deviation.
        expected = [float(v) for v in standardized]
        np.testing.assert_allclose(Z[:, j], expected, rtol=1e-12, atol=1e-12)


def test_transformed_silos_together_have_mean_zero_and_variance_one(fitted, silos):
    Z = np.concatenate([fitted.transform(silo) for silo in silos])
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z.var(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("standardize", [True, False])
def test_inverse_transform_gives_the_values_back(silos, wine, standardize):
    model = SecureFedYJ(engine="clear", max_steps=30, standardize=standardize).fit(silos)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(wine)), wine, rtol=1e-13, atol=1e-13
    )


def test_missing_values_are_ignored_in_fit_and_kept_in_transform(silos, wine, fitted):
    holes = [np.concatenate([silo, np.full((3, 4), np.nan)]) for silo in silos]
    model = SecureFedYJ(engine="clear", max_steps=55).fit(holes)
    assert model.lambdas_.tobytes() == fitted.lambdas_.tobytes()
    X = wine[:3].copy()
    X[1, 2] = np.nan
    Z = model.transform(X)
    assert np.isnan(Z[1, 2])
    assert np.isnan(Z).sum() == 1
    assert np.isnan(model.inverse_transform(Z)[1, 2])


def test_other_columns_are_refused_in_transform(fitted, wine):
    with pytest.raises(ValueError, match="X has 3 features, but SecureFedYJ is expecting 4"):
        fitted.transform(wine[:, :3])


def test_it_is_the_pooled_fit_without_pooling(fitted, wine):
    pooled = ExpYJ().fit(wine)
    np.testing.assert_allclose(fitted.lambdas_, pooled.lambdas_, rtol=1e-12)
    np.testing.assert_allclose(fitted.mean_, pooled.mean_, rtol=1e-11)
    np.testing.assert_allclose(fitted.var_, pooled.var_, rtol=1e-11)
    np.testing.assert_allclose(fitted.transform(wine), pooled.transform(wine), rtol=0, atol=1e-10)
    np.testing.assert_allclose(fitted.log_likelihood(wine), pooled.log_likelihood(wine), rtol=1e-13)


@pytest.mark.parametrize("sign", [+1, -1])
@pytest.mark.parametrize("dataset", ["iris", "wine", "breast_cancer"])
def test_so_it_is_on_real_data(dataset, sign):
    """To 1e-8 of a standard deviation, also where values pile up at the bound of Psi."""
    X = sign * table(dataset)
    model = SecureFedYJ(engine="clear", max_steps=52, levels_per_exchange=2).fit([X])
    pooled = ExpYJ(solver="expsearch", max_steps=60).fit(X)
    reached = ~model.at_bound_
    assert reached.sum() > 2
    Z, expected = model.transform(X)[:, reached], pooled.transform(X)[:, reached]
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-8)


def test_a_feature_far_from_zero_with_a_negative_lambda_is_scaled_right():
    """(1 + x)^lambda is about 1e-23 there, and the mean differs from -1/lambda by no more."""
    rng = np.random.default_rng(5)
    X = 1000 * (1 + 0.3 * rng.normal(size=(300, 1)).clip(-3, 3)) ** -0.1
    pooled = ExpYJ().fit(X)
    assert -9 < pooled.lambdas_[0] < -7
    for sign in (+1, -1):
        model = SecureFedYJ(engine="clear", max_steps=52).fit([sign * X])
        np.testing.assert_allclose(
            model.transform(sign * X), sign * pooled.transform(X), rtol=0, atol=1e-8
        )


def test_at_the_edge_of_the_range_transform_still_standardizes():
    X = np.array([0.0] * 50 + [1.0, 2.0]).reshape(-1, 1)
    model = SecureFedYJ(engine="clear").fit([X])
    assert model.at_bound_[0]
    Z = model.transform(X)
    assert abs(Z.mean()) < 1e-12
    assert Z.var() == pytest.approx(1, rel=1e-12)


# --- Ways out --------------------------------------------------------------------------------


@pytest.mark.parametrize("standardize", [True, False])
def test_to_sklearn_transforms_alike(silos, wine, standardize):
    model = SecureFedYJ(engine="clear", standardize=standardize).fit(silos)
    theirs = model.to_sklearn()
    assert isinstance(theirs, PowerTransformer)
    np.testing.assert_allclose(theirs.transform(wine), model.transform(wine), rtol=0, atol=1e-10)
    again = theirs.inverse_transform(theirs.transform(wine))
    np.testing.assert_allclose(again, wine, rtol=1e-10)


def test_to_sklearn_keeps_names_and_needs_nothing_of_ours(silos):
    named = SecureFedYJ(engine="clear", max_steps=20).fit(frames("pandas", silos))
    theirs = pickle.loads(pickle.dumps(named.to_sklearn()))
    assert theirs.feature_names_in_.tolist() == COLUMNS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs.transform(frames("pandas", silos)[1])
    assert "securefedyj" not in type(theirs).__module__


# --- Bounds and cost -------------------------------------------------------------------------


def test_bounds_are_one_pair_for_all_or_one_for_each(silos):
    one = SecureFedYJ(engine="clear", max_steps=20, bounds=(-5, 40)).fit(silos)
    spelled: list[Any] = [[(-5, 40)] * 4, np.array([[-5, 40]] * 4), ((-5, 40),) * 4, [-5, 40]]
    for bounds in spelled:
        other = SecureFedYJ(engine="clear", max_steps=20, bounds=bounds).fit(silos)
        assert other.transcript_.agreement.to_bytes() == one.transcript_.agreement.to_bytes()
        assert other.lambdas_.tobytes() == one.lambdas_.tobytes()
    default = SecureFedYJ(engine="clear", max_steps=20).fit(silos).transcript_.agreement.domain
    assert default.lower.tolist() == [-(2.0**20)] * 4
    assert default.upper.tolist() == [2.0**20] * 4


def cost(silos, **parameters):
    return SecureFedYJ(max_steps=8, **parameters).fit(silos).cost_


def test_values_outside_the_bounds_are_transformed_with_a_warning(silos, wine):
    fitted = SecureFedYJ(engine="clear", bounds=(-10, 100)).fit(silos)
    for estimator in (fitted, pickle.loads(pickle.dumps(fitted))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expected = estimator.transform(wine)
            assert np.isnan(estimator.transform(np.full((1, 4), np.nan))).all()
        X = wine.copy()
        X[3, 1], X[4, 1], X[5, 2] = -10.5, 101, 200
        with pytest.warns(
            UserWarning, match=r"features 1, 2 lie outside .* \(3 in all\)"
        ) as caught:
            Z = estimator.transform(X)
        assert caught[0].filename == __file__
        inside = np.isin(X, wine)
        np.testing.assert_array_equal(Z[inside], expected[inside])
        assert np.isfinite(Z).all()


def test_the_cost_counts_rounds_bytes_and_seconds(silos):
    counted = cost(silos)
    parties = {"silo 1", "silo 2", "silo 3"}
    assert counted.bytes_sent.keys() == parties
    for name, peers in counted.bytes_sent.items():
        assert peers.keys() == parties - {name}
        # At least the greeting: 40 bytes of header, two names, a digest.
        assert all(sent >= 40 + 2 * len("silo 1") + 32 for sent in peers.values())
    assert counted.seconds_local > 0
    assert counted.seconds_secure > 0
    # Greeting, keys, two to open the counts, and the exchanges.
    assert counted.rounds > 4


def test_tight_bounds_cost_fewer_bytes(silos):
    def total(bounds):
        sent = cost(silos, bounds=bounds).bytes_sent
        return sum(sum(peers.values()) for peers in sent.values())

    assert total([(0, 20), (-3, 5), (0, 5), (0, 50)]) < 0.7 * total(None)


def test_more_levels_cost_fewer_rounds_and_more_bytes(silos):
    one, four = (cost(silos, levels_per_exchange=levels) for levels in (1, 4))
    assert four.rounds < 0.6 * one.rounds
    assert four.bytes_sent["silo 1"]["silo 3"] > one.bytes_sent["silo 1"]["silo 3"]


def test_values_that_vary_too_little_for_their_bounds_are_warned_of():
    """10 and 10 + 1e-9 in a domain of a million: lambda cannot be told, and this is said."""
    X = np.array([10.0, 10.0, 10.0, 10 + 1e-9]).reshape(-1, 1)
    with pytest.warns(UserWarning, match="vary too little for their bounds"):
        SecureFedYJ(engine="clear").fit([X])


def test_columns_of_a_silos_file_are_chosen_by_name(tmp_path):
    path, X = tmp_path / "t.csv", np.random.default_rng(0).lognormal(size=(30, 2))
    frame = pd.DataFrame(X, columns=["b", "a"])
    frame.assign(pid="x").to_csv(path, index=False)
    with pytest.raises(TableError, match=r"column 'pid', 30 cells .* fit\(as_source\(table"):
        SecureFedYJ("clear").fit([path])
    fitted = SecureFedYJ("clear").fit([as_source(path, ["a", "b"])])
    expected = SecureFedYJ("clear").fit([frame[["a", "b"]]])
    np.testing.assert_array_equal(fitted.lambdas_, expected.lambdas_)


def test_a_silo_may_be_without_rows_but_not_all(tmp_path):
    X = np.random.default_rng(0).lognormal(size=(30, 2))
    nothing = np.empty((0, 2))
    fitted = SecureFedYJ("clear").fit([nothing, X, None])
    np.testing.assert_array_equal(fitted.lambdas_, SecureFedYJ("clear").fit([X]).lambdas_)
    with pytest.raises(ValueError, match="at least one must have rows"):
        SecureFedYJ("clear").fit([nothing, None, nothing])


# --- Box-Cox ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def positive() -> np.ndarray:
    rng = np.random.default_rng(11)
    columns = [
        rng.lognormal(size=300),
        rng.gamma(2, 3, size=300),
        1e6 + 1000 * rng.random(300),
        rng.weibull(5, size=300) * 1e-3,
    ]
    X = np.column_stack(columns)
    X[4, 1] = np.nan
    return X


POSITIVE = [(1e-3, 1e3), (1e-3, 1e3), (9e5, 2e6), (1e-5, 1e-2)]


@pytest.mark.parametrize("standardize", [True, False])
def test_box_cox_is_yeo_johnson_in_units_of_the_lower_bound(positive, standardize):
    """Close to 10^6, lambda is 160, and only standardized values fit float64."""
    options: Any = {"engine": "clear", "max_steps": 52, "standardize": standardize}
    fitted = SecureFedYJ(method="box-cox", bounds=POSITIVE, **options).fit([positive])
    least = np.array(POSITIVE)[:, 0]
    scaled = np.array(POSITIVE) / least[:, None] - 1
    same = SecureFedYJ(bounds=scaled, **options).fit([positive / least - 1])
    np.testing.assert_allclose(fitted.lambdas_, same.lambdas_, rtol=1e-9)
    for j in range(4) if standardize else (0, 1, 3):
        x, lmbda = positive[:, j], fitted.lambdas_[j]
        with mp.workdps(60):
            u = mp.mpf(float(lmbda))
            y = [(mp.mpf(float(v)) ** u - 1) / u for v in x[~np.isnan(x)]]
            mean = mp.fsum(y) / len(y)
            var = mp.fsum((v - mean) ** 2 for v in y) / len(y)
            expected = [float((v - mean) / mp.sqrt(var)) if standardize else float(v) for v in y]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if not standardize else "error")
            Z = fitted.transform(positive)[~np.isnan(x), j]
        np.testing.assert_allclose(Z, expected, rtol=1e-9, atol=1e-9 if standardize else 0)
        assert fitted.mean_[j] == pytest.approx(float(mean), rel=1e-12)
        assert fitted.var_[j] == pytest.approx(float(var), rel=1e-9)
    if standardize:
        back = fitted.inverse_transform(fitted.transform(positive))
        np.testing.assert_allclose(back, positive, rtol=1e-9)


def test_box_cox_finds_what_scikit_learn_finds_where_that_is_right(positive):
    X = positive[:, :2]
    fitted = SecureFedYJ(method="box-cox").fit([X[:99], X[99:], None])
    theirs = PowerTransformer("box-cox").fit(X)
    np.testing.assert_allclose(fitted.lambdas_, theirs.lambdas_, atol=1e-6)
    np.testing.assert_allclose(fitted.transform(X), theirs.transform(X), atol=1e-6)
    for lmbda, own, x in zip(fitted.lambdas_, fitted.log_likelihood(X), X.T, strict=True):
        x = x[~np.isnan(x)]
        expected = boxcox_llf(lmbda, x) - len(x) / 2 * np.log(2 * np.pi)
        assert own == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("standardize", [True, False])
def test_box_cox_to_sklearn_transforms_alike(positive, standardize):
    fitted = SecureFedYJ("clear", method="box-cox", bounds=POSITIVE, standardize=standardize)
    fitted.fit([positive])
    with pytest.warns(UserWarning, match="feature 2 cannot be handed to scikit-learn"):
        theirs = fitted.to_sklearn(on_error="drop")
    X = positive[:, [0, 1, 3]]
    assert theirs.method == "box-cox"
    own = clone(fitted).set_params(bounds=[POSITIVE[j] for j in (0, 1, 3)]).fit([X])
    np.testing.assert_allclose(theirs.transform(X), own.transform(X), rtol=1e-9, atol=1e-9)
    if not standardize:
        with refused("SFY-FIT-015"):
            fitted.to_sklearn(on_error="identity")
        return
    with pytest.warns(UserWarning, match="passed on unchanged"):
        theirs = fitted.to_sklearn(on_error="identity")
    np.testing.assert_allclose(theirs.transform(positive)[:, 2], positive[:, 2], rtol=1e-15)


def test_box_cox_takes_values_above_0_only(positive, silos):
    fitted = SecureFedYJ("clear", method="box-cox", max_steps=9).fit([positive[:, :2]])
    with refused("SFY-FIT-017", naming="feature 1"):
        fitted.transform([[1.0, 0.0]])
    with refused("SFY-NUM-009"):
        clone(fitted).fit(silos)
    with refused("SFY-NUM-002"):
        clone(fitted).set_params(bounds=(0, 9)).fit([positive[:, :2]])
    with refused("SFY-FIT-019"):
        clone(fitted).set_params(method="log").fit([positive[:, :2]])
    with refused("SFY-FIT-020"):
        fitted.to_onnx()


def test_a_minimum_of_values_ends_the_fit(silos):
    with refused("SFY-RUN-001"):
        SecureFedYJ("clear", minimum_values=179).fit(silos)
