"""A run between its sessions: who is believed, whom we wait for, and what is no interruption."""

from __future__ import annotations

import json

import pytest

from securefedyj.network.carrier import Left
from securefedyj.network.errors import OutOfPatience
from securefedyj.network.session import events, records
from securefedyj.network.session.memory import Interruption
from securefedyj.network.session.states import State
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol.reveals import to_line
from tests.network.machines import OPENINGS, Solo, close_programs, whole


@pytest.fixture(autouse=True)
def _no_program_is_left_over():
    yield
    close_programs()


def hand(solo: Solo, peer: str, lines: list[str]) -> None:
    solo.hear(peer, records.Handover(solo.last(records.Begin).session, 0, lines))


def test_from_who_has_handed_on_what_is_not_true_nothing_more_is_taken():
    """Until it comes back; another party has the same."""
    true = [json.dumps(to_line(whole().reveals[0]))]
    solo = Solo().bring(State.TAKING)
    hand(solo, "bob", ["{}"])
    hand(solo, "bob", true)
    assert solo.is_in(State.TAKING)
    assert solo.openings == 0
    assert len([words for words in solo.said if words.startswith("Party bob handed over")]) == 1
    hand(solo, "cem", true)
    assert solo.is_in(State.COMPUTING)
    assert solo.openings == 1


def test_a_peer_that_is_lost_when_only_results_are_compared_interrupts_nothing():
    solo = Solo(length=OPENINGS).bring(State.BEGUN)
    for peer in ("bob", "cem"):
        solo.hear(peer, solo.last(records.Begin))
    assert solo.is_in(State.DONE)
    solo.sent.clear()
    solo.happen(Left("bob", 1))
    assert solo.known.interruptions == []
    assert not [
        record
        for _, record in solo.sent
        if isinstance(record, Message) and record.kind == Kind.STOP
    ]


def test_who_is_there_and_says_nothing_of_the_session_is_named():
    """Signs of life are not enough: wait and timeout together are the most that is waited."""
    solo = Solo(timeout=10.0, wait=100.0).bring(State.LISTENING)
    for elapsed in (0.0, 109.9):
        solo.now += elapsed
        for peer in ("bob", "cem"):
            solo.happen(events.Heard(peer))
        solo.happen(events.TimePassed(solo.now))
        assert solo.is_in(State.LISTENING)
    solo.now += 0.2
    for peer in ("bob", "cem"):
        solo.happen(events.Heard(peer))
    solo.happen(events.TimePassed(solo.now))
    assert solo.is_in(State.FAILED)
    assert isinstance(solo.error, OutOfPatience)
    assert str(solo.error).startswith(
        "Party cem is there, and sent nothing of this session for more than 100 seconds"
    )
    assert [one.by for one in solo.known.interruptions] == ["cem"]


def test_a_peer_that_is_lost_when_the_result_is_known_interrupts_nothing():
    solo = Solo().bring(State.DONE)
    solo.sent.clear()
    solo.happen(Left("bob", 1))
    assert solo.known.interruptions == []
    assert solo.sent == []


@pytest.mark.parametrize(("length", "exchange"), [(0, 1), (1, 2), (5, 4)])
def test_an_interruption_is_of_the_exchange_that_was_under_way(length, exchange):
    solo = Solo(length=length).bring(State.BEGUN)
    for peer in ("bob", "cem"):
        solo.hear(peer, solo.last(records.Begin))
    for peer in ("bob", "cem"):
        solo.compute()
        solo.hear(peer, solo.message(peer))
    solo.compute()
    solo.happen(Left("bob", 1))
    assert solo.known.interruptions == [Interruption("bob", exchange)]


def test_who_hears_a_new_ready_says_its_own_again():
    """Whoever had started has used it up; without it nobody could begin."""
    solo = Solo().bring(State.BEGUN)
    own = solo.last(records.Ready)
    solo.sent.clear()
    solo.hear("bob", solo.ready("bob", 1))
    said = [sent for sent in solo.sent if isinstance(sent[1], records.Ready)]
    assert said == [("bob", own), ("cem", own)]
    other = Solo().bring(State.BEGUN)
    other.sent.clear()
    other.happen(Left("bob", 1))
    assert other.is_in(State.GATHERING)
    assert not [record for _, record in other.sent if isinstance(record, records.Ready)]


def test_whom_we_wait_for_is_said_again_after_a_session():
    solo = Solo().bring(State.GATHERING)
    for _ in range(2):
        solo.said.clear()
        for _ in range(2):
            solo.happen(events.TimePassed())
            solo.now += 2
        assert [words[:16] for words in solo.said] == ["Waiting for cem,"]
        solo.arrive("cem")
        be_in_a_session(solo)
        solo.happen(Left("cem", 1))


def be_in_a_session(solo: Solo) -> None:
    for peer in ("bob", "cem"):
        solo.hear(peer, solo.ready(peer, len(solo.known.interruptions)))
    for peer in ("bob", "cem"):
        solo.hear(peer, solo.last(records.Begin))
    solo.compute()
    assert solo.is_in(State.LISTENING)
