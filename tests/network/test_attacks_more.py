"""What one party can try between sessions: to hang, divide, frame or empty the pockets of others."""

from __future__ import annotations

import pytest

from securefedyj.network import records
from securefedyj.network.states import State
from tests.network.machines import Solo, close_programs


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
    ana.hear("bob", records.Delivery(ana.message("bob")))
    for peer in ("bob", "cem"):
        ana.hear(peer, ana.ready(peer, 1))
    assert computed(ana).state is State.BEGUN
