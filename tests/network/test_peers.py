"""What a party keeps of a peer, what it forgets with the channel, and how much it takes from it."""

from __future__ import annotations

import pytest

from securefedyj.errors import ProtocolError
from securefedyj.network.carrier import Present
from securefedyj.network.errors import JoinError
from securefedyj.network.session.events import ChannelStands
from securefedyj.network.session.peers import (
    CLOCKS_APART,
    MOST_READY,
    TELL_AFTER,
    Patience,
    Peer,
    check_greeting,
)
from securefedyj.network.session.records import NO_SESSION, Begin, Greeting, Handover, Leave, Ready
from securefedyj.network.session.states import PeerState
from securefedyj.party.messages import VERSION

DIGEST = "d" * 64
GREETING = Greeting(VERSION, DIGEST, 1000.0, "0.3")


def come(peer: Peer, now: float = 0.0) -> None:
    peer.show(Present, now)
    peer.show(ChannelStands, now)
    peer.speak(GREETING)


@pytest.fixture
def peer() -> Peer:
    new = Peer("bob", 0.0)
    come(new)
    return new


def say_ready(peer: Peer, times: int) -> None:
    for number in range(times):
        peer.say_ready(Ready(f"{number:064x}"))


def test_who_is_ready_again_and_again_without_a_session_breaks_the_channel(peer):
    say_ready(peer, MOST_READY)
    with pytest.raises(ProtocolError, match=f"^Party bob said {MOST_READY} times that it is ready"):
        say_ready(peer, 1)


def test_a_session_and_a_new_channel_let_a_peer_be_ready_as_often_again(peer):
    say_ready(peer, MOST_READY)
    peer.start()
    assert peer.ready is None
    say_ready(peer, MOST_READY)
    peer.lose(1.0)
    come(peer)
    say_ready(peer, MOST_READY)
    with pytest.raises(ProtocolError, match="times that it is ready"):
        say_ready(peer, 1)


def test_what_was_said_on_a_channel_goes_with_it(peer):
    """But not that it has the result: that stays so."""
    peer.done, peer.kept = DIGEST, True
    peer.ready = Ready("0" * 64)
    peer.begin = Begin("0" * 32, 0, DIGEST, False, False, False, 0, NO_SESSION)
    peer.handover = Handover("0" * 32, 0, [])
    peer.announced = peer.failed = peer.warned = peer.false = True
    peer.lose(7.0)
    assert peer.state is PeerState.ABSENT
    assert (peer.ready, peer.begin, peer.handover) == (None, None, None)
    assert not any((peer.announced, peer.failed, peer.warned, peer.false))
    assert (peer.done, peer.kept, peer.absent_since) == (DIGEST, True, 7.0)


def test_who_has_just_come_was_just_heard(peer):
    peer.lose(1.0)
    peer.show(Present, 500.0)
    assert peer.heard == 500.0
    peer.lose(600.0)
    assert peer.absent_since == 1.0, "since then it was never connected"


def test_who_leaves_is_connected_and_takes_part_in_no_session(peer):
    assert (peer.connected, peer.here) == (True, True)
    peer.speak(Leave(failed=False))
    assert (peer.connected, peer.here) == (True, False)


def test_clocks_may_be_apart_as_far_as_it_is_said():
    for apart in (-CLOCKS_APART, CLOCKS_APART):
        check_greeting("bob", GREETING, DIGEST, 1000.0 + apart)
        with pytest.raises(JoinError, match=r"^The clock of party bob is 5 minutes"):
            check_greeting("bob", GREETING, DIGEST, 1000.0 + 1.001 * apart)


def test_missing_peers_are_named_after_a_moment_and_once(peer):
    """A peer that comes at once is worth no sentence."""
    patience = Patience([peer], timeout=60.0, wait=600.0, now=0.0)
    assert patience.news(TELL_AFTER + 1, opened=False, confirmed=False) is None, "nobody is missing"
    peer.lose(100.0)
    patience.waiting_since = 100.0
    assert patience.news(100.0 + TELL_AFTER, opened=False, confirmed=False) is None
    sentence = patience.news(100.0 + 2 * TELL_AFTER, opened=False, confirmed=False)
    assert sentence is not None
    assert sentence.startswith("Waiting for bob, ")
    assert patience.news(100.0 + 3 * TELL_AFTER, opened=False, confirmed=False) is None, "again"
