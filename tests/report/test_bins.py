"""Bars of a histogram: readable for tails, heaps and counts, and no value is lost."""

from __future__ import annotations

import numpy as np
import pytest

from securefedyj.report.charts import MOST_BARS, binned, distinguishable

RNG = np.random.default_rng(0)
SHAPES = {
    "normal": RNG.normal(size=500),
    "lognormal": RNG.lognormal(size=500),
    "long tail": np.append(RNG.gamma(2, size=496), [50, 60, 1e3, 1e6]),
    "both tails": np.append(RNG.normal(size=496), [-1e6, 1e6, -50, 70]),
    "zeros and more": np.where(RNG.random(500) < 0.6, 0, RNG.gamma(2, 3, 500)),
    "scores": RNG.integers(3, 16, 500).astype(float),
    "counts": RNG.poisson(60, 500).astype(float),
    "tenths": np.round(RNG.normal(37, 0.7, 500), 1),
    "two heaps": np.where(RNG.random(500) < 0.5, 1, 5) + RNG.normal(0, 0.01, 500),
    "heaps far apart": RNG.choice([0.0, 1.0, 2.0, 1e4], 500),
    "yes and no": (np.arange(500) % 20 == 0).astype(float),
    "one of many": (np.arange(500) == 3).astype(float),
    "nearly constant": np.append(np.full(499, 3.3), 3.3000000000000003),
    "constant": np.full(9, -1e300),
    "huge": np.array([1e300, -1e300, 0.0]),
    "two values": np.array([1.0, 2.0]),
    "tiny": np.array([0.0, 5e-324]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_value_is_in_one_bar_or_counted_beyond(shape):
    x = SHAPES[shape]
    bins = binned(x)
    assert np.all(bins.left < bins.right)
    assert np.all(bins.right[:-1] <= bins.left[1:])
    assert bins.share.sum() * len(x) == pytest.approx(len(x) - bins.below - bins.above)
    assert np.all(np.isfinite(bins.density))
    assert len(bins.left) <= MOST_BARS + 1


def test_a_long_tail_leaves_the_width_to_the_others():
    bins = binned(SHAPES["long tail"])
    assert (bins.below, bins.above) == (0, 4)
    assert np.sum(bins.share > 0.01) > 8
    both = binned(SHAPES["both tails"])
    assert both.below == both.above == 2


def test_scores_have_a_bar_each_around_their_value():
    bins = binned(SHAPES["scores"])
    np.testing.assert_allclose((bins.left + bins.right) / 2, np.arange(3, 16))
    shares = [np.mean(SHAPES["scores"] == score) for score in range(3, 16)]
    np.testing.assert_allclose(bins.share, shares)
    np.testing.assert_allclose(bins.density, shares)


@pytest.mark.parametrize(("shape", "step"), [("counts", 1.0), ("tenths", 0.1)])
def test_bars_of_values_on_a_grid_have_equally_many_of_its_points(shape, step):
    x = SHAPES[shape]
    bins = binned(x)
    points = np.arange(round(x.min() / step), round(x.max() / step) + 1) * step
    place = np.searchsorted(bins.left, points, side="right")
    each = np.bincount(place)[1:-1]  # the last bar may reach beyond the values
    assert len(set(each.tolist())) == 1


def test_heaps_are_bars_apart_from_each_other():
    for shape, heaps in (("two heaps", 2), ("yes and no", 2), ("heaps far apart", 2)):
        bins = binned(SHAPES[shape])
        assert len(bins.left) == heaps
        assert bins.right[0] < bins.left[1]


def test_what_differs_by_rounding_alone_is_the_same():
    assert not distinguishable(SHAPES["nearly constant"])
    assert not distinguishable(np.empty(0))
    assert distinguishable(np.array([3.3, 3.3001]))
    assert len(binned(SHAPES["nearly constant"]).left) == 1
