"""log1p and the exponential: as precise as they say, and the same bits on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from securefedyj.numerics.arrays import Array
from securefedyj.numerics.elementary import (
    LN2_HIGH,
    LN2_LOW,
    exp,
    log1p,
    log_ratio,
    phi12,
    reduce_exponent,
)

pytestmark = pytest.mark.filterwarnings("error")


RNG = np.random.default_rng(1952)
HALF_LN2 = float(mp.log(2) / 2)
POWERS = 2.0 ** np.arange(-60, 61)

# Where log1p changes its formula: 1 + x rounds to 1, to an odd number of units, to a power of
# two; the mantissa passes sqrt(1/2).
LOG1P_INPUTS = np.concatenate(
    [
        [0.0, 5e-324, 2.2250738585072014e-308, 1e-300, 2.0**1023, np.finfo(np.float64).max],
        POWERS,
        np.nextafter(POWERS, 0),
        np.nextafter(POWERS, np.inf),
        (np.sqrt(2) * POWERS - 1)[np.sqrt(2) * POWERS > 1] + 0.0,
        np.sqrt(2) - 1 + RNG.uniform(-1e-9, 1e-9, 200),
        RNG.uniform(0, 1, 2000),
        RNG.uniform(1, 1000, 1000),
        10 ** RNG.uniform(-20, 7, 3000),
        10 ** RNG.uniform(-323, 308, 1000),
    ]
)
PHI_INPUTS = np.concatenate(
    [
        [0.0, -0.0, HALF_LN2, -HALF_LN2],
        RNG.uniform(-HALF_LN2, HALF_LN2, 3000),
        RNG.choice([-1, 1], 1000) * 10 ** RNG.uniform(-300, -1, 1000),
    ]
)
# Multiples of ln(2)/4 come near the ties of the reduction, where the remainder is largest.
EXPONENTS = np.concatenate(
    [
        [0.0, -0.0, 699.999, -699.999, 1e-300, -1e-300],
        np.arange(-4000, 4001, 2) * (HALF_LN2 / 2),
        RNG.uniform(-700, 700, 2000),
        RNG.uniform(-2, 2, 1000),
    ]
)


def units(got: Array, exact: list[mpf]) -> Array:
    """Errors in units of the last place of the exact results."""
    ulp = [mpf(float(np.spacing(abs(float(value))))) for value in exact]
    return np.array(
        [float(abs(mpf(g) - e) / u) for g, e, u in zip(got.tolist(), exact, ulp, strict=True)]
    )


def test_log1p_is_right_to_three_units_of_the_last_place():
    with mp.workprec(1200):
        exact = [mp.log1p(mpf(x)) for x in LOG1P_INPUTS.tolist()]
        errors = units(log1p(LOG1P_INPUTS), exact)
    # 2.9 are reached among 4e7 random values, below 0.5.
    assert errors.max() < 3
    assert log1p(np.zeros(1))[0] == 0


def test_log1p_grows_with_x():
    x = np.unique(np.concatenate([LOG1P_INPUTS, RNG.uniform(0, 3, 20000)]))
    # Neighbours may be out of order within their errors, and no further.
    y = log1p(x)
    assert np.all(np.diff(y) >= -3 * np.spacing(y[:-1]))


def ratio_inputs() -> tuple[Array, Array]:
    """Where log_ratio changes its formula, and where a quotient would overflow or lose digits."""
    edges = np.array(
        [5e-324, 1e-323, 1e-310, 2.2250738585072014e-308, 1e-300, 0.7, 1.0, 1e6, 1e300, 1.7e308]
    )
    a = np.concatenate([np.repeat(edges, len(edges)), 10 ** RNG.uniform(-323, 308, 1000)])
    x = np.concatenate([np.tile(edges, len(edges)), 10 ** RNG.uniform(-323, 308, 1000)])
    base = np.concatenate([10 ** RNG.uniform(-300, 300, 2000), RNG.uniform(1, 4, 2000)])
    with np.errstate(over="ignore"):
        near = base * np.exp(RNG.choice([-1, 1], 4000) * 10 ** RNG.uniform(-17, 0.3, 4000))
        halves = [base * factor for factor in (0.5, 1.5, np.nextafter(1.5, 2), 2.0, 1 + 2.0**-52)]
    x = np.concatenate([x, near, *halves, 1e6 + np.array([1e-9, 1e-3, 1, 1e3])])
    a = np.concatenate([a, base, *[base] * len(halves), np.full(4, 1e6)])
    return x[x > 0], a[x > 0]


def test_log_ratio_is_right_to_three_units_of_the_last_place():
    x, a = ratio_inputs()
    with mp.workprec(1200):
        exact = [mp.log(mpf(s) / mpf(t)) for s, t in zip(x.tolist(), a.tolist(), strict=True)]
        same = x == a
        errors = units(
            log_ratio(x, a)[~same], [e for e, s in zip(exact, same, strict=True) if not s]
        )
    # 2.4 are reached.
    assert errors.max() < 3
    assert np.all(log_ratio(x, a)[same] == 0)
    assert np.isnan(log_ratio(np.array([np.nan, 1.0]), np.array([1.0, np.nan]))).all()


def test_phi12_are_right_to_a_unit_and_a_half():
    with mp.workprec(3200):
        first, second = [], []
        for r in map(mpf, PHI_INPUTS.tolist()):
            first.append(mp.expm1(r) / r if r else mpf(1))
            second.append((mp.expm1(r) - r) / r**2 if r else mpf(1) / 2)
        phi1, phi2 = phi12(PHI_INPUTS)
        assert units(phi1, first).max() < 1
        assert units(phi2, second).max() < 1.5
    assert (phi1[0], phi2[0]) == (phi1[1], phi2[1]) == (1, 0.5)


def test_exp_is_right_to_a_unit_and_a_half():
    with mp.workprec(200):
        errors = units(exp(PHI_INPUTS), [mp.exp(mpf(r)) for r in PHI_INPUTS.tolist()])
    assert errors.max() < 1.5
    assert exp(np.zeros(1))[0] == 1


def test_a_reduced_exponent_is_the_same_exponential():
    power, r = reduce_exponent(EXPONENTS)
    mantissa, exponent = np.frexp(power)
    assert np.all(mantissa == 0.5), "powers of two, exactly"
    with mp.workprec(200):
        error = [
            float(abs(int(n - 1) * mp.log(2) + mpf(rest) - mpf(z)))
            for z, n, rest in zip(EXPONENTS.tolist(), exponent, r.tolist(), strict=True)
        ]
    # The remainder is below 1/2, where the unit of the last place is 2^-54: half of that.
    assert max(error) <= 2.0**-55
    # The tie is decided by a rounded product: for large z the remainder may be a little larger.
    assert np.abs(r).max() <= HALF_LN2 + 700 * 2.0**-52


def test_the_high_part_of_ln2_times_an_exponent_is_exact():
    with mp.workprec(200):
        assert abs(mpf(LN2_HIGH) + mpf(LN2_LOW) - mp.log(2)) < mpf(2) ** -85
        assert all(mpf(LN2_HIGH * n) == mpf(LN2_HIGH) * n for n in range(-1080, 1081))


def every_function(x: Array) -> list[Array]:
    """All results for inputs that suit all of them: |x| <= ln(2)/2."""
    ratio = log_ratio(1e-300 + np.abs(x), np.array(0.1))
    return [log1p(np.abs(x)), ratio, *phi12(x), exp(x), *reduce_exponent(2000 * x)]


def assert_same_bits(a: Array, b: Array) -> None:
    assert a.shape == b.shape
    assert np.array_equal(np.ascontiguousarray(a).view(np.int64),
                          np.ascontiguousarray(b).view(np.int64))  # fmt: skip


BASE = np.concatenate([[0.0, -0.0], RNG.uniform(-HALF_LN2, HALF_LN2, 300)])
BASE_RESULTS = every_function(BASE)


@settings(max_examples=200)
@given(
    start=st.integers(0, 70),
    length=st.integers(1, 230),
    stride=st.integers(-3, 3).filter(bool),
    offset=st.integers(0, 8),
)
def test_a_result_does_not_depend_on_its_place_in_memory(start, length, stride, offset):
    """Vector units treat the ends of an array, and what is not aligned, by other instructions."""
    chosen = np.arange(start, start + length)[::stride]
    buffer = np.zeros(8 * (abs(stride) * len(chosen) + 2), dtype=np.uint8)
    shifted = buffer[offset : offset + 8 * abs(stride) * len(chosen)].view(np.float64)
    view = shifted[::stride]
    view[:] = BASE[chosen[: len(view)]]
    for got, whole in zip(every_function(view), BASE_RESULTS, strict=True):
        assert_same_bits(got, whole[chosen[: len(view)]])


@pytest.mark.parametrize("shape", [(302, 1), (1, 302), (2, 151), (151, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_result_does_not_depend_on_the_shape(shape, order):
    table = np.array(BASE.reshape(shape), order=order)
    for got, whole in zip(every_function(table), BASE_RESULTS, strict=True):
        assert_same_bits(got, whole.reshape(shape))


def test_one_value_at_a_time_gives_the_same_bits():
    rows = [every_function(BASE[i : i + 1]) for i in range(len(BASE))]
    for got, whole in zip(zip(*rows, strict=True), BASE_RESULTS, strict=True):
        assert_same_bits(np.concatenate(got), whole)


def test_inputs_are_left_as_they_are():
    x = BASE.copy()
    log1p(np.abs(x))
    for function in (phi12, exp, reduce_exponent):
        function(x)
    assert_same_bits(x, BASE)


# The bits that every machine must find. Another result here means that silos on different
# machines would not get the same exact sums.
GOLDEN_LOG1P = {
    0.0: "0x0.0p+0",
    5e-324: "0x0.0p+0",
    1e-17: "0x1.70ef54646d497p-57",
    1e-09: "0x1.12e0be801f1d9p-30",
    0.000123: "0x1.01ef0fb490ee5p-13",
    0.1: "0x1.8663f793c46c6p-4",
    0.3333333333333333: "0x1.269621134db92p-2",
    0.41421356: "0x1.62e42fd2cf8f6p-2",
    0.5: "0x1.9f323ecbf984cp-2",
    1.0: "0x1.62e42fefa39efp-1",
    1.5: "0x1.d5240f0e0e078p-1",
    2.718281828459045: "0x1.5031eafefb049p+0",
    10.0: "0x1.32ee3b77f374cp+1",
    99.99: "0x1.275c832565e37p+2",
    1234.567: "0x1.c7a25e9d26278p+2",
    65535.0: "0x1.62e42fefa39efp+3",
    1048576.0: "0x1.bb9d3deb8c76bp+3",
    1000000000.0: "0x1.4b927f3304b3bp+4",
    1e100: "0x1.cc845b54b54f2p+7",
    1.7976931348623157e308: "0x1.62e42fefa39efp+9",
}
GOLDEN_LOG_RATIO = {
    (5e-324, 1.7976931348623157e308): "-0x1.6b8e421b3d5d9p+10",
    (1e300, 1e-300): "0x1.5963447f87fb5p+10",
    (1e-310, 1e-310): "0x0.0p+0",
    (1000000.001, 1e6): "0x1.12e0bf5b2a356p-30",
    (1.5, 1.0): "0x1.9f323ecbf984cp-2",
    (1.6, 1.0): "0x1.e148a1a2726cfp-2",
    (0.3, 0.1): "0x1.193ea7aad030ap+0",
    (0.1, 0.3): "-0x1.193ea7aad030ap+0",
    (1e-320, 1e-323): "0x1.badc19a67041ap+2",
    (3.0, 2.718281828459045): "0x1.93ea7aad030aep-4",
}
GOLDEN_PHI = {
    0.0: ("0x1.0000000000000p+0", "0x1.0000000000000p-1"),
    1e-300: ("0x1.0000000000000p+0", "0x1.0000000000000p-1"),
    -1e-09: ("0x1.fffffffbb47d0p-1", "0x1.fffffffd22fe0p-2"),
    0.001: ("0x1.0020c767a7a5fp+0", "0x1.0015d9cdc0390p-1"),
    -0.01: ("0x1.fd72d1af6acf8p-1", "0x1.fe4c2ef48de62p-2"),
    0.1: ("0x1.0d3cd01840844p+0", "0x1.08c041e50a551p-1"),
    -0.1: ("0x1.e73b7fdac4fb7p-1", "0x1.ef5a02e89c5b4p-2"),
    0.2: ("0x1.1b65417bb5ec0p+0", "0x1.11f48ed51b385p-1"),
    -0.25: ("0x1.c5041854df7d4p-1", "0x1.d7df3d590415dp-2"),
    0.3: ("0x1.2a8bd29d30348p+0", "0x1.1ba426c296b36p-1"),
    -0.34: ("0x1.b20a3c6d5c335p-1", "0x1.ca969c8bc386cp-2"),
    0.3465: ("0x1.31f3766c5790ap+0", "0x1.20514ed165a97p-1"),
}
GOLDEN_EXP = {
    0.0: "0x1.0000000000000p+0",
    1e-300: "0x1.0000000000000p+0",
    -1e-09: "0x1.fffffff768fa1p-1",
    0.001: "0x1.0041919b7ee34p+0",
    -0.01: "0x1.fae7cfd2b9cfep-1",
    0.1: "0x1.1aec7b35a00d4p+0",
    -0.1: "0x1.cf46d99d52b3bp-1",
    0.2: "0x1.38add9e58ac8dp+0",
    -0.25: "0x1.8ebef9eac820bp-1",
    0.3: "0x1.599058c8c1a96p+0",
    -0.34: "0x1.6c6d28e50ebb6p-1",
    0.3465: "0x1.6a03146cf6eadp+0",
}
GOLDEN_EXPONENT = {
    0.0: ("0x1.0000000000000p+0", "0x0.0p+0"),
    0.3: ("0x1.0000000000000p+0", "0x1.3333333333333p-2"),
    -0.35: ("0x1.0000000000000p-1", "0x1.5f61f978e0d78p-2"),
    1.0: ("0x1.0000000000000p+1", "0x1.3a37a020b8c22p-2"),
    -1.0: ("0x1.0000000000000p-1", "-0x1.3a37a020b8c22p-2"),
    3.14159: ("0x1.0000000000000p+5", "-0x1.4bece74ea0fe8p-2"),
    -10.8: ("0x1.0000000000000p-16", "0x1.2952cac140aa7p-2"),
    42.0: ("0x1.0000000000000p+61", "-0x1.20bed833f9bffp-2"),
    -99.5: ("0x1.0000000000000p-144", "0x1.40b5ed9812d1cp-2"),
    177.4: ("0x1.0000000000000p+256", "-0x1.76322d6d22358p-5"),
    -177.4: ("0x1.0000000000000p-256", "0x1.76322d6d22358p-5"),
    699.9: ("0x1.0000000000000p+1010", "-0x1.6de14a9af1704p-3"),
}


def test_the_bits_are_those_of_every_other_machine():
    for x, expected in GOLDEN_LOG1P.items():
        assert float(log1p(np.array([x]))[0]).hex() == expected, x
    for (x, a), expected in GOLDEN_LOG_RATIO.items():
        assert float(log_ratio(np.array([x]), np.array([a]))[0]).hex() == expected, (x, a)
    for x, pair in GOLDEN_PHI.items():
        assert tuple(float(v[0]).hex() for v in phi12(np.array([x]))) == pair, x
    for x, expected in GOLDEN_EXP.items():
        assert float(exp(np.array([x]))[0]).hex() == expected, x
    for x, pair in GOLDEN_EXPONENT.items():
        assert tuple(float(v[0]).hex() for v in reduce_exponent(np.array([x]))) == pair, x
