"""Mean and variance are revealed as precisely as agreed, and no more; the same for all splits."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from securefedyj import ExpYJ, SecureFedYJ
from securefedyj.engines.clear import Clear
from securefedyj.numerics.encoding import choose_encoding
from securefedyj.numerics.sums import ArraySilo
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.reveals import Magnitudes, Moments, lowest_opened
from tests.datasets import NAMES, table
from tests.federated_data import agreement, as_table, by_value, plain, shuffled, totals
from tests.protocol.test_program import Repeated
from tests.simulation import THREE, simulate

BITS = (8, 24, 44)


@cache
def features() -> np.ndarray:
    """Of every kind: ordinary, of both signs, at the edge, constant, one value, none."""
    rng = np.random.default_rng(6)
    return as_table(
        [
            *table("wine").T[:4],
            *table("iris").T[:2],
            rng.normal(size=150),
            [0.0] * 100 + [1.0],
            [7.5] * 12,
            [3.25],
            np.zeros(0),
        ]
    )


def fitted(parts: Any, bits: int, engine: str = "clear", levels: int = 4) -> SecureFedYJ:
    return SecureFedYJ(engine, 30, levels, result_bits=bits).fit(parts)


@cache
def one_silo(bits: int) -> SecureFedYJ:
    return fitted([features()], bits)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(
    ("engine", "silos", "split", "levels"),
    [
        ("clear", 3, shuffled, 1),
        ("clear", 5, by_value, 4),
        ("replicated", 3, shuffled, 4),
        ("replicated", 4, by_value, 1),
    ],
)
def test_no_bit_depends_on_split_levels_or_engine(bits, engine, silos, split, levels):
    one, other = one_silo(bits), fitted(split(features(), silos), bits, engine, levels)
    assert plain(one.transcript_.reveals) == plain(other.transcript_.reveals)
    for name in ("lambdas_", "mean_", "var_", "converged_"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    for a, b in zip(one._standardization, other._standardization, strict=True):
        assert a.tobytes() == b.tobytes()
    assert other.transcript_.audit().passed


@pytest.mark.parametrize("bits", [8, 15, 24, 44])
def test_what_is_opened_is_what_was_agreed_on(bits):
    """Against the exact sums: V to `bits` + 8 bits, S_y to `bits` below n standard deviations."""
    transcript, X = one_silo(bits).transcript_, features()
    result = transcript.result
    encoding = choose_encoding(transcript.agreement.domain, result.n, result.lmbda)
    sums = totals(X, transcript.agreement.domain, result.lmbda, encoding, 40)
    (magnitudes,), (moments,) = transcript.all(Magnitudes), transcript.all(Moments)
    for j, k, V, S_y in zip(*magnitudes, moments.V, moments.S_y, strict=True):
        exact = int(result.n[j]) * sums[j].yy - sums[j].y ** 2
        assert k == max(exact.bit_length() - 1, 0) // 8
        V_low, y_low = max(8 * int(k) - bits, 0), max(4 * int(k) - bits, 0)
        assert (V, S_y) == (exact >> V_low, sums[j].y >> y_low)
        assert V.bit_length() <= bits + 8
        if V_low:
            assert V.bit_length() > bits, "no fewer either"


@pytest.mark.parametrize("bits", BITS)
def test_mean_and_variance_are_as_precise_as_promised(bits):
    """A mean to 2^-bits of the standard deviation, a variance to as much of itself."""
    coarse, fine = one_silo(bits), one_silo(44)
    varies = ~fine.transcript_.result.constant
    assert coarse.lambdas_.tolist() == fine.lambdas_.tolist()
    deviation = np.sqrt(fine.var_[varies])
    off = np.abs(coarse.mean_ - fine.mean_)[varies] / deviation
    assert off.max() <= 2.0**-bits
    of_var = np.abs(coarse.var_ / np.where(varies, fine.var_, 1) - 1)[varies]
    assert of_var.max() <= 2.0**-bits
    if bits < 44:
        assert off.max() > 2.0 ** -(bits + 6), "and not much more precise"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_transformed_values_move_by_a_millionth_of_a_deviation_at_most(name):
    """30 steps and 24 bits, which a new consortium has, against 40 and 44."""
    X = table(name)[:500]
    fine = SecureFedYJ("clear").fit([X])
    coarse = SecureFedYJ("clear", 30, result_bits=24).fit([X])
    moved = np.abs(coarse.transform(X) - fine.transform(X))
    sure = fine.converged_ & coarse.converged_
    assert sure.sum() > len(sure) / 2
    assert moved[:, sure].max() < 1e-6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_converged_means_what_it_says_also_with_few_steps_and_bits():
    """At 30 steps lambda is certain to 2^-20; what is not, is not said to be."""
    rng = np.random.default_rng(5)
    columns = []
    for _ in range(60):
        spread = 10.0 ** rng.uniform(-3, 1)
        columns.append(rng.choice([0.0, 1.0, 30.0]) + rng.gamma(2, size=60) * spread)
    X = np.clip(np.array(columns).T, 0, 1000)
    best = ExpYJ().fit(X)
    for bits in (8, 24, 44):
        found = SecureFedYJ("clear", 30, bounds=(0, 1000), result_bits=bits).fit([X])
        sure = found.converged_ & best.converged_ & ~found.at_bound_
        assert 15 < sure.sum() < 60
        unit = np.maximum(np.abs(best.lambdas_), 1 / found._standardization.width)
        off = np.abs(found.lambdas_ - best.lambdas_) / unit
        assert off[sure].max() <= 2.0**-20
        # How many bits of mean and variance are revealed says nothing about lambda.
        full = SecureFedYJ("clear", 30, bounds=(0, 1000)).fit([X])
        assert found.lambdas_.tolist() == full.lambdas_.tolist()
        assert np.mean(found.converged_ == full.converged_) > 0.95


@pytest.mark.parametrize(("times", "beyond"), [(10**6, False), (10**8, True), (3 * 10**9, True)])
def test_a_mean_close_to_a_bound_stays_within(times, beyond):
    """With 8 bits and so many values, the middle of what is not opened may lie beyond 50."""
    agreed = agreement(
        1,
        parties=THREE.parties,
        committee=THREE.parties,
        bounds=(0, 50),
        max_steps=12,
        result_bits=8,
    )
    rows = {"ana": [[50.0]], "bob": [[0.0]], "cem": [[50.0]]}

    async def program(engine, name):
        assert isinstance(engine, Clear)
        silo = ArraySilo(np.array(rows[name]), agreed.domain, ["x"])
        many = silo if name == "bob" else Repeated(silo, times)
        return await secure_fed_yj(engine, many, agreed)

    transcript = simulate(program, THREE, "clear")[0].with_result()
    (magnitudes,), (moments,) = transcript.all(Magnitudes), transcript.all(Moments)
    _, (low,) = lowest_opened(magnitudes.magnitude, 8)
    n, lmbda = int(transcript.result.n[0]), transcript.result.lmbda
    encoding = choose_encoding(agreed.domain, transcript.result.n, lmbda)
    (top,) = totals(np.array([[50.0]]), agreed.domain, lmbda, encoding, 40)
    middle = (2 * moments.S_y[0] + 1) << int(low) - 1
    assert (middle > n * top.y) == beyond
    nearest = min(middle, n * top.y)
    assert transcript.result.mean[0] == float(Fraction(nearest, n << int(encoding.grid[0])))
    assert transcript.result.standardization.center[0] <= 50 * (1 + 1e-14)
    assert transcript.audit().passed
