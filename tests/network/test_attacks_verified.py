"""Verified runs through hub and TLS: who cheats gives nobody a result, whatever comes after."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from securefedyj.network.errors import EndOfRun, NotVerified
from securefedyj.network.session.records import Begin, Done, End
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol.transcript import Transcript
from tests.network.arena import (
    FINAL,
    OPENINGS,
    OUTSIDER,
    Arena,
    Mishaps,
    check_all_have,
    play,
)
from tests.network.attackers import Flipping
from tests.network.harness import SHORT

pytestmark = pytest.mark.processes

SENTENCE = str(NotVerified())
REFUTED: dict[str, Any] = {
    "reveal": "final",
    "features": [0, 1],
    "holds": False,
    "magnitude": [0, 0],
    "V": ["0x0", "0x0"],
    "S_y": ["0x0", "0x0"],
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> Transcript:
    """The result when nobody attacks."""

    async def scenario() -> Any:
        async with Arena(tmp_path_factory.mktemp("undisturbed"), verified=True) as arena:
            arena.join()
            outcomes = await arena.outcomes()
            assert arena.stage.openings.times() == dict.fromkeys(range(FINAL + 1), 1)
            return outcomes["ana"]

    result: Transcript = play(scenario)
    return result


def lines_of(arena: Arena, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in arena.state(name).read_text().splitlines()]


def check_not_verified(arena: Arena, outcomes: dict[str, Any]) -> None:
    """All honest parties end with one sentence, which their states have; nothing is written."""
    arena.check(outcomes)
    for name in arena.honest:
        assert isinstance(outcomes[name], NotVerified), (name, outcomes[name])
        assert str(outcomes[name]) == SENTENCE
        assert arena.parameters(name) is None
        lines = lines_of(arena, name)
        assert lines[-1] == {"failed": SENTENCE}
        for line in lines:
            if line.get("reveal") == "final":
                assert line == REFUTED


class Final:
    """Changes what a party says in the verified exchange, message by message.

    Only that has messages of kind CHECK, and the first of them comes before all gates: there is a
    party outside.
    """

    def __init__(self, change: Callable[[tuple[Any, ...], bytes], bytes]) -> None:
        self._change = change
        self._sessions: set[bytes] = set()
        self._seen: dict[tuple[Any, ...], int] = defaultdict(int)

    def __call__(self, number: int | None, message: Message) -> Message:
        if message.kind == Kind.CHECK:
            self._sessions.add(message.session)
        if message.session not in self._sessions:
            return message
        place = (message.session, message.kind, message.recipient)
        self._seen[place] += 1
        payload = self._change((*place, self._seen[place]), message.payload)
        return dataclasses.replace(message, payload=payload)


def flip(payload: bytes) -> bytes:
    return bytes([payload[0] ^ 1]) + payload[1:]


@pytest.mark.parametrize(
    ("cheater", "kind", "number"),
    [
        ("ana", Kind.PRODUCT | Kind.CARRY | Kind.CHECK, 1),
        ("cem", Kind.PRODUCT | Kind.CARRY | Kind.CHECK, 2),  # and a part of the seed
        ("bob", Kind.CARRY, 5),
        ("cem", Kind.CHECK, 5),  # that its checks have passed
    ],
    ids=str,
)
def test_who_cheats_ends_the_run_for_good_also_if_it_comes_back(tmp_path, cheater, kind, number):
    changed: list[Any] = []

    def change(place: tuple[Any, ...], payload: bytes) -> bytes:
        _, its_kind, _, count = place
        if (its_kind, count) != (kind, number):
            return payload
        changed.append(place)
        return flip(payload)

    async def scenario() -> None:
        async with Arena(tmp_path, [cheater], verified=True) as arena:
            arena.stage.messages[cheater] = Final(change)
            arena.join()
            check_not_verified(arena, await arena.outcomes())
            assert changed
            before = arena.stage.openings.times()
            assert set(before) <= set(range(FINAL + 1))
            arena.join(**SHORT)
            for name in arena.honest:
                await arena.ended(name)
                with pytest.raises(EndOfRun) as caught:
                    arena.tasks[name].result()
                assert str(caught.value) == SENTENCE
                assert lines_of(arena, name)[-1] == {"failed": SENTENCE}
            assert arena.stage.openings.times() == before

    play(scenario)


@pytest.mark.parametrize("verified", [False, True])
def test_a_sign_that_a_member_flips_is_believed_only_without_verification(
    tmp_path, expected, verified
):
    async def scenario() -> None:
        async with Arena(tmp_path, ["bob"], verified=verified) as arena:
            arena.stage.engines["bob"] = lambda engine, play: Flipping(
                engine, play, OPENINGS["sign 3"], lambda size: np.ones(size, dtype=np.uint8)
            )
            arena.join()
            outcomes = await arena.outcomes()
            if verified:
                check_not_verified(arena, outcomes)
                for name in arena.honest:
                    assert REFUTED in lines_of(arena, name)
            else:
                for name in arena.honest:
                    assert outcomes[name].result.lmbda.tolist() != expected.result.lmbda.tolist()
                    assert arena.parameters(name) is not None

    play(scenario)


def test_what_was_said_in_an_earlier_session_is_of_no_use(tmp_path):
    """Member ana fails within the checks, and then says what it said before."""
    said: dict[tuple[Any, ...], bytes] = {}
    replayed: list[Any] = []
    arenas: list[Arena] = []

    def change(place: tuple[Any, ...], payload: bytes) -> bytes:
        session, *rest = place
        if not said or ("first", session) in said:
            said["first", session] = b""
            said[tuple(rest)] = payload
            if rest == [Kind.CHECK, "bob", 3]:
                arenas[0].kill("ana")
            return payload
        replayed.append(place)
        return said.get(tuple(rest), payload)

    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"], verified=True) as arena:
            arenas.append(arena)
            arena.stage.messages["ana"] = Final(change)
            mishaps = Mishaps(arena, "ana", "before", [])
            arena.join()
            await mishaps.watch()
            check_not_verified(arena, await arena.outcomes())

    play(scenario)
    assert replayed


@pytest.mark.parametrize(
    ("unverified", "when"), [(False, Begin), (True, Begin), (True, Done)], ids=str
)
def test_a_false_end_ends_the_run_and_takes_no_result_away(tmp_path, expected, unverified, when):
    """Party dua says END to all: before the search, or when everybody has the result."""

    def forge(peer: str, record: Any) -> Iterable[Any]:
        return [End(unverified)] * isinstance(record, when) + [record]

    async def scenario() -> None:
        async with Arena(tmp_path, [OUTSIDER], verified=True) as arena:
            arena.stage.records[OUTSIDER] = forge
            arena.join()
            outcomes = await arena.outcomes()
            if when is Done:
                check_all_have(arena, outcomes, expected)
            elif unverified:
                check_not_verified(arena, outcomes)
            else:
                arena.check(outcomes)
                for name in arena.honest:
                    assert type(outcomes[name]) is EndOfRun
                    assert arena.parameters(name) is None
                    assert lines_of(arena, name)[-1] == {"failed": str(outcomes[name])}

    play(scenario)
