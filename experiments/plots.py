"""Pictures of a fit. Every function draws data on the Axes it is given, and keeps no state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import norm, skew

from securefedyj.numerics.arrays import Array
from securefedyj.pooled.likelihood import log_likelihood

# From the palette of Okabe and Ito, whose colours every reader can tell apart.
BLUE, SKY_BLUE, GREEN, VERMILION = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
BLACK, GREY = "#000000", "#8C8C8C"

TEXT_SIZE, TITLE_SIZE = 10, 11.5
_BINS, _CURVE_POINTS = 30, 200
# Points of a path that are closer than this share of its length get one number only.
_TOO_CLOSE = 0.045


class Marker(NamedTuple):
    """How one method is drawn: by colour and by shape, since colour alone is not enough."""

    label: str
    color: str
    shape: str
    size: float
    number_offset: float = 0.0  # of the numbers along a path, in points above the marker


EXPONENTIAL_SEARCH = Marker("exponential search", BLUE, "o", 9.5, number_offset=8)


def plot_histogram(axes: Axes, values: Array, name: str, title: str) -> None:
    """How the values are distributed, and the normal curve of their mean and variance."""
    axes.hist(values, bins=_BINS, density=True, color=SKY_BLUE, edgecolor="white", linewidth=0.5)
    mean, deviation = float(np.mean(values)), float(np.std(values))
    lower = min(np.min(values), mean - 3 * deviation)
    upper = max(np.max(values), mean + 3 * deviation)
    grid = np.linspace(lower, upper, _CURVE_POINTS)
    density = norm.pdf(grid, mean, deviation)
    axes.plot(grid, density, color=BLACK, linewidth=1.8, label="normal curve")
    _describe(axes, f"{title}, skewness {_number(float(skew(values)))}", name, "density")
    axes.legend(loc="upper right", fontsize=TEXT_SIZE, frameon=False)


def plot_search(axes: Axes, x: Array, paths: dict[Marker, Array], title: str) -> None:
    """The negative log-likelihood of x, and on it the lambdas that were visited, in order."""
    visited = np.concatenate(list(paths.values()))
    lower, upper = float(np.nanmin(visited)), float(np.nanmax(visited))
    margin = 0.06 * (upper - lower)
    plot_negative_log_likelihood(axes, x, lower - margin, upper + margin)
    for marker, path in paths.items():
        _mark_path(axes, x, path[np.isfinite(path)], marker)
    _describe(axes, title, "λ", "negative log-likelihood")
    axes.margins(y=0.15)
    axes.legend(loc="upper center", fontsize=TEXT_SIZE, frameon=False)


def plot_negative_log_likelihood(axes: Axes, x: Array, lower: float, upper: float) -> None:
    """The curve whose minimum every fit looks for."""
    grid = np.linspace(lower, upper, _CURVE_POINTS)
    axes.plot(grid, [-log_likelihood(x, lmbda) for lmbda in grid], color=GREY, linewidth=1.8)


def _mark_path(axes: Axes, x: Array, path: Array, marker: Marker) -> None:
    heights = [-log_likelihood(x, lmbda) for lmbda in path]
    axes.plot(
        path,
        heights,
        marker.shape,
        color=marker.color,
        markersize=marker.size,
        markeredgecolor="white",
        markeredgewidth=0.6,
        label=f"{marker.label}, {len(path)} steps",
    )
    for step in _apart(path):
        axes.annotate(
            str(step + 1),
            (path[step], heights[step]),
            xytext=(0, marker.number_offset),
            textcoords="offset points",
            ha="center",
            fontsize=TEXT_SIZE,
            color=marker.color,
        )


def _apart(path: Array) -> Iterator[int]:
    """The steps that can be told apart from all before them."""
    for step, lmbda in enumerate(path):
        if np.all(np.abs(path[:step] - lmbda) > _TOO_CLOSE * np.ptp(path)):
            yield step


def _describe(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(title, fontsize=TITLE_SIZE, loc="left")
    axes.set_xlabel(x_label, fontsize=TEXT_SIZE)
    axes.set_ylabel(y_label, fontsize=TEXT_SIZE)
    axes.tick_params(labelsize=TEXT_SIZE)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.spines[["top", "right"]].set_visible(False)


def _number(value: float) -> str:
    """Two decimals, with the same minus sign as on the axes."""
    return f"{value:.2f}".replace("-", "−")
