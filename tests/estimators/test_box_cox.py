"""ExpYJ and SecureFedYJ with method="box-cox": right to 1e-9, or flagged, where others are not."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import boxcox_llf
from sklearn.base import clone
from sklearn.preprocessing import PowerTransformer

from securefedyj import ExpYJ, SecureFedYJ
from securefedyj.numerics.arrays import Array
from securefedyj.pooled import fit as pooled
from tests import oracle
from tests.datasets import NAMES, features
from tests.docs import upstream
from tests.refusals import refused

PROMISED = 1e-9
RNG = np.random.default_rng(25)
ISSUES: dict[str, list[float]] = {
    "SciPy 6873, six of its values": [15957, 112079, 1039553, 711775, 173111, 307382],
    "SciPy 7534": [198, 233, 233, 392],
    "SciPy 20021": [2003, 1950, 1997, 2000, 2009],
    "SciPy 19604": [0.50000471, 0.50004979, 0.50005902, 0.50009312, 0.50001632],
    "SciPy 19631": [200.3, 195, 199.7, 200, 200.9],
    "SciPy 19691": [2e-30, *[1e-30] * 5],
    "scikit-learn 14959": [x * 1e6 for x in [0.6, 2, 3, 4] * 4 + [11, 12, 12, 16, 17, 20, 85, 90]],
    "scikit-learn 30904, in place of 0": [1.0] * 355 + [1e-300],
    **{case.name: case.values.tolist() for case in upstream.CASES if case.values.min() > 0},
}
SIZES: dict[str, Any] = {
    "a million and a little": 1e6 + 1000 * RNG.random(300),
    "from 1e-300 to 1e300": 10 ** RNG.uniform(-300, 300, 200),
    "around 1e-300": 1e-300 * RNG.lognormal(size=200),
    "around 1e300": 1e300 * RNG.random(200) + 1e290,
    "close ones, and one far below": [*(1e6 + 1e-6 * RNG.random(50)), 1e-3],
    "close ones, and one far above": [*(1e-6 + 1e-18 * RNG.random(50)), 1e300],
    "neighbours": [1.0, 1.0, math.nextafter(1, 2), math.nextafter(1, 0)],
}


def positive(x: Array) -> Array:
    """A feature of the paper, made positive; its smallest values stay close to 0."""
    return x - x.min() + (np.unique(x)[1] - x.min()) / 2


COLUMNS = {
    **{name: np.array(x, dtype=np.float64) for name, x in (ISSUES | SIZES).items()},
    **{f"{f.dataset} {f.column}": positive(f.x) for name in NAMES for f in features(name)},
}


@cache
def fits() -> dict[str, Any]:
    """All features in one fit, by each solver and over three silos."""
    X = np.full((max(map(len, COLUMNS.values())), len(COLUMNS)), np.nan)
    for column, x in zip(X.T, COLUMNS.values(), strict=True):
        column[: len(x)] = x
    bounds = np.array([[x.min() / 1.01, x.max() * 1.01] for x in COLUMNS.values()]).tolist()
    federated = SecureFedYJ("clear", method="box-cox", bounds=bounds, max_steps=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "newton": ExpYJ("box-cox").fit(X),
            "expsearch": ExpYJ("box-cox", solver="expsearch", max_steps=1200).fit(X),
            "federated": federated.fit([X[:50], X[50:200], X[200:]]),
        }


def slope(x: list[mpf], lmbda: mpf) -> mpf:
    """Of the score, at least roughly."""
    h = mpf(10) ** -12 * max(abs(lmbda), mpf(1))
    return (oracle.score(x, lmbda + h) - oracle.score(x, lmbda - h)) / (2 * h)


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_box_cox_is_right_or_flagged(name: str) -> None:
    """lambda, Z and what is made of it, by the score in 60 digits around lambda."""
    j, x = list(COLUMNS).index(name), COLUMNS[name]
    exact, right = oracle.as_box_cox(x), 0
    unit = None
    for kind, fitted in fits().items():
        if not fitted.converged_[j] or fitted.at_bound_[j]:
            assert kind != "newton" or name in SIZES, "flagged without need"
            continue
        with mp.workdps(60):
            lmbda = mpf(float(fitted.lambdas_[j]))
            unit = unit or max(abs(lmbda), mp.sqrt(len(x) / -slope(exact, lmbda)))
            assert oracle.score(exact, lmbda - PROMISED * unit) > 0, kind
            assert oracle.score(exact, lmbda + PROMISED * unit) < 0, kind
            mean, variance = oracle.mean_var(exact, lmbda)
            Z = [(y - mean) / mp.sqrt(variance) for y in oracle.transform(exact, lmbda)]
            expected = np.array([float(z) for z in Z])
        row = np.full((len(x), len(COLUMNS)), np.nan)
        row[:, j] = x
        found = fitted.transform(row)[:, j]
        np.testing.assert_allclose(found, expected, rtol=PROMISED, atol=PROMISED, err_msg=kind)
        right += 1
    assert right


def test_most_features_are_not_flagged() -> None:
    """Over silos the optimum may lie beyond what the bounds admit, and is then said to."""
    flagged = {
        kind: np.count_nonzero(~fitted.converged_ | fitted.at_bound_)
        for kind, fitted in fits().items()
    }
    assert flagged["newton"] <= 2
    assert flagged["federated"] <= len(COLUMNS) // 4, flagged


def test_it_is_what_scikit_learn_finds_where_that_is_right() -> None:
    X = np.random.default_rng(1).lognormal(size=(200, 3))
    X[3, 1] = np.nan
    for standardize in (True, False):
        ours = ExpYJ("box-cox", standardize=standardize).fit(X)
        theirs = PowerTransformer("box-cox", standardize=standardize).fit(X)
        np.testing.assert_allclose(ours.lambdas_, theirs.lambdas_, atol=1e-6)
        np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-5)
        again = ours.to_sklearn()
        np.testing.assert_allclose(again.transform(X), ours.transform(X), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, rtol=1e-12)
    for lmbda, own, x in zip(ours.lambdas_, ours.log_likelihood(X), X.T, strict=True):
        x = x[~np.isnan(x)]
        expected = boxcox_llf(lmbda, x) - len(x) / 2 * np.log(2 * np.pi)
        assert own == pytest.approx(expected, rel=1e-12)


def test_pooled_and_federated_fits_have_the_same_learned_attributes() -> None:
    X = np.random.default_rng(2).lognormal(size=(150, 2))
    ours = ExpYJ("box-cox").fit(X)
    options: dict[str, Any] = {"bounds": (X.min(), X.max()), "max_steps": 60}
    other = SecureFedYJ("clear", method="box-cox", **options).fit([X[:9], X[9:]])
    for name in ("lambdas_", "mean_", "var_", "n_samples_seen_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(other, name), rtol=1e-9)


@pytest.mark.parametrize("rows", [1 << 19, (1 << 19) + 1])
def test_many_rows_have_the_fit_of_few(rows: int) -> None:
    """From one of these numbers on, a sample gives the start."""
    few = np.random.default_rng(3).lognormal(sigma=0.3, size=512)
    x = np.tile(few, -(-rows // 512))[: rows - rows % 512]
    x = np.append(x, np.full(rows % 512, np.nan))
    expected = ExpYJ("box-cox").fit(few[:, None])
    fitted = ExpYJ("box-cox").fit(x[:, None])
    np.testing.assert_allclose(fitted.lambdas_, expected.lambdas_, rtol=1e-12)


def test_a_table_that_is_read_in_passes_has_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    X = np.random.default_rng(4).lognormal(size=(3000, 2))
    whole = ExpYJ("box-cox").fit(X)
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header="a,b", comments="", fmt="%.17g")
    monkeypatch.setattr(pooled, "_BATCH", 1000)
    path = tmp_path / "t.csv"
    fitted = ExpYJ("box-cox").fit(path)
    assert fitted.lambdas_.tobytes() == whole.lambdas_.tobytes()
    assert fitted.transform(path).tobytes() == whole.transform(X).tobytes()


def test_a_constant_feature_has_lambda_1() -> None:
    """Where scikit-learn raises an error."""
    X = np.column_stack([np.full(4, 3.0), np.full(4, 1e-300), [1.0, 2, 3, 9]])
    federated = SecureFedYJ("clear", method="box-cox", bounds=(1e-300, 9.5))
    for fitted in (ExpYJ("box-cox").fit(X), federated.fit([X])):
        assert fitted.lambdas_[:2].tolist() == [1, 1]
        assert not fitted.transform(X)[:, :2].any()
        np.testing.assert_allclose(fitted.transform(X + np.eye(3)[0])[:, 0], 1, rtol=1e-12)
        np.testing.assert_allclose(fitted.to_sklearn().transform(X)[:, 0], 0, atol=1e-12)
    assert not ExpYJ("box-cox").fit_transform(np.full((3, 1), 5e-324)).any()


def test_what_is_not_positive_is_refused_as_scikit_learn_does(tmp_path: Any) -> None:
    X = np.array([[1.0, 2.0], [3.0, 0.0], [4.0, 5.0]])
    for kind in (ExpYJ, PowerTransformer):
        with pytest.raises(ValueError, match="only be applied to strictly positive data"):
            kind("box-cox").fit(X)
    with refused("SFY-FIT-017", naming="feature 1"):
        ExpYJ("box-cox").fit(X)
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header="a,b", comments="")
    with refused("SFY-NUM-016"):
        ExpYJ("box-cox").fit(tmp_path / "t.csv")
    X[:, 1] = np.nan
    with refused("SFY-NUM-017"):
        ExpYJ("box-cox").fit(X)
    fitted = ExpYJ("box-cox").fit(X[:, :1])
    for call in (fitted.transform, fitted.log_likelihood):
        with refused("SFY-FIT-017"):
            call([[-1.0]])
    with refused("SFY-FIT-019"):
        ExpYJ("log").fit(X[:, :1])


def test_it_takes_the_arguments_of_power_transformer() -> None:
    """By place and by name, and so does `clone`."""
    for arguments in (("box-cox",), ()):
        options: Any = {"standardize": False, "copy": False}
        theirs = PowerTransformer(*arguments, **options)
        ours: Any = ExpYJ(*arguments, **options)
        assert theirs.get_params().items() <= clone(ours).get_params().items()
    with pytest.raises(TypeError):
        ExpYJ("box-cox", False)
