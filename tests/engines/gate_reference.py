"""A second implementation of the proofs of gates, in plain integers: slow, and by definition.

Polynomials are lists of coefficients, the lowest first.
"""

from functools import reduce
from operator import xor

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

MODULUS = 1 << 64 | 0b11011


def times(a, b):
    result = 0
    while b:
        low = b & -b
        result ^= a * low
        b ^= low
    while (excess := result.bit_length() - 65) >= 0:
        result ^= MODULUS << excess
    return result


def power(a, exponent):
    result = 1
    while exponent:
        if exponent & 1:
            result = times(result, a)
        a, exponent = times(a, a), exponent >> 1
    return result


def inverse(a):
    return power(a, (1 << 64) - 2)


def total(values):
    return reduce(xor, values, 0)


def roots():
    """All roots of t^8 + t^4 + t^3 + t^2 + 1."""
    for generator in range(2, 100):
        t = power(generator, ((1 << 64) - 1) // 255)
        if not total(power(t, k) for k in (8, 4, 3, 2, 0)):
            return {power(t, 1 << k) for k in range(8)}
    raise AssertionError("there are roots")


BETA = min(roots())
POINTS = [total(power(BETA, k) for k in range(8) if v >> k & 1) for v in range(256)]


def product(p, q):
    result = [0] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            result[i + j] ^= times(a, b)
    return result


def plus(*polynomials):
    result = [0] * max(map(len, polynomials))
    for polynomial in polynomials:
        for i, a in enumerate(polynomial):
            result[i] ^= a
    return result


def at(p, t):
    return reduce(lambda value, coefficient: times(value, t) ^ coefficient, reversed(p), 0)


class Rows:
    def __init__(self, count):
        self.further = POINTS[count : 2 * count]
        self.vanishing = reduce(product, ([point, 1] for point in POINTS[:count]))
        self.basis = []
        for own in POINTS[:count]:
            basis = reduce(product, ([point, 1] for point in POINTS[:count] if point != own))
            self.basis.append([times(c, inverse(at(basis, own))) for c in basis])

    def through(self, bits):
        return plus([0], *(basis for basis, bit in zip(self.basis, bits, strict=True) if bit))

    def quotient(self, p):
        """p / M, which has no remainder."""
        rest, result = list(p), []
        while len(rest) >= len(self.vanishing):
            result.append(rest[-1])
            shift = len(rest) - len(self.vanishing)
            rest = plus(rest, [0] * shift + [times(rest[-1], c) for c in self.vanishing])[:-1]
        assert not any(rest)
        return result[::-1]


class Draws:
    """What comes from one key, in order."""

    def __init__(self, key, rows, columns):
        update = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update

        def draw(count):
            return [int.from_bytes(update(bytes(8)), "little") for _ in range(count)]

        self.r, self.s = draw(columns), draw(columns)
        self.share = draw(rows + 1)
        self.r_, self.s_ = draw(columns), draw(columns)
        self.eta, self.theta, self.zeta = draw(3)
        assert self.zeta not in POINTS


def words(values):
    return b"".join(value.to_bytes(8, "little") for value in values)


def size(octets):
    """Rows and columns for so many octets."""
    rows = 8
    while rows < 128 and 64 * rows < 8 * octets:
        rows *= 2
    return rows, 64 * -(-8 * octets // (64 * rows))


def messages(i, x, y, z, drawn, keys, rows, columns):
    """Return what V1 sends to prover i, the prover to V2, and V1 to V2.

    All arguments but the last two have one entry for each of three members or keys.
    """
    following = (i + 1) % 3
    masks, primed, challenge = (Draws(keys[(i + k) % 3], rows, columns) for k in range(3))
    own = Rows(rows)

    def polynomials(octets, masks=None):
        """One for each column."""
        result = []
        for column in range(columns):
            places = [(row // 8) * columns + column for row in range(rows)]
            bits = [
                place < len(octets) and octets[place] >> (row % 8) & 1
                for row, place in enumerate(places)
            ]
            scale = masks[column] if masks else 0
            masked = [times(scale, c) for c in own.vanishing]
            result.append(plus(own.through(bits), masked))
        return result

    gate = range(len(z[i]))
    a, c = polynomials(x[i], masks.r), polynomials(y[i], masks.s)
    b, d = polynomials(y[following], primed.r_), polynomials(x[following], primed.s_)
    e = polynomials([(x[i][g] & y[i][g]) ^ z[i][g] ^ drawn[i][g] for g in gate])
    f = polynomials([drawn[following][g] for g in gate])
    tau = [
        times(
            times(power(challenge.theta, c // 512), power(challenge.eta, c % 512 // 64)),
            1 << c % 64,
        )
        for c in range(columns)
    ]
    everything = [0] * (2 * rows + 1)
    for k in range(columns):
        term = plus(product(a[k], b[k]), product(c[k], d[k]), e[k], f[k])
        everything = plus(everything, [times(tau[k], coefficient) for coefficient in term])
    q = own.quotient(everything)
    proof = [*(at(q, point) for point in own.further), q[rows]]
    left = total(
        times(lagrange(own.further, k, challenge.zeta), value)
        for k, value in enumerate(masks.share[:rows])
    )
    beyond = reduce(times, (challenge.zeta ^ point for point in own.further))
    shared = times(at(own.vanishing, challenge.zeta), left ^ times(beyond, masks.share[rows]))
    scalar = shared ^ total(times(tau[k], at(e[k], challenge.zeta)) for k in range(columns))
    evaluations = [at(p, challenge.zeta) for p in (*a, *c)]
    return (
        words([challenge.eta, challenge.theta]),
        words([challenge.eta, challenge.theta, *map(xor, proof, masks.share)]),
        words([*evaluations, scalar]),
    )


def lagrange(points, k, t):
    others = [point for j, point in enumerate(points) if j != k]
    return times(
        reduce(times, (t ^ point for point in others)),
        inverse(reduce(times, (points[k] ^ point for point in others))),
    )
