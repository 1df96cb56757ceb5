"""Rounds: how a program says what it sends and what it waits for (docs/protocol.md, section 3).

A program is a coroutine that awaits `play_round` when it needs its peers. There is no event loop:
a `Party` drives one program, and `in_lockstep` drives several as one. An engine on a library that
talks to the peers by itself awaits `delegate` instead, and the library's runtime drives the
program.
"""

import types
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from typing import Any, TypeAlias, TypeVar, overload

from securefedyj.party.messages import Kind

Incoming: TypeAlias = Mapping[str, bytes]
Late: TypeAlias = Callable[[str, bytes], None]
"""Checks the payload of a peer that came after the round was over; raises if it is wrong."""

R = TypeVar("R")
R1 = TypeVar("R1")
R2 = TypeVar("R2")


@dataclass(slots=True)
class Round:
    """One round of one party: payloads to peers, and sizes of the payloads it waits for.

    All parties name the same kind in the same round, also those with nothing to send or to wait
    for: that keeps their round numbers equal.
    """

    kind: Kind
    outgoing: Mapping[str, bytes] = field(repr=False)
    expected: Mapping[str, int]
    enough: int | None = None
    """How many of the expected payloads suffice, the first to arrive; None for all."""
    late: Late | None = field(default=None, repr=False)
    """Given what comes later. Where all are needed, nothing does."""


@types.coroutine
def play_round(
    kind: Kind,
    outgoing: Mapping[str, bytes],
    expected: Mapping[str, int],
    *,
    enough: int | None = None,
    late: Late | None = None,
) -> Generator[Round, Incoming, Incoming]:
    """Send to the peers named in `outgoing`; return what those named in `expected` sent.

    With `enough`, what is returned may lack some peers; theirs is given to `late` when it comes.
    """
    return (yield Round(kind, outgoing, expected, enough, late))


@dataclass(frozen=True)
class Comparison:
    """Not a round: wait until all that comes late has come, and was found to be the same."""


@types.coroutine
def all_compared() -> Generator[Comparison, Incoming, Incoming]:
    """Wait for what earlier rounds were over without. Nothing else may share this step."""
    return (yield Comparison())


Start: TypeAlias = Callable[[], Any]
"""Begins some work, without waiting for anything, and returns what to wait for."""


@dataclass(frozen=True)
class Delegation:
    """Work for another library, started in this order and waited for as a whole.

    So the order in which programs start work never depends on what arrives first.
    """

    starts: Sequence[Start]


@types.coroutine
def delegate(start: Start) -> Generator[Delegation, Sequence[Any], Any]:
    """Let the runtime that drives the program do some work; return its result."""
    (result,) = yield Delegation([start])
    return result


Request: TypeAlias = Round | Delegation


@overload
async def in_lockstep(
    first: Coroutine[Any, Any, R1], second: Coroutine[Any, Any, R2], /
) -> tuple[R1, R2]: ...
@overload
async def in_lockstep(*coroutines: Coroutine[Any, Any, R]) -> tuple[R, ...]: ...
async def in_lockstep(*coroutines: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """Run independent coroutines, the branches, in lockstep; return their results in order.

    The n-th round of all of them is one round, with one message per peer. They advance in the order
    given, at every party: that keeps the parties' common keystreams in step. Delegated work is
    started in this order, too. An error in one branch ends all, before a later one has seen its
    answer or anything is sent.
    """
    if len(coroutines) == 1:
        return (await coroutines[0],)
    results: dict[int, Any] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(coroutines)))
    try:
        while answers:
            requests: dict[int, Request] = {}
            for branch, answer in answers.items():
                try:
                    requests[branch] = coroutines[branch].send(answer)
                except StopIteration as stop:
                    results[branch] = stop.value
            answers = await _merged(requests) if requests else {}
    finally:
        for coroutine in coroutines:
            coroutine.close()
    return tuple(results[branch] for branch in range(len(coroutines)))


async def _merged(requests: Mapping[int, Request]) -> dict[int, Any]:
    """Merge several requests into one, and hand each its own answer."""
    rounds = {branch: one for branch, one in requests.items() if isinstance(one, Round)}
    if len(rounds) == len(requests):
        return await _merged_round(rounds)
    delegations = {branch: one for branch, one in requests.items() if isinstance(one, Delegation)}
    if len(delegations) == len(requests):
        return await _merged_delegation(delegations)
    raise TypeError("A program may await operations of one engine only, nothing with a clock.")


@types.coroutine
def _merged_delegation(
    requests: Mapping[int, Delegation],
) -> Generator[Delegation, Sequence[Any], dict[int, Any]]:
    starts = [start for request in requests.values() for start in request.starts]
    answers: Iterator[Any] = iter((yield Delegation(starts)))
    return {branch: list(islice(answers, len(requests[branch].starts))) for branch in requests}


async def _merged_round(requests: Mapping[int, Round]) -> dict[int, Any]:
    kind = Kind(0)
    outgoing: dict[str, list[bytes]] = {}
    expected: dict[str, int] = {}
    for request in requests.values():
        kind |= request.kind
        for peer, payload in request.outgoing.items():
            outgoing.setdefault(peer, []).append(payload)
        for peer, size in request.expected.items():
            expected[peer] = expected.get(peer, 0) + size
    joined = {peer: b"".join(payloads) for peer, payloads in outgoing.items()}

    def late(peer: str, payload: bytes) -> None:
        pieces = _split(requests, {peer: payload})
        for branch, request in requests.items():
            if request.late is not None:
                request.late(peer, pieces[branch][peer])

    # As many suffice as for each branch alone, if they agree on that; otherwise all are needed.
    quorums = {(request.enough, frozenset(request.expected)) for request in requests.values()}
    enough = quorums.pop()[0] if len(quorums) == 1 else None
    return _split(requests, await play_round(kind, joined, expected, enough=enough, late=late))


def _split(requests: Mapping[int, Round], incoming: Incoming) -> dict[int, Any]:
    """Cut each peer's payload into the pieces that the requests waited for, in their order."""
    payloads = {peer: BytesIO(payload) for peer, payload in incoming.items()}
    return {
        branch: {
            peer: payloads[peer].read(size)
            for peer, size in request.expected.items()
            if peer in payloads
        }
        for branch, request in requests.items()
    }
