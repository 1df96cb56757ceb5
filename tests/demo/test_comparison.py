"""The comparison with scikit-learn."""

from __future__ import annotations

import numpy as np

from securefedyj.demo.comparison import compare


def test_comparison_tells_which_fit_is_better():
    X = np.random.default_rng(0).lognormal(size=(50, 3))
    X[:, 2] = 7.0
    comparison = compare(X, ["a", "b", "c"])
    assert comparison.different == []
    assert sorted(comparison.alike) == [0, 1]
    assert list(comparison.constant) == [False, False, True]
