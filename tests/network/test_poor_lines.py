"""A run over a poor line goes on while it makes progress, and says what is wrong with the line."""

from __future__ import annotations

import pytest

from securefedyj.network.session import events, records
from securefedyj.network.session.states import State
from tests.network.machines import Solo, close_programs


@pytest.fixture(autouse=True)
def _no_program_is_left_over():
    yield
    close_programs()


def break_once(solo: Solo, *, progress: bool) -> None:
    """A session, in which something may be opened, and which ends with a broken channel."""
    solo.bring(State.COMPUTING)
    if progress:
        solo.happen(events.OpeningKept())
    solo.compute()
    solo.happen(events.ChannelBroke("bob", "It is broken."))


def test_broken_channels_are_counted_since_the_last_progress():
    solo = Solo(most_faults=2, most_interruptions=100)
    for _ in range(5):
        break_once(solo, progress=True)
        break_once(solo, progress=False)
        assert solo.is_in(State.GATHERING)
    assert solo.reconnects == 10
    break_once(solo, progress=False)
    assert str(solo.error) == "It is broken. That happened 3 times; ask the operator of the hub."


def test_each_silence_of_a_peer_is_warned_of():
    """Also the second one of a peer that was heard between them."""
    solo = Solo(timeout=10.0).bring(State.LISTENING)
    for _ in range(2):
        solo.now += 8
        solo.happen(events.Heard("cem"))
        solo.happen(events.TimePassed(solo.now))
        solo.happen(events.Heard("bob"))
    sentence = "Nothing was heard from party bob for 8.0 seconds in exchange 1."
    assert solo.said[1:] == [sentence] * 2


def test_a_hub_that_was_not_reached_since_is_one_that_cannot_be_reached():
    solo = Solo(wait=100.0)
    solo.happen(events.HubReached())
    for _ in range(2):
        solo.happen(events.HubLost("The hub is gone."))
    assert solo.said == [
        "The hub is gone. Trying again.",
        "The hub is gone. Trying again, up to 100 seconds.",
    ]
    solo.happen(events.TimePassed())
    solo.now += 101
    solo.happen(events.TimePassed())
    assert str(solo.error).startswith("The hub at hub:1 could not be reached within 100 seconds: ")


@pytest.mark.parametrize("state", [State.LISTENING, State.KEPT])
def test_that_the_run_has_ended_for_a_peer_is_said_also_to_who_has_the_result(state):
    solo = Solo(kept=state is State.KEPT).bring(state)
    if state is State.KEPT:
        solo.arrive("cem")
    solo.hear("cem", records.End(unverified=False))
    assert "Party cem says that this run has ended for good." in solo.said
    assert solo.is_in(State.FAILED if state is State.LISTENING else state)
