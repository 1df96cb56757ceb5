"""Box-Cox against 60 digits, standard scaling against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from securefedyj.numerics import boxcox
from securefedyj.numerics.arrays import Array
from securefedyj.protocol.simulation import simulate
from tests.federated_data import shuffled
from tests.protocol.methods import agreed

RNG = np.random.default_rng(1964)
POSITIVE: dict[str, tuple[tuple[float, float], Array]] = {
    "lognormal": ((1e-3, 1e3), RNG.lognormal(size=60)),
    "far from 0": ((1e6, 1.001e6), 1e6 + 1000 * RNG.random(60)),
    "huge": ((1e250, 1e300), 10 ** RNG.uniform(251, 299, 40)),
    "tiny": ((1e-300, 1e-200), 10 ** RNG.uniform(-299, -250, 40)),
    "of all sizes": ((1e-300, 1e300), 10 ** RNG.uniform(-299, 299, 40)),
    "above a small bound": ((1e-3, 1e3), 100 + RNG.random(40)),
    "steep": ((1.0, 4.0), 1 + RNG.beta(9, 1, size=60)),
    "with ties": ((1.0, 9.0), RNG.choice([1.0, 2.0, 7.0], 30)),
}


def power(L, lmbda):
    return mp.expm1(lmbda * L) / lmbda if lmbda else L


def moments(logs, lmbda):
    """All y, their mean and variance."""
    y = [power(L, lmbda) for L in logs]
    mean = mp.fsum(y) / len(y)
    return y, mean, mp.fsum((v - mean) ** 2 for v in y) / len(y)


def optimum(x: Array):
    """The lambda of Box-Cox, to 60 digits."""
    logs = [mp.log(mpf(v)) for v in x.tolist()]
    middle = mp.fsum(logs) / len(logs)
    logs = [L - middle for L in logs]  # lambda does not depend on the unit of x

    def score(lmbda):
        y, mean, var = moments(logs, lmbda)
        slopes = [
            (L * mp.exp(lmbda * L) - v) / lmbda if lmbda else L * L / 2
            for L, v in zip(logs, y, strict=True)
        ]
        return -mp.fsum((v - mean) * d for v, d in zip(y, slopes, strict=True)) / var

    low, high = mpf(-1), mpf(1)
    while score(low) < 0:
        low *= 2
    while score(high) > 0:
        high *= 2
    return mp.findroot(score, (low, high), solver="anderson", tol=mpf(10) ** -50)


def near(found: float, exact, allowed) -> bool:
    if abs(exact) > mpf(1.7e308):
        return np.isinf(found)
    return abs(mpf(found) - exact) <= allowed


@pytest.mark.parametrize("name", POSITIVE)
def test_box_cox_has_the_right_lambda_mean_and_variance(name):
    bounds, x = POSITIVE[name]
    transcript, _ = simulate(
        agreed([{"box-cox": ()}], bounds, max_steps=60), shuffled(x[:, None], 3)
    )
    assert transcript.audit().findings == []
    _, fit = transcript.fit_of("box-cox")
    with mp.workdps(80):
        lmbda = optimum(x)
        # The natural unit of lambda is 1/sqrt(abs(score')/n), about 1/width.
        off = abs(mpf(float(fit.lmbda[0])) - lmbda) / max(abs(lmbda), 1 / mpf(float(fit.width[0])))
        assert fit.converged[0]
        assert not fit.at_bound[0]
        assert off < 1e-9
        # At the lambda that was found, mean and variance are right by themselves.
        logs = [mp.log(mpf(v)) for v in x.tolist()]
        _, mean, var = moments(logs, mpf(float(fit.lmbda[0])))
        found_mean, found_var = boxcox.moments(fit.lmbda, fit.standardization)
        assert near(found_mean[0], mean, 1e-9 * max(mp.sqrt(var), abs(mean) * mpf(2) ** -20))
        assert near(found_var[0], var, 1e-9 * var)


LINEAR = [
    ((-1e6, 1e6), RNG.normal(scale=300.0, size=50)),
    ((-1.0, 1.0), RNG.normal(scale=0.1, size=37)),
    ((1e6, 1.1e6), 1e6 + RNG.random(20)),
    ((-(2.0**100), 2.0**100), RNG.normal(scale=1e20, size=20)),
    ((-1e-30, 1e-30), RNG.normal(scale=1e-32, size=20)),
    ((0.0, 1.0), np.r_[1.0, np.zeros(999)]),
    ((0.0, 1e9), np.array([0.1, 1e9])),
]


@pytest.mark.parametrize(("engine", "verified"), [("clear", False), ("replicated", True)])
@pytest.mark.parametrize("bits", [8, 24, 44])
def test_standard_has_the_exact_mean_and_variance_to_the_agreed_bits(engine, verified, bits):
    """Off by less than 2^-bits of the standard deviation, and of the variance."""
    rows = max(len(x) for _, x in LINEAR)
    X = np.full((rows, len(LINEAR)), np.nan)
    for j, (bounds, x) in enumerate(LINEAR):
        X[: len(x), j] = np.clip(x, *bounds)
    about = agreed(
        [{"standard": ()}] * len(LINEAR), [bounds for bounds, _ in LINEAR], 3, engine,
        result_bits=bits, verified=verified,
    )  # fmt: skip
    transcript, _ = simulate(about, shuffled(X, 3))
    assert transcript.audit().findings == []
    _, fit = transcript.fit_of("standard")
    assert fit.converged.all()
    assert not fit.constant.any()
    for j, column in enumerate(X.T):
        x = [Fraction(v) for v in column[~np.isnan(column)].tolist()]
        mean, size = sum(x) / len(x), len(x)
        var = sum((v - mean) ** 2 for v in x) / size
        assert fit.n[j] == size
        off = Fraction(float(fit.mean[j])) - mean
        rounded = Fraction(float(np.spacing(abs(fit.mean[j]))))
        assert off**2 <= (var / 4**bits) + rounded**2
        assert abs(Fraction(float(fit.var[j])) / var - 1) <= Fraction(
            1, 2 ** (bits + 1)
        ) + Fraction(1, 2**52)


@pytest.mark.parametrize("bits", [8, 24, 44])
def test_standard_is_exact_arithmetic_rounded_to_the_agreed_bits(bits):
    """S and V on the grid of 2^-128 of the bounds, without the bits that are not opened."""
    X = np.array([[3.0, 0.0, 7.0], [5.0, 0.0, np.nan], [-2.25, 0.0, np.nan], [1.0, 0.0, np.nan]])
    about = agreed([{"standard": ()}] * 3, (-8.0, 6.0 + 2), result_bits=bits)
    transcript, _ = simulate(about, [X[:1], X[1:2], X[2:]])
    _, fit = transcript.fit_of("standard")
    grid = 128 - 4  # 2^3 <= 8 < 2^4
    for j, column in enumerate(X.T):
        y = [int(Fraction(v) * 2**grid) for v in column[~np.isnan(column)].tolist()]
        n, S, V = len(y), sum(y), len(y) * sum(v * v for v in y) - sum(y) ** 2
        magnitude = (V.bit_length() - 1) // 8 if V else 0
        V_low, S_low = max(8 * magnitude - bits, 0), max(4 * magnitude - bits, 0)
        V = (V >> V_low << V_low) + (1 << V_low >> 1)
        S = (S >> S_low << S_low) + (1 << S_low >> 1)
        assert fit.mean[j] == float(Fraction(S, n << grid))
        assert fit.var[j] == float(Fraction(V, n * n << 2 * grid))
    assert fit.mean[1:].tolist() == [0.0, 7.0]
    assert fit.var[1:].tolist() == [0.0, 0.0]
    assert fit.constant.tolist() == [False, True, True]
    assert fit.width.tolist() == [float(np.sqrt(fit.var[0])), 1.0, 1.0]
    assert fit.converged.all()
    assert transcript.audit().findings == []


def test_values_that_the_grid_of_standard_can_hardly_hold_are_flagged():
    """The grid has 128 bits: of a deviation below 2^-98 of the bounds it keeps too few."""
    x = np.array([1.0, 2.0, 3.0])
    for scale, right in ((2.0**-97, True), (2.0**-99, False), (2.0**-130, False)):
        about = agreed([{"standard": ()}], (-0.9, 0.9))
        transcript, _ = simulate(about, [x[:, None] * scale] * 3)
        _, fit = transcript.fit_of("standard")
        assert fit.converged[0] == right
        assert transcript.audit().findings == []
