"""The transformation, function by function, against its definition in multiple precision.

A result of the float64 code may be off by the rounding of its last digit, and by what the rounding
of z = uL does to e^z, which is |z| times as much. Tolerances are a few times that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from experiments.formulas import derivative, g, phi
from securefedyj import ExpYJ
from securefedyj.numerics import yeojohnson as yj
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.yeojohnson import SERIES_BELOW, Standardization
from tests import oracle
from tests.federated_data import one_by_one

pytestmark = pytest.mark.filterwarnings("error")


EPS = float(np.finfo(np.float64).eps)
MAX = float(np.finfo(np.float64).max)
TINY = 5e-324  # the smallest number
MIXED = [-3.5, -1.25, -0.5, 0.0, 0.0, 0.25, 1.5, 2.0, 7.75]

MAGNITUDES = [0.0, TINY, 1e-300, 1e-16, 1e-8, 0.1, 0.9, 1.0, 10.0, 1e6, 1e16, 1e100, MAX]
SIDES = sorted({sign * x for sign in (-1, 1) for x in MAGNITUDES})
LAMBDAS = [
    *(sign * v for sign in (-1, 1) for v in (1e-300, 1e-16, 1e-8, 0.2, 50.0, 2592.5, 1e6, 1e300)),
    *(0.0, 1.0, 2.0, 2 - EPS, 2 + 2 * EPS, 2 - 1e-9, -0.5, 2.5, -0.5 - EPS, 0.7),
]
RNG = np.random.default_rng(20220)
POINTS = [
    *product(SIDES, LAMBDAS),
    *zip(RNG.normal(size=200) * 3, RNG.normal(size=200) * 3, strict=True),
    *zip(RNG.lognormal(0, 6, 200), RNG.normal(size=200) * 20, strict=True),
    *zip(-RNG.lognormal(0, 6, 200), RNG.standard_cauchy(200) * 5, strict=True),
]
X, LMBDA = (np.array(part, dtype=np.float64) for part in zip(*POINTS, strict=True))

finite = st.floats(allow_nan=False, allow_infinity=False)
widths = st.floats(1e-12, 1e3)


def exponent(x: float, lmbda: float) -> float:
    """uL, how fast the transformation grows."""
    return (lmbda if x >= 0 else 2 - lmbda) * math.log1p(abs(x))


def side(x: float, lmbda: float) -> tuple[mpf, mpf, int]:
    """L, u and the sign of x, exactly: to be called with digits enough."""
    u = mpf(float(lmbda))
    return mp.log1p(abs(mpf(float(x)))), u if x >= 0 else 2 - u, 1 if x >= 0 else -1


def exact_power(L: mpf, u: mpf) -> mpf:
    return mp.expm1(u * L) / u if u else L


def digits(z: float) -> int:
    """Enough for e^z, and for the cancellations of g(z) where z is small."""
    return 80 + 3 * int(abs(math.log10(abs(z)))) if z else 80


def exact_derivative(x: float, lmbda: float) -> mpf:
    """dPsi/dlambda = (L w - (w - 1)/u) / u."""
    with mp.workdps(digits(lmbda) + digits(exponent(x, lmbda))):
        L, u, _ = side(x, lmbda)
        return (L * mp.exp(u * L) - exact_power(L, u)) / u if u and L else L * L / 2


def exact_g(z: float) -> mpf:
    with mp.workdps(digits(z)):
        z = mpf(float(z))
        return (z * mp.exp(z) - mp.expm1(z)) / z**2 if z else mpf(1) / 2


def cancelled_in_g(z: Array) -> Array:
    """What an e^z that is wrong by a unit does to the closed form, which adds 1/z^2 to it.

    The term (e^z/z)(1 - 1/z) is up to 37 times as large as g itself.
    """
    slack = np.zeros(len(z))
    for k in np.flatnonzero((np.abs(z) >= SERIES_BELOW) & (np.abs(z) < 1)):
        v = mpf(float(z[k]))
        slack[k] = EPS * float(abs(mp.exp(v) / v * (1 - 1 / v)) / exact_g(float(z[k])))
    return slack


def exact_standardize(x: float, lmbda: float, at: Standardization) -> mpf:
    """(Psi(x) - Psi(c)) / (width (1+|c|)^u); among values of one side without the constant."""
    with mp.workdps(400):
        L, u, sign = side(float(at.center), lmbda)
        L_x, u_x, sign_x = side(x, lmbda)
        if sign_x == sign or x == 0:
            return sign * exact_power(L_x - L, u) / mpf(float(at.width))
        distance = sign_x * exact_power(L_x, u_x) - sign * exact_power(L, u)
        return distance / (mpf(float(at.width)) * mp.exp(u * L))


def at(center: float, width: float) -> Standardization:
    return Standardization(center=np.array(center), width=np.array(width))


def error(value: float, expected: mpf) -> float:
    """The relative error, 0 for an overflow where it is due; absolute among subnormal numbers."""
    with mp.workdps(60):
        if math.isinf(value) and abs(expected) > MAX * (1 - 1e-12):
            return 0.0 if (value > 0) == (expected > 0) else math.inf
        if not math.isfinite(value):
            return math.inf
        smallest = mpf(2) ** -1022
        return float(abs(mpf(float(value)) - expected) / max(abs(expected), smallest))


def assert_close(values: Array, expected: list[mpf], slack: Array | float) -> None:
    errors = np.array([error(*pair) for pair in zip(values.flat, expected, strict=True)])
    worst = np.argmax(errors / slack)
    assert np.all(errors <= slack), (worst, values.flat[worst], expected[worst], errors[worst])


Z = np.array([min(abs(exponent(*point)), 1e4) for point in POINTS])
SLACK = EPS * (4 + 2 * Z)
# Just above SERIES_BELOW the closed form of g still divides differences by z^2 = 1/16.
G_SLACK = SLACK + (Z < 3) * 24 * EPS


def test_phi_is_a_product() -> None:
    """The paper prints sgn(x) + log(1+|x|)."""
    with mp.workdps(60):
        assert_close(phi(X), [mp.sign(x) * mp.log1p(abs(mpf(float(x)))) for x in X], 2 * EPS)
    assert phi(-3.0) == -math.log(4)
    assert phi(-3.0) != -1 + math.log(4)


def test_transform_is_the_definition() -> None:
    expected = [oracle.transform([x], lmbda)[0] for x, lmbda in POINTS]
    assert_close(yj.transform(X, LMBDA), expected, SLACK)


def test_derivative_is_the_definition() -> None:
    expected = [exact_derivative(*point) for point in POINTS]
    # Where L^2 g(uL) is tiny because u is huge, g is subnormal and has fewer digits.
    lost = [
        float(TINY * mp.log1p(abs(x)) ** 2 / d) if d else 0.0
        for d, (x, _) in zip(expected, POINTS, strict=True)
    ]
    assert_close(derivative(X, LMBDA), expected, G_SLACK + np.array(lost))


def test_g_is_the_definition_and_does_not_jump_where_the_series_ends() -> None:
    z = np.array(
        [
            *(sign * v for sign in (-1, 1) for v in (TINY, 1e-300, 1e-8, 1e-3, 0.1, 0.2, 1.0, 30)),
            *(sign * v for sign in (-1, 1) for v in (SERIES_BELOW, np.nextafter(SERIES_BELOW, 0))),
            *(0.0, -700.0, -1e6, -1e160, 700.0, 709.0, 715.0, 716.0, 1e6),
        ]
    )
    slack = EPS * (4 + 2 * np.minimum(np.abs(z), 1e3))
    assert_close(g(z), [exact_g(value) for value in z], slack + cancelled_in_g(z))
    for sign in (-1, 1):
        outside = sign * np.array([SERIES_BELOW, np.nextafter(SERIES_BELOW, 1)])
        inside = sign * np.array([np.nextafter(SERIES_BELOW, 0), SERIES_BELOW - 4 * EPS])
        jump = g(outside) / g(inside) - 1
        assert np.all(np.abs(jump) <= 32 * EPS)


def test_series_are_those_of_the_exponential() -> None:
    """The terms of derivative k cancel to 1/(k + 1); their sizes say what that may cost."""
    z = np.array([0.0, TINY, 1e-9, 0.01, -0.1, 0.2, SERIES_BELOW, -SERIES_BELOW])
    for k, (values, lost) in enumerate(zip(yj.quotient_series(z), (2, 4, 8, 24), strict=True)):
        with mp.workdps(60):
            expected = [
                mp.nsum(lambda j, v=v, k=k: mpf(v) ** j / mp.factorial(j) / (j + k + 1), [0, 40])
                for v in z
            ]
        assert_close(values, expected, lost * EPS)


@given(x=finite, lmbda=finite)
def test_any_finite_value_has_an_image_and_no_warning(x: float, lmbda: float) -> None:
    y = yj.transform(x, lmbda)
    assert not np.isnan(y)
    assert np.sign(y) == np.sign(x)
    assert derivative(x, lmbda) >= 0
    assert not np.isnan(phi(x))


@given(y=finite, lmbda=finite)
def test_any_finite_value_has_an_original_unless_it_lies_beyond_the_bound(
    y: float, lmbda: float
) -> None:
    x = yj.inverse(y, lmbda)
    u = mpf(lmbda) if y >= 0 else 2 - mpf(lmbda)
    with mp.workdps(40):
        beyond = u * abs(mpf(y))
        if beyond > -1 + 4 * EPS:
            assert not np.isnan(x)
        if beyond < -1 - 4 * EPS:
            assert np.isnan(x)


@pytest.mark.parametrize("function", [yj.transform, yj.inverse, derivative])
def test_missing_values_are_kept_and_arguments_broadcast(
    function: Callable[[Array, Array], Array],
) -> None:
    x, lmbda = np.array([[0.5], [np.nan], [-2.0]]), np.array([0.0, 0.5, 1.0, 2.0])
    out = function(x, lmbda)
    assert out.shape == (3, 4)
    assert np.all(np.isnan(out[1]))
    assert not np.isnan(out[[0, 2]]).any()
    assert out[2, 3] == function(np.array(-2.0), np.array(2.0))
    assert np.isnan(phi(np.nan))


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(x=st.floats(-6, 6) | finite, lmbda=st.floats(-20, 20) | finite)
def test_inverse_undoes_transform_where_neighbours_have_other_images(
    x: float, lmbda: float
) -> None:
    """Where float64 tells x from both of its neighbours by their images, x comes back."""
    assume(abs(x) < MAX)
    neighbours = np.nextafter(x, [-np.inf, np.inf])
    y = yj.transform(x, lmbda)
    assume(np.isfinite(y) and not np.any(yj.transform(neighbours, lmbda) == y))
    assert abs(yj.inverse(y, lmbda) - x) <= 8 * EPS * abs(x)


@given(x=st.floats(-1e12, 1e12), lmbda=st.floats(-6, 8))
def test_inverse_undoes_transform_as_far_as_the_image_has_digits(x: float, lmbda: float) -> None:
    """An error of y by dy is one of L by dy / e^{uL}."""
    y, L, z = float(yj.transform(x, lmbda)), math.log1p(abs(x)), exponent(x, lmbda)
    tolerance = EPS * (4 + 2 * abs(z)) * (abs(y) * math.exp(-z) + L)
    assume(tolerance < 0.01)
    back = float(yj.inverse(y, lmbda))
    assert np.sign(back) == np.sign(x)
    assert abs(math.log1p(abs(back)) - L) <= tolerance


# --- one test for each numerical branch: the naive formula, and what is wrong with it ------------


def naive_transform(x: float, lmbda: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.expm1(lmbda * np.log1p(x)) / lmbda)


@pytest.mark.parametrize(("x", "lmbda"), [(3.0, 0.0), (-3.0, 2.0)])
def test_u_is_zero(x: float, lmbda: float) -> None:
    u = np.float64(lmbda if x >= 0 else 2 - lmbda)
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.expm1(u * np.log1p(abs(x))) / u)
    assert yj.transform(x, lmbda) == math.copysign(math.log(4), x)
    assert yj.inverse(math.copysign(math.log(4), x), lmbda) == pytest.approx(x, rel=2 * EPS)
    assert derivative(x, lmbda) == pytest.approx(math.log(4) ** 2 / 2, rel=2 * EPS)


def test_u_is_so_small_that_uL_underflows() -> None:
    x, lmbda = 1e-10, 5e-324
    assert naive_transform(x, lmbda) == 0.0
    assert error(float(yj.transform(x, lmbda)), oracle.transform([x], lmbda)[0]) <= EPS
    assert naive_transform(TINY, 0.1) == 0.0
    assert yj.transform(TINY, 0.1) == TINY
    assert yj.inverse(TINY, 0.1) == TINY


def test_power_of_a_small_u_cancels() -> None:
    x, lmbda = 3.0, 1e-13
    expected = oracle.transform([x], lmbda)[0]
    assert error(((1 + x) ** lmbda - 1) / lmbda, expected) > 1e-5
    assert error(float(yj.transform(x, lmbda)), expected) <= 2 * EPS


def test_exponential_overflows_where_the_quotient_does_not() -> None:
    x, lmbda = math.expm1(0.712), 1000.0
    assert naive_transform(x, lmbda) == np.inf
    expected = oracle.transform([x], lmbda)[0]
    assert error(float(yj.transform(x, lmbda)), expected) <= 1500 * EPS
    assert error(-float(yj.transform(-x, 2 - lmbda)), expected) <= 1500 * EPS
    z = 712.0
    with np.errstate(all="ignore"):
        assert not np.isfinite((z * np.exp(z) - np.expm1(z)) / z**2)
    assert error(float(g(np.array(z))), exact_g(z)) <= 1500 * EPS


def test_product_in_the_inverse_overflows_where_its_logarithm_does_not() -> None:
    y, lmbda = np.float64(1e306), np.float64(1e4)
    with np.errstate(over="ignore"):
        assert np.expm1(np.log1p(lmbda * y) / lmbda) == np.inf
    with mp.workdps(60):
        expected = mp.expm1(mp.log1p(mpf(1e4) * mpf(1e306)) / 10000)
    assert error(float(yj.inverse(y, lmbda)), expected) <= 4 * EPS
    assert error(float(yj.inverse(-y, 2 - lmbda)), -expected) <= 4 * EPS


@pytest.mark.parametrize("sign", [1, -1])
def test_decaying_values_round_to_one_constant(sign: int) -> None:
    """At the lambda of digits column 56 no float64 tells 0.03 from 0.06 by its image; a silo does.

    The images are 1/|u| and the derivatives 1/u^2, each right to a few units of the last place:
    which of these, depends on the last bit of NumPy's log1p.
    """
    x, u = sign * np.array([0.03, 0.04, 0.06]), -2592.5
    lmbda = u if sign > 0 else 2 - u
    with mp.workdps(60):
        assert_close(yj.transform(x, lmbda), [sign / abs(mpf(u))] * 3, 2 * EPS)
        assert_close(derivative(x, lmbda), [mpf(u) ** -2] * 3, 8 * EPS)
    integers, _ = one_by_one(x, (-0.068, 0.068), 3, lmbda)
    assert len({part.y for part in integers}) == len({part.d for part in integers}) == 3


@pytest.mark.parametrize("z", [1e-5, -1e-5, 1e-8])
def test_closed_form_of_g_cancels_where_the_series_is_used(z: float) -> None:
    closed = (z * math.exp(z) - math.expm1(z)) / z**2
    assert error(closed, exact_g(z)) > 1e-12
    assert error(float(g(np.array(z))), exact_g(z)) <= 2 * EPS


def test_logarithms_of_close_values_cancel() -> None:
    x, scale = 10 - 1e-9, at(10.0, 1e-10)
    expected = exact_standardize(x, 3.0, scale)
    naive = float(np.expm1(3.0 * (np.log1p(x) - np.log1p(10.0))) / 3.0 / 1e-10)
    assert error(naive, expected) > 1e-8
    assert error(float(yj.standardize(x, 3.0, scale)), expected) <= 4 * EPS


@pytest.mark.parametrize(
    ("x", "lmbda", "center"), [(2.5, 1000.0, 2.0), (-3.0, 1000.0, 2.0), (-2.0, -999.0, -2.5)]
)
def test_transformed_values_overflow_where_their_standardized_difference_does_not(
    x: float, lmbda: float, center: float
) -> None:
    scale = at(center, 0.01)
    u = lmbda if center >= 0 else 2 - lmbda
    with np.errstate(all="ignore"):
        difference = yj.transform(x, lmbda) - yj.transform(center, lmbda)
        naive = difference / (0.01 * np.exp(u * np.log1p(abs(center))))
    assert not np.isfinite(naive)
    expected = exact_standardize(x, lmbda, scale)
    assert error(float(yj.standardize(x, lmbda, scale)), expected) <= 1000 * EPS


def test_standardized_values_across_zero_are_sums() -> None:
    """Both sides of zero meet at it: there is no jump, and no cancellation on the other side."""
    for lmbda, center in ((0.3, 1e-3), (1.7, -1e-3), (5.0, 0.5), (-3.0, -0.5)):
        scale = at(center, 0.1)
        for x in (-1.0, -1e-9, -TINY, -0.0, 0.0, TINY, 1e-9, 1.0):
            expected = exact_standardize(x, lmbda, scale)
            assert error(float(yj.standardize(x, lmbda, scale)), expected) <= 16 * EPS, (x, lmbda)


def test_scaled_power_overflows_in_one_factor_and_not_in_the_product() -> None:
    """Psi(x) is 10^450, the slope at the center 10^150, their quotient is a number again."""
    x, lmbda, scale = -1e300, 0.5, at(1e300, 1.0)
    assert yj.transform(x, lmbda) == -np.inf
    expected = exact_standardize(x, lmbda, scale)
    assert error(float(yj.standardize(x, lmbda, scale)), expected) <= 3000 * EPS


def test_unstandardize_keeps_the_digits_next_to_the_center() -> None:
    center, width = 1e8, 1e-12
    z = np.array([-3.0, -1.0, 0.0, 0.5, 2.0])
    x = yj.unstandardize(z, 1.0, at(center, width))
    naive = np.expm1(np.log1p(center) + np.log1p(z * width))
    np.testing.assert_allclose(x - center, z * (1 + center) * width, rtol=0, atol=np.spacing(1e8))
    assert np.max(np.abs(naive - center - z * (1 + center) * width)) > 4 * np.spacing(1e8)


# --- standardize and its inverse, on anything ---------------------------------------------------


@given(
    x=st.floats(-1e8, 1e8),
    lmbda=st.one_of(st.floats(-20, 20), st.floats(-1e5, 1e5)),
    center=st.floats(-1e8, 1e8),
    width=widths,
)
@example(x=-9307301.0, lmbda=-20.0, center=55850824.0, width=1.0)
def test_standardize_is_the_definition(x: float, lmbda: float, center: float, width: float) -> None:
    scale = at(center, width)
    expected = exact_standardize(x, lmbda, scale)
    value = float(yj.standardize(x, lmbda, scale))
    L, L_x = math.log1p(abs(center)), math.log1p(abs(x))
    exponents = [exponent(center, lmbda), exponent(x, lmbda)]
    # Of a narrow feature, values close to the center lose nothing by subtracting logarithms.
    close = width < 1e-3 and abs(abs(x) - abs(center)) <= (1 + abs(center)) / 2
    lost = 0.0 if close else EPS * (L + L_x) / width
    z = sum(map(abs, exponents))
    with mp.workdps(60):
        assume(abs(expected) < MAX * 0.99)
        slack = (
            EPS
            * (8 + 2 * z)
            * (
                abs(expected)
                + abs(exact_standardize(0.0, lmbda, scale)) * ((x >= 0) != (center >= 0))
            )
        )
        growth = mp.exp(max(0.0, exponents[1] - exponents[0]))
        assert abs(mpf(value) - expected) <= slack + lost * growth + TINY


@given(x=finite, lmbda=st.floats(-1e300, 1e300), center=finite, width=st.floats(1e-300, 1e300))
def test_standardize_gives_no_nan_and_no_warning(
    x: float, lmbda: float, center: float, width: float
) -> None:
    """lambda is as large as the solvers let it become, the width as large as data can be."""
    z = yj.standardize(x, lmbda, at(center, width))
    assert not np.isnan(z)
    assert np.sign(z) in (0, int(x > center) - int(x < center))
    yj.unstandardize(x, lmbda, at(center, width))


@given(
    x=st.floats(-1e6, 1e6),
    u=st.floats(-5, 5),
    center=st.floats(-1e6, 1e6),
    width=st.floats(1e-9, 10),
)
def test_unstandardize_undoes_standardize(x: float, u: float, center: float, width: float) -> None:
    """An error of z by dz is one of L by dz times the slope at the center over that at x."""
    lmbda = u if center >= 0 else 2 - u
    scale = at(center, width)
    z = float(yj.standardize(x, lmbda, scale))
    L, L_x = math.log1p(abs(center)), math.log1p(abs(x))
    slope = math.exp(exponent(center, lmbda) - exponent(x, lmbda))
    offset = abs(float(yj.standardize(0.0, lmbda, scale))) if x * center < 0 else 0.0
    tolerance = (
        EPS
        * (8 + 4 * abs(u) * (L + L_x))
        * ((abs(z) + offset) * width * slope + (L + L_x) * max(1.0, slope))
    )
    assume(tolerance < 0.01)
    back = float(yj.unstandardize(z, lmbda, scale))
    assert abs(phi(back) - phi(x)) <= tolerance + TINY


def test_standardize_keeps_missing_values() -> None:
    scale = at(2.0, 0.5)
    x = np.array([1.0, np.nan, -1.0])
    for function in (yj.standardize, yj.unstandardize):
        assert np.isnan(function(x, 0.5, scale)).tolist() == [False, True, False]


# --- errata of the paper ------------------------------------------------------------------------


@pytest.mark.parametrize("lmbda", [-1.5, 0.0, 0.4, 1.0, 2.0, 3.5])
def test_sign_of_the_derivative_of_the_log_likelihood(lmbda: float) -> None:
    """It is S_phi - n Cov(y, d) / Var(y); the paper's equation and both algorithms negate it."""
    x, n = np.array(MIXED), len(MIXED)
    y, d = yj.transform(x, lmbda), derivative(x, lmbda)
    covariance, variance = np.mean((y - y.mean()) * (d - d.mean())), np.var(y)
    ours = np.sum(phi(x)) - n * covariance / variance
    with mp.workdps(80):
        h = mpf(10) ** -20
        above, below = (oracle.log_likelihood(MIXED, mpf(lmbda) + step) for step in (h, -h))
        slope = float((above - below) / (2 * h))
    assert ours == pytest.approx(slope, rel=1e-13)
    printed = (
        n / 2 * (2 * np.sum(y * d) - 2 * y.sum() * d.sum() / n) / (np.sum(y**2) - y.sum() ** 2 / n)
    ) - np.sum(phi(x))
    assert printed == pytest.approx(-slope, rel=1e-13)
    delta = np.sum(phi(x)) * (n * np.sum(y * y) - y.sum() ** 2) - n * (
        n * np.sum(y * d) - y.sum() * d.sum()
    )
    assert np.sign(delta) == np.sign(slope) != 0


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("x", [-0.5, -3.0])
def test_sign_of_the_derivatives_of_negative_values(k: int, x: float) -> None:
    """The first term of the k-th derivative for x < 0 has a factor (-1)^(k+1), not printed."""
    lmbda = 0.7
    with mp.workdps(60):
        L, u = mp.log1p(-mpf(x)), 2 - mpf(lmbda)
        w = mp.exp(u * L)

        def psi(order: int) -> mpf:
            return mp.diff(lambda v: -exact_power(L, 2 - v), mpf(lmbda), order)

        right = ((-1) ** (k + 1) * w * L**k + k * psi(k - 1)) / u
        printed = (w * L**k + k * psi(k - 1)) / u
        assert mp.almosteq(right, psi(k), rel_eps=mpf(10) ** -20)
        assert mp.almosteq(printed, psi(k), rel_eps=mpf(10) ** -20) == (k % 2 == 1)
    if k == 1:
        assert error(float(derivative(x, lmbda)), right) <= 4 * EPS
    if k == 2:
        h = 2.0**-20
        ours = (derivative(x, lmbda + h) - derivative(x, lmbda - h)) / (2 * h)
        assert float(ours) == pytest.approx(float(right), rel=1e-8)


@pytest.mark.parametrize("sign", [-1, 1])
def test_values_across_zero_come_back_where_the_slope_at_the_center_overflows(sign: int) -> None:
    x = sign * np.array(
        [-8.9e307, -8.471968424312832e307, 1.5189600057220436e308, -1.0563106925648115e308,
         -1.0904092045784341e308, -5.103765819737445e307, -9.161597615943197e307]
    )  # fmt: skip
    fitted = ExpYJ().fit(x[:, None])
    Z = fitted.transform(x[:, None])
    assert np.abs(Z).max() < 3
    np.testing.assert_allclose(fitted.inverse_transform(Z)[:, 0], x, rtol=1e-12)
