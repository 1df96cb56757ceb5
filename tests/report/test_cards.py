"""Cards: of all features where they are few, of the most interesting ones otherwise."""

from __future__ import annotations

import re

import numpy as np
from scipy.stats import skew

from securefedyj.report import page as report
from tests.report.runs import fit


def test_many_features_are_drawn_in_part_and_listed_in_full(tmp_path):
    p = 300
    X = np.random.default_rng(0).lognormal(size=(30, p))
    X[:, 200] = np.arange(30) == 3
    transcript = fit(X, tuple(f"f{j}" for j in range(p)), ("a",))
    report.write(tmp_path / "r.html", transcript, X)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    drawn = re.findall(r"<h3><bdi>f(\d+)</bdi>", page)
    assert len(drawn) == report.PLOTS
    assert "200" in drawn  # the search hit its limit
    skewed = np.argsort(-skew(X, axis=0))[:5]
    assert {str(j) for j in skewed} <= set(drawn)
    assert f"{report.PLOTS} of {p} features are drawn" in page
    assert page.count("<tr>") == 1 + p
    assert sorted(re.findall(r'href="#f(\d+)"', page)) == sorted(drawn)
    assert len(page) < 1_000_000
    assert "<h3>" not in report.render(transcript, plots=0)
