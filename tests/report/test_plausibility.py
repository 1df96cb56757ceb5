"""A lambda that is implausible for a silo's own rows: found at home, and seldom in vain."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from securefedyj.numerics.search import Bracket, exp_update
from securefedyj.report import page
from securefedyj.report.plausibility import LIMIT, implausible, likelihood_lost, warning
from tests import datasets, oracle
from tests.report.runs import data, fit

SETS = ("iris", "wine", "breast_cancer")  # no feature of digits has 20 distinct values


@pytest.mark.parametrize("lmbda", [-3.0, 0.25, 2.0])
def test_loss_is_that_of_the_likelihood_per_value(lmbda):
    x = datasets.table("wine")[::3, 4]
    (lost,) = likelihood_lost(x[:, None], np.array([lmbda]))
    best = oracle.log_likelihood(x, oracle.optimum(x))
    expected = float(best - oracle.log_likelihood(x, lmbda)) / len(x)
    assert lost == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dataset", SETS)
@pytest.mark.parametrize("silos", [3, 5, 10])
def test_honest_silos_are_not_warned_however_their_rows_differ(dataset, silos):
    rng = np.random.default_rng(0)
    X = datasets.table(dataset)
    lmbda = np.array([feature.lmbda for feature in datasets.features(dataset)])
    at_random, by_another = X[rng.permutation(len(X))], X[np.argsort(X[:, 0], kind="stable")]
    by_itself = np.sort(X, axis=0)
    lost = [
        likelihood_lost(part, lmbda)
        for rows in (at_random, by_another, by_itself)
        for part in np.array_split(rows, silos)
    ]
    if (dataset, silos) not in (("iris", 10), ("wine", 10)):  # whose silos have too few rows
        assert np.isfinite(lost).sum() > 3
    assert not np.any(np.array(lost) > LIMIT)


def tossed(rng: np.random.Generator, features: int) -> np.ndarray:
    """Lambdas of a search whose signs are tossed: what made-up sums can come to."""
    bracket = Bracket.start(features)
    for _ in range(30):
        bracket = exp_update(bracket, rng.choice([-1, 1], size=features))
    return bracket.value


def test_lambdas_from_made_up_sums_are_noticed_in_nearly_every_table():
    rng = np.random.default_rng(0)
    X = datasets.table("breast_cancer")
    noticed = []
    for _ in range(40):
        rows = X[rng.permutation(len(X))[:114]]
        noticed.append(np.any(likelihood_lost(rows, tossed(rng, X.shape[1])) > LIMIT))
    assert np.mean(noticed) > 0.9


def test_lambda_from_nowhere_is_noticed():
    x = np.random.default_rng(0).lognormal(size=(50, 1))
    for lmbda in (-1e300, -1000.0, 20.0, 1e300):
        assert likelihood_lost(x, np.array([lmbda]))[0] > LIMIT


def test_few_distinct_values_tell_nothing():
    x = np.column_stack([np.arange(40) % 19, np.arange(40) % 20, np.full(40, np.nan)])
    assert np.isnan(likelihood_lost(x, np.array([90.0, 90.0, 90.0]))).tolist() == [
        True,
        False,
        True,
    ]
    assert np.isnan(likelihood_lost(np.empty((0, 1)), np.ones(1))).all()


def test_many_rows_are_sampled_and_missing_ones_left_out():
    x = np.random.default_rng(0).lognormal(size=(25_000, 1))
    few = likelihood_lost(x[::3], np.array([3.0]))
    assert likelihood_lost(x, np.array([3.0])) == few
    gaps = np.insert(x[:50], slice(None), np.nan, axis=0)
    expected = likelihood_lost(x[:50], np.array([3.0]))
    np.testing.assert_allclose(likelihood_lost(gaps, np.array([3.0])), expected, rtol=1e-12)


def test_warning_names_features_and_blames_nobody():
    words = warning([f"f{j}" for j in range(7)])
    assert "lambda of f0, f1, f2, f3, f4 and 2 more is implausible" in words
    assert "Perhaps" in words
    assert "Only you see this" in words


def test_report_tells_it_on_the_page_with_rows_and_nowhere_else():
    X = np.random.default_rng(1).lognormal(size=(60, 2))
    transcript = fit(X, ("fine", "<odd>"), ("a", "b"))
    assert transcript.result is not None
    assert not implausible(X, transcript.agreement, transcript.result).any()
    lmbda = transcript.result.lmbda * [1, 0] + [0, 9.0]
    odd = dataclasses.replace(transcript, result=transcript.result._replace(lmbda=lmbda))
    assert odd.result is not None
    assert implausible(X, odd.agreement, odd.result).tolist() == [False, True]
    warned = "lambda of &lt;odd&gt; is implausible"
    assert warned in page.render(odd, X)
    assert "is implausible" not in page.render(odd)
    assert "is implausible" not in page.render(transcript, X)
    constant = np.array([True, True])
    assert not implausible(X, odd.agreement, odd.result._replace(constant=constant)).any()


def test_features_without_a_fit_are_left_alone(transcript):
    assert not implausible(data(), transcript.agreement, transcript.result).any()
