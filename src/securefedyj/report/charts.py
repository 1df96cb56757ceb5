"""Small charts as SVG text, for pages and pictures that load nothing.

All have one size, in pixels of the page, so that their text has its nominal size. Colours, and
so light and dark, come from the style sheet of the page, by the classes used here.

Three things make a histogram with bars of equal width hard to read: a long tail, which squeezes all
other values into one bar; values that heap on few points, which fall next to the middles of bars;
and counts or rounded values, where some bars cover one point more than others. `binned` avoids all
three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, isfinite, log10, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from securefedyj.numerics.arrays import Array, Bools
from securefedyj.report import templates

WIDTH, HEIGHT = 280, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 14, 36
_CHARACTER = 6.5  # pixels, about
_CURVE_POINTS, _QUANTILES, _TICKS = 64, 60, 5  # at most
MOST_OF_A_CURVE = 2.5  # standard deviations on either side
_FARTHEST = 6.0  # standard deviations of a Q-Q plot; dots beyond lie at its edge
_LEAST_HEIGHT = 3.0  # pixels of a bar that is not empty
_LEAST_WIDTH = 2.0
_SPARK_BARS, _SPARK_HEIGHT = 20, 14
_NORMAL = NormalDist()  # that of SciPy takes a second to load

MOST_BARS = 30
_TAIL = 0.01  # of the values, on either side
_WORTH_CUTTING = 2.0  # times as wide as what is left
_MOST_DISTINCT = 4000  # more are no grid that one could see
_MOST_HEAPS = 24
_CLOSE, _TIGHT = 1 / 60, 1 / 30  # of the width of the chart
_WIDEST_BAR = 1 / 14
_ROUNDING = 1e-9  # of the largest value
_SMALLEST = 1e-200


def number(value: float, digits: int = 4) -> str:
    """A number for people: few digits, and a typographic minus sign."""
    return f"{value:.{digits}g}".replace("e+0", "e").replace("e+", "e").replace("-", "−")


def signed(value: float) -> str:
    """A difference for people: with its sign, and two decimals unless it is large."""
    if not abs(value) < 1000:
        return number(value, 3)
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")  # never −0.00


def skew(x: Array) -> float:
    """The skewness; 0 where it is not defined.

    Distances are scaled so that their powers neither overflow nor vanish.
    """
    if len(x) == 0 or not 0 < np.ptp(x) < np.inf:
        return 0.0
    distance = x - x.mean()
    distance /= np.abs(distance).max()
    return float(np.mean(distance**3) / np.mean(distance**2) ** 1.5)


class Curve(NamedTuple):
    """A density to draw over a histogram, and where most of it lies."""

    density: Callable[[Array], Array]
    low: float
    high: float


def normal_density(z: Array) -> Array:
    """The density of the standard normal distribution."""
    with np.errstate(over="ignore", under="ignore"):
        density: Array = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return density


def normal_curve(mean: float = 0.0, deviation: float = 1.0) -> Curve:
    """The density of a normal distribution."""
    reach = MOST_OF_A_CURVE * deviation
    return Curve(
        lambda x: normal_density((x - mean) / deviation) / deviation, mean - reach, mean + reach
    )


def histogram(values: Array, title: str, label: str, curve: Curve | None) -> Markup:
    """The distribution of values, next to the one that the curve describes."""
    if not isfinite(float(values.max()) - float(values.min())):
        where = {"x": WIDTH / 2, "y": HEIGHT / 2}
        return _svg(title, [("text", where, "beyond what can be drawn")])
    bins = binned(values)
    low, high = float(bins.left[0]), float(bins.right[-1])
    grid, heights = np.empty(0), np.empty(0)
    if curve is not None:
        # Show the whole curve, but leave the bars a third of the width.
        room = high - low
        low, high = max(min(low, curve.low), low - room), min(max(high, curve.high), high + room)
        grid = np.linspace(low, high, _CURVE_POINTS)
        heights = curve.density(grid)
    top, cut = _top(bins.density, float(heights.max(initial=0.0)))
    chart = Chart((low, high), (0.0, top))
    chart.bars(bins, top)
    if len(grid):
        chart.line("curve", grid, np.minimum(heights, top))
    for k in np.flatnonzero(cut):
        middle = np.clip(chart.x((bins.left[k] + bins.right[k]) / 2), _LEFT + 22, WIDTH - 30)
        chart.text(f"{bins.share[k]:.0%} ↑", middle, _TOP - 3, "cut")
    if bins.below:
        chart.text(f"← {bins.below:,} more", _LEFT + 3, _TOP + 12, "first")
    if bins.above:
        chart.text(f"{bins.above:,} more →", WIDTH - _RIGHT - 1, _TOP + 12, "y")
    return chart.svg(title, label, "density", y_ticks=False)


def _top(density: Array, curve: float) -> tuple[float, Bools]:
    """The height of the chart, and the bars to cut: one or two that dwarf all others."""
    falling = np.sort(density[density > 0])[::-1]
    cut = np.zeros(len(density), dtype=bool)
    if len(falling) > 5:
        for tall, others in ((1, falling[1]), (2, falling[2])):
            reference = max(float(others), min(curve, float(falling[0]) / 4))
            if falling[tall - 1] > 2.5 * reference:
                return 1.6 * reference, density >= falling[tall - 1]
    # A curve far above all bars, such as one of other silos' values, is cut at the top.
    return 1.05 * min(max(float(falling[0]), curve), 2.5 * float(falling[0])), cut


def spark(values: Array, low: float | None = None, high: float | None = None) -> str:
    """A histogram as small as a word: its outline, over a given range or that of the values."""
    if low is None or high is None:
        low, high = window(values)
    place = (np.clip(values, low, high) - low) * (_SPARK_BARS / (high - low))
    counts = np.bincount(np.minimum(place.astype(int), _SPARK_BARS - 1), minlength=_SPARK_BARS)
    falling = np.sort(counts)[::-1]
    top = min(int(falling[0]), max(3 * int(falling[1]), 1)) or 1
    steps = np.ceil(np.minimum(counts, top) * (_SPARK_HEIGHT / top)).astype(int)
    path, at = f"M0 {_SPARK_HEIGHT}", 0
    for height in steps.tolist():
        path += (f"v{at - height}" if height != at else "") + "h3"
        at = height
    return f"{path}v{at}z"


def quantiles(before: Array, after: Array, title: str) -> Markup:
    """Quantiles against those of the normal distribution: on the diagonal they agree."""
    n = len(after)
    chosen = np.unique(np.linspace(0, n - 1, min(n, _QUANTILES)).round().astype(int))
    normal = np.array([_NORMAL.inv_cdf(share) for share in (chosen + 0.5) / n])
    ours = [np.sort(values)[chosen] for values in (before, after)]
    drawn = np.clip(np.concatenate([normal, *ours]), -_FARTHEST, _FARTHEST)
    low, high = float(drawn.min()) - 0.2, float(drawn.max()) + 0.2
    chart = Chart((float(normal.min()) - 0.2, float(normal.max()) + 0.2), (low, high))
    ends = np.array([max(chart.x_range[0], low), min(chart.x_range[1], high)])
    chart.line("target", ends, ends)
    for kind, values in zip(("before", "after"), ours, strict=True):
        chart.dots(kind, normal, np.clip(values, low, high))
    return chart.svg(title, "normal quantile", "standard deviations")


def search(lmbda: Array, delta: NDArray[np.int8], result: float, title: str) -> Markup:
    """The lambdas that the search visited, and the sign opened at each."""
    chart = Chart.of_steps(len(lmbda), np.append(lmbda, result), result)
    steps = np.arange(1, len(lmbda) + 1, dtype=np.float64)
    chart.line("path", steps, lmbda)
    for kind, sign, shape in (("up", 1, "l3 5.5h-6z"), ("down", -1, "l-3 -5.5h6z")):
        tips = zip(steps[delta == sign], lmbda[delta == sign], strict=True)
        # Center the mark on the point: its tip lies 3 above or below.
        marks = (f"M{chart.x(s)} {round(chart.y(v) - 3 * sign, 1)}{shape}" for s, v in tips)
        chart.path(kind, "".join(marks))
    return chart.svg(title, "step", "λ")


class Chart:
    """A chart: places data in its frame, and draws the axes around them."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self.x_range, self.y_range = x_range, y_range
        self._marks: list[_Mark] = []

    @classmethod
    def of_steps(cls, steps: int, lmbda: Array, result: float) -> Chart:
        """Of a search that visits some lambdas, with a line at its result."""
        low, high = float(lmbda.min()), float(lmbda.max())
        margin = 0.06 * (high - low) or 0.5
        chart = cls((0.0, steps + 1.0), (low - margin, high + margin))
        chart.line("target", np.array(chart.x_range), np.full(2, result))
        return chart

    def x(self, value: float) -> float:
        low, high = self.x_range
        share = (value - low) / (high - low)
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        low, high = self.y_range
        share = (value - low) / ((high - low) or 1.0)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)

    def line(self, kind: str, x: Array, y: Array) -> None:
        points = " ".join(f"{self.x(a)},{self.y(b)}" for a, b in zip(x, y, strict=True))
        self._marks.append(("polyline", {"class": kind, "points": points}, ""))

    def bars(self, bins: Bins, top: float) -> None:
        """The bars of a histogram, of at most that height."""
        bars, base = "", self.y(0)
        for left, right, height in zip(bins.left, bins.right, bins.density, strict=True):
            if height > 0:  # such a bar stays visible, however low it is
                start, end = self.x(left), self.x(right)
                tip = round(min(self.y(min(height, top)), base - _LEAST_HEIGHT), 1)
                bars += f"M{start} {base}V{tip}H{max(end, start + _LEAST_WIDTH)}V{base}"
        self.path("bars", bars)

    def box(self, kind: str, points: Array, height: float, inside: Sequence[int]) -> None:
        """A line from the first to the last of some points, with a mark at each, and a box from the
        first to the last of those inside."""
        half, middle, x = 7, self.y(height), [self.x(point) for point in points.tolist()]
        path = "".join(f"M{at} {middle - half}v{2 * half}" for at in x)
        left, right = (x[inside[0]], x[inside[-1]]) if inside else (x[-1], x[-1])
        path += f"M{x[0]} {middle}H{left}M{right} {middle}H{x[-1]}"
        if inside:
            path += f"M{left} {middle - half}H{right}V{middle + half}H{left}z"
        self.path(kind, path)

    def dots(self, kind: str, x: Array, y: Array) -> None:
        """Lines of no length, which round line ends turn into dots."""
        self.path(kind, "".join(f"M{self.x(a)} {self.y(b)}h0" for a, b in zip(x, y, strict=True)))

    def path(self, kind: str, outline: str) -> None:
        self._marks.append(("path", {"class": kind, "d": outline}, ""))

    def text(self, words: str, x: float, y: float, kind: str | None = None) -> None:
        self._marks.append(("text", {"class": kind, "x": x, "y": y}, words))

    def svg(self, title: str, x_label: str, y_label: str, y_ticks: bool = True) -> Markup:
        bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
        self.path("axis", f"M{_LEFT} {_TOP}V{bottom}H{right}")
        for value, label in _labels(_ticks(*self.x_range), right - _LEFT):
            half = len(label) * _CHARACTER / 2
            place = round(min(max(self.x(value), _LEFT - 8 + half), WIDTH - half), 1)
            self.text(label, place, bottom + 14)
        for value, label in _labels(_ticks(*self.y_range), WIDTH) if y_ticks else ():
            self.text(label, _LEFT - 5, self.y(value) + 4, "y")
        self.text(x_label, (_LEFT + right) / 2, HEIGHT - 5, "label")
        turn = f"translate(10 {(_TOP + bottom) / 2}) rotate(-90)"
        return _svg(title, [*self._marks, ("text", {"class": "label", "transform": turn}, y_label)])


def _ticks(low: float, high: float) -> list[float]:
    """A few round numbers between low and high."""
    span = high - low
    if not span > 0 or not isfinite(span):
        return []
    power = 10.0 ** floor(log10(span / _TICKS))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= _TICKS)
    first, last = ceil(low / step), floor(high / step)
    return [k * step for k in range(first, last + 1)] if last - first < 20 else []


def _labels(ticks: list[float], width: float) -> list[tuple[float, str]]:
    """The ticks, with enough digits to tell them apart, and no more of them than fit."""
    before_point = len(f"{max(map(abs, ticks), default=0):.0f}")
    least = before_point if 3 < before_point < 6 else 3  # 1000 rather than 1e3
    digits = next(
        (d for d in range(least, 17) if len({number(t, d) for t in ticks}) == len(ticks)), 17
    )
    labels = [(tick, number(tick, digits)) for tick in ticks]
    room = width / (_CHARACTER * max((len(label) + 1 for _, label in labels), default=1))
    return labels[:: max(1, ceil(len(labels) / room))]


_Mark: TypeAlias = tuple[str, dict[str, Any], str]  # an element, its attributes, and its text


def _svg(title: str, marks: list[_Mark]) -> Markup:
    chart = templates(__package__).get_template("chart.svg")
    return Markup(chart.render(width=WIDTH, height=HEIGHT, title=title, marks=marks))


_Bars = tuple[Array, Array, Array]  # where each begins and ends, and the width that it represents


class Bins(NamedTuple):
    """Bars from left to right, and the numbers of values beyond them."""

    left: Array
    right: Array
    share: Array  # of all values
    density: Array
    below: int
    above: int


def binned(values: Array) -> Bins:
    """The bars of finite values; a single bar if they are equal up to rounding."""
    if not distinguishable(values):
        middle = np.array([float(values.mean())])
        half = np.maximum(0.5, 1e-3 * np.abs(middle))
        return Bins(middle - half, middle + half, np.ones(1), 1 / (2 * half), 0, 0)
    low, high = window(values)
    inside = values[(values >= low) & (values <= high)]
    left, right, width = _around_heaps(inside) or _even(inside)
    place = np.searchsorted(left, inside, side="right") - 1
    share = np.bincount(place, minlength=len(left)) / len(values)
    below, above = int(np.sum(values < low)), int(np.sum(values > high))
    return Bins(left, right, share, share / width, below, above)


def distinguishable(values: Array) -> bool:
    """Whether the values differ by more than rounding."""
    if len(values) == 0:
        return False
    return bool(np.ptp(values) > max(_ROUNDING * np.abs(values).max(), _SMALLEST))


def window(values: Array) -> tuple[float, float]:
    """The range of all values, or of nearly all where a tail would take most of the width."""
    low, high = float(values.min()), float(values.max())
    first, last = np.quantile(values, (_TAIL, 1 - _TAIL))
    margin = 0.25 * (last - first)
    near, far = max(low, first - margin), min(high, last + margin)
    kept = values[(values >= near) & (values <= far)]
    if high - low < _WORTH_CUTTING * (far - near) or not distinguishable(kept):
        return low, high
    return near, far


def _around_heaps(values: Array) -> _Bars | None:
    """One bar for each heap, or None where values do not heap.

    A heap represents all values up to the middle between it and the next one, so its density can be
    compared with a curve. Where heaps are few its bar is narrower, or they would look like one.
    """
    points = np.unique(values)
    width = points[-1] - points[0]
    starts = np.flatnonzero(np.diff(points) > _CLOSE * width) + 1
    heaps = np.split(points, starts) if 0 < len(starts) < _MOST_HEAPS else []
    if not heaps or max(heap[-1] - heap[0] for heap in heaps) > _TIGHT * width:
        return None
    first = np.array([heap[0] for heap in heaps])
    last = np.array([heap[-1] for heap in heaps])
    half = (first[1:] - last[:-1]) / 2
    # Next to a gap, and at the ends, a heap represents about as much as the others.
    usual = float(np.median(half))
    before, after = np.append(usual, half), np.append(half, usual)
    before, after = (np.minimum(side, 1.5 * usual) for side in (before, after))
    most = _WIDEST_BAR * width
    drawn = [np.minimum(side, most / 2) for side in (before, after)]
    return first - drawn[0], last + drawn[1], last - first + before + after


def _even(values: Array) -> _Bars:
    """Bars of one width. If the values lie on a grid, each covers the same number of its points."""
    low, high = float(values.min()), float(values.max())
    bars = min(MOST_BARS, max(8, ceil(sqrt(len(values)))))
    edges: Array = np.linspace(low, high, bars + 1)
    if (step := _grid(values)) is not None:
        points = round((high - low) / step) + 1
        each = ceil(points / bars)
        edges = low - step / 2 + step * each * np.arange(ceil(points / each) + 1.0)
    return edges[:-1], edges[1:], np.diff(edges)


def _grid(values: Array) -> float | None:
    """The step of the grid that the values lie on, such as 1 for counts; None without a grid."""
    points = np.unique(values)
    if not 2 < len(points) <= _MOST_DISTINCT:
        return None
    step = float(np.diff(points).min())
    multiples = (points - points[0]) / step
    if multiples[-1] > 1e6 or np.abs(multiples - np.round(multiples)).max() > 1e-3:
        return None
    return step
