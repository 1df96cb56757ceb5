"""Every claim of a verified exchange is needed, and what a silo makes up beyond it opens zeros."""

from __future__ import annotations

import copy
from dataclasses import replace
from inspect import iscoroutinefunction

import numpy as np
import pytest

from securefedyj.engines.replicated.engine import Verified
from securefedyj.errors import Unverified
from securefedyj.numerics import wide
from securefedyj.numerics.encoding import choose_encoding
from securefedyj.numerics.sums import ArraySilo
from securefedyj.protocol.final import Claims
from securefedyj.protocol.reveals import Verdict, lowest_opened
from securefedyj.protocol.schedule import REFUTED, Schedule
from securefedyj.protocol.transcript import Transcript
from tests.protocol import cheating, cheats
from tests.protocol.cheating import FOUR, NOTHING, ROWS, agreed, beginning, play, right
from tests.protocol.test_verified_run import fit, flipped_sign, whole
from tests.simulation import wrapped


class Truth:
    """V and S_y of all rows at lambda*, and how large both can be, feature by feature."""

    def __init__(self):
        agreement = agreed()
        course = Schedule.of(Transcript.from_lines(list(beginning(False))))
        every = np.arange(3)
        self.n = course.n.tolist()
        encoding = choose_encoding(agreement.domain, course.n, course.optimum(every))
        self.limbs = int(max(-(-(encoding.v_bits + 2) // 64)))
        silo = ArraySilo(ROWS, agreement.domain, list(agreement.features))
        sums = silo.sums(every, course.optimum(every), encoding, 4)
        self.S_y = wide.to_ints(sums.y)
        self.nS_yy = [n * S_yy for n, S_yy in zip(self.n, wide.to_ints(sums.yy), strict=True)]
        self.V = [total - S_y**2 for total, S_y in zip(self.nS_yy, self.S_y, strict=True)]
        self.v_bits = encoding.v_bits.tolist()
        self.y_bits = np.maximum(encoding.positive.y_bits, encoding.negative.y_bits).tolist()


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth()


def with_moments(truth, cheater, feature, V, S_y):
    """Play the verified exchange; a silo gives such sums that all silos have these together."""
    changed = []

    def change(context):
        original = context._role.share

        async def share(values):
            if not changed:  # first the moments at lambda*
                more = [0] * values.shape[1]
                more[feature] = S_y - truth.S_y[feature]
                more[3 + feature] = V + S_y**2 - truth.nS_yy[feature]
                limbs = len(values)
                more = [wrapped(value, limbs) for value in more]
                values = wide.add(values, wide.from_ints(more, limbs))
                changed.append(values.shape)
            return await original(values)

        context._role.share = share

    outcome = play(
        start=beginning(False),
        tamper=cheats.of(cheater, lambda engine: cheats.in_verified(engine, change)),
    )
    assert changed == [(truth.limbs + 1, 2 * 3)]
    return outcome


BEYOND = {
    "V below 0": lambda truth, j: (-1, truth.S_y[j]),
    "V far below 0": lambda truth, j: (-(1 << truth.v_bits[j]), truth.S_y[j]),
    "V above its bound": lambda truth, j: (1 << truth.v_bits[j], truth.S_y[j]),
    "S_y above": lambda truth, j: (truth.V[j], truth.n[j] << truth.y_bits[j]),
    "S_y below": lambda truth, j: (truth.V[j], -(truth.n[j] << truth.y_bits[j]) - 1),
}
WITHIN = {
    "as it is": lambda truth, j: (truth.V[j], truth.S_y[j]),
    "V of 0": lambda truth, j: (0, truth.S_y[j]),
    "a large V": lambda truth, j: ((1 << truth.v_bits[j]) - 1, truth.S_y[j]),
    "S_y at its highest": lambda truth, j: (truth.V[j], (truth.n[j] << truth.y_bits[j]) - 1),
    "S_y at its lowest": lambda truth, j: (truth.V[j], -(truth.n[j] << truth.y_bits[j])),
}


@pytest.mark.parametrize("how", BEYOND)
@pytest.mark.parametrize(("cheater", "feature"), [("ana", 0), ("dua", 2)])
def test_moments_that_no_rows_have_open_zeros(truth, how, cheater, feature):
    """Just one beyond what rows can have; nobody sees a bit of it, not even the silo."""
    outcome = with_moments(truth, cheater, feature, *BEYOND[how](truth, feature))
    assert not outcome.accepted
    assert {(type(error), str(error)) for error in outcome.errors.values()} == {
        (Unverified, REFUTED)
    }
    assert outcome.known == {name: [*beginning(False), NOTHING] for name in FOUR.parties}


@pytest.mark.parametrize("how", WITHIN)
def test_moments_that_rows_can_have_are_opened(truth, how):
    """Whether a silo's rows are such is another question (see `test_lying_silo`)."""
    V, S_y = WITHIN[how](truth, 0)
    outcome = with_moments(truth, "ana", 0, V, S_y)
    told = outcome.accepted["bob"][-1]
    assert told["holds"] is True
    magnitude = max(V.bit_length() - 1, 0) // 8
    (V_low,), (y_low,) = lowest_opened(np.array([magnitude]), agreed().result_bits)
    assert told["magnitude"][0] == magnitude
    assert told["V"][0] == hex(V >> int(V_low))
    assert told["S_y"][0] == hex(S_y >> int(y_low))
    assert {key: told[key][1:] for key in ("V", "S_y")} == {
        key: right()[-1][key][1:] for key in ("V", "S_y")
    }


@pytest.mark.parametrize("how", BEYOND)
def test_without_the_claim_they_would_be_opened(truth, how, monkeypatch):
    """Some bits of V or S_y at least, whatever comes of the run then."""
    seen = opened_vectors(monkeypatch)
    monkeypatch.setattr(Claims, "_within", nothing_claimed)
    with_moments(truth, "ana", 0, *BEYOND[how](truth, 0))
    assert seen
    assert all(vector[0] == 1 and vector[1:].any() for vector in seen)


@pytest.mark.parametrize("how", BEYOND)
def test_zeros_are_all_that_is_opened(truth, how, monkeypatch):
    seen = opened_vectors(monkeypatch)
    with_moments(truth, "ana", 0, *BEYOND[how](truth, 0))
    assert len(seen) == len(FOUR.parties)
    assert not any(vector.any() for vector in seen)


def opened_vectors(monkeypatch):
    """What is opened in verified exchanges, bit by bit, as each party sees it."""
    seen = []
    original = Verified.open_bits

    async def open_bits(self, a):
        bits = await original(self, a)
        seen.append(bits)
        return bits

    monkeypatch.setattr(Verified, "open_bits", open_bits)
    return seen


async def nothing_claimed(self, *_):
    pass


# --- Each claim by itself ------------------------------------------------------------------------


def made_up_count():
    """One value where there is none: its sums are 0, as they must be."""
    lines = copy.deepcopy(list(whole())[:2])
    lines[1]["n"][5] += 1
    return lines


def made_up_variation(feature):
    lines = copy.deepcopy(list(whole())[:3])
    lines[2]["varies"][lines[2]["features"].index(feature)] ^= True
    return lines


NEEDED = {
    "_counted": [made_up_count],
    "_varied": [lambda: made_up_variation(0), lambda: made_up_variation(3)],
    "_bracketed": [
        lambda: flipped_sign(copy.deepcopy(list(whole())), 0, 0),
        lambda: flipped_sign(copy.deepcopy(list(whole())), 8, 1),
    ],
}


@pytest.mark.parametrize(
    ("claim", "made_up"), [(claim, made_up) for claim, those in NEEDED.items() for made_up in those]
)
def test_one_claim_alone_refutes_what_was_made_up(claim, made_up, monkeypatch):
    """All others hold: with them alone it is believed."""
    lines = made_up()
    with pytest.raises(Unverified, match="does not hold for the sums of all silos"):
        fit(lines)
    monkeypatch.setattr(Claims, claim, nothing_claimed)
    for transcript in fit(lines):
        assert [verdict.holds for verdict in transcript.all(Verdict)] == [True]


def test_these_are_all_claims():
    made = {name for name, one in vars(Claims).items() if iscoroutinefunction(one)}
    assert made - {"make", "verdict", "_within"} == NEEDED.keys()


# --- What is opened ------------------------------------------------------------------------------


def test_a_bit_is_opened_where_the_magnitude_admits_it_and_is_0_elsewhere(truth, monkeypatch):
    """Verdict; V < 2^8, V < 2^16, ... of each feature; bits of V, S_y of each, the lowest first."""
    result_bits = 9
    monkeypatch.setattr(cheating, "agreed", lambda verified=True: coarse(result_bits))
    seen = opened_vectors(monkeypatch)
    start = [*beginning(False)]
    start[0] = {**start[0], "agreement": coarse(result_bits).to_json()}
    outcome = play(start=start)
    assert len(outcome.accepted) == len(FOUR.parties)
    steps, width = max(truth.v_bits) // 8, 64 * truth.limbs
    expected = [1]
    for step in range(steps):
        expected += [1 << 8 * (step + 1) > V for V in truth.V]
    magnitude = np.array([max(V.bit_length() - 1, 0) // 8 for V in truth.V])
    assert magnitude.tolist() == right()[-1]["magnitude"]
    V_low, y_low = (low.tolist() for low in lowest_opened(magnitude, result_bits))
    assert min(V_low[0], y_low[0]) > 0
    for bit in range(width):
        expected += [bit >= low and V >> bit & 1 for V, low in zip(truth.V, V_low, strict=True)]
        expected += [bit >= low and y >> bit & 1 for y, low in zip(truth.S_y, y_low, strict=True)]
    for vector in seen:
        assert vector.tolist() == [int(bit) for bit in expected]


_AGREED = agreed()


def coarse(result_bits):
    return replace(_AGREED, result_bits=result_bits)
