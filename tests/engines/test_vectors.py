"""The published test vectors hold, also for a second implementation in plain integers."""

import json
import runpy
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

VECTORS = Path(__file__).parents[1] / "vectors"
PUBLISHED = json.loads((VECTORS / "replicated.json").read_text())
LIMBS = PUBLISHED["limbs"]
MODULUS = 1 << (64 * LIMBS)
NAMES = ("member0", "member1", "member2")
X, Y = ({n: [int(v) for v in vs] for n, vs in PUBLISHED["inputs"][w].items()} for w in "xy")
SIZE = len(X["member0"])


def test_the_engine_sends_what_is_published():
    made = runpy.run_path(str(VECTORS / "make_vectors.py"))["vectors"]()
    assert json.loads(json.dumps(made)) == PUBLISHED


class Stream:
    def __init__(self, key):
        self._update = Cipher(algorithms.AES256(bytes.fromhex(key)), modes.CTR(bytes(16)))
        self._update = self._update.encryptor().update

    def integers(self):
        return decoded(self._update(bytes(8 * LIMBS * SIZE)))

    def bits(self, planes):
        return self._update(bytes(planes))


def decoded(data):
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
    return [
        sum(words[limb * SIZE + v] << (64 * limb) for limb in range(LIMBS)) for v in range(SIZE)
    ]


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


class Reference:
    """All parties at once."""

    def __init__(self, program):
        self.program = program
        # Both holders of a key draw the same, so one stream stands for both.
        self.streams = [Stream(PUBLISHED["keys"][f"k{i}"]) for i in range(3)]
        self.outsider = [Stream(PUBLISHED["outsider_keys"][n]) for n in NAMES[:2]]

    def alphas(self):
        drawn = [stream.integers() for stream in self.streams]
        return [combine(lambda a, b: a - b, drawn[i], drawn[(i + 1) % 3]) for i in range(3)]

    def share(self, turn, inputs):
        x = [combine(lambda v, a: v + a, inputs[NAMES[i]], alpha)
             for i, alpha in enumerate(self.alphas())]  # fmt: skip
        r = [stream.integers() for stream in self.outsider]
        rest = combine(lambda v, a, b: v - a - b, inputs["outsider"], *r)
        x[:2] = [combine(lambda a, b: a + b, x[i], r[i]) for i in range(2)]
        for i in range(3):
            assert decoded(sent(self.program, turn, NAMES[i], NAMES[i - 1])) == x[i]
        for holder in NAMES[1:]:
            assert decoded(sent(self.program, turn, "outsider", holder)) == rest
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

    def open(self, turn, x):
        mask = self.streams[1].integers()
        for i in range(3):
            assert decoded(sent(self.program, turn, NAMES[i], NAMES[(i + 1) % 3])) == x[i]
        first, second = (decoded(sent(self.program, turn, n, "outsider")) for n in NAMES[:2])
        assert first == combine(lambda a, b, r: a + b + r, x[0], x[1], mask)
        assert second == combine(lambda a, r: a - r, x[2], mask)
        return combine(lambda a, b: a + b, first, second)


def opened(program):
    return [int(value) % MODULUS for value in PUBLISHED[program]["opened"]]


def total(inputs):
    return [sum(values) for values in zip(*inputs.values(), strict=True)]


def test_shares_are_those_of_the_second_implementation():
    reference = Reference("share")
    assert reference.open(2, reference.share(1, X)) == opened("share")
    assert opened("share") == combine(int, total(X))


def test_products_are_those_of_the_second_implementation():
    reference = Reference("product")
    x, y = reference.share(1, X), reference.share(2, Y)
    assert reference.open(4, reference.multiply(3, x, y)) == opened("product")
    assert opened("product") == combine(lambda a, b: a * b, total(X), total(Y))


def test_signs_are_those_of_the_integers_and_the_summand_is_masked_as_published():
    reference = Reference("sign")
    x = reference.share(1, X)
    summand = combine(lambda a, b: a + b, x[0], x[1])
    mask = reference.streams[0].bits(64 * LIMBS)
    planes = [sum((summand[v] >> j & 1) << v for v in range(SIZE)) for j in range(64 * LIMBS)]
    masked = bytes(a ^ b for a, b in zip(planes, mask, strict=True))
    assert sent("sign", 2, "member0", "member1") == masked
    signs = [int(v % MODULUS >= MODULUS // 2) for v in total(X)]
    assert PUBLISHED["sign"]["opened"] == signs
    assert {0, 1} <= set(signs)
