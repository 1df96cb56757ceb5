"""Small charts as SVG text, for pages that must stand alone.

Colours, and so light and dark, come from the style sheet of the page, by the classes used here.
The charts hold numbers only, and their titles are escaped.
"""

from __future__ import annotations

from math import ceil, floor, isfinite, log10, pi, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from securefedyj.numerics.arrays import Array
from securefedyj.report.markup import number, text

WIDTH, HEIGHT = 270, 168
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 10, 32
_CURVE_POINTS, _QUANTILES, _MOST_BINS = 100, 60, 30
_NORMAL = NormalDist()  # that of SciPy takes a second to load


def histogram(values: Array, title: str, label: str, curve: tuple[float, float] | None) -> str:
    """How values are distributed, with the normal curve of the given mean and deviation."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    if not isfinite(high - low):
        return _blank(title, "beyond what can be drawn")
    bins = min(_MOST_BINS, max(5, ceil(sqrt(len(values)))))
    density, edges = np.histogram(values, bins, (low, high), density=True)
    top = float(density.max())
    grid, heights = np.empty(0), np.empty(0)
    if curve is not None:
        mean, deviation = curve
        low, high = min(low, mean - 3 * deviation), max(high, mean + 3 * deviation)
        grid = np.linspace(low, high, _CURVE_POINTS)
        heights = np.exp(-(((grid - mean) / deviation) ** 2) / 2) / (deviation * sqrt(2 * pi))
        top = max(top, float(heights.max()))
    frame = _Frame((low, high), (0.0, top * 1.05))
    steps = [f"M{frame.x(edges[0])} {frame.y(0)}"]
    for left, right, height in zip(edges[:-1], edges[1:], density, strict=True):
        steps.append(f"L{frame.x(left)} {frame.y(height)}H{frame.x(right)}")
    bars = f'<path class="bars" d="{"".join(steps)}V{frame.y(0)}Z"/>'
    line = f'<polyline class="curve" points="{frame.points(grid, heights)}"/>' if len(grid) else ""
    return frame.svg(title, bars + line, label, "density", y_ticks=False)


def quantiles(before: Array, after: Array, title: str) -> str:
    """Quantiles against those of the normal distribution: on the diagonal the two agree."""
    n = len(after)
    chosen = np.unique(np.linspace(0, n - 1, min(n, _QUANTILES)).round().astype(int))
    normal = np.array([_NORMAL.inv_cdf(share) for share in (chosen + 0.5) / n])
    ours = [np.sort(values)[chosen] for values in (before, after)]
    drawn = np.concatenate([normal, *ours])
    low, high = float(drawn.min()), float(drawn.max())
    frame = _Frame((float(normal.min()) - 0.2, float(normal.max()) + 0.2), (low, high))
    end = (max(frame.x_range[0], low), min(frame.x_range[1], high))
    body = f'<polyline class="target" points="{frame.points(np.array(end), np.array(end))}"/>'
    for kind, values in zip(("before", "after"), ours, strict=True):
        body += f'<path class="{kind}" d="{frame.dots(normal, values)}"/>'
    return frame.svg(title, body, "normal quantile", "standard deviations")


def search(lmbda: Array, delta: NDArray[np.int8], result: float, title: str) -> str:
    """The lambdas that the search visited, and the sign that was opened at each."""
    if not len(lmbda):
        return _blank(title, "no search: no sign was opened")
    steps = np.arange(1, len(lmbda) + 1, dtype=np.float64)
    low, high = (float(f(np.append(lmbda, result))) for f in (np.min, np.max))
    margin = 0.06 * (high - low) or 0.5
    frame = _Frame((0.0, len(lmbda) + 1.0), (low - margin, high + margin))
    ends = np.array(frame.x_range)
    body = (
        f'<polyline class="target" points="{frame.points(ends, np.full(2, result))}"/>'
        f'<polyline class="path" points="{frame.points(steps, lmbda)}"/>'
    )
    for kind, sign, shape in (("up", 1, "l3 5.5h-6z"), ("down", -1, "l-3 -5.5h6z")):
        tips = zip(steps[delta == sign], lmbda[delta == sign], strict=True)
        # The mark is centred on the point: its tip lies 3 above or below.
        marks = (f"M{frame.x(s)} {round(frame.y(v) - 3 * sign, 1)}{shape}" for s, v in tips)
        body += f'<path class="{kind}" d="{"".join(marks)}"/>'
    return frame.svg(title, body, "step", "λ")


class _Frame:
    """Turns data into pixels of the chart, and draws the axes around them."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self.x_range, self.y_range = x_range, y_range

    def x(self, value: float) -> float:
        low, high = self.x_range
        share = (value - low) / (high - low)
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        low, high = self.y_range
        share = (value - low) / ((high - low) or 1.0)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)

    def points(self, x: Array, y: Array) -> str:
        return " ".join(f"{self.x(a)},{self.y(b)}" for a, b in zip(x, y, strict=True))

    def dots(self, x: Array, y: Array) -> str:
        """Lines of no length, which round line ends turn into dots."""
        return "".join(f"M{self.x(a)} {self.y(b)}h0" for a, b in zip(x, y, strict=True))

    def svg(self, title: str, body: str, x_label: str, y_label: str, y_ticks: bool = True) -> str:
        bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
        axes = f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>'
        for value in _ticks(*self.x_range):
            place = min(max(self.x(value), _LEFT + 4), right - 8)
            axes += f'<text x="{place}" y="{bottom + 12}">{number(value)}</text>'
        for value in _ticks(*self.y_range) if y_ticks else ():
            axes += (
                f'<text class="y" x="{_LEFT - 4}" y="{self.y(value) + 3}">{number(value)}</text>'
            )
        middle = (_LEFT + right) / 2
        axes += f'<text class="label" x="{middle}" y="{HEIGHT - 6}">{text(x_label)}</text>'
        turn = f"translate(9 {(_TOP + bottom) / 2}) rotate(-90)"
        axes += f'<text class="label" transform="{turn}">{text(y_label)}</text>'
        return _svg(title, body + axes)


def _ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers between low and high."""
    span = high - low
    if not span > 0 or not isfinite(span):
        return []
    power = 10.0 ** floor(log10(span / about))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= about)
    first, last = ceil(low / step), floor(high / step)
    return [k * step for k in range(first, last + 1)] if last - first < 20 else []


def _blank(title: str, words: str) -> str:
    """A chart that says why nothing is drawn."""
    return _svg(title, f'<text x="{WIDTH / 2}" y="{HEIGHT / 2}">{text(words)}</text>')


def _svg(title: str, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{text(title)}</title>{body}</svg>'
    )
