"""Right to 1e-9 in any order and at any scale, or said so: each was once wrong without a word."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from sklearn.exceptions import ConvergenceWarning

from securefedyj import ExpYJ, SecureFedYJ
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.encoding import SMALLEST_BOUND, Domain
from securefedyj.numerics.resolution import steps_wanted
from securefedyj.numerics.search import PRECISION
from tests import oracle

ROOT = Path(__file__).parents[2]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def unit(x: Array, lmbda: Any) -> float:
    """max(|lambda|, 1/sqrt(|score'|/n)), from the oracle."""
    with mp.workdps(80):
        step = max(abs(lmbda), mp.mpf(1)) * mp.mpf(10) ** -20
        values = [oracle.score(x, lmbda + sign * step) for sign in (-1, 1)]
        slope = abs(values[1] - values[0]) / (2 * step) / len(x)
        return float(max(abs(lmbda), 1 / mp.sqrt(slope)))


def is_right(x: Any, lmbda: float) -> bool:
    values = np.asarray(x, dtype=float)
    best = oracle.optimum(values)
    return abs(float(lmbda - best)) <= PRECISION * unit(values, best)


def federated(x: Any, **parameters: Any) -> SecureFedYJ:
    column = np.asarray(x, dtype=float).reshape(-1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SecureFedYJ(engine="clear", **parameters).fit([column])


def pooled(x: Array, solver: str = "newton") -> ExpYJ:
    return ExpYJ(solver=solver).fit(x.reshape(-1, 1))


def assert_standardized(fitted: Any, x: Array) -> None:
    Z = fitted.transform(x.reshape(-1, 1))
    assert abs(np.mean(Z)) < 1e-12
    assert abs(np.mean(Z * Z) - 1) < 1e-12


# --- Pooled -----------------------------------------------------------------------------------


def striped() -> Array:
    """Every other row is 60 orders of magnitude smaller."""
    x = generator().lognormal(size=100_000)
    x[::2] *= 1e-60
    return x


def zeros_where_a_stride_looks() -> Array:
    x = generator().lognormal(size=70_000)
    x[::16] = 0
    x[16] = 5.55e-17
    return x


def one_on_the_other_side() -> Array:
    x = 10 * (1 + 1e-7 * np.round(generator().normal(size=300_000), 3))
    x[0] = -1
    return x


def narrow_bulk_and_outliers() -> Array:
    x = 10 * (1 + 1e-7 * np.round(generator(1).normal(size=400_000), 3))
    x[:3] = [30, 1e-3, 1e6]
    return x


# lambda and 1/sqrt(|score'|/n) by `benchmarks.fuzz.oracle`, in 400 bits: the other one would take
# minutes for so many distinct values.
MANY_ROWS = {
    striped: (-1.5430219574831112, 2.667904076607902),
    zeros_where_a_stride_looks: (-0.6995011381936882, 1.7899464719728388),
    one_on_the_other_side: (29995.12033573947, 34959.70248266827),
    narrow_bulk_and_outliers: (-0.35929150703657337, 0.33421135478920094),
}


@pytest.mark.parametrize("data", MANY_ROWS, ids=lambda data: data.__name__)
def test_many_rows_are_fitted_right(data):
    x, (best, size) = data(), MANY_ROWS[data]
    fitted = pooled(x)
    assert abs(fitted.lambdas_[0] - best) <= 1e-10 * max(abs(best), size)
    assert fitted.converged_[0]
    assert len(fitted.path_) <= 20
    assert_standardized(fitted, x)


@pytest.mark.parametrize("data", MANY_ROWS, ids=lambda data: data.__name__)
def test_any_order_of_rows_gives_the_same_fit(data):
    x = data()
    stride = np.concatenate([np.sort(x)[k::16] for k in range(16)])
    fits = [pooled(rows) for rows in (x, np.sort(x), np.sort(x)[::-1].copy(), stride)]
    lambdas = np.array([fitted.lambdas_[0] for fitted in fits])
    # The last two digits; but where one value of 300,000 decides, the score is nearly flat.
    digits = 1e-11 if data is one_on_the_other_side else 5e-14
    assert np.ptp(lambdas) <= digits * max(abs(MANY_ROWS[data][0]), MANY_ROWS[data][1])


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("n", "small"), [(1_000_000, 1e-6), (3_000, 1e-8)])
def test_a_mean_near_zero_on_the_side_of_one_outlier(sign, n, small):
    """Measured from the outlier, the center would be lost."""
    x = np.zeros(n)
    x[:2] = -1e6, small
    assert_standardized(pooled(sign * x), sign * x)


def test_a_last_step_that_carries_the_mean_across_zero():
    x = np.array([19250645.0, 30187952, 11544631, -19250645, -30187955, -11544631])
    fitted = pooled(x)
    assert fitted.converged_[0]
    assert is_right(x, fitted.lambdas_[0])
    assert_standardized(fitted, x)
    mean, variance = oracle.mean_var(x, oracle.optimum(x))
    expected = [
        float((y - mean) / mp.sqrt(variance)) for y in oracle.transform(x, oracle.optimum(x))
    ]
    np.testing.assert_allclose(fitted.transform(x.reshape(-1, 1))[:, 0], expected, atol=1e-9)


@pytest.mark.parametrize("zeros", [0, 60])
@pytest.mark.parametrize("size", [1e3, 1e4, 1e5, 1e6, 1e7, 1e8])
def test_mirrored_values_are_standardized(size, zeros):
    """lambda is close to 1 and the mean to 0: the last step may carry it to the other side."""
    for seed in range(30):
        a = size * generator(seed).lognormal(size=20)
        x = np.concatenate([a, -a.astype(np.float32), np.zeros(zeros)])
        for sign in (-1, 1):
            fitted = pooled(sign * x)
            assert fitted.converged_[0]
            assert_standardized(fitted, sign * x)
        if not seed:
            assert is_right(x, fitted.lambdas_[0])


@pytest.mark.parametrize("n", [1_000, 50_000, 1_000_000])
@pytest.mark.parametrize("values", [[5.0], [-3.0], [5.0, 7.0]])
def test_rare_values_take_few_passes(n, values):
    """The optimum is about n away, and Newton's own steps would only double it each time."""
    x = np.zeros(n)
    x[: len(values)] = values
    fitted = pooled(x)
    assert fitted.converged_[0]
    assert len(fitted.path_) <= 14
    if len(values) == 1:
        best = -n / np.log1p(abs(values[0]))  # in closed form, as in the paper's digits data
        expected = best if values[0] > 0 else 2 - best
        assert fitted.lambdas_[0] == pytest.approx(expected, rel=1e-3)


CLOSE = {
    "large and narrow": 1e12 + 1e-3 * generator().normal(size=200),
    "neighbours": np.array([1.0, 1 + 2.0**-52]),
    "large": 1e9 + generator().normal(size=500),
    "negative": -3e8 - generator().gamma(2.0, size=300),
}


@pytest.mark.parametrize("name", CLOSE)
@pytest.mark.parametrize("solver", ["newton", "expsearch"])
def test_the_center_has_more_digits_than_one_float64(name, solver):
    x = CLOSE[name]
    fitted = ExpYJ(solver=solver, max_steps=140).fit(x.reshape(-1, 1))
    assert fitted.converged_[0]
    assert is_right(x, fitted.lambdas_[0])
    assert_standardized(fitted, x)
    back = fitted.inverse_transform(fitted.transform(x.reshape(-1, 1)))
    np.testing.assert_allclose(back[:, 0], x, rtol=4e-16)


def test_two_neighbours_are_one_deviation_from_their_mean():
    x = CLOSE["neighbours"]
    np.testing.assert_allclose(pooled(x).transform(x.reshape(-1, 1))[:, 0], [-1, 1], rtol=1e-12)


def test_an_expsearch_with_too_few_steps_says_so():
    x = CLOSE["large and narrow"].reshape(-1, 1)
    with pytest.warns(ConvergenceWarning, match="40 steps are too few .* solver to 'newton'"):
        fitted = ExpYJ(solver="expsearch").fit(x)
    assert not fitted.converged_[0]


# --- Federated --------------------------------------------------------------------------------


def test_a_side_that_decays_slowly_is_resolved():
    """lambda in (-0.5, 0), where w = e^{uL} was lost beside 1."""
    x = 1e29 * np.array([5.0, 6, 9, 12])
    fitted = federated(x, bounds=(0, 2.0**100), max_steps=60)
    assert fitted.converged_[0]
    assert is_right(x, fitted.lambdas_[0])
    mirrored = federated(-x, bounds=(-(2.0**100), 0), max_steps=60)
    assert mirrored.converged_[0]
    assert mirrored.lambdas_[0] == pytest.approx(2 - fitted.lambdas_[0], rel=1e-12)


def heavy_tails() -> Array:
    x = np.zeros(1000)
    x[:2] = 1e-6, -1.1e-6
    return x


@pytest.mark.parametrize(
    ("x", "bounds"),
    [
        (
            [-0.0037952052285192546, 0.004098468832443937, 0.004060526200863693,
             0.004067112809121892, 0.004081422649712694],
            (-0.012263095205046218, 0.004139453520768376),
        ),
        (heavy_tails(), (-2e-6, 2e-6)),
    ],
)  # fmt: skip
def test_a_bracket_is_narrow_enough_also_for_heavy_tails(x, bounds):
    """1/sqrt(|score'|/n) is then far below the inverse of the spread."""
    fitted = federated(x, bounds=bounds)
    assert is_right(x, fitted.lambdas_[0]) or not fitted.converged_[0]
    more = federated(x, bounds=bounds, max_steps=60)
    assert more.converged_[0]
    assert is_right(x, more.lambdas_[0])


@pytest.mark.parametrize("seed", range(20))
def test_ten_values_near_a_million_are_right_or_said_not_to_be(seed):
    x = 1e6 * (1 + 0.002 * generator(seed).normal(size=10))
    fitted = federated(x)
    beyond = fitted.at_bound_[0] and abs(oracle.optimum(x)) > abs(fitted.lambdas_[0])
    assert is_right(x, fitted.lambdas_[0]) or beyond or not fitted.converged_[0]


@pytest.mark.parametrize("x", [[0, 5e-9], [-1e-13, 1e-13]])
def test_values_tiny_against_their_bounds_are_said_to_be(x):
    assert not federated(x).converged_[0]
    bound = max(2 * max(x), SMALLEST_BOUND)
    close = federated(x, bounds=(-bound, bound), max_steps=110)
    assert close.converged_[0]
    assert is_right(x, close.lambdas_[0])


def test_normal_values_tiny_against_their_bounds_are_said_to_be():
    X = 1e-13 * generator().normal(size=(50, 60))
    with pytest.warns(ConvergenceWarning, match="0, 1, 2, 3, 4 and 55 more: the values vary"):
        fitted = SecureFedYJ(engine="clear").fit([X])
    assert not fitted.converged_.any()


def test_narrow_features_are_right_to_the_promise_or_said_not_to_be():
    """Laboratory values, years, temperatures: of those that are not flagged, all are right."""
    source = generator(4)
    columns = []
    for _ in range(120):
        center, spread = 10 ** source.uniform(0, 4), 10 ** source.uniform(-5, -1)
        columns.append(center * (1 + spread * source.normal(size=30)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = SecureFedYJ(engine="clear", max_steps=60).fit([np.array(columns).T])
    right = [is_right(x, lmbda) for x, lmbda in zip(columns, fitted.lambdas_, strict=True)]
    certain = fitted.converged_ & ~fitted.at_bound_
    assert np.all(np.array(right)[certain])
    assert 30 <= np.count_nonzero(certain) <= 110, "both kinds occur"


def test_a_feature_that_varies_by_less_than_its_mean_resolves_is_not_certain():
    """Values so close that the variance at lambda* is lost: the width is 0."""
    x = float.fromhex("0x1.870fb569d936dp-3")
    fitted = federated([x, np.nextafter(x, 1), x])
    assert not fitted.converged_[0]


def test_values_that_count_as_constant_have_no_variance():
    x = [-1.6673393011709583e-05, -1.6673393011709586e-05]
    fitted = federated(x, bounds=(-17.48331975064639, 0.0))
    assert fitted.transcript_.result.constant[0]
    assert (fitted.lambdas_[0], fitted.var_[0]) == (1.0, 0.0)


@pytest.mark.parametrize("upper", [1e-200, 1e-300, 5e-324, SMALLEST_BOUND / 2])
def test_bounds_that_no_run_can_work_with_are_refused(upper):
    with pytest.raises(ValueError, match="in another unit"):
        SecureFedYJ(bounds=(0, upper)).fit([np.zeros((3, 1))] * 3)
    Domain.from_bounds((0, SMALLEST_BOUND), 1).check_usable(["a"])


@pytest.mark.parametrize("upper", [1e-9, 1e-12])
def test_steps_that_do_not_suffice_for_the_bounds_are_said_to(upper):
    X = upper * generator().uniform(size=(40, 1))
    with pytest.warns(ConvergenceWarning, match=r"40 steps are too few .* max_steps to \d+"):
        few = SecureFedYJ(engine="clear", bounds=(0, upper)).fit([X])
    assert not few.converged_[0]
    wanted = int(steps_wanted(Domain.from_bounds((0, upper), 1))[0])
    assert 40 < wanted <= 80
    enough = federated(X[:, 0], bounds=(0, upper), max_steps=wanted)
    assert enough.converged_[0]
    assert is_right(X[:, 0], enough.lambdas_[0])


def test_default_bounds_and_steps_suffice():
    assert steps_wanted(Domain.from_bounds(None, 1))[0] <= 40


@pytest.mark.parametrize("x", [CLOSE["large"][:30], [20.0, 20.5, 21, 36.6]])
def test_a_result_without_certainty_is_flagged_wherever_it_is_kept(x, tmp_path):
    from securefedyj import load, parameters
    from securefedyj.report import page

    fitted = federated(x, bounds=(0, 2.0**31))
    parameters.save(fitted.transcript_, tmp_path / "parameters.json")
    loaded = load(tmp_path / "parameters.json")
    assert loaded.converged_.tolist() == fitted.converged_.tolist()
    html = page.render(fitted.transcript_)
    assert ("not certain" in html) == (not fitted.converged_[0])
    assert fitted.transcript_.audit().passed
    fitted.transcript_.result.converged[0] ^= True
    assert not fitted.transcript_.audit().passed


@pytest.mark.slow
def test_fuzzing_finds_nothing_in_a_short_run():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fuzz", "--features", "60", "--large", "1",
         "--seed", "11"], cwd=ROOT, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("federated") >= 5
