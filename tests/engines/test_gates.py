"""Proofs of AND gates: right gates are always accepted, wrong ones never, and nothing is told."""

import json
import runpy
from dataclasses import replace
from functools import partial
from math import log2
from pathlib import Path

import numpy as np
import pytest

from securefedyj.engines.replicated import field, gates, rows
from securefedyj.engines.replicated.columns import Weights, evaluated, quotient, weighted
from securefedyj.engines.replicated.gates import CHALLENGE_BYTES, Check, Draws, Gates, Layout
from securefedyj.engines.replicated.keystream import Keystream, fresh_key
from securefedyj.engines.replicated.shares import BITS
from tests.engines import gate_reference
from tests.engines.test_replicated_security import findings

VECTORS = Path(__file__).parents[1] / "vectors"
MEMBERS = range(3)
SIZES = [0, 1, 7, 63, 64, 65, 128, 1000, 1024, 1025, 3000, 8192, 8193, 20_001]


class Trio:
    """Three members after a conjunction of so many octets, and all they hold.

    Parameters
    ----------
    octets
        How many.
    fill
        The value of all of them, in all components; random ones without.
    wrong
        What a member added to an octet of what it sent: (member, octet, bits).
    keys
        k_0, k_1 and k_2.
    layout
        Rows and columns, if they are not to be the usual ones.
    """

    def __init__(self, octets, *, fill=None, wrong=None, keys=None, layout=None):
        rng = np.random.default_rng()
        self.keys = keys or [fresh_key() for _ in MEMBERS]
        self.x, self.y = (
            rng.integers(0, 256, (3, octets), dtype=np.uint8)
            if fill is None
            else np.full((3, octets), fill, dtype=np.uint8)
            for _ in range(2)
        )
        self.drawn = rng.integers(0, 256, (3, octets), dtype=np.uint8)
        held = [[i, (i + 1) % 3] for i in MEMBERS]
        self.z = np.array([
            BITS.local_product(self.x[h], self.y[h]) ^ self.drawn[h[0]] ^ self.drawn[h[1]]
            for h in held
        ])  # fmt: skip
        self.error = np.zeros(octets, dtype=np.uint8)
        if wrong:
            member, place, bits = wrong
            self.error[place] = bits
            self.z[member] ^= self.error
        self.checks = []
        for own, other in held:
            recorded = Gates()
            recorded.record(
                self.x[[own, other]], self.y[[own, other]],
                partial(np.copy, self.drawn[own]), self.drawn[other], self.z[[own, other]],
            )  # fmt: skip
            check = recorded.check(Keystream(self.keys[own]), Keystream(self.keys[other]))
            if layout:
                check = relaid(check, layout, self.keys[own], self.keys[other])
            self.checks.append(check)

    def around(self, prover):
        """V1, the prover and V2."""
        return [self.checks[(prover + k) % 3] for k in (-1, 0, 1)]

    def verdict(self, prover, **changed):
        """What V2 says if all but some messages are as they should be."""
        v1, own, v2 = self.around(prover)
        challenge = changed.get("challenge", v1.challenge())
        proof = changed["proof"] if "proof" in changed else own.proof(challenge)
        return v2.accepts(proof, changed.get("evaluations", v1.evaluations()))

    def verdicts(self):
        return [self.verdict(prover) for prover in MEMBERS]


def arranged(layout, octets):
    """Octets in their places, and zeros behind."""
    return gates.arranged([[np.frombuffer(octets, np.uint8)]], layout)[0]


def total(weights, values):
    """Sum over all columns of tau_c times the value of column c."""
    words = len(values) // 64
    return weighted(values, weights.of_words(words)[:words])


def relaid(check, layout, own, other):
    """The same gates in another layout."""
    parts, size = dict(vars(check._recorded)), layout.rows // 8 * layout.columns
    parts["f"] = parts["f"]()
    recorded = {name: arranged(layout, octets.tobytes()[:size]) for name, octets in parts.items()}
    f = partial(np.copy, recorded.pop("f"))
    draws = [Draws.of(Keystream(key), layout) for key in (own, other)]
    return Check(gates.Recorded(**recorded, f=f), layout, *draws)


def flipped(data, place=0, bits=1):
    return data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :]


@pytest.mark.parametrize("octets", SIZES)
def test_right_gates_are_accepted(octets):
    for fill in (None, 0, 255):
        assert Trio(octets, fill=fill).verdicts() == [True] * 3


@pytest.mark.parametrize("octets", [140_000, pytest.param(2_000_000, marks=pytest.mark.slow)])
def test_a_million_gates_and_more(octets):
    assert all(Trio(octets).verdicts())
    assert Trio(octets, wrong=(1, octets - 1, 0x80)).verdicts() == [True, False, True]


@pytest.mark.parametrize(("octets", "prover"), [(1, 0), (63, 1), (64, 2), (65, 0)])
def test_messages_are_those_of_the_reference(octets, prover):
    trio = Trio(octets)
    assert_as_reference(trio, prover, trio.checks[0].layout)


def test_messages_over_two_pages_are_those_of_the_reference():
    layout = Layout(8, 576)
    assert_as_reference(Trio(570, layout=layout), 2, layout)


def test_published_vectors_are_those_of_both_implementations():
    published = json.loads((VECTORS / "gates.json").read_text(encoding="utf-8"))
    assert runpy.run_path(str(VECTORS / "make_gate_vectors.py"))["vectors"]() == published
    x, y, z, drawn, keys = (
        [bytes.fromhex(part) for part in published[name]]
        for name in ("x", "y", "z", "drawn", "keys")
    )
    size = published["rows"], published["columns"]
    assert size == gate_reference.size(len(z[0]))
    for prover, messages in enumerate(published["proofs"]):
        expected = gate_reference.messages(prover, x, y, z, drawn, keys, *size)
        assert tuple(map(bytes.fromhex, messages.values())) == expected


@pytest.mark.parametrize("octets", [*SIZES, 10**6, 10**9])
def test_layout_is_that_of_the_reference(octets):
    layout = Layout.of(octets)
    assert gate_reference.size(octets) == (layout.rows, layout.columns)


def assert_as_reference(trio, prover, layout):
    x, y, z, drawn = (part.tolist() for part in (trio.x, trio.y, trio.z, trio.drawn))
    size = layout.rows, layout.columns
    expected = gate_reference.messages(prover, x, y, z, drawn, trio.keys, *size)
    v1, own, v2 = trio.around(prover)
    challenge, proof, evaluations = v1.challenge(), own.proof(v1.challenge()), v1.evaluations()
    assert (challenge, proof, evaluations) == expected
    assert v2.accepts(proof, evaluations)


def test_sizes_are_known_and_near_one_bit_a_gate():
    for octets in SIZES:
        check = Trio(octets).checks[0]
        assert len(check.challenge()) == CHALLENGE_BYTES
        assert len(check.proof(bytes(16))) == check.layout.proof_bytes
        assert len(check.evaluations()) == check.layout.evaluation_bytes
    for million in (1, 10, 100):
        layout = Layout.of(million * 125_000)
        sent = CHALLENGE_BYTES + layout.proof_bytes + layout.evaluation_bytes
        assert 8 * sent < 1.02 * million * 10**6


@pytest.mark.parametrize(("count", "bits"), [(10**6, 55.8), (10**8, 53.1), (10**9, 50)])
def test_soundness_is_as_the_docstring_says(count, bits):
    layout = Layout.of(count // 8)
    zeros = 6 + -(-layout.columns // 512) + 2 * layout.rows
    assert log2(2**64 - 2**8) - log2(zeros) > bits


def test_records_are_joined_in_order_and_short_axes_repeat():
    x, y, drawn = np.random.default_rng(1).integers(0, 256, (3, 3, 4, 5), dtype=np.uint8)
    x = x[:, :1]
    keys = [fresh_key() for _ in MEMBERS]
    held = [[i, (i + 1) % 3] for i in MEMBERS]
    z = np.array([BITS.local_product(x[h], y[h]) ^ drawn[h[0]] ^ drawn[h[1]] for h in held])
    members = [Gates() for _ in MEMBERS]
    for part in (slice(0, 1), slice(1, 4)):
        for h, member in zip(held, members, strict=True):
            own, other = drawn[h][:, part]
            member.record(x[h], y[h][:, part], partial(np.copy, own), other, z[h][:, part])
    assert [member.octets for member in members] == [20] * 3

    def checked():
        trio = Trio(0)
        trio.checks = [
            member.check(Keystream(keys[own]), Keystream(keys[other]))
            for (own, other), member in zip(held, members, strict=True)
        ]
        return trio

    trio = checked()
    assert trio.verdicts() == [True] * 3
    assert np.array_equal(trio.checks[0]._recorded.y_own.reshape(-1)[:20], y[0].reshape(-1))
    assert np.array_equal(
        trio.checks[0]._recorded.x_own.reshape(-1)[:20], np.broadcast_to(x[0], (4, 5)).reshape(-1)
    )
    assert [member.octets for member in members] == [0] * 3
    assert checked().verdicts() == [True] * 3


def row_sums(trio, weights, layout):
    """What errors add up to in every row."""
    octets = arranged(layout, trio.error)
    result = np.zeros(layout.rows, dtype=np.uint64)
    for row in range(layout.rows):
        bits = octets[row // 8] >> row % 8 & 1
        if bits.any():
            result[row] = total(weights, bits.astype(np.uint64))
    return result


def cheated(trio, prover, proof):
    """A proof that is right at every point that the prover may compute, errors included.

    That is also what becomes of it if the prover takes other masks than V2 for b: the cross terms
    a r' M can be any polynomial times M, and so absorb the errors at all further points.
    """
    v1, own, _ = trio.around(prover)
    domain, weights = (
        rows.rows(own.layout.rows),
        Weights(*field.from_bytes(v1.challenge()).tolist()),
    )
    errors = domain.extend(row_sums(trio, weights, own.layout))
    absorbed = np.append(field.multiply(errors, domain.over_mu), np.uint64(0))
    told, share = proof[:CHALLENGE_BYTES], field.from_bytes(proof[CHALLENGE_BYTES:])
    return told + field.to_bytes(share ^ absorbed)


def wrong_trio():
    """Members of which one has a wrong bit, and which."""
    rng = np.random.default_rng()
    octets = int(rng.integers(1, 100))
    prover, place, bit = (int(rng.integers(n)) for n in (3, octets, 8))
    return Trio(octets, wrong=(prover, place, 1 << bit)), prover


def accepted(trio, prover):
    """Whether its proof is accepted, as it should be or as absorbs the error."""
    v1, own, v2 = trio.around(prover)
    proof, evaluations = own.proof(v1.challenge()), v1.evaluations()
    proofs = (proof, cheated(trio, prover, proof))
    return any(v2.accepts(one, evaluations) for one in proofs)


def test_a_wrong_bit_is_always_rejected():
    """`wrong_results` tries it ten thousand times."""
    for _ in range(150):
        assert not accepted(*wrong_trio())


def test_every_place_is_looked_at():
    """Also bits that fill up the last byte of a vector: they are gates like others."""
    trio = Trio(65)
    v1, own, v2 = trio.around(0)
    proof, received = own.proof(v1.challenge()), v1._recorded.e.reshape(-1)
    for place in range(65):
        for bit in {place % 8, 7}:
            received[place] ^= 1 << bit
            assert not v2.accepts(proof, v1.evaluations())
            received[place] ^= 1 << bit
    assert v2.accepts(proof, v1.evaluations())


def test_only_who_was_wrong_is_rejected():
    for member in MEMBERS:
        verdicts = Trio(300, wrong=(member, 123, 4)).verdicts()
        assert verdicts == [prover != member for prover in MEMBERS]


def forged(trio, prover, zeta):
    """A proof that is right at zeta, errors included."""
    v1, own, _ = trio.around(prover)
    weights = Weights(*field.from_bytes(v1.challenge()).tolist())
    at_rows, at_proof, vanishing = rows.rows(own.layout.rows).at(zeta)
    error = field.sum_products(at_rows, row_sums(trio, weights, own.layout))
    scale = field.power(field.multiply(vanishing, at_proof[-1:]), (1 << 64) - 2)
    proof = field.from_bytes(own.proof(v1.challenge())).copy()
    proof[-1:] ^= field.multiply(error, scale)
    return field.to_bytes(proof)


def test_only_who_knows_zeta_could_cheat():
    """The prover holds k_i and k_{i+1}; zeta is from k_{i+2}."""
    for prover in MEMBERS:
        trio = Trio(50, wrong=(prover, 7, 16))
        v1, own, v2 = trio.around(prover)
        assert v1._own.zeta == v2._other.zeta
        assert v1._own.zeta not in (own._own.zeta, own._other.zeta)
        assert trio.verdict(prover, proof=forged(trio, prover, v1._own.zeta))
        assert not trio.verdict(prover, proof=forged(trio, prover, own._own.zeta))


def unsound(trio, prover, *, cheat):
    """The check with plain masks u = a(zeta) + r, which the prover corrects by a polynomial.

    What r b(zeta) + s d(zeta) add up to is a polynomial of degree below R in zeta, which the prover
    shares like q. Nothing says that it is this one: it may as well absorb all errors.
    """
    v1, own, v2 = trio.around(prover)
    weights, zeta, layout = v1._own.weights, v1._own.zeta, own.layout
    domain = rows.rows(layout.rows)
    at_rows, at_proof, vanishing = domain.at(zeta)
    no_masks = np.zeros_like(own._own.left())
    known, held, other = own._recorded, v1._recorded, v2._recorded
    bits = (known.x_own, known.y_other, known.y_own, known.x_other)
    q = quotient(bits, no_masks, no_masks, weights)
    masks = own._own.left()
    correction = np.array([
        total(weights, np.where(known.y_other[row // 8] >> row % 8 & 1, masks[0], 0)
                      ^ np.where(known.x_other[row // 8] >> row % 8 & 1, masks[1], 0))
        for row in range(layout.rows)
    ], dtype=np.uint64)  # fmt: skip
    if cheat:
        correction ^= row_sums(trio, weights, layout)
    a, c, e = (evaluated(part, at_rows) for part in (held.x_other, held.y_other, held.e))
    b, d, f = (evaluated(part, at_rows) for part in (other.y_own, other.x_own, other.f()))
    products = field.multiply(a ^ masks[0], b) ^ field.multiply(c ^ masks[1], d)
    promised = field.multiply(vanishing, field.sum_products(at_proof, q))
    promised = promised ^ field.sum_products(at_rows, correction)
    return bool((total(weights, products ^ e ^ f) == promised).all())


def test_plain_masks_would_absorb_a_cheat_and_ours_do_not():
    for _ in range(20):
        right, wrong = Trio(40), Trio(40, wrong=(0, 11, 2))
        assert unsound(right, 0, cheat=False)
        assert not unsound(wrong, 0, cheat=False)
        assert unsound(wrong, 0, cheat=True)
        v1, own, _ = wrong.around(0)
        assert not wrong.verdict(0, proof=cheated(wrong, 0, own.proof(v1.challenge())))


@pytest.mark.parametrize("scale", [0, 1], ids=["no masks", "masks"])
def test_masks_of_the_provers_choice_absorb_nothing(scale, monkeypatch):
    """The prover makes k_{i+1}, and it may take for masks what it likes."""
    rng = np.random.default_rng()
    broken(monkeypatch, lambda d: masked(d, right=d.right() * np.uint64(scale)))
    for _ in range(20):
        trio = Trio(40, wrong=(0, 11, 2))
        v1, own, _ = trio.around(0)
        right = rng.integers(0, 1 << 64, own._other.right().shape, dtype=np.uint64)
        for masks in (own._other.right(), right, right * np.uint64(0), own._own.left()):
            own._other = masked(own._other, right=masks)
            assert not trio.verdict(0)
            assert not trio.verdict(0, proof=cheated(trio, 0, own.proof(v1.challenge())))


def test_a_cheating_verifier_is_never_believed():
    """Neither for right gates nor, if it could be so, for wrong ones."""
    rng = np.random.default_rng()
    for wrong in (None, (2, 33, 8)):
        trio = Trio(600, wrong=wrong)
        v1, _, _ = trio.around(2)
        sent = v1.evaluations()
        assert trio.verdict(2) == (wrong is None)
        for place in [0, 8 * trio.checks[0].layout.columns, len(sent) - 8, len(sent) - 1]:
            assert not trio.verdict(2, evaluations=flipped(sent, place, 1 << rng.integers(8)))
        for _ in range(20):
            assert not trio.verdict(2, evaluations=flipped(sent, rng.integers(len(sent)), 255))
        assert not trio.verdict(2, evaluations=rng.bytes(len(sent)))
        assert not trio.verdict(2, evaluations=bytes(len(sent)))


def test_a_false_challenge_makes_the_proof_be_rejected():
    for octets in (9000, 20_000):  # more than one word, and more than one page
        trio = Trio(octets)
        told = trio.around(1)[0].challenge()
        for false in (flipped(told, 3), bytes(16), *([flipped(told, 9)] if octets > 9000 else [])):
            assert not trio.verdict(1, challenge=false)


def guessed(trio, told, f):
    """What V1 of member 0 sends if it told this challenge, and guesses the f of all gates.

    Its evaluations are scaled by tau' / tau, which cancels all that is masked by r' and s'.
    """
    v1, own, _ = trio.around(0)
    columns, zeta = own.layout.columns, v1._own.zeta
    units = np.eye(columns, dtype=np.uint64)
    tau, other = (
        np.array([total(weights, unit) for unit in units])
        for weights in (v1._own.weights, Weights(*field.from_bytes(told).tolist()))
    )
    first, second, scalar = np.split(field.from_bytes(v1.evaluations()), [columns, 2 * columns])
    ratio = field.multiply(other, field.power(tau, (1 << 64) - 2))
    at_rows, *_ = rows.rows(own.layout.rows).at(zeta)
    linear = evaluated(v1._recorded.e ^ arranged(own.layout, f), at_rows)
    scaled = [field.multiply(part, ratio) for part in (first, second)]
    return field.to_bytes(np.append(scaled, scalar ^ field.sum_products(tau ^ other, linear)))


def test_a_false_challenge_does_not_tell_whether_v1_has_guessed_the_bits_of_others():
    """V2 would accept a right guess if it did not hear from the prover which challenge it got."""
    trio = Trio(2000)
    v1, own, v2 = trio.around(0)
    told = flipped(v1.challenge(), 3)
    right = trio.drawn[1]
    proof = v1.challenge() + own.proof(told)[CHALLENGE_BYTES:]
    for f in (right, right ^ np.eye(2000, dtype=np.uint8)[100]):
        assert not trio.verdict(0, challenge=told, evaluations=guessed(trio, told, f))
        assert v2.accepts(proof, guessed(trio, told, f)) == (f is right)


@pytest.mark.parametrize("change", [lambda m: m[:-8], lambda m: m + bytes(8), lambda m: b""])
def test_messages_of_another_size_are_rejected(change):
    trio = Trio(100)
    v1, own, _ = trio.around(0)
    assert not trio.verdict(0, proof=change(own.proof(v1.challenge())))
    assert not trio.verdict(0, evaluations=change(v1.evaluations()))


def test_a_replayed_proof_is_rejected():
    keys = [fresh_key() for _ in MEMBERS]
    first, second = Trio(100, keys=keys), Trio(100)
    v1, own, _ = first.around(0)
    assert not second.verdict(0, proof=own.proof(v1.challenge()))
    assert not second.verdict(0, evaluations=v1.evaluations())


def shifted(trio, column=0):
    """What V1 of member 0 sends if it adds 1 to one of its masked evaluations."""
    return flipped(trio.around(0)[0].evaluations(), 8 * column)


def masked(draws, **masks):
    """The draws with other masks."""
    return replace(draws, **{name: lambda own=own: own for name, own in masks.items()})


def without_right_masks(draws):
    return masked(draws, right=np.zeros_like(draws.right()))


def test_whether_a_shifted_evaluation_is_rejected_tells_nothing(monkeypatch):
    """Of b, here all 0 or all 1. Without masks of b, it would."""
    for fill in (0, 255):
        assert not Trio(100, fill=fill).verdict(0, evaluations=shifted(Trio(100, fill=fill)))
        trio = Trio(100, fill=fill)
        assert not trio.verdict(0, evaluations=shifted(trio))
    broken(monkeypatch, without_right_masks)
    for fill, accepted in ((0, True), (255, False)):
        trio = Trio(100, fill=fill)
        assert trio.verdict(0)
        assert trio.verdict(0, evaluations=shifted(trio)) == accepted


def broken(monkeypatch, change):
    def of(cls, keystream, layout, original=Draws.of):
        return change(original(keystream, layout))

    monkeypatch.setattr(Draws, "of", classmethod(of))


OCTETS = 8


def leaks(fill, runs):
    """What in the view of any role is not noise, over some runs with constant bits."""
    seen = {label: [] for label in ("challenge", "proof", "first", "second", "scalar")}
    drawable = {"prover": [], "V2": []}
    for _ in range(runs):
        trio = Trio(OCTETS, fill=fill)
        v1, own, v2 = trio.around(0)
        sent, columns = v1.evaluations(), 8 * own.layout.columns
        seen["challenge"].append(v1.challenge())
        proof = own.proof(v1.challenge())
        seen["proof"].append(proof[CHALLENGE_BYTES:])
        for label, first, last in (
            ("first", 0, columns), ("second", columns, 2 * columns), ("scalar", 2 * columns, None),
        ):  # fmt: skip
            seen[label].append(sent[first:last])
        for role, check in (("prover", own), ("V2", v2)):
            drawable[role].append((check._own, check._other))
        assert v2.accepts(proof, sent)
    joined = {label: b"".join(parts) for label, parts in seen.items()}
    views = {"prover": ("challenge",), "V2": ("proof", "first", "second", "scalar")}
    return set().union(*(
        findings([(label, joined[label]) for label in labels], known_streams(drawable[role]))
        for role, labels in views.items()
    ))  # fmt: skip


def known_streams(draws):
    """All draws of one kind from one key, over all runs; and masks times M(zeta) as well."""
    zetas = np.array([other.zeta for _, other in draws], dtype=np.uint64)
    factors = rows.rows(8).vanishing(zetas)[:, None, None]
    streams = []
    for drawn in zip(*draws, strict=True):
        masks = np.array([[*draw.left(), *draw.right()] for draw in drawn])
        for scaled in (masks, field.multiply(masks, factors)):
            streams += [field.to_bytes(scaled[:, k]) for k in range(4)]
        streams.append(field.to_bytes(np.array([draw.share for draw in drawn])))
        streams.append(field.to_bytes(np.array([draw.weights for draw in drawn], dtype=np.uint64)))
    return streams


@pytest.mark.parametrize("fill", [0, 255])
def test_what_verifiers_and_prover_receive_is_noise(fill):
    assert leaks(fill, 170) == set()  # so that all scalars together make five in each class


ONLY = np.array([[[1], [0]], [[0], [1]]], dtype=np.uint64)
BROKEN = {
    "r left out": (lambda d: masked(d, left=d.left() * ONLY[1]), "first", "not uniform"),
    "s left out": (lambda d: masked(d, left=d.left() * ONLY[0]), "second", "not uniform"),
    "one r for all columns": (
        lambda d: masked(d, left=np.repeat(d.left()[:, :1], d.left().shape[1], axis=1)),
        "first", "not uniform",
    ),
    "s is r": (lambda d: masked(d, left=d.left()[[0, 0]]), "second", "mask used twice"),
    "share left out": (lambda d: replace(d, share=np.zeros_like(d.share)), "proof", "not uniform"),
    "one word for all of the share": (
        lambda d: replace(d, share=np.repeat(d.share[:1], len(d.share))), "proof", "not uniform",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_masks_are_noticed(fault, monkeypatch):
    change, *leak = BROKEN[fault]
    broken(monkeypatch, change)
    assert tuple(leak) in leaks(0, 30)


def test_zeta_is_drawn_again_if_it_is_a_point():
    class Stream(Keystream):
        def __init__(self):
            super().__init__(bytes(32))
            self.last = iter([field.POINTS[200], field.POINTS[0], 77])

        def draw(self, shape, dtype):
            numbers = np.zeros(shape, dtype)
            if shape in [(3,), (1,)]:
                numbers[-1] = next(self.last)
            return numbers

    assert Draws.of(Stream(), Layout(8, 64)).zeta == 77


def test_secrets_are_not_shown():
    check = Trio(5).checks[0]
    assert "array" not in repr(check) + repr(check._own) + repr(check._recorded)
