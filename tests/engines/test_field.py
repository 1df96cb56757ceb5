"""GF(2^64) against polynomials over GF(2) in plain integers."""

import numpy as np
import pytest

from securefedyj.engines.replicated import field, rows

MODULUS = 1 << 64 | 0b11011
BYTE_MODULUS = 0x11D  # t^8 + t^4 + t^3 + t^2 + 1


def remainder(a, modulus):
    while (excess := a.bit_length() - modulus.bit_length()) >= 0:
        a ^= modulus << excess
    return a


def times(a, b, modulus=MODULUS):
    """Product of polynomials over GF(2), bit by bit."""
    result = 0
    for k in range(b.bit_length()):
        if b >> k & 1:
            result ^= a << k
    return remainder(result, modulus)


def some(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << 64, shape, dtype=np.uint64)


def element(value):
    return np.array([value], dtype=np.uint64)


EDGES = np.array([0, 1, 2, 1 << 63, (1 << 64) - 1, 0xFFFF_FFFF, 1 << 32], dtype=np.uint64)


def test_the_modulus_is_irreducible():
    """Rabin's test: x^(2^64) = x, and x^(2^32) - x has no factor in common with the modulus."""
    x = 2
    for k in range(64):
        if k == 32:
            a, b = MODULUS, x ^ 2
            while b:
                a, b = b, remainder(a, b)
            assert a == 1
        x = times(x, x)
    assert x == 2


@pytest.mark.parametrize("a", [some(300), EDGES], ids=["random", "edges"])
@pytest.mark.parametrize("b", [some(300, seed=1), EDGES], ids=["random", "edges"])
def test_products_are_those_of_polynomials(a, b):
    found = field.multiply(a[:, None], b[None, :7])
    assert found.tolist() == [[times(x, y) for y in b[:7].tolist()] for x in a.tolist()]


def test_long_vectors_are_multiplied_as_short_ones():
    a, b = some(2, 10_000)
    parts = [field.multiply(a[k : k + 1000], b[k : k + 1000]) for k in range(0, 10_000, 1000)]
    assert np.array_equal(field.multiply(a, b), np.concatenate(parts))
    assert field.sum_products(a, b) == np.bitwise_xor.reduce(np.concatenate(parts))


def test_powers():
    a = some(20)
    assert field.power(a, 5).tolist() == [
        times(x, times(times(x, x), times(x, x))) for x in a.tolist()
    ]
    assert (field.power(a, (1 << 64) - 1) == 1).all()
    assert (field.power(a, 0) == 1).all()
    for count in (0, 1, 2, 3, 4, 5, 100):
        known = [1]
        while len(known) < count:
            known.append(times(known[-1], 12345))
        assert field.powers(12345, count).tolist() == known[:count]


def test_spread_weighs_by_powers_of_x():
    a = some(3, 192)
    weights = [1 << (c % 64) for c in range(192)]
    found = field.spread(a)
    assert found.tolist() == [
        [times(x, w) for x, w in zip(line, weights, strict=True)] for line in a.tolist()
    ]


def test_subset_sums_are_chosen_by_bits():
    a = some(24)
    table = field.subset_sums(a)
    for octet in (0, 1, 2, 0b1000_0000, 0b0101_1010, 255):
        for group in range(3):
            chosen = [a[8 * group + k] for k in range(8) if octet >> k & 1]
            assert table[octet, group] == np.bitwise_xor.reduce([np.uint64(0), *chosen])


def test_bytes_are_little_endian():
    assert field.to_bytes(np.array([1, 2 << 56], dtype=np.uint64)) == bytes([1] + [0] * 14 + [2])
    a = some(5)
    assert np.array_equal(field.from_bytes(field.to_bytes(a)), a)


def test_the_points_are_the_field_of_bytes():
    points = [int(x) for x in field.POINTS]
    assert len(set(points)) == 256
    assert points[:3] == [0, 1, field.BETA]
    products = field.to_octets(field.multiply(field.POINTS[:, None], field.POINTS[None]))
    for x, y in np.random.default_rng(0).integers(0, 256, (500, 2)).tolist():
        assert points[x] ^ points[y] == points[x ^ y]
        assert products[x, y] == times(x, y, BYTE_MODULUS)
        assert times(points[x], points[y]) == points[products[x, y]]


def test_beta_is_the_least_of_the_roots():
    beta = field.POINTS[2:3]
    roots = {int(field.power(beta, 1 << k)[0]) for k in range(8)}
    for root in roots:
        powers = field.powers(root, 9).tolist()
        assert powers[8] ^ powers[4] ^ powers[3] ^ powers[2] ^ 1 == 0
    assert len(roots) == 8
    assert min(roots) == field.BETA


def horner(coefficients, t):
    value = np.zeros_like(t)
    for coefficient in reversed(coefficients):
        value = field.multiply(value, t) ^ coefficient
    return value


@pytest.mark.parametrize("count", [8, 16, 32, 64, 128])
def test_polynomials_through_rows(count):
    domain, zeta = rows.rows(count), 0x0123_4567_89AB_CDEF
    at_rows, at_proof, vanishing = domain.at(zeta)
    polynomial = some(count)
    values = horner(polynomial, domain.points)
    assert field.sum_products(at_rows, values) == horner(polynomial, element(zeta))
    assert np.array_equal(domain.extend(values), horner(polynomial, domain.further))
    longer = some(count + 1, seed=1)
    proof = np.append(horner(longer, domain.further), longer[-1])
    assert field.sum_products(at_proof, proof) == horner(longer, element(zeta))
    product = 1
    for point in domain.points.tolist():
        product = times(product, zeta ^ point)
    assert vanishing.tolist() == [product]
    assert not domain.vanishing(domain.points).any()
    assert (domain.vanishing(domain.further) == domain.mu).all()
    assert field.multiply(domain.mu, domain.over_mu) == 1


@pytest.mark.parametrize("count", [8, 32, 128])
def test_same_rows_have_squares_of_coefficients_added(count):
    domain, values = rows.rows(count), some(count)
    units = np.eye(count, dtype=np.uint64)
    coefficients = np.stack([domain.extend(unit) for unit in units], axis=1)
    both = field.multiply(coefficients, coefficients) ^ coefficients
    assert np.array_equal(domain.extend_same(values), field.sum_products(both, values))


@pytest.mark.parametrize("count", [8, 16, 64, 128])
def test_rows_have_inverses(count):
    inverse = rows.inverse(count)
    assert inverse[0] == 0
    assert (field.multiply(inverse, field.POINTS[:count])[1:] == 1).all()


@pytest.mark.parametrize("count", [0, 4, 12, 256])
def test_other_numbers_of_rows_are_refused(count):
    with pytest.raises(ValueError, match="power of two from 8 to 128"):
        rows.EvaluationDomain(count)
