"""One session by itself: what it holds for its program, what it tells, and what it costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from securefedyj.errors import ProtocolError
from securefedyj.network.errors import JoinError
from securefedyj.network.session.events import SessionCosts
from securefedyj.network.session.records import Ready
from securefedyj.network.session.run import Session
from securefedyj.party.machine import Party
from securefedyj.party.messages import Kind, Message
from securefedyj.party.rounds import play_round
from securefedyj.protocol.schedule import TooFewValues
from tests.network.machines import NAMES

READIES = [Ready(letter * 64) for letter in "abc"]
ROUNDS = 3


def session(most_waiting: int = 1000) -> Session:
    return Session(READIES, "ana", ("bob", "cem"), most_waiting)


def party(name: str, error: Exception | None = None) -> Party[Any]:
    """Its program plays some rounds, or ends with an error."""

    async def program() -> str:
        peers = [peer for peer in NAMES if peer != name]
        if error is not None:
            raise error
        for _ in range(ROUNDS):
            await play_round(Kind.INPUT, dict.fromkeys(peers, b"x"), dict.fromkeys(peers, 1))
        return "the end"

    return Party(name, NAMES, program(), session=session().id, parameters=b"agreed")


def hello(sender: str) -> Message:
    """What a peer says at first to ana."""
    other = party(sender)
    (message,) = (one for one in other.start() if one.recipient == "ana")
    other.stop(RuntimeError("it is not needed any more"))
    return message


@pytest.fixture
def running():
    """Sessions that have begun; those with a program are closed at the end."""
    begun: list[Session] = []

    def begin(error: Exception | None = None, **options: Any) -> Session:
        new = session(**options)
        begun.append(new)
        compute = new.run(party("ana", error), 10.0)
        assert new.computed(compute.step(*compute.arguments), 10.0)
        return new

    yield begin
    for one in begun:
        one.close(SessionCosts(), 0.0)


Begin = Callable[..., Session]


def take(one: Session, message: Message, now: float = 10.0, until: float = 10.0) -> list[Message]:
    one.deliver(message)
    compute = one.read_next(now)
    return one.computed(compute.step(*compute.arguments), until)


def test_the_id_takes_random_bytes_of_all_in_any_order():
    assert session().id == Session(READIES[::-1], "ana", ("bob", "cem"), 9).id
    ids = {session().id}
    for changed in range(3):
        readies = [*READIES[:changed], Ready("d" * 64), *READIES[changed + 1 :]]
        ids.add(Session(readies, "ana", ("bob", "cem"), 9).id)
    assert len(ids) == 4


def test_messages_of_other_sessions_are_dropped():
    one = session()
    one.deliver(dataclasses.replace(hello("bob"), session=bytes(16)))
    assert not one.has_unread
    one.deliver(hello("bob"))
    assert one.has_unread


def test_what_waits_is_bounded_for_each_peer_and_what_was_read_does_not_wait(running: Begin):
    size = hello("bob").size
    one = running(most_waiting=size)
    for peer in ("bob", "cem"):
        one.deliver(hello(peer))
    with pytest.raises(ProtocolError, match=f"^Party bob sent more than {size} bytes ahead of us"):
        one.deliver(hello("bob"))
    other = running(most_waiting=size)
    take(other, hello("bob"))
    other.deliver(hello("bob"))


def test_the_program_is_what_the_peers_are_asked_for(running: Begin):
    assert session().lacking == ()
    one = running()
    assert list(one.lacking) == ["bob", "cem"]
    take(one, hello("bob"))
    assert list(one.lacking) == ["cem"]


def test_only_too_few_values_end_a_program_without_a_word(running: Begin):
    """Everybody finds that out by itself; a stop would count as an interruption."""
    few, other = (
        running(TooFewValues("SFY-TEST-001", "few")),
        running(ProtocolError("SFY-TEST-001", "other")),
    )
    for one in (few, other):
        take(one, hello("bob"))
    assert take(few, hello("cem")) == []
    told = take(other, hello("cem"))
    assert [(message.kind, message.recipient) for message in told] == [
        (Kind.STOP, "bob"), (Kind.STOP, "cem")
    ]  # fmt: skip


def test_what_a_program_sends_goes_to_its_peers(running: Begin):
    one = running()
    assert take(one, hello("bob")) == []
    sent = take(one, hello("cem"))
    assert [(message.kind, message.recipient) for message in sent] == [
        (Kind.INPUT, "bob"), (Kind.INPUT, "cem")
    ]  # fmt: skip


def test_who_ends_a_session_says_so_to_all_and_on_whose_account():
    told = session().farewell("cem", 5.0)
    assert [(one.recipient, one.kind, one.payload, one.session) for one in told] == [
        (peer, Kind.STOP, b"cem", session().id) for peer in ("bob", "cem")
    ]


def test_what_was_on_its_way_is_taken_and_nothing_is_sent(running: Begin):
    one = running()
    for peer in ("bob", "cem"):
        one.deliver(hello(peer))
    assert one.settle() == []
    assert not one.has_unread
    assert one.party.rounds == 1
    not_begun = session()
    not_begun.deliver(hello("bob"))
    assert not_begun.settle() == []
    assert not not_begun.has_unread


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_cost_is_that_of_the_time_until_the_end(running: Begin, interrupted):
    one, tally = running(), SessionCosts()
    take(one, hello("bob"), 20.0, 23.0)
    take(one, hello("cem"), 30.0, 31.5)
    if interrupted:
        one.farewell("cem", 40.0)
    begun = one.party
    one.close(tally, 100.0)
    assert tally.seconds_computing == 4.5
    assert tally.seconds_waiting == (30.0 if interrupted else 90.0) - 4.5
    assert tally.bytes_received == hello("bob").size + hello("cem").size
    assert tally.rounds == 1
    assert tally.bytes_sent == begun.bytes_sent
    once = dataclasses.replace(tally)
    one.close(tally, 200.0)
    assert tally == once, "a session is counted once"


def test_the_end_of_a_session_ends_its_program(running: Begin):
    one = running()
    begun = one.party
    one.close(SessionCosts(), 10.0)
    assert begun.done
    assert isinstance(begun.error, JoinError)
    assert (one.party, one.error, one.lacking) == (None, None, ())


def test_the_error_of_a_program_stays_as_it_was(running: Begin):
    one = running(ValueError("31337"))
    for peer in ("bob", "cem"):
        take(one, hello(peer))
    begun = one.party
    assert one.error is begun.error
    one.close(SessionCosts(), 10.0)
    assert isinstance(begun.error, ValueError)
