"""All parties in one process: for simulation and tests."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from securefedyj.errors import PartyStopped, Stalled
from securefedyj.party.machine import Party
from securefedyj.party.messages import Message

R = TypeVar("R")


def run(
    parties: Sequence[Party[R]],
    observe: Callable[[Message], Iterable[Message]] | None = None,
) -> list[R]:
    """Run the parties to their end; return their results in order.

    `observe` sees every message sent and returns the messages to deliver in its place:
    itself to record, none to drop it, others to forge.
    """
    by_name = {party.name: party for party in parties}
    in_flight: deque[Message] = deque()

    def post(messages: Iterable[Message]) -> None:
        for message in messages:
            in_flight.extend([message] if observe is None else observe(message))

    for party in parties:
        post(party.start())
    while in_flight:
        message = in_flight.popleft()
        post(by_name[message.recipient].receive(message))
    raise_first_error(parties)
    return [party.result for party in parties]


def raise_first_error(parties: Sequence[Party[R]]) -> None:
    """Raise the error that stopped the others, or say who waits for whom."""
    errors = [party.error for party in parties if party.error is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, PartyStopped))
    waiting = [party for party in parties if not party.done]
    if waiting:
        who = [
            f"{party.name} waits in round {party.rounds} for {', '.join(party.waiting_for)}"
            for party in waiting
        ]
        stalled = Stalled("No message is in flight, but " + "; ".join(who) + ".")
        for party in waiting:
            party.stop(stalled)
        raise stalled
