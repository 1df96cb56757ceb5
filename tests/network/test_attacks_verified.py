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
from securefedyj.network.records import Begin, Done, End
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol.reveals import Verdict
from securefedyj.protocol.transcript import Transcript
from tests.network.arena import OPENINGS, OUTSIDER, VERIFIED, Arena, Mishaps, content, play
from tests.network.attackers import Flipping, Play
from tests.network.harness import SHORT

pytestmark = pytest.mark.processes

SENTENCE = str(NotVerified())


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> Transcript:
    """The result when nobody attacks."""

    async def scenario() -> Any:
        async with Arena(tmp_path_factory.mktemp("undisturbed"), verified=True) as arena:
            arena.join()
            outcomes = await arena.outcomes()
            assert arena.stage.openings.times() == dict.fromkeys(range(VERIFIED["moments"] + 1), 1)
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
        assert not [line for line in lines if line.get("reveal") in ("magnitudes", "moments")]


def check_all_have(arena: Arena, outcomes: dict[str, Any], expected: Transcript) -> None:
    arena.check(outcomes)
    for name in arena.honest:
        assert isinstance(outcomes[name], Transcript), (name, outcomes[name])
        assert content(outcomes[name]) == content(expected)
        assert arena.parameters(name) is not None


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
    return payload[:-1] + bytes([payload[-1] ^ 1])


@pytest.mark.parametrize(
    ("cheater", "kind", "number"),
    [
        ("ana", Kind.PRODUCT | Kind.CARRY, 1),
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
            assert set(before) <= set(range(VERIFIED["verdict"] + 1))
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
                    verdict = {"reveal": "verdict", "features": [0, 1], "holds": False}
                    assert verdict in lines_of(arena, name)
            else:
                for name in arena.honest:
                    assert outcomes[name].result.lmbda.tolist() != expected.result.lmbda.tolist()
                    assert arena.parameters(name) is not None

    play(scenario)


def test_what_was_said_in_an_earlier_session_is_of_no_use(tmp_path):
    """Member ana fails before the verdict, and then says what it said before it."""
    said: dict[tuple[Any, ...], bytes] = {}
    replayed: list[Any] = []

    def change(place: tuple[Any, ...], payload: bytes) -> bytes:
        session, *rest = place
        if not said or ("first", session) in said:
            said["first", session] = b""
            said[tuple(rest)] = payload
            return payload
        replayed.append(place)
        return said[tuple(rest)]

    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"], verified=True) as arena:
            arena.stage.messages["ana"] = Final(change)
            mishaps = Mishaps(arena, "ana", "before", [VERIFIED["verdict"]])
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


@pytest.mark.parametrize(
    ("name", "moment", "opening"),
    [
        ("ana", "had", "verdict"),
        ("bob", "before", "magnitudes"),
        (OUTSIDER, "had", "verdict"),
    ],
)
def test_an_interruption_behind_the_verdict_ends_with_the_same_bits(
    tmp_path, expected, name, moment, opening
):
    async def scenario() -> None:
        async with Arena(tmp_path, verified=True) as arena:
            mishaps = Mishaps(arena, name, moment, [VERIFIED[opening]])
            arena.join()
            await mishaps.watch()
            check_all_have(arena, await arena.outcomes(), expected)
            again = [line["repeat"] for line in lines_of(arena, "ana") if "repeat" in line]
            if name != OUTSIDER:  # without which the others may have had all of it
                assert again[0] == VERIFIED["verdict"]

    play(scenario)


def test_a_second_one_ends_the_run_for_good(tmp_path):
    async def scenario() -> None:
        async with Arena(tmp_path, verified=True) as arena:
            numbers = [VERIFIED["magnitudes"]] * 2
            mishaps = Mishaps(arena, "bob", "before", numbers)
            arena.join()
            await mishaps.watch()
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            for name, outcome in outcomes.items():
                assert isinstance(outcome, EndOfRun), (name, outcome)
                assert arena.parameters(name) is None

    play(scenario)


def test_another_input_behind_the_verdict_is_found(tmp_path):
    """Member ana has seen the verdict, fails, and comes back with other sums."""

    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"], verified=True) as arena:
            liar = arena.liar("ana")
            oracle = Mishaps(arena, "ana", "had", [VERIFIED["verdict"]] * 3, silo=liar)
            liar.before_sums = lambda: setattr(liar, "phi", len(oracle.seen) << 55)
            arena.join("bob", "cem", "dua")
            arena.join("ana", silo=liar)
            await oracle.watch()
            check_not_verified(arena, await arena.outcomes())
            assert [bits.tolist() for bits in oracle.seen] == [[1], [0]]

    play(scenario)


def pretend(record: Any, reveals: int, digest: str) -> Any:
    if not isinstance(record, Begin):
        return record
    return dataclasses.replace(record, reveals=reveals, digest=digest, sending=False)


@pytest.mark.parametrize("how", ["claim", "journal"])
def test_a_verdict_that_one_party_made_up_is_not_taken(tmp_path, expected, how):
    """Member cem fails before the verdict, and comes back as one that has it."""
    line = {"reveal": "verdict", "features": [0, 1], "holds": True}

    async def scenario() -> None:
        async with Arena(tmp_path, ["cem"], verified=True) as arena:
            mishaps = Mishaps(arena, "cem", "before", [VERIFIED["verdict"]])

            def watched(engine: Any, play: Play) -> Any:
                if play.start:  # it has come back
                    assert len(play.transcript.reveals) == VERIFIED["verdict"]
                return engine

            arena.stage.engines["cem"] = watched
            arena.join()
            await arena.ended("cem")
            known = Transcript(expected.agreement, expected.reveals[: VERIFIED["verdict"] + 1])
            assert isinstance(known.reveals[-1], Verdict)
            if how == "journal":
                with open(arena.state("cem"), "a") as state:
                    state.write(json.dumps(line) + "\n")
            else:
                arena.stage.records["cem"] = lambda peer, record: [
                    pretend(record, len(known.reveals), known.digest().hex())
                ]
            await mishaps.watch()
            outcomes = await arena.outcomes()
            check_all_have(arena, outcomes, expected)
            assert arena.stage.openings.times()[VERIFIED["verdict"]] == 2

    play(scenario)
