"""Proof of a member's AND gates towards the two others, who learn nothing but that they are right.

docs/protocol.md, section 8.1, "Gates", has the formulas and the names: the prover i, V1 = i - 1 and
V2 = i + 1; a to f, A_c to D_c, tau, Q, q, zeta. docs/security-details.md, section 8, says why the
proof is sound and reveals nothing. After Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai, CRYPTO
2019, and Boyle, Gilboa, Ishai and Nof, CCS 2019.

Bits that fill up a byte are gates like others; zeros that fill up the last columns are filled in by
each verifier for itself, so nothing there can be false.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from securefedyj import kernel
from securefedyj.engines.additive import PackedBits
from securefedyj.engines.replicated import field, rows
from securefedyj.engines.replicated.columns import Weights, evaluated, quotient, weighted
from securefedyj.engines.replicated.field import Elements
from securefedyj.engines.replicated.keystream import Keystream

CHALLENGE_BYTES = 16
_WORD = np.dtype("<u8")
_BLOCK = 1 << 20  # octets, after which free memory is given back
_EVALUATED = 1 << 16  # columns to evaluate at once


@dataclass(frozen=True)
class Layout:
    """How many rows and columns a number of gates takes, and so the sizes of all messages.

    Octet g * columns + c is in column c; its bit t is in row 8 g + t. Columns come in words of 64;
    where there is more than one word, there are 128 rows.
    """

    rows: int
    columns: int

    @classmethod
    def of(cls, octets: int) -> "Layout":
        """Return the layout of eight gates per octet."""
        count = rows.FEWEST
        while count < rows.MOST and count * 64 < octets * 8:
            count *= 2
        return cls(count, -(-octets * 8 // (count * 64)) * 64)

    @property
    def proof_bytes(self) -> int:
        """What the prover sends to V2."""
        return CHALLENGE_BYTES + 8 * (self.rows + 1)

    @property
    def evaluation_bytes(self) -> int:
        """What V1 sends to V2."""
        return 8 * (2 * self.columns + 1)

    @property
    def shape(self) -> tuple[int, int]:
        """That of octets in their places."""
        return self.rows // 8, self.columns


@dataclass(frozen=True, repr=False)
class Draws:
    """What both holders of k_i draw for the proofs of all three members."""

    share: Elements
    """V1's share of q, of proof i."""
    weights: Weights
    """eta and theta, of proof i + 1."""
    zeta: int
    """Of proof i + 1."""
    left: Callable[[], Elements]
    """Draws r and s, of proof i: masks are many, and wanted once or twice."""
    right: Callable[[], Elements]
    """Draws r' and s', of proof i - 1."""

    @classmethod
    def of(cls, keystream: Keystream, layout: Layout) -> "Draws":
        """Draw all, in this order."""

        def draw(*shape: int) -> Elements:
            return keystream.draw(shape, _WORD).astype(np.uint64, copy=False)

        left = keystream.set_aside((2, layout.columns), _WORD)
        share = draw(layout.rows + 1)
        right = keystream.set_aside((2, layout.columns), _WORD)
        eta, theta, zeta = draw(3)
        while zeta in field.POINTS:
            (zeta,) = draw(1)
        return cls(share, Weights(int(eta), int(theta)), int(zeta), left, right)


def arranged(
    records: Iterable[Sequence[PackedBits]], layout: Layout, kinds: int = 1
) -> list[PackedBits]:
    """The octets of each kind in their places, and zeros behind.

    Records are taken one by one, so that the memory of one is free before the next one is copied:
    they are most of what a verified exchange holds.
    """
    result = [np.zeros(layout.shape, dtype=np.uint8) for _ in range(kinds)]
    start = 0
    for parts in records:
        for own, part in zip(result, parts, strict=True):
            own.reshape(-1)[start : start + part.size] = part.reshape(-1)
        start += parts[0].size
    return result


class Gates:
    """What one member records of conjunctions, in an order that is the same for all members."""

    def __init__(self) -> None:
        self.octets = 0
        """How many of eight gates each since the last check."""
        self._recorded: deque[tuple[PackedBits, ...]] = deque()
        self._alphas: list[Callable[[], PackedBits]] = []

    def record(
        self,
        x: PackedBits,
        y: PackedBits,
        alpha_own: Callable[[], PackedBits],
        alpha_other: PackedBits,
        z: PackedBits,
    ) -> None:
        """Add the gates of one product z = x y, by components i and i + 1.

        Axes of x and y of length 1 may stand for longer ones. alpha_i is the sum of what was drawn
        from k_i, which ``alpha_own`` draws again, and from k_{i+1}. Of z, one component was sent
        and the other received. The factors are kept as they are: they may not change any more.
        """
        x, y = (np.broadcast_to(factor, z.shape) for factor in (x, y))
        e = (x[1] & y[1]) ^ z[1] ^ alpha_other  # of member i + 1, whose V1 this is
        self._recorded.append((*x, *y, e))
        self._alphas.append(alpha_own)
        before, self.octets = self.octets // _BLOCK, self.octets + z[0].size
        if self.octets // _BLOCK > before:
            kernel.give_back(self.octets)

    def check(self, own: Keystream, other: Keystream) -> "Check":
        """Begin the proofs of all gates since the last check, with draws from k_i and k_{i+1}."""
        layout = Layout.of(self.octets)
        kernel.give_back(self.octets)
        records = (self._recorded.popleft() for _ in range(len(self._recorded)))
        x_own, x_other, y_own, y_other, e = arranged(records, layout, 5)
        alphas, self._alphas, self.octets = self._alphas, [], 0

        def f() -> PackedBits:
            return arranged(((alpha(),) for alpha in alphas), layout)[0]

        recorded = Recorded(x_own, x_other, y_own, y_other, e, f)
        return Check(recorded, layout, Draws.of(own, layout), Draws.of(other, layout))


@dataclass(frozen=True, repr=False)
class Recorded:
    """Bits of all gates, of components i and i + 1, as `Layout` arranges them."""

    x_own: PackedBits
    x_other: PackedBits
    y_own: PackedBits
    y_other: PackedBits
    e: PackedBits
    """Of the next member's gates."""
    f: Callable[[], PackedBits]
    """Of the previous member's gates: what draws it."""


class Check:
    """One member's part in all three proofs: as prover, as V1 of the next, as V2 of the previous.

    Messages: `challenge` goes to the next member, `evaluations` to the previous one (with the
    challenge or later: the prover never sees them). Then `proof`, by the challenge that came from
    the previous member, goes to the next. Then `accepts` says whether the previous member's gates
    are right, by its proof and the next member's evaluations. Sizes are known by `layout`. ``own``
    and ``other`` were drawn from k_i and k_{i+1}.
    """

    def __init__(self, recorded: Recorded, layout: Layout, own: Draws, other: Draws) -> None:
        self.layout = layout
        self._recorded = recorded
        self._own, self._other = own, other

    def challenge(self) -> bytes:
        """Return eta and theta for the next member, as its V1."""
        return _packed(self._own.weights)

    def proof(self, challenge: bytes) -> bytes:
        """Return eta and theta as V1 sent them, and V2's share of q by these."""
        known = self._recorded
        bits = (known.x_own, known.y_other, known.y_own, known.x_other)
        weights = Weights(*field.from_bytes(challenge).tolist())
        q = quotient(bits, self._own.left(), self._other.right(), weights)
        return challenge + field.to_bytes(q ^ self._own.share)

    def evaluations(self) -> bytes:
        """Return A_c(zeta), C_c(zeta) and the scalar, as V1 of the next member."""
        known = self._recorded
        bits = (known.x_other, known.y_other, known.e)
        columns, scalar = self.layout.columns, self._scalar(self._other.share, self._own)
        message = np.empty(2 * columns + 1, dtype=_WORD)
        for some, first, second, linear in self._evaluate(bits, self._other.left(), self._own):
            message[:columns][some] = first
            message[columns:-1][some] = second
            scalar ^= linear
        message[-1:] = scalar
        return message.tobytes()

    def forget_evaluations(self) -> None:
        """Free the memory that `evaluations` alone needs, which is much."""
        self._recorded = replace(self._recorded, e=self._recorded.e[:0])
        kernel.give_back(self.layout.columns)

    def forget_proof(self) -> None:
        """Free the memory that `proof` needs, after `forget_evaluations`."""
        none = self._recorded.e[:0]
        self._recorded = replace(self._recorded, x_other=none, y_other=none)
        kernel.give_back(self.layout.columns)

    def accepts(self, proof: bytes, evaluations: bytes) -> bool:
        """Whether eta and theta are right and Q(zeta) = M(zeta) q(zeta), as V2 of the previous."""
        layout, known = self.layout, self._recorded
        if (len(proof), len(evaluations)) != (layout.proof_bytes, layout.evaluation_bytes):
            return False
        if proof[:CHALLENGE_BYTES] != _packed(self._other.weights):
            return False
        share = field.from_bytes(proof[CHALLENGE_BYTES:])
        a, c, scalar = np.split(field.from_bytes(evaluations), [layout.columns, 2 * layout.columns])
        bits = (known.y_own, known.x_own, known.f())
        total = scalar ^ self._scalar(share, self._other)
        words = self._other.weights.of_words(layout.columns // 64)
        for some, b, d, linear in self._evaluate(bits, self._own.right(), self._other):
            products = field.multiply(a[some], b) ^ field.multiply(c[some], d)
            total ^= linear ^ weighted(products, words[some.start // 64 : some.stop // 64])
        return not total.any()

    def _scalar(self, share: Elements, challenges: Draws) -> Elements:
        """M(zeta) times the share of q at zeta."""
        _, at_proof, vanishing = rows.rows(self.layout.rows).at(challenges.zeta)
        return field.multiply(vanishing, field.sum_products(at_proof, share))

    def _evaluate(
        self, bits: tuple[PackedBits, PackedBits, PackedBits], masks: Elements, challenges: Draws
    ) -> Iterator[tuple[slice, Elements, Elements, Elements]]:
        """For some columns after the others: a verifier's two masked polynomials at zeta, and the
        weighted sum of the third.
        """
        at_rows, _, vanishing = rows.rows(self.layout.rows).at(challenges.zeta)
        words = challenges.weights.of_words(self.layout.columns // 64)
        for start in range(0, self.layout.columns, _EVALUATED):
            some = slice(start, min(start + _EVALUATED, self.layout.columns))
            first, second, linear = (evaluated(part, at_rows, some) for part in bits)
            yield (
                some,
                first ^ field.multiply(vanishing, masks[0, some]),
                second ^ field.multiply(vanishing, masks[1, some]),
                weighted(linear, words[some.start // 64 : some.stop // 64]),
            )


def _packed(weights: Weights) -> bytes:
    return field.to_bytes(np.array(weights, dtype=np.uint64))
