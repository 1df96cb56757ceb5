"""Sums over counts of points are those over rows, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from securefedyj import kernel
from securefedyj.numerics import wide
from securefedyj.numerics.encoding import LINEAR, LOGARITHM, RANKED, RATIO, Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo
from securefedyj.numerics.weighed import LIMBS, WeighedPoints

# Of each feature: its points, bounds, and the scale.
FEATURES = [
    (np.arange(0.0, 121.0), (0.0, 120.0), LOGARITHM),
    (np.arange(-700, 701) / 100, (-7.0, 7.0), LOGARITHM),
    (np.arange(1, 41) / 4, (0.25, 10.0), RATIO),
    (np.arange(0, 2001) * 0.5, (0.0, 1000.0), LINEAR),
    (np.arange(-5.0, 6.0), (-5.0, 5.0), RANKED),
    (np.array([-1e6, -1.0, 0.0, 1e-3, 1e6]), (-1e6, 1e6), LOGARITHM),
]
LAMBDAS = (-3.0, -0.75, 0.0, 1e-9, 0.5, 1.0, 2.0, 4.5)


@pytest.fixture(params=kernel.levels())
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel.VARIABLE, request.param)


def domain_of() -> Domain:
    _, bounds, scale = zip(*FEATURES, strict=True)
    return Domain.from_bounds(bounds, len(FEATURES), scale)


def histograms(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = [rng.poisson(0.8, len(points)) for points, _, _ in FEATURES]
    found[0][:] = 0  # an empty feature
    return found


def rows_of(counts: list[np.ndarray]) -> np.ndarray:
    columns = [np.repeat(points, c) for (points, _, _), c in zip(FEATURES, counts, strict=True)]
    table = np.full((max(map(len, columns)), len(columns)), np.nan)
    for column, values in zip(table.T, columns, strict=True):
        column[: len(values)] = values
    return table


def shared(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two components whose sum is the counts: one large and one negative."""
    large = [int.from_bytes(rng.bytes(17), "little") for _ in counts]
    rest = [int(c) - own for c, own in zip(counts, large, strict=True)]
    return np.stack([wide.from_ints(own, LIMBS) for own in (large, rest)])


def halves_summed(a: np.ndarray) -> np.ndarray:
    first, second = np.split(a, 2, axis=1)
    return wide.add(np.ascontiguousarray(first), np.ascontiguousarray(second))


@pytest.mark.usefixtures("level")
def test_sums_over_shares_of_counts_are_those_over_rows() -> None:
    domain, counts, rng = domain_of(), histograms(4), np.random.default_rng(5)
    points = [points for points, _, _ in FEATURES]
    held = WeighedPoints(domain, points, [shared(own, rng) for own in counts])
    rows = ArraySilo(rows_of(counts), domain, [str(j) for j in range(len(FEATURES))])
    assert wide.to_ints(halves_summed(held.count(np.arange(6)))) == rows.count.tolist()
    summed = np.flatnonzero(domain.scale != RANKED)
    logarithms = np.flatnonzero(domain.scale <= RATIO)
    feature = np.tile(summed, len(LAMBDAS))
    lmbda = np.repeat(LAMBDAS, len(summed))
    encoding = choose_encoding(domain.take(feature), np.full(len(feature), 4000), lmbda)
    for limbs in (1, int(encoding.limbs.max()) + 2):
        assert np.array_equal(
            halves_summed(held.phi_sum(logarithms, limbs)), rows.phi_sum(logarithms, limbs)
        )
        theirs = rows.sums(feature, lmbda, encoding, limbs)
        for name, own in held.sums(feature, lmbda, encoding, limbs)._asdict().items():
            assert np.array_equal(halves_summed(own), getattr(theirs, name)), name
    at = np.array([[-9.0], [-5.0], [-0.5], [0.0], [4.9], [5.0], [7.0]])
    ranked = np.flatnonzero(domain.scale == RANKED)
    assert halves_summed(held.ranks(ranked, at)).tolist() == [
        rows.ranks(ranked, at).ravel().tolist()
    ]


@pytest.mark.usefixtures("level")
def test_feature_without_points_has_no_sums() -> None:
    domain = domain_of().take(np.arange(2))
    nothing = np.zeros((2, LIMBS, 0), dtype=np.uint64)
    own = np.random.default_rng(6).integers(0, 9, (2, 1, 121)).astype(np.uint64)
    counts = np.concatenate([own, np.zeros((2, LIMBS - 1, 121), dtype=np.uint64)], axis=1)
    held = WeighedPoints(domain, [FEATURES[0][0], np.empty(0)], [counts, nothing])
    assert held.count(np.arange(2)).tolist()[0] == [*own[0].sum(1), 0, *own[1].sum(1), 0]
