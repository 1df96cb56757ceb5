"""Estimators that simulate a submitted run learn what they learn live, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from securefedyj import (
    SecureColumnTransformer,
    SecureFedYJ,
    SecureQuantiles,
    SecureRobustScaler,
    SecureStandardScaler,
)
from tests.refusals import refused

RNG = np.random.default_rng(3)
X = np.column_stack(
    [RNG.integers(18, 90, 60), np.round(RNG.lognormal(0, 1, 60), 2).clip(0.01, 20)]
).astype(float)
SILOS = [X[:20], X[20:45], X[45:]]
AGREED: dict[str, Any] = {"bounds": [(1, 120), (0.01, 20)], "resolution": [1, "0.01"]}
ESTIMATORS = [
    SecureFedYJ(max_steps=12, **AGREED),
    SecureFedYJ(max_steps=12, method="box-cox", **AGREED),
    SecureStandardScaler(**AGREED),
    SecureRobustScaler(**AGREED),
    SecureQuantiles(**AGREED),
]


@pytest.mark.filterwarnings("ignore:.*steps")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_a_submitted_fit_is_a_live_one(estimator: Any) -> None:
    live = estimator.fit(SILOS).transform(X)
    submitted = estimator.set_params(submitted=True).fit([*SILOS, None])
    assert submitted.transform(X).tobytes() == live.tobytes()
    assert submitted.transcript_.agreement.verified
    assert submitted.transcript_.audit().passed


@pytest.mark.filterwarnings("ignore:.*steps")
def test_cost_tells_what_a_silo_submits() -> None:
    fitted = SecureFedYJ(max_steps=4, submitted=True, **AGREED).fit([X[:9], X[9:20], X[20:], X[:7]])
    points = sum(map(len, fitted.transcript_.agreement.points))
    assert fitted.cost_.bytes_sent["silo 4"] == {
        "silo 1": 64, "silo 2": 32 + 16 * points, "silo 3": 32 + 16 * points
    }  # fmt: skip
    assert fitted.cost_.bytes_received["silo 4"] == 0


def test_values_between_points_are_rounded_only_if_agreed() -> None:
    moved = X + np.array([0.25, 0.0])
    own = SecureStandardScaler(submitted=True, **AGREED)
    with refused("SFY-RUN-017"):
        own.fit([moved, X, None])
    fitted = own.set_params(round=[True, False]).fit([moved, X, None])
    both = SecureStandardScaler(**AGREED).fit([X, X, None])
    assert fitted.mean_.tobytes() == both.mean_.tobytes()


@pytest.mark.filterwarnings("ignore:.*steps")
def test_columns_share_a_submitted_run() -> None:
    bounds, resolution = AGREED["bounds"], AGREED["resolution"]
    parts = [
        ("normal", SecureFedYJ(bounds=bounds[0], resolution=resolution[0]), [0]),
        ("scaled", SecureRobustScaler(bounds=bounds[1], resolution=resolution[1]), [1]),
    ]
    live = SecureColumnTransformer(parts, max_steps=8).fit(SILOS)
    submitted = SecureColumnTransformer(parts, max_steps=8, submitted=True).fit(SILOS)
    assert submitted.transform(X).tobytes() == live.transform(X).tobytes()


def test_a_submitted_run_needs_points() -> None:
    with refused("SFY-CON-041"):
        SecureStandardScaler(submitted=True, bounds=(0, 120)).fit(SILOS)
    with refused("SFY-FIT-018"):
        SecureStandardScaler(submitted=True, digits=[1, 2, 3], bounds=(0, 120)).fit(SILOS)
