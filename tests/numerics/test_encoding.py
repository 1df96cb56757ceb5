"""Plans: made from public values, cheap for tight bounds, and never too narrow for the data."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.encoding import (
    DEFAULT_BOUND,
    EXPONENT_BUDGET,
    LOGARITHM,
    PRECISION,
    RATIO,
    Domain,
    choose_encoding,
)
from tests.federated_data import Totals, added, derived, exact_y_d_phi, on_grid, one_by_one, totals

pytestmark = pytest.mark.filterwarnings("error")

# Beyond about 2^127 the range of lambda shrinks until it does not even hold [0, 2].
MAGNITUDES = st.one_of(
    st.floats(1e-6, 1e30),
    st.floats(0.01, 10),
    st.sampled_from([1e-6, 1e-3, 0.5, 1.0, 2.0**20, 1e9, 1e30]),
)


@st.composite
def bounds_(draw):
    """(lower, upper) of either sign, around zero or away from it."""
    a, b = draw(MAGNITUDES), draw(MAGNITUDES)
    kind = draw(st.sampled_from(["both", "positive", "negative", "above", "below"]))
    low, high = sorted((a, b))
    high = max(high, np.nextafter(low, np.inf))
    return {
        "both": (-a, b),
        "positive": (0.0, a),
        "negative": (-a, 0.0),
        "above": (low, high),
        "below": (-high, -low),
    }[kind]


def edges(bounds: Sequence[float] | None) -> tuple[Array, Array]:
    """The lowest and the highest lambda of one feature."""
    lowest, highest, _ = Domain.from_bounds(bounds, 1).limits()
    return np.asarray(lowest), np.asarray(highest)


@st.composite
def cases(draw):
    """Bounds, and a lambda that the search can visit within them."""
    bounds = draw(bounds_())
    low, high = (float(edge[0]) for edge in edges(bounds))
    special = [0.0, 1.0, 2.0, -0.5, 2.5, 1e-9, low, high, low / 2, high / 2]
    lmbda = draw(
        st.one_of(st.sampled_from([v for v in special if low <= v <= high]), st.floats(low, high))
    )
    return bounds, lmbda


def test_bounds_come_as_none_one_pair_or_one_pair_per_feature():
    assert DEFAULT_BOUND == 2**20
    default = Domain.from_bounds(None, 2)
    assert default.lower.tolist() == [-(2.0**20)] * 2
    assert default.upper.tolist() == [2.0**20] * 2
    one = Domain.from_bounds((0, 5), 3)
    assert (one.lower.tolist(), one.upper.tolist()) == ([0.0] * 3, [5.0] * 3)
    each = Domain.from_bounds([(0, 5), (-1, 1), (2, 3)], 3)
    assert (each.lower.tolist(), each.upper.tolist()) == ([0.0, -1.0, 2.0], [5.0, 1.0, 3.0])
    # For two features, two numbers are one pair for both and not one bound for each.
    both = Domain.from_bounds((0, 5), 2)
    assert (both.lower.tolist(), both.upper.tolist()) == ([0.0, 0.0], [5.0, 5.0])
    chosen = each.take(np.array([2, 0]))
    assert (chosen.lower.tolist(), chosen.upper.tolist()) == ([2.0, 0.0], [3.0, 5.0])


def test_bounds_for_box_cox_are_positive_and_seen_from_the_lower_one():
    bounds, box_cox = [(1e-300, 1e300), (1e6, 1e6 + 1000), (0.0, 5.0)], [RATIO, RATIO, LOGARITHM]
    domain = Domain.from_bounds(bounds, 3, box_cox)
    assert domain.least.tolist() == [1e-300, 1e6, 0.0]
    with mp.workdps(40):
        expected = [mp.log(mp.mpf(high) / mp.mpf(low)) for low, high in bounds[:2]]
    np.testing.assert_allclose(domain.L_positive[:2], np.array(expected, float), rtol=1e-15)
    assert domain.L_negative.tolist() == [0, 0, 0]
    domain.check_usable(["a", "b", "c"])
    for wrong in [(0.0, 5.0), (-1.0, 5.0), (1.0, np.inf), (np.nan, 1.0)]:
        with pytest.raises(InputError) as caught:
            Domain.from_bounds(wrong, 1, [RATIO])
        assert caught.value.code == "SFY-NUM-002"
    with pytest.raises(InputError, match="closer than") as caught:
        Domain.from_bounds((1.0, 1 + 1e-14), 1, [RATIO]).check_usable(["a"])
    assert caught.value.code == "SFY-NUM-004"


@pytest.mark.parametrize(
    ("bounds", "features", "sentence"),
    [
        (
            (1, 1),
            1,
            r"bounds of feature 0 must be numbers up to 2.100 with lower < upper, got \(1, 1\)",
        ),
        ((2, 1), 3, r"bounds of feature 0 .* got \(2, 1\)"),
        ([(0, 1), (5, -5)], 2, r"bounds of feature 1 .* got \(5, -5\)"),
        ((0, np.inf), 1, r"bounds of feature 0 .* got \(0, inf\)"),
        ((-np.inf, 0), 1, r"numbers up to 2.100"),
        ((0, 1e31), 1, r"bounds of feature 0 .* got \(0, 1e\+31\)"),
        ((-1e31, 0), 1, r"bounds of feature 0 .* got \(-1e\+31, 0\)"),
        ([(0, 1), (np.nan, 1)], 2, r"bounds of feature 1 .* got \(nan, 1\)"),
        ((0, 1, 2), 3, r"None, one \(lower, upper\) or 3 pairs .* got an array of shape \(3,\)"),
        ([(0, 1), (0, 1)], 3, r"3 pairs of them, one per feature; got an array of shape \(2, 2\)"),
        (5.0, 1, r"got an array of shape \(\)"),
        ([(0, 1, 2)], 1, r"got an array of shape \(1, 3\)"),
    ],
)
def test_wrong_bounds_are_refused_with_their_values(bounds, features, sentence):
    with pytest.raises(ValueError, match=sentence):
        Domain.from_bounds(bounds, features)


@settings(max_examples=200)
@given(bounds_())
def test_the_range_of_lambda_ends_where_the_exponents_budget_does(bounds):
    low, high = (float(edge[0]) for edge in edges(bounds))
    with mp.workprec(200):
        used = [
            abs(u) * mp.log1p(max(x, 0.0)) / mp.log(2)
            for lmbda in (low, high)
            for x, u in ((bounds[1], lmbda), (-bounds[0], 2 - lmbda))
        ]
    assert max(used) == pytest.approx(EXPONENT_BUDGET, rel=1e-12)
    assert low < 0, "the search starts at 0"
    assert high > 2


def test_the_default_range_of_lambda():
    lowest, highest = edges(None)
    edge = EXPONENT_BUDGET / np.log2(1 + 2.0**20)
    assert highest[0] == pytest.approx(edge, rel=1e-15)
    assert lowest[0] == pytest.approx(2 - edge, rel=1e-15)
    assert 12.7 < edge < 12.8


def phi_grid_of(bounds):
    return int(Domain.from_bounds(bounds, 1).phi_grid()[0])


def adversarial(bounds):
    """Values inside the bounds at which something is as large or as small as it can be."""
    low, high = bounds
    candidates = [
        low,
        high,
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        1e-30,
        -1e-30,
        np.nextafter(low, np.inf),
        np.nextafter(high, -np.inf),
        low / 2 + high / 2,
        low / 3,
        high / 3,
        1.0,
        -1.0,
    ]
    return [x for x in candidates if low <= x <= high]


@st.composite
def multisets(draw):
    """Bounds, lambda, values and how often each occurs, up to 2^40 times."""
    bounds, lmbda = draw(cases())
    count = st.one_of(st.integers(1, 5), st.integers(1, 2**40))
    if draw(st.booleans()):
        # All at one bound, or half at each: what makes sums and variances largest.
        chosen = draw(st.sampled_from([bounds[:1], bounds[1:], bounds]))
        counts = [draw(count)] * len(chosen)
    else:
        chosen = draw(
            st.lists(
                st.one_of(st.sampled_from(adversarial(bounds)), st.floats(*bounds)),
                min_size=1,
                max_size=6,
            )
        )
        counts = draw(st.lists(count, min_size=len(chosen), max_size=len(chosen)))
    return bounds, lmbda, chosen, counts


def assert_fits(parts, counts, values, bounds, encoding):
    """Each integer and each number that is derived from their sums keeps within its bits."""
    n, sums = sum(counts), added(parts, counts)
    phi_grid = phi_grid_of(bounds)
    y_bits = max(int(side.y_bits[0]) for side in (encoding.positive, encoding.negative))
    d_bits = max(int(side.d_bits[0]) for side in (encoding.positive, encoding.negative))
    for part, x in zip(parts, values, strict=True):
        side = encoding.positive if x >= 0 else encoding.negative
        assert abs(part.y) <= 1 << int(side.y_bits[0])
        assert abs(part.d) <= 1 << int(side.d_bits[0])
    V, K, D = derived(sums, n, phi_grid)
    assert abs(sums.y) <= n << y_bits
    assert abs(sums.d) <= n << d_bits
    assert 0 <= sums.yy <= n << 2 * y_bits
    assert abs(sums.yd) <= n << y_bits + d_bits
    assert 0 <= V <= n * n << 2 * y_bits
    assert V.bit_length() <= int(encoding.v_bits[0])
    assert abs(K) <= n * n << y_bits + d_bits
    signed = int(encoding.sum_bits[0]) - 1
    for number in (*sums, V, K, n * K << phi_grid, sums.phi * V, D):
        assert -(1 << signed) <= number < 1 << signed
    assert int(encoding.sum_bits[0]) <= 64 * int(encoding.limbs[0]) < int(encoding.sum_bits[0]) + 64


@settings(max_examples=200)
@given(multisets())
def test_no_admissible_data_overflow_an_encoding(case):
    bounds, lmbda, values, counts = case
    parts, encoding = one_by_one(values, bounds, sum(counts), lmbda)
    assert_fits(parts, counts, values, bounds, encoding)


@settings(max_examples=150)
@given(multisets())
def test_nor_do_their_exact_values_on_the_grid(case):
    """The same from values that share no code with the silo's."""
    bounds, lmbda, values, counts = case
    encoding = choose_encoding(
        Domain.from_bounds(bounds, 1), np.array([sum(counts)]), np.array([lmbda])
    )
    grid, phi_grid = int(encoding.grid[0]), phi_grid_of(bounds)
    with mp.workprec(2000):
        exact = [exact_y_d_phi(x, lmbda) for x in values]
        parts = [
            Totals(on_grid(y, grid), on_grid(d, grid), 0, 0, on_grid(phi, phi_grid))
            for y, d, phi in exact
        ]
    assert_fits(parts, counts, values, bounds, encoding)


@settings(max_examples=60)
@given(cases(), st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_sums_of_a_silo_do_not_wrap_around_in_the_ring_of_the_encoding(case, n, random):
    """In twice the limbs the same integers come out."""
    bounds, lmbda = case
    values = random.choices([*adversarial(bounds), *bounds], k=n)
    domain = Domain.from_bounds(bounds, 1)
    encoding = choose_encoding(domain, np.array([n]), np.array([lmbda]))
    X, limbs = np.array(values)[:, None], int(encoding.limbs[0])
    assert totals(X, domain, [lmbda], encoding, limbs) == totals(
        X, domain, [lmbda], encoding, 2 * limbs
    )


@settings(max_examples=200)
@given(cases())
def test_the_grid_keeps_its_bits_of_the_smallest_residual(case):
    """On a decaying side e^{uL} may shrink by 2^256; PRECISION bits are left of it even then."""
    bounds, lmbda = case
    encoding = choose_encoding(Domain.from_bounds(bounds, 1), np.array([1]), np.array([lmbda]))
    with mp.workprec(400):
        for x, u, side in (
            (max(bounds[1], 0.0), lmbda, encoding.positive),
            (max(-bounds[0], 0.0), 2 - lmbda, encoding.negative),
        ):
            smallest = mp.exp(min(mp.mpf(u) * mp.log1p(x), 0))
            assert int(side.spare[0]) >= 0
            own_grid = int(encoding.grid[0] - side.spare[0])
            assert mp.ldexp(smallest, own_grid) >= mp.mpf(2) ** PRECISION


def test_an_encoding_is_made_of_public_values_only():
    assert list(inspect.signature(choose_encoding).parameters) == ["domain", "n", "lmbda"]
    of_bounds = list(inspect.signature(Domain.from_bounds).parameters)
    assert of_bounds == ["bounds", "n_features", "scale", "resolution"]


BEYOND_ONE = st.floats(1, 1e30)


@settings(max_examples=200)
@given(st.tuples(*[BEYOND_ONE] * 4), st.floats(0, 1), st.integers(1, 2**40))
def test_tighter_bounds_never_cost_more(sizes, share, n):
    """As long as they lie beyond ±1: values that are all small take a finer grid."""
    low, high = -max(sizes[:2]), max(sizes[2:])
    tight = (-min(sizes[:2]), min(sizes[2:]))
    lowest, highest = edges((low, high))
    lmbda = np.clip(lowest + share * (highest - lowest), lowest, highest)
    outer, inner, positive, negative = (
        choose_encoding(Domain.from_bounds(bounds, 1), np.array([n]), lmbda)
        for bounds in ((low, high), tight, (0, high), (low, 0))
    )
    for name in ("grid", "v_bits", "sum_bits", "limbs"):
        assert getattr(inner, name) <= getattr(outer, name)
    # A side that is left out may have been the one with the larger scale.
    assert max(positive.sum_bits, negative.sum_bits) <= outer.sum_bits + 2


def test_one_sign_is_much_cheaper_than_two():
    n, lmbda = np.array([600]), np.array([-5.0])
    both, positive = (
        choose_encoding(Domain.from_bounds(bounds, 1), n, lmbda) for bounds in (None, (0, 2**20))
    )
    assert 3 * positive.sum_bits < 2 * both.sum_bits


@settings(max_examples=200)
@given(cases(), st.integers(0, 2**40), st.integers(0, 2**40))
def test_more_values_never_cost_less(case, first, second):
    bounds, lmbda = case
    few, many = sorted((first, second))
    domain = Domain.from_bounds(bounds, 1)
    encodings = [choose_encoding(domain, np.array([n]), np.array([lmbda])) for n in (few, many)]
    for name in ("grid", "v_bits", "sum_bits", "limbs"):
        assert getattr(encodings[0], name) <= getattr(encodings[1], name)
    # n values are at most 2^b, and n^3 stands before the widest number.
    growth = many.bit_length() - max(few, 1).bit_length() if many else 0
    assert encodings[1].sum_bits - encodings[0].sum_bits == 3 * growth


def test_pairs_are_encoded_one_by_one():
    """A pair has the same encoding alone and among others."""
    domain = Domain.from_bounds([(-5, 5), (0, 1e6), (-1e3, -1), (-1e9, 2)], 4)
    n, lmbda = np.array([7, 1000, 1, 10**6]), np.array([-3.0, 0.5, 5.0, 1.9])
    together = choose_encoding(domain, n, lmbda)
    for j in range(4):
        alone = choose_encoding(domain.take(np.array([j])), n[j : j + 1], lmbda[j : j + 1])
        picked = together.take(np.array([j]))
        assert repr(alone) == repr(picked)
        assert alone.limbs == picked.limbs


def test_the_default_encoding_is_narrow():
    """With 600 values in the default domain, four limbs do for lambda = 1."""
    encoding = choose_encoding(
        Domain.from_bounds(None, 3), np.full(3, 600), np.array([0.0, 1.0, 2.0])
    )
    assert encoding.limbs.tolist() == [5, 4, 5]
