"""Charts: of one size, and inside their frame whatever the numbers are."""

from __future__ import annotations

import re

import numpy as np
import pytest

from securefedyj.report.charts import HEIGHT, WIDTH, Curve, histogram, quantiles, search, spark
from tests.report.test_bins import SHAPES


def normal(z: np.ndarray) -> np.ndarray:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


NORMAL = Curve(normal, -2.5, 2.5)


def inside(svg: str) -> bool:
    assert "nan" not in svg
    assert "inf" not in svg
    points = re.findall(r"([\d.-]+),([\d.-]+)", svg)
    points += re.findall(r"M([\d.-]+) ([\d.-]+)", svg)
    return all(0 <= float(a) <= WIDTH and -1 <= float(b) <= HEIGHT for a, b in points)


@pytest.mark.parametrize("shape", SHAPES)
def test_charts_stay_inside_their_frame(shape):
    x = SHAPES[shape]
    scaled = x / (np.abs(x).max() or 1.0)
    z = (scaled - scaled.mean()) / 0.5
    drawings = [
        histogram(x, "t", "x", None),
        histogram(z, "t", "z", NORMAL),
        quantiles(z, z, "t"),
        search(np.array([0.0, -1.0, -2.0]), np.array([-1, -1, 1], dtype=np.int8), -1.5, "t"),
    ]
    for svg in drawings:
        assert inside(svg)
        assert svg.startswith(f'<svg width="{WIDTH}" height="{HEIGHT}"')


def test_values_beyond_float64_are_not_drawn():
    assert "beyond what can be drawn" in histogram(np.array([1e308, -1e308]), "t", "x", None)


def tips(svg: str) -> list[float]:
    (path,) = re.findall(r'class="bars" d="([^"]*)"', svg)
    return [float(tip) for tip in re.findall(r"V([\d.]+)H", path)]


def test_a_bar_that_dwarfs_the_others_is_cut_and_says_how_much_it_holds():
    x = SHAPES["zeros and more"]
    svg = histogram(x, "t", "x", None)
    assert f">{np.mean(x < np.ptp(x) / 30):.0%} ↑<" in svg
    highest, *others = sorted(tips(svg))
    assert others[0] - highest < (HEIGHT - others[0]) / 1.2  # or the others could not be seen
    assert "↑" not in histogram(SHAPES["normal"], "t", "x", None)


def test_a_single_value_can_be_seen_beside_many():
    low, high = sorted(tips(histogram(SHAPES["one of many"], "t", "x", None)), reverse=True)
    assert HEIGHT - low >= 36 + 3  # the axis is 36 above the end
    assert high < low


def test_values_that_are_not_drawn_are_counted():
    assert "4 more →" in histogram(SHAPES["long tail"], "t", "x", None)
    assert "← 2 more" in histogram(SHAPES["both tails"], "t", "x", None)


def test_ticks_can_be_told_apart_where_values_are_close():
    svg = histogram(50 + 1e-4 * SHAPES["normal"], "t", "x", None)
    labels = re.findall(r'y="168">([^<]+)<', svg)
    assert len(labels) > 1
    assert len(set(labels)) == len(labels)


def test_ticks_of_some_thousands_are_not_powers():
    labels = re.findall(r'y="168">([^<]+)<', histogram(np.linspace(0, 2500, 99), "t", "x", None))
    assert "1000" in labels
    assert not any("e" in label for label in labels)


def test_sparks_are_small():
    for shape, x in SHAPES.items():
        if shape not in ("constant", "nearly constant", "tiny"):
            assert len(spark(x)) < 400
        assert len(spark(x, -3.5, 3.5)) < 400
