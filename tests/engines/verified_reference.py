"""A second implementation of the verified final opening: plain integers, slow, from the page.

docs/protocol.md, sections 6.5 and 8.1. All parties at once: both holders of a key draw the same, so
one stream stands for both, and a shared value is a list of three components. Operations are
generators of rounds: a set of kinds, and the payloads by sender and recipient.

Of a vector, a component is a list of integers, of any size until they are packed. Of a plane of
bits, it is an integer: bit v is the bit of value v.
"""

import hashlib
import json
from functools import cache, reduce
from itertools import permutations
from math import inf
from operator import xor

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.engines.gate_reference import POINTS, power, size, times, total, words

MEMBERS = range(3)


class Stream:
    """The keystream of a key, read on from where it is."""

    def __init__(self, key):
        self._update = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update

    def draw(self, count):
        return self._update(bytes(count))

    def vector(self, count, limbs):
        return unpacked(self.draw(8 * limbs * count), limbs)

    def words(self, count):
        return unpacked(self.draw(8 * count), 1)


def packed(vector, limbs):
    return b"".join(words(v >> 64 * limb & (1 << 64) - 1 for v in vector) for limb in range(limbs))


def unpacked(data, limbs):
    parts = [int.from_bytes(data[k : k + 8], "little") for k in range(0, len(data), 8)]
    count = len(parts) // limbs
    return [sum(parts[k * count + v] << 64 * k for k in range(limbs)) for v in range(count)]


def hashed(data):
    return hashlib.sha256(data).digest()


def in_lockstep(*branches):
    """The j-th round of each is one round."""
    results, waiting = {}, dict(enumerate(branches))
    while waiting:
        kinds, payloads = set(), {}
        for k, branch in list(waiting.items()):
            try:
                own, messages = next(branch)
            except StopIteration as end:
                results[k] = end.value
                del waiting[k]
                continue
            kinds |= own
            for pair, payload in messages.items():
                payloads[pair] = payloads.get(pair, b"") + payload
        if waiting:
            yield kinds, payloads
    return [results[k] for k in range(len(branches))]


def combine(function, *vectors):
    return [function(*values) for values in zip(*vectors, strict=True)]


def linear(function, *shared):
    """A function of every component alone."""
    return [combine(function, *parts) for parts in zip(*shared, strict=True)]


def minus(x, y):
    return linear(lambda a, b: a - b, x, y)


def less(x, public):
    """x - public: a constant is added to component 0."""
    return [combine(lambda a, b: a - b, x[0], public), x[1], x[2]]


def opposite_of(x):
    return linear(lambda v: -v, x)


def added(*planes):
    return [reduce(xor, parts) for parts in zip(*planes, strict=True)]


def opposite(plane, count):
    """1 - the bits."""
    return added(plane, [(1 << count) - 1, 0, 0])


def picked(plane, places):
    return [sum((part >> v & 1) << k for k, v in enumerate(places)) for part in plane]


def joined(bits):
    """One plane of (plane, place) pairs."""
    return [sum((p[i] >> v & 1) << k for k, (p, v) in enumerate(bits)) for i in MEMBERS]


class Exchange:
    """One verified exchange.

    Parameters
    ----------
    parties, committee, silos
        Names, in order.
    keys
        Of k_0, k_1, k_2.
    mask_keys
        By pairs of silos.
    fresh
        What each outsider draws: u_0 and u_1 for each vector in turn.
    """

    def __init__(self, parties, committee, silos, keys, mask_keys, fresh):
        self.parties, self.committee, self.silos = parties, committee, silos
        self.outsiders = [p for p in parties if p not in committee and p in silos]
        self.helpers = [i for i in MEMBERS if committee[i] not in silos]
        self.keys = [Stream(key) for key in keys]
        self.masks = {pair: Stream(key) for pair, key in mask_keys.items()}
        self.fresh = {name: iter(pairs) for name, pairs in fresh.items()}
        self.products, self.gates, self.claims = [], [], []

    def to(self, i, k, payload):
        """A message of member i to member i + k."""
        return {(self.committee[i % 3], self.committee[(i + k) % 3]): payload}

    def from_each(self, function, k):
        """One message of every member i to member i + k."""
        return reduce(dict.__or__, (self.to(i, k, function(i)) for i in MEMBERS))

    def agree(self, digest):
        yield {"DIGEST"}, dict.fromkeys(permutations(self.parties, 2), digest)

    def share(self, inputs, limbs):
        """The sum of the vectors of all silos, of so many limbs, with one more."""
        count, limbs = len(next(iter(inputs.values()))), limbs + 1
        inputs = dict(inputs)
        for (first, second), stream in self.masks.items():
            mask = stream.vector(count, limbs)
            inputs[first] = combine(lambda v, m: v + m, inputs[first], mask)
            inputs[second] = combine(lambda v, m: v - m, inputs[second], mask)
        drawn = [stream.vector(count, limbs) for stream in self.keys]
        x = [
            combine(
                lambda v, a, b: v + a - b,
                inputs.get(name, [0] * count), drawn[i], drawn[(i + 1) % 3],
            )
            for i, name in enumerate(self.committee)
        ]  # fmt: skip
        sent = [packed(part, limbs) for part in x]
        messages = self.from_each(lambda i: sent[i], -1)
        given = [b"", b"", b""]
        for name in self.outsiders:
            seeds = next(self.fresh[name])
            parts = [Stream(seed).vector(count, limbs) for seed in seeds]
            parts.append(combine(lambda v, a, b: v - a - b, inputs[name], *parts))
            rest = packed(parts[2], limbs)
            first, second = seeds
            for holder, payload in zip(
                self.committee, (first + second, second + rest, rest + first), strict=True
            ):
                messages[name, holder] = payload
            x = linear(lambda a, b: a + b, x, parts)
            given = [g + packed(part, limbs) for g, part in zip(given, parts, strict=True)]
        yield {"INPUT"}, messages
        if self.outsiders or self.helpers:
            messages = {}
            if self.outsiders:
                messages |= self.from_each(lambda i: hashed(given[i]), -1)
            for h in self.helpers:
                following = drawn[(h + 1) % 3]
                messages |= self.to(h + 1, 1, hashed(packed(following, limbs)))
                claimed = combine(lambda a, b: a - b, drawn[h], unpacked(sent[h], limbs))
                assert packed(claimed, limbs) == packed(following, limbs)
            yield {"CHECK"}, messages
        return x

    def multiply(self, pairs, limbs):
        """The sum of the products of pairs of vectors."""
        count, limbs = len(pairs[0][0][0]), limbs + 1
        x, y = ([[v for pair in pairs for v in pair[k][i]] for i in MEMBERS] for k in range(2))
        a = [stream.vector(len(pairs) * count, limbs) for stream in self.keys]
        alpha = [stream.vector(2 * count, limbs) for stream in self.keys]
        z = []
        for i in MEMBERS:
            following = (i + 1) % 3
            both = []
            for factor in (x, a):
                products = combine(
                    lambda x, x_, y, y_: x * y + x * y_ + x_ * y,
                    factor[i], factor[following], y[i], y[following],
                )  # fmt: skip
                both += [sum(products[v::count]) for v in range(count)]
            z.append(combine(lambda p, a, b: p + a - b, both, alpha[i], alpha[following]))
        yield {"PRODUCT"}, self.from_each(lambda i: packed(z[i], limbs), -1)
        c = [part[count:] for part in z]
        z = [part[:count] for part in z]
        self.products.append((limbs, len(pairs), count, x, y, z, a, c))
        return z

    def layer(self, pairs, count):
        """The products of pairs of planes of so many bits."""
        octets = -(-count // 8)

        def sequence(planes):
            return [b"".join(p[i].to_bytes(octets, "little") for p in planes) for i in MEMBERS]

        x, y = sequence([x for x, _ in pairs]), sequence([y for _, y in pairs])
        drawn = [stream.draw(octets * len(pairs)) for stream in self.keys]
        z = [
            bytes(
                a & c ^ a & d ^ b & c ^ r ^ s
                for a, b, c, d, r, s in zip(
                    x[i], x[i - 2], y[i], y[i - 2], drawn[i], drawn[i - 2], strict=True
                )
            )
            for i in MEMBERS
        ]
        self.gates.append((x, y, z, drawn))
        yield {"CARRY"}, self.from_each(lambda i: z[i], -1)
        return [
            [int.from_bytes(part[k * octets : (k + 1) * octets], "little") for part in z]
            for k in range(len(pairs))
        ]

    def carry_save(self, x, limbs):
        """s and m by positions, with m_0 = 0."""
        w, count = 64 * limbs, len(x[0])
        a, b, c = (
            [
                [sum((v >> j & 1) << k for k, v in enumerate(x[i])) * (i == at) for at in MEMBERS]
                for j in range(w)
            ]
            for i in MEMBERS
        )
        pairs = [(added(a[j], c[j]), added(b[j], c[j])) for j in range(w - 1)]
        products = yield from self.layer(pairs, count)
        m = [[0, 0, 0], *(added(products[j], c[j]) for j in range(w - 1))]
        return [added(a[j], b[j], c[j]) for j in range(w)], m

    def negative(self, x, limbs):
        count, w = len(x[0]), 64 * limbs
        s, m = yield from self.carry_save(x, limbs)
        g = yield from self.layer([(s[j], m[j]) for j in range(1, w - 1)], count)
        p = [added(s[j], m[j]) for j in range(1, w - 1)]
        carry = yield from self.carry_out(g, p, count)
        return added(s[w - 1], m[w - 1], carry)

    def carry_out(self, g, p, count):
        """Out of the highest of some places."""
        while len(g) > 1:
            pairs = range(0, len(g) - 1, 2)
            products = yield from self.layer(
                [(p[k + 1], g[k]) for k in pairs] + [(p[k + 1], p[k]) for k in pairs], count
            )
            top = len(g) // 2 * 2
            g = [added(g[k + 1], products[k // 2]) for k in pairs] + g[top:]
            p = products[len(pairs) :] + p[top:]
        return g[0]

    def bits(self, x, limbs):
        count, w = len(x[0]), 64 * limbs
        s, m = yield from self.carry_save(x, limbs)
        g = yield from self.layer([(s[j], m[j]) for j in range(1, w - 1)], count)
        before = [added(s[j], m[j]) for j in range(1, w)]
        p, places, half = list(before), w - 2, 1
        while 2 * half <= places:
            ends = range(2 * half - 1, places, 2 * half)
            products = yield from self.layer(
                [(p[j], g[j - half]) for j in ends] + [(p[j], p[j - half]) for j in ends[1:]], count
            )
            for j, product in zip(ends, products, strict=False):
                g[j] = added(g[j], product)
            for j, product in zip(ends[1:], products[len(ends) :], strict=True):
                p[j] = product
            half *= 2
        while half > 1:
            half //= 2
            ends = range(3 * half - 1, places, 2 * half)
            if ends:
                products = yield from self.layer([(p[j], g[j - half]) for j in ends], count)
                for j, product in zip(ends, products, strict=True):
                    g[j] = added(g[j], product)
        return [s[0], before[0], *(added(before[j - 1], g[j - 2]) for j in range(2, w))]

    def either(self, pairs, count):
        products = yield from self.layer(pairs, count)
        return [added(x, y, z) for (x, y), z in zip(pairs, products, strict=True)]

    def powers(self, planes, count, steps):
        """`below`, by the planes of V."""
        flags = planes[8:]
        for _ in range(3):
            flags = yield from self.either(list(zip(flags[::2], flags[1::2], strict=True)), count)
        S, half = len(flags), 1
        while half < S:
            chosen = [p for p in range(S) if (S - 1 - p) // half % 2]
            pairs = [(flags[p], flags[S - half * ((S - 1 - p) // half)]) for p in chosen]
            products = yield from self.either(pairs, count)
            for p, product in zip(chosen, products, strict=True):
                flags[p] = product
            half *= 2
        return [opposite(plane, count) for plane in flags[:steps]]

    def claim(self, planes, values):
        """That each plane has these bits."""
        for plane, bits in zip(planes, values, strict=True):
            public = sum(int(not bit) << v for v, bit in enumerate(bits))
            self.claims += [(added(plane, [public, 0, 0]), v) for v in range(len(bits))]

    def claim_below(self, planes, bounds, signed):
        """Of values given by all their planes, each with its own bound."""
        count = len(bounds)
        if signed:
            planes = [added(plane, planes[-1]) for plane in planes]
        low = min((bound & -bound).bit_length() - 1 for bound in bounds)
        high = max(bound.bit_length() for bound in bounds)
        g, p = [], []
        for j in range(low, high):
            public = sum((bound >> j & 1) << v for v, bound in enumerate(bounds))
            unequal = added(planes[j], [public, 0, 0])
            g.append([part & public for part in unequal])
            p.append(opposite(unequal, count))
        less = yield from self.carry_out(g, p, count)
        claimed = [*(opposite(plane, count) for plane in planes[high:]), less]
        self.claims += [(plane, v) for plane in claimed for v in range(count)]

    def claim_zero(self, x, limbs):
        count, w = len(x[0]), 64 * limbs
        s, m = yield from self.carry_save(x, limbs)
        o = [s[0]]
        o += yield from self.either([(s[j], m[j]) for j in range(1, w - 1)], count)
        e = [opposite(s[0], count)]
        e += [opposite(added(s[j], m[j], o[j - 1]), count) for j in range(1, w)]
        while len(e) > 1:
            half = len(e) // 2
            pairs = list(zip(e[:half], e[half : 2 * half], strict=True))
            e = (yield from self.layer(pairs, count)) + e[2 * half :]
        self.claims += [(e[0], v) for v in range(count)]

    def challenge(self):
        """The seed of the subsets."""
        yield {"CHECK"}, self.from_each(lambda i: b"\1", 1) | self.from_each(lambda i: b"\1", -1)
        parts = [stream.draw(32) for stream in self.keys]
        to_next = self.from_each(lambda i: parts[i], 1)
        yield {"CHECK"}, to_next | self.from_each(lambda i: parts[(i + 1) % 3], -1)
        added = combine(lambda *numbers: sum(numbers) % (1 << 64), *(unpacked(p, 1) for p in parts))
        self.seed = words(added)

    def verdict(self):
        """A bit, as a plane and the place in it."""
        subsets = Stream(self.seed).words(len(self.claims))
        false = [(opposite(plane, 1 + v), v) for plane, v in self.claims]
        sums = [
            total(
                subset
                for subset, (plane, v) in zip(subsets, false, strict=True)
                if plane[i] >> v & 1
            )
            for i in MEMBERS
        ]
        even = [opposite([part >> j & 1 for part in sums], 1) for j in range(64)]
        while len(even) > 1:
            half = len(even) // 2
            even = yield from self.layer(list(zip(even[:half], even[half:], strict=True)), 1)
        return even[0], 0

    def conjunction(self, left, right):
        """Of two vectors, given as (plane, place) pairs, as a plane."""
        (plane,) = yield from self.layer([(joined(left), joined(right))], len(left))
        return plane

    def noted(self, plane, count):
        """What each member holds of a plane of so many bits, one component after the other."""
        parts = [part.to_bytes(-(-count // 8), "little") for part in plane]
        return [parts[i] + parts[(i + 1) % 3] for i in MEMBERS]

    def from_noted(self, noted):
        """The plane, and both holders of a component have the same."""
        halves = [(own[: len(own) // 2], own[len(own) // 2 :]) for own in noted]
        assert all(halves[i - 1][1] == halves[i][0] for i in MEMBERS)
        return [int.from_bytes(first, "little") for first, _ in halves]

    def check(self):
        yield from in_lockstep(self.check_products(), self.check_gates())
        yield (
            {"CHECK"},
            {
                (member, party): b"\1"
                for member, party in permutations(self.parties, 2)
                if member in self.committee
            },
        )

    def check_products(self):
        text = str([(2, limbs, terms, count) for limbs, terms, count, *_ in self.products])
        both = [self.from_each(lambda i: hashed(text.encode()), k) for k in (1, -1)]
        yield {"CHECK"}, both[0] | both[1]
        word = [stream.words(1)[0] for stream in self.keys]
        t = sum(word) % (1 << 64)
        to_next = self.from_each(lambda i: words([word[i]]), 1)
        yield {"CHECK"}, to_next | self.from_each(lambda i: words([word[(i + 1) % 3]]), -1)
        rho = [linear(lambda x, a: t * x - a, x, a) for *_, x, _, _, a, _ in self.products]

        def parts(vectors, i):
            return b"".join(
                packed(vector[i], product[0])
                for vector, product in zip(vectors, self.products, strict=True)
            )

        to_next = self.from_each(lambda i: parts(rho, i), 1)
        yield {"CHECK"}, to_next | self.from_each(lambda i: hashed(parts(rho, (i + 1) % 3)), -1)
        negated = []
        for (limbs, _, count, _, y, z, _, c), masked in zip(self.products, rho, strict=True):
            opened = combine(lambda *parts: sum(parts), *masked)
            used = [[r * v for r, v in zip(opened, part, strict=True)] for part in y]
            d = [
                [t * z[i][v] - c[i][v] - sum(used[i][v::count]) for v in range(count)]
                for i in MEMBERS
            ]
            negated.append([combine(lambda a, b: -a - b, d[i], d[(i + 1) % 3]) for i in MEMBERS])
            assert all(
                packed(n, limbs) == packed(d[i - 1], limbs) for i, n in enumerate(negated[-1])
            )
        yield {"CHECK"}, self.from_each(lambda i: hashed(parts(negated, i)), 1)

    def check_gates(self):
        x, y, z, drawn = (
            [b"".join(gates[k][i] for gates in self.gates) for i in MEMBERS] for k in range(4)
        )
        rows, columns = size(len(z[0]))
        draws = [Draws(stream, rows, columns) for stream in self.keys]
        proofs = [proof_messages(i, x, y, z, drawn, draws, rows, columns) for i in MEMBERS]
        to_next = self.from_each(lambda i: proofs[(i + 1) % 3][0], 1)
        yield {"CHECK"}, to_next | self.from_each(lambda i: proofs[(i + 1) % 3][2], -1)
        yield {"CHECK"}, self.from_each(lambda i: proofs[i][1], 1)

    def open(self, planes, count):
        """Planes of so many bits; returns them."""
        parts = [
            b"".join(plane[i].to_bytes(-(-count // 8), "little") for plane in planes)
            for i in MEMBERS
        ]
        messages = self.from_each(lambda i: parts[i], 1)
        messages |= self.from_each(lambda i: parts[(i + 1) % 3], -1)
        for party in self.parties:
            if party not in self.committee:
                for i, member in enumerate(self.committee):
                    messages[member, party] = parts[i] + parts[(i + 1) % 3]
        yield {"OPENING"}, messages
        return [[reduce(xor, plane) >> v & 1 for v in range(count)] for plane in planes]


# --- Proofs of gates -------------------------------------------------------------------------


class Draws:
    """What comes from one key for the proofs, in order."""

    def __init__(self, stream, rows, columns):
        self.r, self.s = stream.words(columns), stream.words(columns)
        self.share = stream.words(rows + 1)
        self.r_, self.s_ = stream.words(columns), stream.words(columns)
        self.eta, self.theta, self.zeta = stream.words(3)
        while self.zeta in POINTS:
            (self.zeta,) = stream.words(1)


class Lanes:
    """Words side by side in one integer, 128 bits for each: all points at once."""

    def __init__(self, count):
        self.count = count
        self.ones = sum(1 << 128 * k for k in range(count))

    def of(self, values):
        return sum(value << 128 * k for k, value in enumerate(values))

    def values(self, lanes):
        return [lanes >> 128 * k & (1 << 128) - 1 for k in range(self.count)]

    def reduced(self, lanes):
        """Modulo x^64 + x^4 + x^3 + x + 1."""
        low = self.ones * ((1 << 64) - 1)
        for _ in range(2):
            high = lanes >> 64 & low
            lanes = lanes & low ^ high ^ high << 1 ^ high << 3 ^ high << 4
        return lanes

    def scaled(self, word, lanes):
        return self.reduced(total(lanes << k for k in range(64) if word >> k & 1))

    def times(self, left, right):
        full = (1 << 64) - 1
        return self.reduced(total((left & (right >> k & self.ones) * full) << k for k in range(64)))

    def inverse(self, lanes):
        """The power 2^64 - 2."""
        result = self.ones
        for _ in range(63):
            lanes = self.times(lanes, lanes)
            result = self.times(result, lanes)
        return result


@cache
def inverses():
    lanes = Lanes(255)
    return dict(zip(POINTS[1:], lanes.values(lanes.inverse(lanes.of(POINTS[1:]))), strict=True))


@cache
def slopes(points):
    """The product of the differences between each point and all others."""
    lanes = Lanes(len(points))
    factors = (lanes.of(p ^ q if p != q else 1 for p in points) for q in points)
    return reduce(lanes.times, factors)


def vanishing(points, t):
    return reduce(times, (t ^ point for point in points))


def lagrange(points, t):
    """At t, the polynomials that are 1 at one of the points and 0 at all others."""
    lanes = Lanes(len(points))
    differences = lanes.ones * t ^ lanes.of(points)
    inverse = lanes.inverse(lanes.times(differences, slopes(points)))
    return lanes.values(lanes.scaled(vanishing(points, t), inverse))


class Rows:
    """Points for so many rows, and as many further ones."""

    def __init__(self, count):
        self.points, self.further = tuple(POINTS[:count]), tuple(POINTS[count : 2 * count])
        self.lanes = lanes = Lanes(count)
        self.vanishing = lanes.of(vanishing(self.points, point) for point in self.further)
        self.inverse = lanes.inverse(self.vanishing)
        scales = lanes.values(lanes.inverse(slopes(self.points)))
        self.lagrange = [
            lanes.scaled(
                scale,
                lanes.times(self.vanishing, lanes.of(inverses()[p ^ row] for p in self.further)),
            )
            for row, scale in zip(self.points, scales, strict=True)
        ]


rows_of = cache(Rows)


def proof_messages(i, x, y, z, drawn, draws, rows, columns):
    """What V1 sends to prover i, the prover to V2, and V1 to V2.

    All arguments but the last two have one entry for each of three members or keys.
    """
    own, primed, challenge = (draws[(i + k) % 3] for k in range(3))
    following, zeta, domain = (i + 1) % 3, challenge.zeta, rows_of(rows)
    lanes, m_at_zeta = domain.lanes, vanishing(domain.points, zeta)
    at_zeta = lagrange(domain.points, zeta)

    def through(octets, values, column):
        """The polynomial through the bits of a column, where these are the values of the rows."""
        octets = octets[column::columns]
        return total(
            value
            for octet, start in zip(octets, range(0, rows, 8), strict=False)
            for t, value in enumerate(values[start : start + 8])
            if octet >> t & 1
        )

    e = bytes(a & c ^ p ^ r for a, c, p, r in zip(x[i], y[i], z[i], drawn[i], strict=True))
    f = drawn[following]
    q, leading, scalar, first, second = 0, 0, 0, [], []
    for k in range(columns):
        tau = times(power(challenge.theta, k // 512), power(challenge.eta, k % 512 // 64))
        tau = times(tau, 1 << k % 64)
        a, b, c, d = (
            through(octets, domain.lagrange, k) ^ lanes.scaled(mask[k], domain.vanishing)
            for octets, mask in (
                (x[i], own.r), (y[following], primed.r_), (y[i], own.s), (x[following], primed.s_),
            )
        )  # fmt: skip
        rest = through(e, domain.lagrange, k) ^ through(f, domain.lagrange, k)
        q ^= lanes.scaled(tau, lanes.times(a, b) ^ lanes.times(c, d) ^ rest)
        leading ^= times(tau, times(own.r[k], primed.r_[k]) ^ times(own.s[k], primed.s_[k]))
        first.append(through(x[i], at_zeta, k) ^ times(own.r[k], m_at_zeta))
        second.append(through(y[i], at_zeta, k) ^ times(own.s[k], m_at_zeta))
        scalar ^= times(tau, through(e, at_zeta, k))
    proof = [*lanes.values(lanes.times(q, domain.inverse)), leading]
    share = times(vanishing(domain.further, zeta), own.share[rows])
    share ^= total(map(times, lagrange(domain.further, zeta), own.share))
    told = words([challenge.eta, challenge.theta])
    return (
        told,
        told + words(map(xor, proof, own.share)),
        words([*first, *second, scalar ^ times(m_at_zeta, share)]),
    )


# --- The final opening of a run --------------------------------------------------------------


def digest_of(lines):
    return reduce(
        lambda chain, line: hashed(chain + line.encode()), lines[1:], hashed(lines[0].encode())
    )


class Bracket:
    """The search of a feature, which never comes to an edge of its range."""

    def __init__(self):
        self.value, self.lower, self.upper = 0.0, -inf, inf

    def update(self, delta):
        if delta > 0:
            self.lower = self.value
        else:
            self.upper = self.value
        if inf not in (self.upper, -self.lower):
            self.value = (self.lower + self.upper) / 2
        else:
            self.value = max(2 * self.value, 1.0) if delta > 0 else min(2 * self.value, -1.0)

    @property
    def ends(self):
        """Two points, and whether the score is negative there."""
        lower, upper = (self.lower, 0), (self.upper, 1)
        return (
            lower if self.lower > -inf else upper,
            upper if self.upper < inf else lower,
        )


class Opening:
    """The verified final opening of a batch with all features, in groups of at most one.

    Parameters
    ----------
    exchange
        The parties with their keys.
    lines
        The transcript so far.
    counts
        Of each silo, by feature.
    sums
        {(feature, lambda): {silo: {"y": S_y, "d": S_d, "yy": S_yy, "yd": S_yd, "phi": S_phi}}}.
    encodings
        {(feature, lambda): {"f_phi": ..., "y_bits": ..., "v_bits": ..., "sum_bits": ...}}.
    """

    def __init__(self, exchange, lines, counts, sums, encodings):
        self.exchange, self.lines = exchange, lines
        self.counts, self.sums, self.encodings = counts, sums, encodings
        agreement, *reveals = map(json.loads, lines)
        self.result_bits = agreement["agreement"]["result_bits"]
        self.n = reveals[0]["n"]
        self.features = range(len(self.n))
        self.varying, brackets = [], {j: Bracket() for j in self.features}
        for line in reveals[1:]:
            match line["reveal"]:
                case "variation":
                    pairs = zip(line["features"], line["varies"], strict=True)
                    self.varying = [j for j, varies in pairs if varies]
                case "step":
                    for j, lmbda, delta in zip(
                        line["features"], line["lmbda"], line["delta"], strict=True
                    ):
                        assert brackets[j].value == lmbda
                        brackets[j].update(delta)
        self.present = [j for j in self.features if self.n[j] > 0]
        self.several = [j for j in self.features if self.n[j] > 1]
        self.final = {j: brackets[j].value if j in self.varying else 1.0 for j in self.present}
        self.ends = {j: brackets[j].ends for j in self.varying}

    def inputs(self, terms):
        """The vector of each silo: term by term, a factor and a sum of a feature at a lambda."""
        return {
            silo: [factor * self.sums[j, lmbda][silo][name] for factor, name, j, lmbda in terms]
            for silo in self.exchange.silos
        }

    def limbs(self, points):
        """For V."""
        return max(-(-(self.encodings[point]["v_bits"] + 2) // 64) for point in points)

    def moments(self, points):
        terms = [(1, "y", *point) for point in points]
        terms += [(self.n[point[0]], "yy", *point) for point in points]
        return self.inputs(terms)

    def program(self):
        """The rounds; returns what each member notes, and the reveal."""
        plane, size = yield from self.computed()
        yield from self.exchange.check()
        noted = self.exchange.noted(plane, size)
        return noted, (yield from self.opened(plane, size))

    def from_noted(self, noted):
        """The rounds of a session that goes on from what members have noted; returns the reveal."""
        size = 1 + self.steps * len(self.present) + self.width * 2 * len(self.present)
        yield from self.exchange.agree(digest_of(self.lines))
        return (yield from self.opened(self.exchange.from_noted(noted), size))

    @property
    def width(self):
        """w at lambda*."""
        return 64 * self.limbs(self.final.items())

    @property
    def steps(self):
        """J."""
        return max(self.encodings[point]["v_bits"] for point in self.final.items()) // 8

    def computed(self):
        """The vector that is opened, and its size."""
        exchange, q = self.exchange, len(self.present)
        at_end = list(self.final.items())
        at_zero = [(j, 0.0) for j in self.several]
        ends = [(j, *self.ends[j][k]) for k in range(2) for j in self.varying]
        _, last, counts, *others = yield from in_lockstep(
            exchange.agree(digest_of(self.lines)),
            exchange.share(self.moments(at_end), self.limbs(at_end)),
            exchange.share(self.counts, 1),
            *([exchange.share(self.moments(at_zero), self.limbs(at_zero))] if at_zero else []),
            *([exchange.share(self.score_terms(ends), self.score_limbs(ends))] if ends else []),
        )
        bits, *_ = yield from in_lockstep(
            self.bits(last, at_end),
            self.claims(counts, others, at_zero, ends),
            exchange.challenge(),
        )
        V, y = ([picked(plane, range(k, k + q)) for plane in bits] for k in (0, q))
        below, verdict = yield from in_lockstep(
            exchange.powers(V, q, self.steps), self.verdict(V, y, at_end)
        )
        below = [(plane, v) for plane in below for v in range(q)]
        chosen = yield from exchange.conjunction(below, [verdict] * len(below))
        bits = [(plane, v) for plane in bits for v in range(2 * q)]
        admits = [
            (chosen, k * q + v) if (k := (p + self.result_bits) // step) < self.steps else verdict
            for p in range(self.width)
            for step in (8, 4)
            for v in range(q)
        ]
        admitted = yield from exchange.conjunction(bits, admits)
        whole = [verdict]
        whole += [(chosen, k) for k in range(len(below))]
        whole += [(admitted, k) for k in range(len(bits))]
        return joined(whole), len(whole)

    def opened(self, plane, size):
        """The reveal."""
        ((holds, *bits),) = yield from self.exchange.open([plane], size)
        magnitude, V, S_y = ([0] * len(self.n) for _ in range(3))
        q, width = len(self.present), self.width
        chosen, admitted = bits[: self.steps * q], bits[self.steps * q :]
        for v, j in enumerate(self.present if holds else ()):
            m = magnitude[j] = chosen[v::q].count(0)
            both = [sum(bit << p for p, bit in enumerate(admitted[k :: 2 * q])) for k in (v, q + v)]
            V[j] = both[0] >> max(8 * m - self.result_bits, 0)
            S_y[j] = both[1] - (both[1] >> width - 1 << width)
            S_y[j] >>= max(4 * m - self.result_bits, 0)
        return {
            "reveal": "final",
            "features": [*self.features],
            "holds": bool(holds),
            "magnitude": magnitude,
            "V": [hex(v) for v in V],
            "S_y": [hex(v) for v in S_y],
        }

    def score_terms(self, ends):
        """[S_y, n S_yy, h S_d, n h S_yd] of all pairs, then S_phi of all features."""
        n, h = self.n, {j: self.n[j] << self.encodings[j, at]["f_phi"] for j, at, _ in ends}
        terms = [(1, "y", j, at) for j, at, _ in ends]
        terms += [(n[j], "yy", j, at) for j, at, _ in ends]
        terms += [(h[j], "d", j, at) for j, at, _ in ends]
        terms += [(n[j] * h[j], "yd", j, at) for j, at, _ in ends]
        terms += [(1, "phi", j, at) for j, at, _ in ends[: len(self.varying)]]
        return self.inputs(terms)

    def score_limbs(self, ends):
        return max(-(-self.encodings[j, at]["sum_bits"] // 64) for j, at, _ in ends)

    def variance(self, shared, limbs):
        count = len(shared[0]) // 2
        y, yy = [part[:count] for part in shared], [part[count:] for part in shared]
        square = yield from self.exchange.multiply([(y, y)], limbs)
        return minus(yy, square), y

    def bits(self, shared, points):
        """All bits of [V, S_y]."""
        limbs = self.limbs(points)
        V, y = yield from self.variance(shared, limbs)
        both = [a + b for a, b in zip(V, y, strict=True)]
        return (yield from self.exchange.bits(both, limbs))

    def claims(self, counts, others, at_zero, ends):
        branches = [self.exchange.claim_zero(less(counts, self.n), 1)]
        if at_zero:
            branches.append(self.claim_variation(others[0], at_zero))
        if ends:
            branches.append(self.claim_bracket(others[-1], ends))
        yield from in_lockstep(*branches)

    def verdict(self, V, y, points):
        """That V and S_y are in range is claimed, too."""
        encodings = [self.encodings[point] for point in points]
        most_V = [1 << encoding["v_bits"] for encoding in encodings]
        most_y = [
            self.n[j] << encoding["y_bits"]
            for (j, _), encoding in zip(points, encodings, strict=True)
        ]
        yield from in_lockstep(
            self.exchange.claim_below(V, most_V, False),
            self.exchange.claim_below(y, most_y, True),
        )
        return (yield from self.exchange.verdict())

    def claim_variation(self, shared, points):
        limbs = self.limbs(points)
        V, _ = yield from self.variance(shared, limbs)
        plane = yield from self.exchange.negative(opposite_of(V), limbs)
        self.exchange.claim([plane], [[j in self.varying for j in self.several]])

    def claim_bracket(self, shared, ends):
        exchange, N, limbs = self.exchange, len(ends), self.score_limbs(ends)
        y, yy, d, yd = ([part[k * N : (k + 1) * N] for part in shared] for k in range(4))
        phi = [part[4 * N :] * 2 for part in shared]
        product = yield from exchange.multiply([(phi, y)], limbs)
        both = yield from exchange.multiply([(phi, yy), (y, minus(d, product))], limbs)
        plane = yield from exchange.negative(minus(both, yd), limbs)
        exchange.claim([plane], [[negative for *_, negative in ends]])
