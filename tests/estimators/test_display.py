"""The picture of a feature: what it shows, and what it says where there is nothing to show."""

from __future__ import annotations

import doctest
import sys
import warnings
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from securefedyj import ExpYJ, PowerTransformDisplay
from securefedyj.estimators import display
from tests import oracle

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close() -> Any:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"lactate": rng.lognormal(size=80), "excess": rng.normal(size=80) ** 3})
    X.iloc[::9, 0] = np.nan
    return X


def test_the_example_in_the_documentation_runs():
    results = doctest.testmod(display)
    assert results.failed == 0
    assert results.attempted >= 4


def test_it_shows_the_values_and_what_becomes_of_them(frame):
    fitted = ExpYJ(copy=False).fit(frame)
    before = frame.copy()
    drawn = fitted.plot(frame, feature="lactate")
    pd.testing.assert_frame_equal(frame, before)
    known = frame["lactate"].dropna().to_numpy()
    np.testing.assert_array_equal(drawn.before, known)
    Z = ExpYJ().fit(frame).transform(frame)[:, 0]
    np.testing.assert_array_equal(drawn.after, Z[~np.isnan(Z)])
    assert drawn.name == "lactate"
    titles = [ax.get_title() for ax in drawn.axes_]
    assert titles[0] == "lactate, before"
    assert f"λ = {fitted.lambdas_[0]:.4g}" in titles[1]
    by_place = PowerTransformDisplay.from_estimator(fitted, frame, feature=0)
    np.testing.assert_array_equal(by_place.after, drawn.after)


def test_the_likelihood_is_that_of_the_oracle_and_highest_at_lambda(frame):
    fitted = ExpYJ().fit(frame)
    drawn = fitted.plot(frame, feature=1)
    exact = [float(oracle.log_likelihood(frame["excess"], at)) for at in drawn.lambdas]
    np.testing.assert_allclose(drawn.log_likelihoods, exact - np.max(exact), atol=1e-9)
    middle = len(drawn.lambdas) // 2
    assert drawn.lambdas[middle] == pytest.approx(fitted.lambdas_[1], rel=1e-9)
    assert drawn.log_likelihoods.argmax() == middle
    assert -12 < drawn.log_likelihoods[0] < -4  # some four standard errors away: -8


def test_a_lambda_of_others_is_in_the_picture(frame):
    """As that of a consortium, whose rows are not these."""
    values = frame["excess"].to_numpy()
    drawn = PowerTransformDisplay.from_values(values, values, lmbda=3.0)
    assert drawn.lambdas[0] < ExpYJ().fit(values[:, None]).lambdas_[0]
    assert drawn.lambdas[-1] > 3.0


def test_axes_of_ones_own(frame):
    figure, axes = plt.subplots(1, 4)
    drawn = PowerTransformDisplay.from_estimator(ExpYJ().fit(frame), frame, axes=axes)
    assert drawn.figure_ is figure
    assert all(ax.lines or ax.patches for ax in axes)
    with pytest.raises(ValueError, match="four matplotlib Axes, got 2"):
        drawn.plot(axes=axes[:2])


def test_features_that_are_hard_to_draw():
    X = np.column_stack(
        [
            np.full(6, 3.0),
            [10, 10, 10, 10, 10, 10 - 1e-4],
            1e300 * np.arange(1.0, 7.0),
            np.full(6, np.nan),
            np.full(6, -1e17),
            [3.3, 3.3, 3.3, 3.3, 3.3, 3.3000000000000003],
        ]
    )
    fitted = ExpYJ().fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for j in (0, 1, 2, 4, 5):
            drawn = fitted.plot(X, feature=j)
            drawn.figure_.canvas.draw()
            heights = [bar.get_height() for bar in drawn.axes_[0].patches]
            assert (len(heights), sum(heights)) == (30, 6)
            assert len(drawn.lambdas) == (0 if j in (0, 4) else 41)
    close = drawn.axes_[2].lines[0].get_ydata()
    np.testing.assert_allclose(close, [-(0.2**0.5)] * 5 + [5**0.5])
    with pytest.raises(ValueError, match="x3 has no values to draw"):
        fitted.plot(X, feature=3)
    with pytest.raises(ValueError, match=r"x1 are beyond float64 .* standardize=True"):
        ExpYJ(standardize=False).fit(X).plot(X, feature=1)


def test_a_feature_that_is_not_there(frame):
    fitted = ExpYJ().fit(frame)
    with pytest.raises(ValueError, match="there is no feature 'lactat'"):
        fitted.plot(frame, feature="lactat")
    with pytest.raises(ValueError, match="feature must be from 0 to 1, got 2"):
        fitted.plot(frame, feature=2)


def test_without_matplotlib_it_says_what_to_install(frame, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "securefedyj\[plot\]"'):
        ExpYJ().fit(frame).plot(frame)
