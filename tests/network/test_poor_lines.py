"""A run over a poor line goes on while it makes progress, and says what is wrong with the line."""

from __future__ import annotations

import pytest

from securefedyj.network import events
from securefedyj.network.states import State
from tests.network.machines import Solo, close_programs


@pytest.fixture(autouse=True)
def _no_program_is_left_over():
    yield
    close_programs()


def break_once(solo: Solo, *, progress: bool) -> None:
    """A session, in which something may be opened, and which ends with a broken channel."""
    solo.bring(State.COMPUTING)
    if progress:
        solo.happen(events.Revealed())
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
