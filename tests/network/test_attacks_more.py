"""What one party can try between sessions: to hang, to divide or to frame the others."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from securefedyj.network.errors import JoinError
from securefedyj.network.session import events, records
from securefedyj.network.session.states import State
from securefedyj.party.messages import Message
from securefedyj.protocol.reveals import to_line
from tests.network.machines import NAMES, OPENINGS, Solo, Trio, close_programs, memory, whole


@pytest.fixture(autouse=True)
def _no_program_is_left_over():
    yield
    close_programs()


def computed(solo: Solo, most: int = 100) -> Solo:
    """Make what is asked for, which must come to an end."""
    for _ in range(most):
        if solo.asked is None:
            return solo
        solo.compute()
    raise AssertionError(f"still {solo.state}")


def test_messages_of_a_session_that_ended_before_its_program_began_hold_up_nobody():
    """Ana waits for the end of the transcript; bob sends a message, and begins anew."""
    ana = Solo().bring(State.TAKING)
    ana.hear("bob", ana.message("bob"))
    for peer in ("bob", "cem"):
        ana.hear(peer, ana.ready(peer, 1))
    assert computed(ana).state is State.BEGUN


# Handing on what somebody lacks.


def handover(solo: Solo, *lines: str) -> records.Handover:
    """The first opening, or something else, for the session that ana has begun."""
    true = [json.dumps(to_line(whole().reveals[0]))]
    return records.Handover(solo.last(records.Begin).session, 0, list(lines) or true)


def test_what_is_handed_on_before_the_last_begin_is_taken():
    """Cem has the first opening as well, says so last, and hands nothing on."""
    ana = Solo().bring(State.BEGUN)
    ana.hear("bob", ana.begin(1))
    ana.hear("bob", handover(ana))
    ana.hear("cem", ana.begin(1))
    assert ana.state is State.COMPUTING
    assert ana.openings == 1


@pytest.mark.parametrize("lie", ["{}", "[]", "no JSON", '{"reveal": "counts"}', "1e999"])
def test_a_false_handover_does_not_stand_in_the_way_of_a_true_one(lie):
    ana = Solo().bring(State.TAKING)
    for _ in range(3):
        ana.hear("cem", handover(ana, lie))
    assert ana.is_in(State.TAKING)
    assert [words for words in ana.said if "handed over" in words] == [
        "Party cem handed over what is not a transcript."
    ]
    ana.hear("bob", handover(ana))
    assert ana.is_in(State.COMPUTING)
    assert ana.openings == 1


def test_nor_does_one_for_another_session():
    ana = Solo().bring(State.TAKING)
    ana.hear("bob", records.Handover("0" * 32, 0, ["{}"]))
    ana.hear("cem", handover(ana))
    assert ana.is_in(State.COMPUTING)


# The last opening.


def only_ana_has_the_end(**options: Any) -> Trio:
    """All have sent their part of the last opening, and ana alone has got it."""
    trio = Trio({name: memory(OPENINGS - (name != "ana")) for name in NAMES}, **options)
    for name in ("bob", "cem"):
        known = trio[name].known
        known.exchange(known.transcript)
        known.opening(known.transcript)
    return trio


def test_a_last_opening_that_one_party_has_is_made_again_with_this_party():
    trio = only_ana_has_the_end()
    trio.join(*NAMES)
    trio.carry()
    assert trio.states() == [State.OVER] * 3
    assert [machine.known.repeats for machine in trio.machines.values()] == [[OPENINGS - 1]] * 3
    assert trio["ana"].log == [(OPENINGS - 1, whole().digest(OPENINGS - 1).hex())]


def test_but_once_in_a_run():
    trio = only_ana_has_the_end()
    for name in NAMES:
        trio[name].known.repeats.append(2)
    trio.join(*NAMES)
    trio.carry()
    assert trio.states() == [State.FAILED] * 3
    assert [machine.log for machine in trio.machines.values()] == [[]] * 3
    assert getattr(trio["ana"].error, "code", None) == "SFY-JOIN-031"


def test_and_who_has_the_end_counts_who_interrupts_that():
    trio = only_ana_has_the_end(most_interruptions=0)
    trio.join(*NAMES)
    trio.carry(until=lambda: trio["ana"].state is State.LISTENING)
    trio.happen("ana", events.RecordArrived("cem", records.Ready("ab" * 32)))
    trio.carry()
    assert "1 of at most 0 interruptions, by cem." in str(trio["ana"].error)


# Saying one thing to ana and another to bob.


def test_a_second_ready_for_one_party_alone_leaves_nobody_behind():
    """Bob has started the session; ana lacks cem's BEGIN, and is told READY again in its place."""
    trio = Trio()
    trio.join(*NAMES)
    from_cem = trio.way["cem", "ana"]
    trio.carry(until=lambda: any(isinstance(record, records.Begin) for record in from_cem))
    while isinstance(from_cem[0], records.Greeting | records.Ready):
        trio.happen("ana", events.RecordArrived("cem", from_cem.popleft()))
    from_cem.clear()
    trio.carry(until=lambda: trio["bob"].state is State.LISTENING)
    assert trio["ana"].state is State.BEGUN
    trio.happen("ana", events.RecordArrived("cem", records.Ready("ab" * 32)))
    trio.carry()
    assert trio.states() == [State.OVER] * 3
    assert "1 of at most 5 interruptions, by cem, as ana says." in trio["bob"].said
    assert trio["ana"].known.interruptions == []  # she had not started


# Being there, and no more.


def hold_out(solo: Solo, seconds: int, *words: records.AnyRecord) -> None:
    """Both peers say something every second."""
    for _ in range(seconds):
        solo.now += 1
        for peer in ("bob", "cem"):
            if solo.state in (State.OVER, State.FAILED):
                return
            solo.happen(events.Heard(peer))
            for record in words:
                solo.hear(peer, record)
        solo.happen(events.TimePassed(solo.now))


@pytest.mark.parametrize("words", [[], [records.Alive()], [records.Kept(), records.Alive()]])
def test_who_is_there_and_sends_nothing_of_the_session_is_not_waited_for_in_vain(words):
    """Cem has not greeted in the session of ana and bob."""
    ana = Solo(timeout=10.0, wait=100.0).bring(State.LISTENING)
    hold_out(ana, 105, *words)
    assert ana.state is State.LISTENING
    hold_out(ana, 10, *words)
    assert ana.is_in(State.FAILED)
    assert "Party cem is there, and sent nothing of this session for more than 100" in str(
        ana.error
    )
    assert [one.by for one in ana.known.interruptions] == ["cem"]
    assert not ana.known.failed


# What comes to light while a session settles.


def opening_on_its_way() -> Trio:
    """Bob is lost, and cem's part of the fourth opening is on its way to ana."""
    trio = Trio()
    trio.join(*NAMES)
    trio.carry(until=lambda: len(trio["ana"].log) == 4)
    for pair in trio.way:
        if pair[0] == "bob":
            trio.way[pair].clear()
    trio.crash("bob")
    return trio


def test_a_disk_that_is_full_while_a_session_settles_is_not_overlooked(monkeypatch):
    trio = opening_on_its_way()
    ana, lost = trio["ana"], []

    def full(line: dict[str, Any], **_: bool) -> None:
        if "reveal" in line and not lost:
            lost.append(line)
            raise JoinError("SFY-TEST-001", "cannot write state.jsonl: No space left on device")

    monkeypatch.setattr(ana.known, "write", full)
    trio.join("bob")
    trio.carry()
    assert ana.state is State.FAILED
    assert "No space left" in str(ana.error)


def test_nor_is_a_message_that_breaks_the_rules():
    trio = opening_on_its_way()
    ana, way = trio["ana"], trio.way["cem", "ana"]
    places = [i for i, record in enumerate(way) if isinstance(record, Message)]
    part = way[places[0]]
    assert isinstance(part, Message)
    way[places[0]] = dataclasses.replace(part, payload=b"too long")
    trio.join("bob")
    trio.carry()
    assert ana.state is State.FAILED
    assert "from cem has the wrong size" in str(ana.error)
    assert ana.openings == 3


def test_who_says_ready_without_end_does_not_fill_our_memory():
    """Each is answered by BEGIN to all; who does not read, or a hub, would let them pile up."""
    ana = Solo().bring(State.BEGUN)
    for turn in range(10_000):
        if ana.reconnects:
            break
        ana.hear("cem", ana.ready("cem", turn))
    assert ana.reconnects == 1
    assert len(ana.sent) < 1000
    assert ana.said[-1] == "Party cem said 100 times that it is ready. Trying again."
