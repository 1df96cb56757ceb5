"""The sums of a silo: near the truth for each value, and exact in everything after that.

Two steps, checked apart. Each value alone gives integers that are compared with residuals of many
digits. The sums of any number of values must then be the sums of those integers, to the last bit.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from securefedyj.numerics.encoding import DEFAULT_BOUND, Domain, choose_encoding, is_decaying
from securefedyj.numerics.sums import ArraySilo, OutOfBounds
from tests.federated_data import Totals, added, exact_y_d_phi, one_by_one, totals

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(2000)
WIDE = (-DEFAULT_BOUND, DEFAULT_BOUND)

# Both sides growing, one of them decaying, u = 0 on either side and next to it, the place where
# a side begins to decay (u = -1/2), and the edges of the range.
LAMBDAS = [-10.79, -10.0, -1.0, -0.5, -0.4999, -1e-3, -1e-12, 0.0, 5e-324, 1e-9, 0.02,
           0.5, 1.0, 1.5, 2 - 1e-9, 2.0, 2 + 1e-6, 2.4999, 2.5, 3.0, 12.0, 12.79]  # fmt: skip

VALUES = np.concatenate(
    [
        [0.0, 1.0, -1.0, *WIDE, 1e-3, -1e-3, 1e-12, -1e-12],
        RNG.normal(size=30),
        RNG.choice([-1, 1], 30) * 10 ** RNG.uniform(-4, 6, 30),
    ]
)


def residual(x: float, lmbda: float) -> tuple[mpf, mpf, mpf, mpf]:
    """(constant of y, residual of y, constant of d, residual of d), the constants as float64."""
    y, d, _ = exact_y_d_phi(x, lmbda)
    u = lmbda if x >= 0 else 2 - lmbda
    if not is_decaying(np.log1p(np.array(DEFAULT_BOUND)), np.array(u)):
        return mpf(0), y, mpf(0), d
    side = 1 if x >= 0 else -1
    L = mp.log1p(abs(mpf(x)))
    r = mp.exp(mpf(u) * L) / mpf(u)
    return mpf(side / abs(u)), side * r, mpf((1 / abs(u)) ** 2), r * (L - 1 / mpf(u))


@pytest.mark.parametrize("lmbda", LAMBDAS)
def test_the_integers_of_a_value_are_its_residuals_rounded_to_the_grid(lmbda):
    """Errors grow with z = |u| L, the exponent of e^{uL}, as those of any exponential do.

    What is near 1/|u| on a decaying side is compared without it: that is where the digits are.
    """
    parts, encoding = one_by_one(VALUES, WIDE, len(VALUES), lmbda)
    grid, phi_grid = int(encoding.grid[0]), int(Domain.from_bounds(WIDE, 1).phi_grid()[0])
    with mp.workprec(1500):
        for x, part in zip(VALUES.tolist(), parts, strict=True):
            y_constant, y, d_constant, d = residual(x, lmbda)
            side = encoding.positive if x >= 0 else encoding.negative
            half_unit = mpf(2) ** (int(side.spare[0]) - 1)
            z = abs(lmbda if x >= 0 else 2 - lmbda) * mp.log1p(abs(x))
            for integer, constant, exact, ulps in (
                (part.y, y_constant, y, 5),
                (part.d, d_constant, d, 20),
            ):
                got = integer - mp.nint(mp.ldexp(constant, grid))
                error = abs(got - mp.ldexp(exact, grid))
                assert error <= half_unit + ulps * (1 + z) * mpf(2) ** (grid - 53) * abs(exact)
            phi = mp.ldexp(exact_y_d_phi(x, lmbda)[2], phi_grid)
            assert abs(part.phi - phi) <= 0.5 + mpf(3) * 2**-52 * abs(phi)


@pytest.mark.parametrize("lmbda", LAMBDAS)
def test_sums_are_near_sums_of_the_definition(lmbda):
    """No code and no grid in common: Psi and its derivative, summed with many digits."""
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=150), rng.lognormal(size=150)])
    domain = Domain.from_bounds((-10, 100), 1)
    encoding = choose_encoding(domain, np.array([len(x)]), np.array([lmbda]))
    (sums,) = totals(x[:, None], domain, [lmbda], encoding, int(encoding.limbs[0]))
    grid = int(encoding.grid[0])
    with mp.workprec(600):
        y, d, phi = zip(*(exact_y_d_phi(v, lmbda) for v in x.tolist()), strict=True)
        for integer, bits, terms in (
            (sums.y, grid, y),
            (sums.d, grid, d),
            (sums.yy, 2 * grid, [a * a for a in y]),
            (sums.yd, 2 * grid, [a * b for a, b in zip(y, d, strict=True)]),
            (sums.phi, int(domain.phi_grid()[0]), phi),
        ):
            error = abs(mp.ldexp(integer, -bits) - mp.fsum(terms))
            assert error <= mpf("1e-14") * mp.fsum(map(abs, terms))


@pytest.mark.parametrize("lmbda", LAMBDAS)
@pytest.mark.parametrize(
    "values",
    [VALUES, np.abs(VALUES), -np.abs(VALUES) - 1e-300, VALUES[:1], np.zeros(0)],
    ids=["both signs", "positive", "negative", "one value", "none"],
)
def test_sums_are_the_sums_of_the_integers_of_each_value(values, lmbda):
    """Products of digits, carries and the constants of a decaying side, by Python's integers."""
    values = np.clip(values, *WIDE)
    n = max(len(values), 1)
    domain = Domain.from_bounds(WIDE, 1)
    encoding = choose_encoding(domain, np.array([n]), np.array([lmbda]))
    sums = totals(values[:, None], domain, [lmbda], encoding, int(encoding.limbs[0]))
    parts = one_by_one(values, WIDE, n, lmbda)[0] if len(values) else []
    assert sums == [added(parts, [1] * len(values))]
    assert [(part.yy, part.yd) for part in parts] == [(p.y * p.y, p.y * p.d) for p in parts]


@pytest.mark.parametrize("lmbda", [-10.0, -0.3, 0.0, 1e-7, 1.0, 2.0, 12.0])
@pytest.mark.parametrize("n", [2047, 2048, 2049, 4097, 100_000])
def test_many_values_take_several_rows_and_stay_exact(n, lmbda):
    """Rows have 2048 values; a pair of a feature and a lambda carries after 16 of them."""
    rng = np.random.default_rng(1)
    chosen = np.array([*WIDE, 0.0, 1.0, -1.0, 3.25, -1234.5, 7e5])
    repeats = rng.multinomial(n, rng.dirichlet(np.ones(len(chosen))))
    X = rng.permutation(np.repeat(chosen, repeats))[:, None]
    domain = Domain.from_bounds(WIDE, 1)
    encoding = choose_encoding(domain, np.array([n]), np.array([lmbda]))
    sums = totals(X, domain, [lmbda], encoding, int(encoding.limbs[0]))
    parts, _ = one_by_one(chosen, WIDE, n, lmbda)
    assert sums == [added(parts, repeats.tolist())]


def digits(value: int) -> list[int]:
    """Signed digits of 22 bits, lowest first."""
    found = []
    while value:
        low = (value + 2**21) % 2**22 - 2**21
        found.append(low)
        value = (value - low) >> 22
    return found


def test_carries_come_before_a_machine_word_overflows():
    """So many equal values with large digits that 64 bits cannot hold the sum for one place."""
    n, lmbda = 1 << 21, -10.0
    candidates = np.linspace(0.5, 1, 5000)
    parts, encoding = one_by_one(candidates, WIDE, n, lmbda)
    # On this side r_y = y - 1/|u|, exactly.
    constant = int(mp.nint(mp.ldexp(mpf(1 / abs(lmbda)), int(encoding.grid[0]))))

    def largest(part: Totals) -> int:
        d = np.array(digits(part.y - constant), dtype=object)
        return max(map(abs, np.convolve(d, d).tolist()))

    best = max(range(len(parts)), key=lambda i: largest(parts[i]))
    assert n * largest(parts[best]) > 2**63
    X = np.full((n, 1), candidates[best])
    domain = Domain.from_bounds(WIDE, 1)
    sums = totals(X, domain, [lmbda], encoding.take(np.array([0])), int(encoding.limbs[0]))
    assert sums == [added([parts[best]], [n])]


def silo_sums(parts: list[np.ndarray], bounds, lmbda) -> list[Totals]:
    """The sums of all silos together, added as Python integers; the encoding is the common one."""
    p = parts[0].shape[1]
    domain = Domain.from_bounds(bounds, p)
    n = sum(np.count_nonzero(~np.isnan(part), axis=0) for part in parts)
    encoding = choose_encoding(domain, n, np.asarray(lmbda))
    each = [totals(part, domain, lmbda, encoding, int(encoding.limbs.max())) for part in parts]
    return [Totals(*map(sum, zip(*rows, strict=True))) for rows in zip(*each, strict=True)]


tables = st.integers(1, 4).flatmap(
    lambda p: st.lists(
        st.lists(
            st.one_of(
                st.just(np.nan),
                st.floats(-1e3, 1e3),
                st.sampled_from([0.0, -0.0, 1e3, -1e3, 1e-200, -1e-200]),
            ),
            min_size=p,
            max_size=p,
        ),
        min_size=1,
        max_size=30,
    )
)


@settings(max_examples=80)
@given(tables, st.floats(-20, 22), st.randoms(use_true_random=False))
def test_sums_do_not_depend_on_order_grouping_or_split(rows, lmbda, random):
    X = np.array(rows)
    lambdas = [lmbda] * X.shape[1]
    pooled = silo_sums([X], (-1e3, 1e3), lambdas)
    random.shuffle(rows)
    cuts = sorted(random.randint(0, len(rows)) for _ in range(random.randint(1, 4)))
    parts = np.split(np.array(rows), cuts)
    assert silo_sums(parts, (-1e3, 1e3), lambdas) == pooled


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([-9.0, -0.2, 0.0, 1.0, 2.3]))
def test_nor_do_those_of_several_rows(seed, lmbda):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.integers(2000, 9000)), 2)) * 10 ** rng.uniform(-3, 3)
    X[rng.random(X.shape) < 0.05] = np.nan
    pooled = silo_sums([X], (-1e6, 1e6), [lmbda] * 2)
    shuffled = rng.permutation(X)
    cuts = np.sort(rng.integers(0, len(X), 3))
    assert silo_sums(np.split(shuffled, cuts), (-1e6, 1e6), [lmbda] * 2) == pooled
    assert silo_sums([np.asfortranarray(shuffled)], (-1e6, 1e6), [lmbda] * 2) == pooled


def test_pairs_may_name_a_feature_several_times_in_any_order():
    """As a speculation does: the same feature at many lambdas in one call."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(3000, 3)), rng.lognormal(size=(50, 3))])
    X[rng.random(X.shape) < 0.1] = np.nan
    domain = Domain.from_bounds((-50, 50), 3)
    silo = ArraySilo(X, domain, ["a", "b", "c"])
    feature = rng.integers(0, 3, 40)
    lmbda = rng.choice([-9.0, -1.0, 0.0, 0.4, 1.0, 2.0, 6.0], 40)
    encoding = choose_encoding(domain.take(feature), silo.count[feature], lmbda)
    limbs = int(encoding.limbs.max())
    together = silo.sums(feature, lmbda, encoding, limbs)
    for k in range(40):
        pair = np.array([k])
        alone = silo.sums(feature[pair], lmbda[pair], encoding.take(pair), limbs)
        for part, whole in zip(alone, together, strict=True):
            assert np.array_equal(part[:, 0], whole[:, k])


def test_a_neighbour_with_a_wider_encoding_changes_nothing():
    """Features that share a call have different bounds, grids and numbers of digits."""
    rng = np.random.default_rng(1)
    bounds = [(-1, 1), (0, 1e6), (-1e6, 0), (-3, 1e3)]
    X = np.stack([rng.uniform(low, high, 500) for low, high in bounds], axis=1)
    lambdas = [30.0, -9.0, 3.0, 0.7]
    domain = Domain.from_bounds(bounds, 4)
    encoding = choose_encoding(domain, np.full(4, 500), np.array(lambdas))
    together = totals(X, domain, lambdas, encoding, 20)
    for j in range(4):
        pair = np.array([j])
        alone = totals(X[:, pair], domain.take(pair), lambdas[j : j + 1], encoding.take(pair), 20)
        assert alone == [together[j]]


def test_missing_values_and_empty_silos_add_nothing():
    X = np.array([[1.0, np.nan, np.nan], [np.nan, -2.0, np.nan], [3.0, 4.0, np.nan]])
    domain = Domain.from_bounds((-10, 10), 3)
    names = ["a", "b", "c"]
    silo = ArraySilo(X, domain, names)
    assert silo.count.tolist() == [2, 2, 0]
    empty = ArraySilo(X[:0], domain, names)
    assert empty.count.tolist() == [0, 0, 0]
    for lmbda in (-5.0, 0.0, 1.0, 7.0):
        encoding = choose_encoding(domain, np.array([2, 2, 1]), np.full(3, lmbda))
        limbs = int(encoding.limbs.max())
        sums = totals(X, domain, [lmbda] * 3, encoding, limbs)
        assert sums[2] == Totals(0, 0, 0, 0, 0)
        assert sums[0] == added(one_by_one([1.0, 3.0], (-10, 10), 2, lmbda)[0], [1, 1])
        assert sums[1] == added(one_by_one([-2.0, 4.0], (-10, 10), 2, lmbda)[0], [1, 1])
        assert totals(X[:0], domain, [lmbda] * 3, encoding, limbs) == [Totals(0, 0, 0, 0, 0)] * 3


@pytest.mark.parametrize("value", [100.125, -7.75, np.inf, -np.inf, np.nextafter(100, 200)])
def test_a_value_outside_is_an_error_that_names_feature_and_bound_and_not_the_value(value):
    X = np.array([[1.0, 5.0], [2.0, value], [np.nan, value], [np.nan, np.nan]])
    with pytest.raises(OutOfBounds) as caught:
        ArraySilo(X, Domain.from_bounds([(0, 10), (-7.5, 100)], 2), ["age", "dose"])
    message = str(caught.value)
    assert "'dose' has 2 value(s) outside its agreed bounds [-7.5, 100]" in message
    assert "Nothing was sent" in message
    assert "age" not in message
    assert f"{value:g}" not in message.replace("[-7.5, 100]", "")
    assert isinstance(caught.value, ValueError)


def test_values_at_the_bounds_are_inside():
    domain = Domain.from_bounds([(0.1, 0.3), (-5, -1)], 2)
    ArraySilo(np.array([[0.1, -5.0], [0.3, -1.0], [np.nan, np.nan]]), domain, ["a", "b"])


def test_sums_in_several_threads_do_not_disturb_each_other():
    X = RNG.lognormal(0, 2, (300, 20)) - 1
    domain = Domain.from_bounds(None, 20)
    silo = ArraySilo(X, domain, [str(j) for j in range(20)])
    lambdas = [np.full(20, lmbda) for lmbda in (-3.0, -0.7, 0.0, 0.4, 1.0, 2.5)]

    def sums(lmbda):
        encoding = choose_encoding(domain, silo.count, lmbda)
        return [part.copy() for part in silo.sums(np.arange(20), lmbda, encoding, 16)]

    alone = [sums(lmbda) for lmbda in lambdas]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            np.testing.assert_array_equal(list(pool.map(sums, lambdas)), alone)
