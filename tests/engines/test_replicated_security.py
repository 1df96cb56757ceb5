"""What one party sees tells nothing: its view is noise, whatever the inputs.

A view is what a party receives, together with what it knows: all it can draw from keys it holds,
and the components it holds. Three things must look uniform:

- each payload;
- the difference of any two payloads, else a mask was used twice;
- the difference of a payload and anything known, else the mask was no secret.

In a product the masked term is no simple function of the view, so there the masks alpha_i
themselves stand in for the payloads as well, and all payloads must have one. Inputs are constant,
so that a leak is a pattern.

Excluded are only greetings, which are public, and openings to members: an opened value and the
components that a member holds determine the one it receives, so there is nothing to hide. What
parties outside see of an opening has a test of its own.

The tests draw real randomness. The threshold is exceeded by chance once in 10^12.
"""

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from securefedyj.engines.additive import bit_planes
from securefedyj.engines.replicated import nibbles
from securefedyj.engines.replicated.keystream import Keystream
from securefedyj.engines.replicated.shares import Member, Outsider
from securefedyj.errors import ProtocolError
from securefedyj.numerics import wide
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import in_lockstep, play_round
from tests.simulation import FIVE, THREE, Consortium, Recorder, simulate

# Five parties of whom two have data: then there are no masks among silos.
BARE = replace(FIVE, silos=("ana", "bob"))
THRESHOLD = chi2.isf(1e-12, df=255)
LIMBS, SIZE = 4, 500
INPUTS = {"zeros": 0, "huge": (1 << 255) - 1}


def looks_uniform(data: bytes) -> bool:
    """Pearson's test of the bytes against the uniform distribution.

    It needs five in each of 256 classes; shorter data must at least not repeat a few bytes.
    """
    if len(data) < 5 * 256:
        return len(data) < 8 or len(set(data)) > min(len(data), 256) / 4
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    expected = len(data) / 256
    return float(((counts - expected) ** 2).sum() / expected) < THRESHOLD


def unrelated(first: bytes, second: bytes) -> bool:
    """Whether the differences of the common part are noise, in either ring and with either sign."""
    length = min(len(first), len(second)) // 8 * 8
    a, b = (np.frombuffer(data[:length], np.uint64)[None] for data in (first, second))
    return all(looks_uniform(d.tobytes()) for d in (a ^ b, wide.subtract(a, b), wide.add(a, b)))


def findings(labelled: list[tuple[str, bytes]], known: list[bytes]) -> set[tuple[str, str]]:
    """What is not noise among the labelled payloads of one view, and why."""
    found = set()
    for label, payload in labelled:
        if not looks_uniform(payload):
            found.add((label, "not uniform"))
        if not all(unrelated(payload, other) for other in known):
            found.add((label, "mask known"))
    for (label, first), (other, second) in combinations(labelled, 2):
        if not unrelated(first, second):
            found.add((max(label, other), "mask used twice"))
    return found


def leaks(consortium, value, monkeypatch, *, broken=False):
    """Run all operations on inputs all equal to `value`; return what in any view is not noise.

    A broken engine may find, when it comes to openings, that holders of a component differ.
    """
    recorder = Recorder()
    knowledge = {}
    drawn, masks = defaultdict(list), defaultdict(list)

    def draw(self, shape, dtype, original=Keystream.draw):
        numbers = original(self, shape, dtype)
        drawn[self].append(numbers.tobytes())
        return numbers

    def zero(self, ring, shape, original=Member._zero):
        alpha = original(self, ring, shape)
        masks[self.previous].append(("alpha", alpha.tobytes()))
        return alpha

    async def program(engine, name):
        own = wide.from_ints([value] * SIZE, LIMBS)
        x = await engine.share(own, size=SIZE, limbs=LIMBS)
        y = await engine.share(own, size=SIZE, limbs=LIMBS)
        xx, xy = await in_lockstep(engine.multiply(x, x), engine.multiply(x, y))
        difference = xx - xy
        signs = await engine.negative(difference)
        bits = await engine.bits(x)
        held = [
            function(c).tobytes()
            for h in (*x.components, *difference.components)
            for c in (h, wide.negate(h))
            for function in (bit_planes, nibbles.thresholds)
        ]
        knowledge[name] = keystreams(engine), held
        await engine.open_bits(signs)
        await engine.open_bits(bits[:2])

    with monkeypatch.context() as patch:
        patch.setattr(Keystream, "draw", draw)
        patch.setattr(Member, "_zero", zero)
        with suppress(*[ProtocolError] * broken):
            simulate(program, consortium, observe=recorder)
    found = set()
    for receiver, (streams, held) in knowledge.items():
        received = [
            (str(message.kind), message.payload)
            for message in recorder.messages
            if message.recipient == receiver and not message.kind & (Kind.HELLO | Kind.OPENING)
        ]
        drawable = [numbers for stream in streams for numbers in drawn[stream]]
        found |= findings(received, drawable + held) | findings(masks[receiver], drawable)
        to_mask = sum(
            len(message.payload)
            for message in recorder.messages
            if message.recipient == receiver
            and message.sender in consortium.committee
            and message.kind & (Kind.INPUT | Kind.PRODUCT | Kind.CARRY)
        )
        if to_mask != sum(len(alpha) for _, alpha in masks[receiver]):
            found.add(("alpha", "missing"))
    assert knowledge.keys() == set(consortium.parties)
    return found


def keystreams(engine):
    """All that a party can draw from."""
    role, masks = engine._role, engine._masks
    members = getattr(role, "_keystreams", {}).values()
    return [*members, *role._inputs, *masks._added, *masks._subtracted]


@pytest.mark.parametrize("consortium", [THREE, FIVE, BARE], ids=["three", "five", "bare"])
@pytest.mark.parametrize("value", INPUTS.values(), ids=INPUTS)
def test_the_view_of_every_party_is_noise(consortium, value, monkeypatch):
    assert leaks(consortium, value, monkeypatch) == set()


class NoMask:
    """A keystream that hides nothing."""

    def draw(self, shape, dtype):
        return np.zeros(shape, dtype)


def no_alpha(self, ring, shape):
    return np.zeros(shape, ring.dtype)


def alpha_that_the_receiver_knows(self, ring, shape):
    # Member i - 1, who receives the result, holds k_i too.
    return self._keystreams[self._own].draw(shape, ring.dtype)


async def unmasked_summands(self, x, original=Member.summands):
    keystreams, self._keystreams = self._keystreams, dict.fromkeys(self._keystreams, NoMask())
    result = await original(self, x)
    self._keystreams = keystreams
    return result


def table_with_mask(keystream):
    """A fault in the mask of the table alone, not of the bits of the summand."""

    async def deal(self, known, shape, original=Member._deal):
        keystreams = self._keystreams
        if shape[0] % nibbles.THRESHOLDS == 1 and self._own == 0:
            self._keystreams = {0: keystream(keystreams)}
        shares = await original(self, known, shape)
        self._keystreams = keystreams
        return shares

    return deal


class OnePlane:
    """A keystream that gives all thresholds of a nibble the same mask."""

    def __init__(self, keystream):
        self._keystream = keystream

    def draw(self, shape, dtype):
        planes, size = shape
        once = self._keystream.draw((planes // nibbles.THRESHOLDS, size), dtype)
        return np.concatenate([once] * nibbles.THRESHOLDS + [once[:1]])


async def member_1_sends_carries_as_they_are(self, ring, kind, term, original=Member.reshare):
    if kind == Kind.CARRY and self._own == 1:
        incoming = await play_round(
            kind, {self.previous: ring.to_bytes(term)}, {self.following: term.nbytes}
        )
        return self._received(ring, incoming, term)
    return await original(self, ring, kind, term)


async def unmasked_input(self, values, original=Outsider.share):
    self._inputs = [NoMask(), NoMask()]
    return await original(self, values)


def keystream_that_begins_anew(self, shape, dtype, original=Keystream.draw):
    return original(Keystream(id(self).to_bytes(32, "little")), shape, dtype)


BROKEN = {
    "no alpha": (THREE, Member, "_zero", no_alpha, ("INPUT", "not uniform")),
    "no alpha in products": (FIVE, Member, "_zero", no_alpha, ("CARRY", "not uniform")),
    "alpha known": (
        THREE, Member, "_zero", alpha_that_the_receiver_knows, ("INPUT", "mask known"),
    ),
    "alpha known in products": (
        FIVE, Member, "_zero", alpha_that_the_receiver_knows, ("alpha", "mask known"),
    ),
    "summand unmasked": (THREE, Member, "summands", unmasked_summands, ("SUMMAND", "mask known")),
    "table unmasked": (
        THREE, Member, "_deal", table_with_mask(lambda _: NoMask()), ("SUMMAND", "mask known"),
    ),
    "table mask known": (
        THREE, Member, "_deal", table_with_mask(lambda k: k[1]), ("SUMMAND", "mask known"),
    ),
    "table mask the same for all thresholds": (
        THREE, Member, "_deal", table_with_mask(lambda k: OnePlane(k[0])),
        ("SUMMAND", "not uniform"),
    ),
    "carries unmasked": (
        THREE, Member, "reshare", member_1_sends_carries_as_they_are, ("alpha", "missing"),
    ),
    "keystream reused": (
        THREE, Keystream, "draw", keystream_that_begins_anew, ("INPUT", "mask used twice"),
    ),
    "outsider unmasked": (BARE, Outsider, "share", unmasked_input, ("INPUT", "not uniform")),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_engine_is_caught(fault, monkeypatch):
    consortium, owner, name, replacement, leak = BROKEN[fault]
    monkeypatch.setattr(owner, name, replacement)
    assert leak in leaks(consortium, 0, monkeypatch, broken=True)


def test_two_runs_on_the_same_data_have_no_payload_in_common():
    async def program(engine, name):
        x = await engine.share(wide.from_ints(range(200), 2), size=200, limbs=2)
        await engine.open_bits(await engine.negative(await engine.multiply(x, x)))
        await engine.open(x)

    runs = []
    for _ in range(2):
        recorder = Recorder()
        simulate(program, FIVE, observe=recorder)
        runs.append({m.payload for m in recorder.messages if m.kind != Kind.HELLO})
    assert len(runs[0]) > 20
    assert not runs[0] & runs[1]


MANY = 12000  # so that even one plane of bits can be told from noise
PLANE = MANY // 8
# A party outside by itself: whatever others would add to what it sees, they do not.
ONE_OUTSIDE = Consortium(("ana", "bob", "cem", "dua"), ("ana", "bob", "cem"), ("ana", "dua"))


def leaks_in_openings(monkeypatch):
    """What a party outside can tell of opened values besides the values, all of them zero."""
    recorder = Recorder()
    drawn = []

    async def program(engine, name):
        x = await engine.share(None, size=MANY, limbs=1)
        y = await engine.share(None, size=MANY, limbs=1)
        streams[name] = keystreams(engine)
        opened = [
            await engine.open(x),
            await engine.open_bits(await engine.negative(y)),
            await engine.open_bits(await engine.bits(y)),
        ]
        assert not any(values.any() for values in opened)

    def draw(self, shape, dtype, original=Keystream.draw):
        numbers = original(self, shape, dtype)
        drawn.append((self, numbers.tobytes()))
        return numbers

    streams = {}
    with monkeypatch.context() as patch:
        patch.setattr(Keystream, "draw", draw)
        simulate(program, ONE_OUTSIDE, observe=recorder)
    integers, signs, bits = (_components(recorder, turn) for turn in sorted(_openings(recorder)))
    labelled = [
        (label, component)
        for label, components in [
            ("integers", integers),
            ("signs", signs),
            ("bits", [component[PLANE:] for component in bits]),
            ("lowest bits", [component[:PLANE] for component in bits]),
        ]
        for component in components[:2]  # the third follows from these and the value
    ]
    return findings(labelled, [own for key, own in drawn if key in streams["dua"]])


def _openings(recorder):
    return {message.round for message in recorder.messages if message.kind == Kind.OPENING}


def _components(recorder, turn):
    """The components of one opening, which come twice each."""
    payloads = {
        message.sender: message.payload
        for message in recorder.messages
        if (message.recipient, message.round) == ("dua", turn)
    }
    assert payloads.keys() == set(ONE_OUTSIDE.committee)
    halves = [payloads[member] for member in ONE_OUTSIDE.committee]
    size = len(halves[0]) // 2
    for i in range(3):
        assert halves[i][size:] == halves[(i + 1) % 3][:size]
    return [half[:size] for half in halves]


def test_parties_outside_see_an_opened_value_and_nothing_else_in_its_components(monkeypatch):
    assert leaks_in_openings(monkeypatch) == set()


async def lowest_bits_unmasked(self, known, shape, original=Member._deal):
    """Bits of A shared as (0, A, 0) in place of (r, A xor r, 0): it shows the lowest bit of x_2."""
    keystreams, self._keystreams = self._keystreams, dict.fromkeys(self._keystreams, NoMask())
    result = await original(self, known, shape)
    self._keystreams = keystreams
    return result


@pytest.mark.parametrize(
    ("name", "replacement", "leak"),
    [
        ("_zero", no_alpha, ("integers", "mask known")),
        ("_deal", lowest_bits_unmasked, ("lowest bits", "not uniform")),
    ],
)
def test_openings_of_a_broken_engine_are_caught(name, replacement, leak, monkeypatch):
    monkeypatch.setattr(Member, name, replacement)
    assert leak in leaks_in_openings(monkeypatch)
