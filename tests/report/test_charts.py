"""Charts: inside their frame whatever the numbers are."""

from __future__ import annotations

import re

import numpy as np

from securefedyj.report.charts import histogram, quantiles, search


def test_charts_stay_inside_their_frame():
    rng = np.random.default_rng(0)
    for x in (rng.lognormal(size=500), np.array([1e300, -1e300, 0.0]), np.array([2.0, 2.0])):
        z = (x / np.abs(x).max() - np.mean(x / np.abs(x).max())) / 0.5
        drawings = [
            histogram(x, "t", "x", None),
            histogram(z, "t", "z", (0.0, 1.0)),
            quantiles(z, z, "t"),
            search(np.array([0.0, -1.0, -2.0]), np.array([-1, -1, 1], dtype=np.int8), -1.5, "t"),
        ]
        for svg in drawings:
            assert "nan" not in svg
            assert "inf" not in svg
            points = re.findall(r"([\d.-]+),([\d.-]+)", svg)
            assert all(0 <= float(a) <= 270 and -1 <= float(b) <= 168 for a, b in points)
