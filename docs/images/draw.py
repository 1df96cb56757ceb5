"""Draw what lambda does to values, what each method finds, and who sends what in a submitted run.

python docs/images/draw.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp, log, log1p, pi, sqrt
from pathlib import Path
from statistics import NormalDist

# From the palette of Okabe and Ito, whose colours every reader can tell apart.
COLORS = {-1: "#56B4E9", 0: "#0072B2", 1: "#000000", 2: "#D55E00", 3: "#E69F00"}
SHAPES = {0: "long tail to the right", 1: "normal already", 2: "long tail to the left"}
WIDTH, HEIGHT, MARGIN, GAP = 340, 260, 40, 60
POINTS = 80
SPREAD = 0.6  # of the logarithms of the column that all methods are shown with


def psi(lmbda: float, x: float) -> float:
    """The Yeo-Johnson transformation."""
    if x < 0:
        return -psi(2 - lmbda, -x)
    return ((1 + x) ** lmbda - 1) / lmbda if lmbda else log1p(x)


def density(lmbda: float, x: float) -> float:
    """Of values that are transformed to a normal distribution."""
    slope = (1 + abs(x)) ** ((lmbda - 1) if x >= 0 else (1 - lmbda))
    return exp(-(psi(lmbda, x) ** 2) / 2) / sqrt(2 * pi) * slope


class Panel:
    """A coordinate system at some place of the picture."""

    def __init__(self, left: float, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.left, self.x, self.y = left, x, y

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is drawn."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + across * WIDTH, MARGIN + (1 - up) * HEIGHT

    def curve(self, function: Callable[[float], float], color: str) -> str:
        """A function; what is outside of the panel is cut off."""
        step = (self.x[1] - self.x[0]) / POINTS
        values = [self.x[0] + step * k for k in range(POINTS + 1)]
        reach = self.y[1] - self.y[0]
        near = [x for x in values if abs(function(x)) <= reach]
        points = " ".join("{:.1f},{:.1f}".format(*self.at(x, function(x))) for x in near)
        return (
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2" '
            f'clip-path="url(#p{self.left})"/>'
        )

    def frame(self, title: str, ticks: tuple[list[int], list[int]]) -> list[str]:
        """Title, border and numbers."""
        bottom = MARGIN + HEIGHT
        area = f'x="{self.left}" y="{MARGIN}" width="{WIDTH}" height="{HEIGHT}"'
        drawn = [
            f'<clipPath id="p{self.left}"><rect {area}/></clipPath>',
            f'<rect {area} fill="none" stroke="#8C8C8C"/>',
            text(self.left + WIDTH / 2, MARGIN - 12, title, "middle"),
        ]
        for x in ticks[0]:
            drawn.append(text(self.at(x, 0)[0], bottom + 16, str(x), "middle"))
        for y in ticks[1]:
            drawn.append(text(self.left - 6, self.at(0, y)[1] + 4, str(y), "end"))
        return drawn


def text(x: float, y: float, words: str, anchor: str = "start", color: str = "#000000") -> str:
    """Words at a place."""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{color}">{words}</text>'


def svg(width: float, height: float, lines: list[str]) -> str:
    """A picture with a white background."""
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#FFFFFF"/>',
    ]
    return "\n".join([*head, *lines, "</svg>", ""])


def what_lambda_does() -> str:
    """Curves of the transformation, and densities."""
    left = Panel(MARGIN, (-4, 4), (-4, 4))
    right = Panel(MARGIN + WIDTH + GAP, (-4, 4), (0, 0.8))
    width, height = right.left + WIDTH + MARGIN / 2, MARGIN + HEIGHT + 44
    lines = [
        *left.frame("what λ does: Ψ(λ, x)", ([-4, 0, 4], [-4, 0, 4])),
        *right.frame("which data have it: densities that become normal", ([-4, 0, 4], [])),
        text(left.left + WIDTH / 2, height - 8, "x", "middle"),
        text(right.left + WIDTH / 2, height - 8, "x", "middle"),
    ]
    for k, (lmbda, color) in enumerate(COLORS.items()):
        lines.append(left.curve(partial(psi, lmbda), color))
        lines.append(text(left.left + 12, MARGIN + 22 + 18 * k, f"λ = {lmbda}", color=color))
    for k, (lmbda, shape) in enumerate(SHAPES.items()):
        lines.append(right.curve(partial(density, lmbda), COLORS[lmbda]))
        words = f"λ = {lmbda}: {shape}"
        lines.append(text(right.left + 12, MARGIN + 22 + 18 * k, words, color=COLORS[lmbda]))
    return svg(width, height, lines)


def skewed(x: float) -> float:
    """The density of a lognormal column whose median is 2."""
    return exp(-(((log(x) - log(2)) / SPREAD) ** 2) / 2) / (x * SPREAD * sqrt(2 * pi)) if x else 0.0


def what_methods_find() -> str:
    """One skewed column: bent to a normal shape, its mean and spread, and its quantiles."""
    titles = ("yeo-johnson, box-cox: a normal shape", "standard: mean and spread",
              "robust, quantiles: values at ranks")  # fmt: skip
    panels = [Panel(MARGIN + k * (WIDTH + GAP / 2), (0, 8), (0, 0.5)) for k in range(3)]
    panels[0].x = (-3, 5)
    lines = []
    for panel, title in zip(panels, titles, strict=True):
        lines += panel.frame(title, (list(range(int(panel.x[0]), int(panel.x[1]) + 1, 2)), []))
        lines.append(panel.curve(lambda x: skewed(max(x, 0)), COLORS[1]))
    lines.append(panels[0].curve(NormalDist().pdf, COLORS[2]))
    lines.append(text(panels[0].left + 12, MARGIN + 22, "after", color=COLORS[2]))
    lines.append(text(panels[0].left + 12, MARGIN + 40, "before"))
    mean = 2 * exp(SPREAD**2 / 2)
    deviation = mean * sqrt(exp(SPREAD**2) - 1)
    quartiles = [2 * exp(SPREAD * NormalDist().inv_cdf(q)) for q in (0.25, 0.5, 0.75)]
    found = [
        (f"{mean:.1f} ± {deviation:.1f}", [mean - deviation, mean, mean + deviation]),
        ("quartiles", quartiles),
    ]
    for panel, (words, places) in zip(panels[1:], found, strict=True):
        for x in places:
            (left, bottom), (_, top) = panel.at(x, 0), panel.at(x, 0.42)
            lines.append(f'<path d="M{left:.1f} {bottom:.1f}V{top:.1f}" stroke="{COLORS[2]}"/>')
        lines.append(text(panel.left + WIDTH - 12, MARGIN + 22, words, "end", COLORS[2]))
    return svg(panels[2].left + WIDTH + MARGIN / 2, MARGIN + HEIGHT + 30, lines)


def who_sends_what() -> str:
    """A submitted run: from the hospitals by the mailbox to the members, and back."""
    lefts, width, height, rows = (40, 330, 620), 170, 56, (50, 130, 210)
    lines = [
        f'<marker id="tip{k}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
        f'<path d="M0 0L8 4L0 8Z" fill="{COLORS[k]}"/></marker>'
        for k in range(3)
    ]

    def box(x: float, y: float, high: float, words: str, below: str) -> None:
        size = f'x="{x}" y="{y}" width="{width}" height="{high}" rx="6"'
        lines.append(f'<rect {size} fill="none" stroke="#595959"/>')
        lines.append(text(x + width / 2, y + high / 2 - 5, words, "middle"))
        lines.append(text(x + width / 2, y + high / 2 + 13, below, "middle", "#595959"))

    def arrow(path: str, k: int, *, both: bool = False) -> None:
        start = f'marker-start="url(#tip{k})" ' * both
        lines.append(
            f'<path d="{path}" fill="none" stroke="{COLORS[k]}" stroke-width="2" {start}'
            f'marker-end="url(#tip{k})"/>'
        )

    box(lefts[1], rows[0], rows[2] - rows[0] + height, "mailbox of the hub", "opens no file")
    for k, y in enumerate(rows):
        box(lefts[0], y, height, f"hospital {'ABC'[k]}", "offline in between")
        box(lefts[2], y, height, f"member {k + 1}", "opens its part alone")
        for x in lefts[:2]:
            arrow(f"M{x + width} {y + 18}H{x + 290}", 0)
            arrow(f"M{x + 290} {y + 38}H{x + width}", 2)
        if k:
            arrow(f"M{lefts[2] + width / 2} {rows[k - 1] + height}V{y}", 1, both=True)
    side = lefts[2] + width
    arrow(f"M{side} {rows[0] + 28}H{side + 22}V{rows[2] + 28}H{side}", 1, both=True)
    words = (
        "1 submit: one sealed, signed file, once",
        "2 join: the members compute together",
        "3 result: signed by at least two members",
    )
    for k, (x, step) in enumerate(zip((40, 330, 585), words, strict=True)):
        lines.append(text(x, 28, step, color=COLORS[k]))
    lines.append(text(40, 296, "Without a way to the hub, files go by mail or on a USB stick."))
    return svg(850, 312, lines)


PICTURES = {
    "lambda.svg": what_lambda_does,
    "methods.svg": what_methods_find,
    "submit.svg": who_sends_what,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        Path(__file__).with_name(name).write_text(draw(), encoding="utf-8")
