"""How all figures look: small panels, legible on a phone, in the colours of Okabe and Ito."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from experiments.plots import BLACK, BLUE, GREEN, GREY, SKY_BLUE, VERMILION

ORANGE, PINK, YELLOW = "#E69F00", "#CC79A7", "#F0E442"
CYCLE = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY_BLUE, BLACK)
MARKERS = "osD^vXP"

__all__ = [
    "BLACK",
    "BLUE",
    "CYCLE",
    "GREEN",
    "GREY",
    "MARKERS",
    "ORANGE",
    "PINK",
    "SKY_BLUE",
    "VERMILION",
    "YELLOW",
]

_PARAMETERS: dict[Any, Any] = {  # matplotlib lists all its names as a type
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "font.size": 10,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "axes.prop_cycle": cycler(color=CYCLE),
    "svg.hashsalt": "securefedyj",
    "axes.unicode_minus": True,
}


@contextmanager
def applied() -> Iterator[None]:
    with mpl.rc_context(_PARAMETERS):
        yield


def panel(
    title: str, x: str, y: str, *, size: tuple[float, float] = (5.2, 3.8)
) -> tuple[Figure, Axes]:
    """An empty panel with its labels."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def spread(
    axes: Axes, x: ArrayLike, values: ArrayLike, color: str, label: str, floor: float
) -> None:
    """Median, maximum, 25-75 % and 10-90 % of the columns over x, on a logarithmic scale.

    Zeros are drawn at the floor, for a logarithm has no place for them.
    """
    table = np.maximum(np.asarray(values, dtype=float), floor)
    low, first, median, third, high = np.percentile(table, [10, 25, 50, 75, 90], axis=1)
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    axes.fill_between(x, first, third, color=color, alpha=0.3, linewidth=0)
    axes.plot(x, median, color=color, label=f"{label}: median")
    axes.plot(x, table.max(axis=1), color=color, linestyle=":", label=f"{label}: maximum")
    axes.set_yscale("log")


def save(figure: Figure, path: Path) -> None:
    """As PNG and as SVG; without a date, so that the same figure is the same file."""
    figure.savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})
    figure.set_layout_engine("none")  # it keeps the layout that it has by now
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
