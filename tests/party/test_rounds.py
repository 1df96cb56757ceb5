"""Rounds that some of their messages suffice for; what comes early, late, or too much."""

from collections import deque
from itertools import combinations

import numpy as np
import pytest

from securefedyj.errors import ProtocolError, Stalled
from securefedyj.numerics.encoding import (
    LARGEST_BOUND,
    SMALLEST_BOUND,
    Domain,
    choose_encoding,
)
from securefedyj.party.inprocess import run
from securefedyj.party.machine import MAX_AHEAD, Party
from securefedyj.party.messages import VERSION, Kind, Message
from securefedyj.party.rounds import in_lockstep, play_round
from securefedyj.protocol.agreement import MOST_LEVELS
from tests.simulation import FIVE, assemble

NAMES = ("ana", "bob", "cem")
PEERS = {"bob": 1, "cem": 1}
SESSION = bytes(16)


def message(sender, turn, kind, payload):
    return Message(VERSION, SESSION, sender, "ana", turn, kind, payload)


def greeted(program, **settings):
    """Party ana after its greeting, in round 1."""
    ana = Party("ana", NAMES, program, session=SESSION, parameters=b"", **settings)
    (digest, _) = (one.payload for one in ana.start())
    for peer in PEERS:
        ana.receive(message(peer, 0, Kind.HELLO, digest))
    assert ana.rounds == 1
    return ana


def opening(late, size=1):
    """A round that one of two messages suffices for."""
    return play_round(
        Kind.OPENING, {}, dict.fromkeys(PEERS, size), enough=1, late=lambda *it: late.append(it)
    )


async def closing():
    """A round that needs both."""
    return await play_round(Kind.PRODUCT, {}, PEERS)


async def quorum_and_more(late):
    return dict(await opening(late)), dict(await closing())


@pytest.mark.parametrize(("first", "second"), [("bob", "cem"), ("cem", "bob")])
def test_a_party_goes_on_when_enough_is_there_and_checks_the_rest_when_it_comes(first, second):
    late = []
    ana = greeted(quorum_and_more(late))
    assert ana.waiting_for == ("bob", "cem")
    ana.receive(message(first, 1, Kind.OPENING, b"1"))
    assert ana.rounds == 2
    assert ana.waiting_for == ("bob", "cem")
    ana.receive(message(first, 2, Kind.PRODUCT, b"3"))
    assert ana.waiting_for == (second,)
    ana.receive(message(second, 1, Kind.OPENING, b"2"))
    assert late == [(second, b"2")]
    ana.receive(message(second, 2, Kind.PRODUCT, b"4"))
    assert ana.result == ({first: b"1"}, {first: b"3", second: b"4"})


def test_what_is_there_when_the_round_begins_is_all_taken():
    late = []
    ana = greeted(quorum_and_more(late))
    for peer in PEERS:
        ana.receive(message(peer, 2, Kind.PRODUCT, b"3"))
    ana.receive(message("cem", 1, Kind.OPENING, b"1"))
    assert ana.result == ({"cem": b"1"}, {"bob": b"3", "cem": b"3"})

    async def after_another():
        await play_round(Kind.INPUT, {}, {"bob": 1})
        return dict(await opening(late))

    ana = greeted(after_another())
    for peer in ("cem", "bob"):
        ana.receive(message(peer, 2, Kind.OPENING, peer[:1].encode()))
    ana.receive(message("bob", 1, Kind.INPUT, b"0"))
    assert ana.result == {"bob": b"b", "cem": b"c"}
    assert not late


FAULTS = {
    "has the wrong size: expected 1 bytes, got 2": [message("cem", 1, Kind.OPENING, b"22")],
    "is unexpected: expected OPENING from bob, cem": [message("cem", 1, Kind.PRODUCT, b"2")],
    "OPENING of round 1 from cem is out of turn": [message("cem", 1, Kind.OPENING, b"2")] * 2,
    "OPENING of round 1 from bob is out of turn": [message("bob", 1, Kind.OPENING, b"1")],
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_late_messages_are_checked_like_others(sentence):
    ana = greeted(quorum_and_more([]))
    ana.receive(message("bob", 1, Kind.OPENING, b"1"))
    for one in FAULTS[sentence]:
        ana.receive(one)
    with pytest.raises(ProtocolError, match=sentence):
        _ = ana.result


def test_an_error_about_a_late_message_ends_the_party_and_tells_the_others():
    def refuse(peer, payload):
        raise ProtocolError("SFY-TEST-001", f"{peer} said something else")

    async def program():
        await play_round(Kind.OPENING, {}, PEERS, enough=1, late=refuse)
        await closing()

    ana = greeted(program())
    ana.receive(message("bob", 1, Kind.OPENING, b"1"))
    stops = ana.receive(message("cem", 1, Kind.OPENING, b"2"))
    assert [(one.recipient, one.kind) for one in stops] == [
        ("bob", Kind.STOP),
        ("cem", Kind.STOP),
    ]
    with pytest.raises(ProtocolError, match="cem said something else"):
        _ = ana.result


async def many_openings(late, count):
    for _ in range(count):
        await opening(late)


def test_nobody_is_waited_for_in_vain_for_ever():
    """A peer that never sends what others can do without is found out, and not kept in mind."""
    ana = greeted(many_openings([], 2 * MAX_AHEAD))
    for turn in range(1, 1 + MAX_AHEAD):
        ana.receive(message("bob", turn, Kind.OPENING, b"1"))
        assert ana.error is None
    ana.receive(message("bob", 1 + MAX_AHEAD, Kind.OPENING, b"1"))
    sentence = f"OPENING of round 1 from cem never came: expected it by round {1 + MAX_AHEAD} at"
    with pytest.raises(ProtocolError, match=sentence):
        _ = ana.result


def test_a_message_may_be_late_by_as_much_as_it_may_be_early():
    late = []
    ana = greeted(many_openings(late, 2 * MAX_AHEAD))
    for turn in range(1, 1 + MAX_AHEAD):
        ana.receive(message("bob", turn, Kind.OPENING, b"1"))
    for turn in range(1, 1 + 2 * MAX_AHEAD):
        ana.receive(message("cem", turn, Kind.OPENING, bytes([turn])))
    assert ana.result is None
    assert late == [("cem", bytes([turn])) for turn in range(1, 1 + MAX_AHEAD)]


def test_a_result_does_not_wait_for_what_is_not_needed():
    async def program(name):
        peers = [peer for peer in NAMES if peer != name]
        sent = dict.fromkeys(peers, b"x")
        return await play_round(Kind.OPENING, sent, dict.fromkeys(peers, 1), enough=1)

    parties = [Party(name, NAMES, program(name), session=SESSION, parameters=b"") for name in NAMES]
    silent = lambda m: [] if (m.sender, m.kind) == ("cem", Kind.OPENING) else [m]  # noqa: E731
    assert run(parties, silent) == [{"bob": b"x"}, {"ana": b"x"}, {"ana": b"x"}]


def test_openings_in_lockstep_need_as_few_as_one_opening():
    late = [], [], []

    async def program():
        both = await in_lockstep(
            opening(late[0], 2), in_lockstep(opening(late[1]), opening(late[2], 3))
        )
        await closing()
        return both

    ana = greeted(program())
    ana.receive(message("cem", 1, Kind.OPENING, b"aabccc"))
    assert ana.rounds == 2
    ana.receive(message("bob", 1, Kind.OPENING, b"ddefff"))
    assert late == ([("bob", b"dd")], [("bob", b"e")], [("bob", b"fff")])
    for peer in PEERS:
        ana.receive(message(peer, 2, Kind.PRODUCT, b"3"))
    assert ana.result == ({"cem": b"aa"}, ({"cem": b"b"}, {"cem": b"ccc"}))


MIXED = {
    "another step": lambda late: closing(),
    "fewer suffice": lambda late: play_round(
        Kind.OPENING, {}, PEERS, enough=0, late=lambda *it: late.append(it)
    ),
    "of other peers": lambda late: play_round(Kind.OPENING, {}, {"bob": 1}, enough=1),
}


@pytest.mark.parametrize("other", MIXED)
def test_in_a_mixed_round_all_are_needed(other):
    late = []
    ana = greeted(in_lockstep(opening(late), MIXED[other](late)))
    first = "bob" if other == "of other peers" else "cem"
    kind = Kind.OPENING | (Kind.PRODUCT if other == "another step" else Kind(0))
    ana.receive(message(first, 1, kind, b"ab"))
    (second,) = ana.waiting_for
    assert second == {"bob": "cem", "cem": "bob"}[first]
    ana.receive(message(second, 1, kind, b"c" if other == "of other peers" else b"cd"))
    assert set(ana.result[0]) == {"bob", "cem"}
    assert ana.result[0][first] == b"a"
    assert not late


def test_a_round_that_stalls_names_those_of_whom_some_suffice():
    async def program(name):
        await play_round(Kind.OPENING, {}, {"bob": 1, "cem": 1} if name == "ana" else {}, enough=1)

    async def silent(name):
        await play_round(Kind.OPENING, {}, {})

    parties = [
        Party(
            name,
            NAMES,
            program(name) if name == "ana" else silent(name),
            session=SESSION,
            parameters=b"",
        )
        for name in NAMES
    ]
    with pytest.raises(Stalled, match="ana waits in round 1 for bob, cem"):
        run(parties)


async def two_rounds():
    await play_round(Kind.INPUT, {}, {"bob": 60, "cem": 60})
    await play_round(Kind.PRODUCT, {}, {"bob": 50, "cem": 50})


def test_a_peer_cannot_make_us_hold_more_than_agreed():
    ana = greeted(two_rounds(), most_waiting=110)
    ana.receive(message("bob", 1, Kind.INPUT, bytes(60)))
    ana.receive(message("bob", 2, Kind.PRODUCT, bytes(50)))
    assert ana.error is None
    ana.receive(message("bob", 3, Kind.PRODUCT, b"1"))
    with pytest.raises(
        ProtocolError,
        match=r"PRODUCT of round 3 from bob is too much: 111 bytes of bob would wait .* is 110",
    ):
        _ = ana.result


def test_what_was_used_no_longer_waits_and_every_peer_has_room_of_its_own():
    ana = greeted(two_rounds(), most_waiting=60)
    for peer in PEERS:
        ana.receive(message(peer, 1, Kind.INPUT, bytes(60)))
    for peer in PEERS:
        ana.receive(message(peer, 2, Kind.PRODUCT, bytes(50)))
    assert ana.result is None


def test_one_message_that_is_too_large_is_refused_before_its_round_is_known():
    ana = greeted(two_rounds(), most_waiting=60)
    ana.receive(message("cem", 2, Kind.PRODUCT, bytes(61)))
    with pytest.raises(ProtocolError, match="round 2 from cem is too much: 61 bytes of cem"):
        _ = ana.result


def longest_exchange(limbs):
    """Rounds of one with all openings that there can be (docs/protocol.md, section 9)."""
    search = 3 + 2 + (16 * limbs - 1).bit_length() + 1 + MOST_LEVELS
    bits = 1 + 1 + 2 * (64 * limbs - 2).bit_length()
    measured = 3 + (8 * limbs - 2).bit_length()
    claimed = 2 + 2 + (64 * limbs - 3).bit_length()
    verdict = (64 * limbs - 1).bit_length() + 6
    verified = 2 + max(bits, claimed) + max(measured, verdict) + 2 + 5 + 1
    return max(search, verified)


def test_messages_may_be_ahead_by_the_longest_exchange_of_the_widest_sums():
    edges = [-LARGEST_BOUND, -1.0, -SMALLEST_BOUND, 0.0, SMALLEST_BOUND, 1.0, LARGEST_BOUND]
    pairs = [(lower, upper) for lower, upper in combinations(edges, 2)]
    domain = Domain.from_bounds(pairs, len(pairs))
    n = np.full(len(pairs), 1 << 40)
    limbs = max(
        int(choose_encoding(domain, n, np.asarray(lmbda)).limbs.max())
        for lmbda in (*domain.limits(), np.zeros(len(pairs)))
    )
    assert 16 < limbs < 64
    assert longest_exchange(limbs) <= longest_exchange(64) == MAX_AHEAD


LINKS = [(one, other) for one in FIVE.parties for other in FIVE.parties if one != other]


@pytest.mark.parametrize("slow", LINKS, ids=" to ".join)
def test_a_slow_line_is_never_mistaken_for_a_fault(slow):
    """Its messages come when nothing else is left to come; those of one sender in order."""

    async def exchanges(engine, name):
        for number in range(3):
            agree = engine.agree(bytes([number]) * 32)
            _, x = await in_lockstep(agree, engine.share(None, size=1, limbs=64))
            x = await engine.multiply(await engine.multiply(x, x), x)
            signs = await engine.negative(x)
            for _ in range(1 + MOST_LEVELS):
                await engine.open_bits(signs)

    parties = {party.name: party for party in assemble(exchanges, FIVE, "replicated")}
    lines = {link: deque() for link in LINKS}

    def post(messages):
        for one in messages:
            lines[one.sender, one.recipient].append(one)

    for party in parties.values():
        post(party.start())
    most = 0
    while waiting := [link for link in LINKS if lines[link]]:
        link = min(waiting, key=lambda link: link == slow)
        receiver = parties[link[1]]
        most = max(most, lines[link][0].round - receiver.rounds)
        post(receiver.receive(lines[link].popleft()))
    for party in parties.values():
        assert party.result is None
    assert most <= MAX_AHEAD
    if slow[1] not in FIVE.committee:
        assert most == 24, "the bound of an exchange that is not verified is reached"
