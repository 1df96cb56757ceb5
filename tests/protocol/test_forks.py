"""Nobody can be led to open something else than the others do."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from securefedyj.errors import ProtocolError
from securefedyj.numerics.encoding import Domain
from securefedyj.party.machine import Party
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.program import run_party
from securefedyj.protocol.silos import timed_silo

NAMES = ("ana", "bob", "cem")
AGREEMENT = Agreement(
    features=("x",),
    domain=Domain.from_bounds((0.0, 9.0), 1),
    parties=NAMES,
    committee=NAMES,
    engine="replicated",
    max_steps=4,
    levels_per_exchange=4,
    result_bits=44,
    minimum_values=0,
    verified=False,
)
ROWS = np.arange(1.0, 8.0)[:, None]


def forked(number: int, flip: bool) -> dict[str, list[int]]:
    """The rounds in which ana and bob have opened something to cem.

    Cem flips its part of an opening towards ana; what bob opens from then on is late there.
    """
    parties = {
        name: Party(
            name,
            NAMES,
            run_party(name, AGREEMENT, timed_silo(AGREEMENT, ROWS[i::3])),
            session=bytes(16),
            parameters=b"",
        )
        for i, name in enumerate(NAMES)
    }
    openings: dict[str, list[int]] = {name: [] for name in NAMES}
    way: deque[Message] = deque()
    late: list[Message] = []

    def send(messages: list[Message]) -> None:
        for message in messages:
            if Kind.OPENING not in message.kind:
                way.append(message)
                continue
            rounds = openings[message.sender]
            if message.round not in rounds:
                rounds.append(message.round)
            turn, pair = rounds.index(message.round), (message.sender, message.recipient)
            if pair == ("bob", "ana") and turn >= number:
                late.append(message)
            elif pair == ("cem", "ana") and turn == number and flip:
                way.append(replace(message, payload=bytes([message.payload[0] ^ 1])))
            else:
                way.append(message)

    for party in parties.values():
        send(party.start())
    while way:
        message = way.popleft()
        send(parties[message.recipient].receive(message))
    if flip:
        parties["ana"].receive(late[0])
        assert isinstance(parties["ana"].error, ProtocolError)
    for party in parties.values():
        party.stop(RuntimeError("the test is over"))
    return openings


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("flip", [True, False])
def test_who_has_an_opening_from_one_member_alone_opens_nothing_on_its_word(number, flip):
    openings = forked(number, flip)
    assert len(openings["bob"]) >= number + 1
    assert len(openings["ana"]) == number + 1, "she opens more, and maybe somewhere else"
