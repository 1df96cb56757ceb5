"""A submitted run gives the same bits as a live one on the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import Counts, Headers, Possible
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import agreement, plain, shuffled
from tests.refusals import refused

METHODS: tuple[dict[str, tuple[str, ...]], ...] = (
    {"yeo-johnson": (), "standard": (), "quantiles": ("0.1", "0.5")},
    {"box-cox": (), "robust": ("0.25", "0.5", "0.75")},
    {"yeo-johnson": ()},
    {"standard": ()},
    {"yeo-johnson": ()},
)
BOUNDS = [(0.0, 120.0), (0.01, 12.0), (-40.0, 40.0), (0.0, 1.0), (0.0, 1e6)]
RESOLUTION = ("1", "0.01", "0.5", "1", "1")
DIGITS = (0, 0, 0, 0, 2)


def rows(size: int = 48) -> np.ndarray:
    """Ages, a laboratory value, a difference with missing values, a flag, a skewed cost."""
    rng = np.random.default_rng(11)
    change = rng.integers(-30, 30, size) / 2
    change[::5] = np.nan
    cost = np.array([float(f"{v:.1e}") for v in rng.lognormal(6, 2, size).clip(10, 9e5)])
    return np.column_stack([
        rng.integers(18, 95, size),
        np.round(rng.lognormal(0, 0.6, size), 2).clip(0.01, 12),
        change,
        rng.random(size) < 0.1,
        cost,
    ])  # fmt: skip


def agreed(silos: int, helpers: int = 0, **changes: Any) -> Agreement:
    parties = silos + helpers
    own = agreement(
        len(METHODS),
        parties,
        BOUNDS,
        "replicated",
        methods=METHODS,
        resolution=RESOLUTION,
        digits=DIGITS,
        verified=True,
        submitted=True,
        max_steps=6,
        **changes,
    )
    return replace(own, helpers=own.parties[silos:], committee=own.parties[-3:])


def live(submitted: Agreement) -> Agreement:
    return replace(submitted, submitted=False)


def of_both(agreement: Agreement, tables: Sequence[Any]) -> tuple[Transcript, Transcript]:
    return simulate(live(agreement), tables)[0], simulate(agreement, tables)[0]


def same(one: Transcript, other: Transcript) -> None:
    """Both have revealed the same, but for what a submitted run begins with."""
    kept = [reveal for reveal in other.reveals if not isinstance(reveal, Headers | Possible)]
    assert plain(one.reveals) == plain(kept)
    assert one.result is not None
    assert other.result is not None
    for ours, theirs in zip(one.result, other.result, strict=True):
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    assert one.quantiles() == other.quantiles()


@pytest.mark.parametrize(("silos", "helpers"), [(3, 0), (4, 0), (2, 1), (10, 0), (5, 3)])
def test_submitted_run_gives_the_bits_of_a_live_one(silos: int, helpers: int) -> None:
    """With silos in the committee and outside of it, with helpers, and one silo without rows."""
    tables: list[Any] = [*shuffled(rows(), silos - 1), np.empty((0, len(METHODS)))]
    found, submitted = of_both(agreed(silos, helpers), [*tables, *[None] * helpers])
    same(found, submitted)
    assert submitted.audit().passed
    assert "no total of its submitted counts" in submitted.audit().statement()
    assert "no total of its submitted counts" not in found.audit().statement()
    assert [type(one) for one in submitted.reveals[:3]] == [Headers, Counts, Possible]


def test_live_features_mix_with_submitted_ones() -> None:
    """Of five features two are live, with values that are on no grid, in the same exchanges."""
    X = rows()
    X[:, 2] += np.linspace(0, 0.3, len(X))
    X[:, 4] += 0.125
    tables = shuffled(X, 4)
    own = agreed(4)
    mixed = replace(own, resolution=("1", "0.01", "", "1", ""), digits=())
    assert mixed.given.tolist() == [True, True, False, True, False]
    assert mixed.online == mixed.parties
    same(*of_both(mixed, tables))


def test_only_the_committee_is_online() -> None:
    own = agreed(5)
    _, cost = simulate(own, shuffled(rows(), 5))
    points = sum(map(len, own.points))
    for name in own.parties[:2]:
        sent = [cost.bytes_sent[name][member] for member in own.committee]
        assert sorted(sent) == [64, 32 + 16 * points, 32 + 16 * points]
        assert cost.bytes_received[name] == 0


def test_value_between_points_is_refused_at_home_unless_it_is_rounded() -> None:
    X = rows()
    X[7, 0] = 30.25
    own = agreed(3)
    with refused("SFY-RUN-017", naming="30.25"):
        simulate(own, [X, X, X])
    rounded = simulate(replace(own, rounded=(True,) * 5), [X, X, X])[0]
    X[7, 0] = 30.0
    same(simulate(live(own), [X, X, X])[0], rounded)
