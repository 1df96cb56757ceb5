"""ExpYJ and scikit-learn's PowerTransformer on the same data, in numbers and in a picture."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import ceil, log10
from timeit import timeit

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.preprocessing import PowerTransformer

from securefedyj import ExpYJ
from securefedyj.demo.example import breast_cancer
from securefedyj.numerics.arrays import Array
from securefedyj.pooled.likelihood import log_likelihood
from securefedyj.report import charts, templates
from securefedyj.report.charts import HEIGHT, WIDTH, Chart, normal_curve, number, skew

SAME = 1e-6  # log-likelihoods that differ by no more are the same except for rounding
REPEATS = 3  # timed fits; the shortest counts

# This feature of the breast cancer data is in the picture: it is skewed, and its lambda of -3.54
# makes the exponential search both double and halve.
_PICTURED = "radius error"
_STEPS_SHOWN = 16
_GAP, _TITLE = 10, 22  # pixels between charts, and for their titles


@dataclass(frozen=True)
class FitComparison:
    """Two fits of the same data. `gain` is our log-likelihood minus scikit-learn's."""

    name: str
    X: Array
    names: list[str]
    ours: ExpYJ
    theirs: PowerTransformer
    our_seconds: float
    their_seconds: float
    gain: Array
    constant: NDArray[np.bool_]

    @property
    def different(self) -> list[int]:
        """The features where one fit is better than the other, the clearest cases first."""
        order = np.argsort(-np.abs(self.gain), kind="stable")
        return [int(j) for j in order if abs(self.gain[j]) > SAME]

    @property
    def alike(self) -> list[int]:
        """The other features, without constant ones."""
        return [int(j) for j in np.flatnonzero((np.abs(self.gain) <= SAME) & ~self.constant)]

    @property
    def agreement(self) -> str:
        """How far the lambdas of these are apart, relative to their size, as a power of ten."""
        ours, theirs = self.ours.lambdas_[self.alike], self.theirs.lambdas_[self.alike]
        worst = np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(ours)), initial=1e-16)
        return f"1e{ceil(log10(worst))}"

    @property
    def missed(self) -> int:
        """The number of features whose optimum scikit-learn does not find."""
        return int(np.count_nonzero(self.gain > SAME))


def compare_breast_cancer() -> FitComparison:
    """Ordinary data: the two fits are the same."""
    return compare("breast cancer", *breast_cancer())


def compare_digits() -> FitComparison:
    """Pixels that are nearly always empty: some optima are beyond the bounds of SciPy's search."""
    data = load_digits()
    names = [f"column {j} ({name})" for j, name in enumerate(data.feature_names)]
    return compare("digits", data.data, names)


def compare(name: str, X: Array, names: list[str]) -> FitComparison:
    """Fit both in turn, in this process, and time them."""
    ours, theirs = ExpYJ(), PowerTransformer(method="yeo-johnson")
    our_seconds, their_seconds = np.inf, np.inf
    with warnings.catch_warnings():
        # Some versions of scikit-learn warn where they overflow; the comparison says more.
        warnings.simplefilter("ignore")
        for _ in range(REPEATS):
            our_seconds = min(our_seconds, timeit(lambda: ours.fit(X), number=1))
            their_seconds = min(their_seconds, timeit(lambda: theirs.fit(X), number=1))
    constant = np.ptp(X, axis=0) == 0
    gain = np.zeros(len(names))
    for j in np.flatnonzero(~constant):
        better, other = ours.lambdas_[j], theirs.lambdas_[j]
        gain[j] = log_likelihood(X[:, j], better) - log_likelihood(X[:, j], other)
    return FitComparison(name, X, names, ours, theirs, our_seconds, their_seconds, gain, constant)


def picture(cancer: FitComparison, digits: FitComparison) -> str:
    """A feature before and after, two ways to its lambda, and an optimum that was missed, as SVG.

    The picture of the README is made by `securefedyj demo --output docs/images`.
    """
    j = cancer.names.index(_PICTURED)
    x, z = cancer.X[:, j], cancer.ours.transform(cancer.X)[:, j]
    k = (digits.different + digits.alike)[0]
    before = _distribution(x, "Before", _PICTURED)
    after = _distribution(z, "After", f"{_PICTURED}, transformed")
    across, down = WIDTH + _GAP, HEIGHT + _TITLE
    places = [(left + _GAP / 2, top) for top in (0, down) for left in (0, across)]
    panels = zip(places, [before, after, _two_ways(x), _missed(digits, k)], strict=True)
    return (
        templates(__package__)
        .get_template("picture.svg")
        .render(
            width=2 * across, height=2 * down, panels=[(*place, *panel) for place, panel in panels]
        )
    )


def _distribution(values: Array, title: str, label: str) -> tuple[str, str]:
    """A histogram with the normal curve of the same mean and variance."""
    curve = normal_curve(float(values.mean()), float(values.std()))
    title = f"{title}: skewness {number(round(skew(values), 2), 3)}"
    return title, charts.histogram(values, title, label, curve)


def _two_ways(x: Array) -> tuple[str, str]:
    """The lambdas of the exponential search and of Newton's method, step by step."""
    column = x.reshape(-1, 1)
    searched = ExpYJ(solver="expsearch").fit(column).path_[:, 0]
    newton = ExpYJ().fit(column).path_[:, 0]
    best = float(newton[-1])
    chart = Chart.of_steps(_STEPS_SHOWN, np.append(searched, newton), best)
    ways = (("theirs", "exponential search", searched), ("ours", "Newton", newton))
    for line, (kind, name, path) in enumerate(ways):
        shown = path[:_STEPS_SHOWN]
        chart.dots(f"dots {kind}", np.arange(1.0, len(shown) + 1), shown)
        chart.text(f"{name}, {len(path)} steps", 104, 34 + 15 * line, f"first {kind}")
    title = f"Two ways to λ = {number(round(best, 4), 5)}"
    return title, chart.svg(title, "step", "λ")


def _missed(digits: FitComparison, k: int) -> tuple[str, str]:
    """The log-likelihood around both results, relative to ours, in thousands."""
    x, ours, theirs = digits.X[:, k], digits.ours.lambdas_[k], digits.theirs.lambdas_[k]
    distance = max(abs(theirs - ours), 1e-3 * (1 + abs(ours)))
    grid = np.linspace(min(ours, theirs) - 0.5 * distance, max(ours, theirs) + 0.04 * distance, 100)
    best = log_likelihood(x, ours)

    def height(lmbda: float) -> float:
        return (log_likelihood(x, lmbda) - best) / 1e3

    heights = np.array([height(lmbda) for lmbda in grid])
    lowest = min(float(heights.min()), -SAME)
    chart = Chart((grid[0], grid[-1]), (1.06 * lowest, -0.12 * lowest))
    chart.line("curve", grid, heights)
    results = (("ours", "ExpYJ", ours), ("theirs", f"scikit-learn {sklearn.__version__}", theirs))
    for line, (kind, name, lmbda) in enumerate(results):
        chart.dots(f"dots {kind}", np.array([lmbda]), np.array([height(lmbda)]))
        words = f"{name}: λ = {number(round(lmbda, 2), 6)}"
        chart.text(words, 64, 100 + 15 * line, f"first {kind}")
    title = f"{digits.name}, {digits.names[k]}"
    return title, chart.svg(title, "λ", "log-likelihood / 1000")
