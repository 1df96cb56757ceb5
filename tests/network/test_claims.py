"""Where a session goes on from, of a verified run with a party outside of the committee."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from securefedyj.network.claims import Claim, begins_again, claim_of, starting_point
from securefedyj.network.errors import EndOfRun, JoinError
from securefedyj.network.memory import Memory
from securefedyj.numerics.encoding import Domain
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript

PARTIES = ("ana", "bob", "cem", "dua")
AGREEMENT = Agreement(
    ("x",), Domain.from_bounds((0.0, 9.0), 1), PARTIES, PARTIES[:3], "replicated", 3, 3,
    verified=True,
)  # fmt: skip
LAST = 3  # openings of the verified exchange: verdict, magnitudes, moments


@functools.lru_cache
def whole() -> Transcript:
    rows = np.arange(1.0, 9.0)[:, None]
    return simulate(AGREEMENT, np.array_split(rows, len(PARTIES)))[0]


def memory(lacking: int, *, member: bool = True) -> Memory:
    """Of a party that takes part in the verified exchange, and lacks the end of it."""
    known, reveals = Memory(AGREEMENT, member=member), whole().reveals
    for number in range(len(reveals) - lacking + 1):
        before = Transcript(AGREEMENT, reveals[:number])
        if number in (0, 1, len(reveals) - LAST):
            known.exchange(before)
        if number < len(reveals) - lacking:
            known.take([reveals[number]])
    return known


def claim(lacking: int) -> Claim:
    return claim_of(memory(lacking))


@pytest.mark.parametrize("lacking", [1, 2, 3])
@pytest.mark.parametrize("ahead", [("bob", "cem"), ("ana", "cem"), ("ana", "bob", "dua")])
def test_what_two_members_have_is_taken(ahead, lacking):
    own = memory(0 if "ana" in ahead else lacking)
    claims = {name: claim(0 if name in ahead else lacking) for name in PARTIES[1:]}
    assert starting_point(own, claims).reveals == len(whole().reveals)


@pytest.mark.parametrize("ahead", [("cem", "dua"), ("dua",), ("cem",)])
def test_nobody_takes_a_result_from_a_member_and_an_outsider(ahead):
    """One of two members may cheat, and then no honest member has verified what they hand on."""
    claims = {name: claim(0 if name in ahead else LAST) for name in PARTIES[1:]}
    with pytest.raises(JoinError, match="and all others have"):
        starting_point(memory(LAST), claims)
    claims = {name: claim(0 if name in ahead else 1) for name in PARTIES[1:]}
    assert starting_point(memory(1), claims).reveals == len(whole().reveals) - 1


def test_nor_does_a_party_outside_take_it_from_one_member():
    claims = {name: claim(1) for name in ("ana", "bob")} | {"cem": claim(0)}
    start = starting_point(memory(1, member=False), claims)
    assert start.reveals == len(whole().reveals) - 1


@pytest.mark.parametrize("lacking", [1, 2])
def test_a_verdict_is_not_opened_again_once_for_each_member(lacking):
    """Whoever cheats could let one member send it, and the other one in the next session."""
    known, others = memory(lacking), [claim(lacking)] * 3
    start, again = claim_of(known), known.repeats_verdict(claim_of(known).reveals)
    assert not begins_again(start, [start, *others], verdict=again)
    others[0] = others[0]._replace(repeated=True)
    with pytest.raises(EndOfRun, match="made again 1 time"):
        begins_again(start, [start, *others], verdict=again)


def test_a_verdict_and_what_comes_after_it_count_as_one():
    known = memory(1)
    start, again = claim_of(known), known.repeats_verdict(claim_of(known).reveals)
    assert begins_again(start, [start, start._replace(sending=True)], verdict=again)
    with pytest.raises(EndOfRun, match="made again 1 time"):
        begins_again(start, [start, start._replace(repeated=True)], verdict=again)


@pytest.mark.parametrize(("lacking", "start"), [(0, 0), (3, 3), (1, 0)])
def test_outside_of_what_follows_a_verdict_none_is_opened_again(lacking, start):
    assert not memory(lacking).repeats_verdict(len(whole().reveals) - start)
