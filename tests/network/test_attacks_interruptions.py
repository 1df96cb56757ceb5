"""Honest parties that fail at any opening: the same bits in the end, and nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from securefedyj.network.errors import EndOfRun
from securefedyj.network.session.participant import JoinError
from securefedyj.protocol.transcript import Transcript
from tests.network.arena import (
    COMMITTEE,
    OPENINGS,
    OUTSIDER,
    Arena,
    Mishaps,
    content,
    play,
    undisturbed,
)
from tests.network.harness import SHORT

pytestmark = pytest.mark.processes

LAST = OPENINGS["moments"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> Transcript:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


def run_with(folder: Any, name: str, moment: str, numbers: list[int]) -> tuple[Arena, Any]:
    async def scenario() -> tuple[Arena, Any]:
        async with Arena(folder) as arena:
            mishaps = Mishaps(arena, name, moment, numbers)
            arena.join()
            await mishaps.watch()
            return arena, await arena.outcomes()

    result: tuple[Arena, Any] = play(scenario)
    return result


def check_same(
    arena: Arena, outcomes: dict[str, Any], expected: Transcript, mishaps: int = 1
) -> None:
    """All have the expected result, and nothing was opened twice.

    Or two of several mishaps have each lost an opening on its way: then the run ends for good, and
    nobody has a result.
    """
    arena.check(outcomes)
    if any(isinstance(one, EndOfRun) and "more were lost" in str(one) for one in outcomes.values()):
        assert not any(isinstance(one, Transcript) for one in outcomes.values())
        assert all(arena.parameters(name) is None for name in outcomes)
        assert mishaps > 1
        return
    for name, outcome in outcomes.items():
        assert isinstance(outcome, Transcript), (name, outcome)
        assert content(outcome) == content(expected)
        assert arena.parameters(name) is not None


@pytest.mark.parametrize("name", COMMITTEE)
@pytest.mark.parametrize("numbers", [[0, 2, 4, LAST - 1], [1, 3, 7, LAST]])
def test_a_member_may_fail_after_any_opening_that_it_sent(tmp_path, expected, name, numbers):
    arena, outcomes = run_with(tmp_path, name, "after", numbers)
    check_same(arena, outcomes, expected, len(numbers))


@pytest.mark.parametrize("name", [COMMITTEE[1], OUTSIDER])
@pytest.mark.parametrize("numbers", [[0, 2, 4, LAST - 1], [1, 3, 7, LAST]])
def test_a_party_may_fail_before_it_keeps_what_was_opened(tmp_path, expected, name, numbers):
    arena, outcomes = run_with(tmp_path, name, "had", numbers)
    check_same(arena, outcomes, expected, len(numbers))


@pytest.mark.parametrize("kind", OPENINGS)
def test_a_member_may_fail_before_it_sends_its_part(tmp_path, expected, kind):
    arena, outcomes = run_with(tmp_path, COMMITTEE[2], "before", [OPENINGS[kind]])
    check_same(arena, outcomes, expected)


def test_openings_that_are_lost_twice_end_the_run(tmp_path):
    """Everybody fails with an opening in its hands: it is repeated once, the next is not."""

    async def scenario() -> None:
        async with Arena(tmp_path) as arena:
            names = list(arena.tables)
            all_mishaps = [Mishaps(arena, name, "had", [3, 6], **SHORT) for name in names]
            arena.join(**SHORT)
            await asyncio.gather(*(mishaps.watch() for mishaps in all_mishaps))
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            assert any(isinstance(outcome, JoinError) for outcome in outcomes.values())
            assert all(arena.parameters(name) is None for name in names)

    play(scenario)
