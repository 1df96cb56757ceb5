"""The published test vectors hold, also for a second implementation in plain integers."""

import json
import runpy
from itertools import permutations
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

VECTORS = Path(__file__).parents[1] / "vectors"
PUBLISHED = json.loads((VECTORS / "replicated.json").read_text())
LIMBS = PUBLISHED["limbs"]
MODULUS = 1 << (64 * LIMBS)
NAMES = ("member0", "member1", "member2")
PARTIES = (*NAMES, "outsider")
DIGEST = bytes.fromhex(PUBLISHED["digest"])
X, Y = ({n: [int(v) for v in vs] for n, vs in PUBLISHED["inputs"][w].items()} for w in "xy")
SIZE = len(X["member0"])


def test_the_engine_sends_what_is_published():
    made = runpy.run_path(str(VECTORS / "make_vectors.py"))["vectors"]()
    assert json.loads(json.dumps(made)) == PUBLISHED


class Stream:
    def __init__(self, key):
        cipher = Cipher(algorithms.AES256(bytes.fromhex(key)), modes.CTR(bytes(16)))
        self._update = cipher.encryptor().update

    def integers(self):
        return decoded(self._update(bytes(8 * LIMBS * SIZE)))

    def bits(self, planes):
        return self._update(bytes(planes))


def decoded(data):
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
    return [
        sum(words[limb * SIZE + v] << (64 * limb) for limb in range(LIMBS)) for v in range(SIZE)
    ]


def encoded(vector):
    return b"".join(
        (value >> (64 * limb) & (2**64 - 1)).to_bytes(8, "little")
        for limb in range(LIMBS)
        for value in vector
    )


def combine(function, *vectors):
    return [function(*row) % MODULUS for row in zip(*vectors, strict=True)]


def sent(program, turn, sender, recipient):
    """The one payload of a round between two parties."""
    (payload,) = [
        bytes.fromhex(message["payload"])
        for message in PUBLISHED[program]["messages"]
        if (message["round"], message["sender"], message["recipient"]) == (turn, sender, recipient)
    ]
    return payload


def planes_of(flags):
    """One byte of bits for each flag function, over all values and the padding."""
    return [sum(int(flag(v)) << v for v in range(8)) for flag in flags]


class Reference:
    """All parties at once."""

    def __init__(self, program):
        self.program = program
        # Both holders of a key draw the same, so one stream stands for both.
        self.streams = [Stream(PUBLISHED["keys"][f"k{i}"]) for i in range(3)]
        self.outsider = [Stream(PUBLISHED["outsider_keys"][n]) for n in NAMES[:2]]
        self.masks = {tuple(p.split()): Stream(k) for p, k in PUBLISHED["mask_keys"].items()}

    def alphas(self):
        drawn = [stream.integers() for stream in self.streams]
        return [combine(lambda a, b: a - b, drawn[i], drawn[(i + 1) % 3]) for i in range(3)]

    def masked(self, inputs):
        """The inputs as they are shared: of each pair, the first adds and the second subtracts."""
        inputs = dict(inputs)
        for (first, second), stream in self.masks.items():
            mask = stream.integers()
            inputs[first] = combine(lambda v, m: v + m, inputs[first], mask)
            inputs[second] = combine(lambda v, m: v - m, inputs[second], mask)
        return inputs

    def share(self, turn, inputs, digest=b""):
        inputs = self.masked(inputs)
        x = [combine(lambda v, a: v + a, inputs[NAMES[i]], alpha)
             for i, alpha in enumerate(self.alphas())]  # fmt: skip
        r = [stream.integers() for stream in self.outsider]
        rest = combine(lambda v, a, b: v - a - b, inputs["outsider"], *r)
        x[:2] = [combine(lambda a, b: a + b, x[i], r[i]) for i in range(2)]
        vectors = {(NAMES[i], NAMES[i - 1]): x[i] for i in range(3)}
        vectors |= {("outsider", holder): rest for holder in NAMES[1:]}
        for pair in permutations(PARTIES, 2):
            if digest or pair in vectors:
                assert sent(self.program, turn, *pair) == digest + encoded(vectors.get(pair, []))
        x[2] = combine(lambda a, b: a + b, x[2], rest)
        return x

    def multiply(self, turn, x, y):
        z = [
            combine(
                lambda a, b, c, d, alpha: a * c + a * d + b * c + alpha,
                x[i], x[(i + 1) % 3], y[i], y[(i + 1) % 3], alpha,
            )
            for i, alpha in enumerate(self.alphas())
        ]  # fmt: skip
        for i in range(3):
            assert decoded(sent(self.program, turn, NAMES[i], NAMES[i - 1])) == z[i]
        return z

    def reshare(self, turn, *terms):
        """Mask and send bits; several lists of them in one message, one after the other."""
        shared = []
        for term in terms:
            drawn = [stream.bits(len(term[0])) for stream in self.streams]
            shared.append(
                [
                    [
                        t ^ a ^ b
                        for t, a, b in zip(term[i], drawn[i], drawn[(i + 1) % 3], strict=True)
                    ]
                    for i in range(3)
                ]
            )
        for i in range(3):
            payload = b"".join(bytes(z[i]) for z in shared)
            assert sent(self.program, turn, NAMES[i], NAMES[i - 1]) == payload
        return shared

    def carry_out(self, turn, generate, propagate):
        """Combine pairs, until the lowest stretch is all."""
        while len(generate[0]) > 1:
            odd = len(generate[0]) // 2 * 2
            higher = [p[1:odd:2] for p in propagate]
            (products,) = self.reshare(
                turn,
                conjunction(
                    [p + p for p in higher],
                    [g[0:odd:2] + p[0:odd:2] for g, p in zip(generate, propagate, strict=True)],
                ),
            )
            generate = [
                [a ^ b for a, b in zip(g[1:odd:2], z[: odd // 2], strict=True)] + g[odd:]
                for g, z in zip(generate, products, strict=True)
            ]
            propagate = [z[odd // 2 :] + p[odd:] for p, z in zip(propagate, products, strict=True)]
            turn += 1
        return turn, [g[0] for g in generate]

    def open(self, turn, x, decoded=decoded, size=8 * LIMBS * SIZE):
        """Everybody gets what it lacks, from each of its holders."""
        for i in range(3):
            following = (i + 1) % 3
            assert decoded(sent(self.program, turn, NAMES[i], NAMES[following])) == x[i]
            assert decoded(sent(self.program, turn, NAMES[i], NAMES[i - 1])) == x[following]
            both = sent(self.program, turn, NAMES[i], "outsider")
            assert decoded(both[:size]) == x[i]
            assert decoded(both[size:]) == x[following]
        return combine(lambda a, b, c: a + b + c, *x)


def conjunction(x, y):
    """The members' terms of the products of shared bits."""
    return [
        [
            (a & c) ^ (a & d) ^ (b & c)
            for a, b, c, d in zip(x[i], x[(i + 1) % 3], y[i], y[(i + 1) % 3], strict=True)
        ]
        for i in range(3)
    ]


def opened(program):
    return [int(value) % MODULUS for value in PUBLISHED[program]["opened"]]


def total(inputs):
    return [sum(values) for values in zip(*inputs.values(), strict=True)]


def test_shares_are_those_of_the_second_implementation():
    reference = Reference("share")
    assert reference.open(2, reference.share(1, X, DIGEST)) == opened("share")
    assert opened("share") == combine(int, total(X))


def test_products_are_those_of_the_second_implementation():
    reference = Reference("product")
    x, y = reference.share(1, X), reference.share(2, Y)
    assert reference.open(4, reference.multiply(3, x, y)) == opened("product")
    assert opened("product") == combine(lambda a, b: a * b, total(X), total(Y))


def test_signs_are_those_of_the_second_implementation():
    reference = Reference("sign")
    x = reference.share(1, X)
    count = 16 * LIMBS
    padding = [0] * (8 - SIZE)
    a, b = combine(lambda a, b: a + b, x[0], x[1]) + padding, x[2] + padding

    def nibble(value, j):
        return (2 * value % MODULUS) >> (4 * j) & 15

    # Round 2: all thresholds of the nibbles of 2 A, and the top bit of A.
    table = planes_of(
        lambda v, u=u, j=j: nibble(a[v], j) >= u for u in range(1, 16) for j in range(count)
    )
    table += planes_of([lambda v: a[v] >> (64 * LIMBS - 1)])
    mask = reference.streams[0].bits(15 * count + 1)
    masked = bytes(t ^ r for t, r in zip(table, mask, strict=True))
    assert sent("sign", 2, "member0", "member1") == masked

    def read(share, j, end):
        """What a share of the table has at end - B', if that is not one of the ends 0 and 16."""
        planes = 0
        for u in range(1, 16):
            (here,) = planes_of([lambda v, u=u: end - nibble(b[v], j) == u])
            planes ^= share[count * (u - 1) + j] & here
        return planes

    def always(j):
        """Where a carry comes out if one comes in, whatever A' is; added by member 2."""
        return planes_of([lambda v: nibble(b[v], j) == 15])[0]

    # Round 3: generate of all nibbles, then propagate of all.
    terms = [[0] * (2 * count)]
    for share in (masked, mask):
        generate = [read(share, j, 16) for j in range(count)]
        with_carry = [read(share, j, 15) ^ (always(j) * (share is mask)) for j in range(count)]
        terms.append(generate + [generate[j] ^ with_carry[j] for j in range(count)])
    (carries,) = reference.reshare(3, terms)
    turn, carry = reference.carry_out(4, [z[:count] for z in carries], [z[count:] for z in carries])
    top = [mask[-1], masked[-1], planes_of([lambda v: b[v] >> (64 * LIMBS - 1)])[0]]
    shares = [t ^ c for t, c in zip(top, carry, strict=True)]
    reference.open(turn, [[share] for share in shares], list, size=1)
    combined = shares[0] ^ shares[1] ^ shares[2]
    assert [combined >> v & 1 for v in range(SIZE)] == PUBLISHED["sign"]["opened"]
    signs = [int(v % MODULUS >= MODULUS // 2) for v in total(X)]
    assert PUBLISHED["sign"]["opened"] == signs
    assert {0, 1} <= set(signs)
