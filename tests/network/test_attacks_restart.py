"""A restart is no oracle: whatever was opened once is not opened again, whoever asks."""

from __future__ import annotations

from typing import Any

import pytest

from securefedyj.network.participant import JoinError
from securefedyj.protocol.transcript import Transcript
from tests.network.attackers import (
    COMMITTEE,
    OPENINGS,
    OUTSIDER,
    Arena,
    begin_anew,
    play,
    undisturbed,
)

pytestmark = pytest.mark.processes

MOST_INTERRUPTIONS = 5  # of a new consortium
TRIES = 6
FEW = ("counts", "sign 0", "sign 2", "moments")


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> Transcript:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


def test_without_an_attack_everything_is_opened_once(expected):
    assert expected.audit().passed


@pytest.mark.parametrize("kind", OPENINGS)
def test_who_has_seen_an_opening_and_says_ready_does_not_see_it_again(tmp_path, kind):
    answers: list[Any] = []

    def look(number: int, value: Any) -> None:
        if number == OPENINGS[kind] and len(answers) < TRIES:
            answers.append(value)
            begin_anew()

    async def scenario() -> None:
        async with Arena(tmp_path, [OUTSIDER]) as arena:
            arena.stage.peek(OUTSIDER, look)
            arena.join()
            arena.check(await arena.outcomes())

    play(scenario)
    assert len(answers) <= 2  # once more, if it was lost


@pytest.mark.parametrize("kind", FEW)
def test_who_comes_back_as_if_it_had_never_been_there_is_not_answered_again(tmp_path, kind):
    answers: list[Any] = []

    async def scenario() -> None:
        async with Arena(tmp_path, [OUTSIDER]) as arena:

            def look(number: int, value: Any) -> None:
                if number == OPENINGS[kind] and len(answers) < TRIES:
                    answers.append(value)
                    arena.kill(OUTSIDER)
                    begin_anew()

            arena.stage.peek(OUTSIDER, look)
            arena.join(*COMMITTEE)
            for attempt in range(TRIES):
                before = len(answers)
                arena.join(OUTSIDER, output=f"attempt {attempt}")
                await arena.ended(OUTSIDER)
                if len(answers) == before:
                    break
            arena.check(await arena.outcomes())

    play(scenario)
    assert len(answers) <= 2


def test_signs_of_one_step_do_not_answer_a_binary_search(tmp_path):
    """The outsider adds numbers of its choice to S_phi, and looks at the sign of step 0."""
    signs: list[Any] = []

    async def scenario() -> None:
        async with Arena(tmp_path, [OUTSIDER], levels_per_exchange=6) as arena:
            liar = arena.liar(OUTSIDER)

            def look(number: int, value: Any) -> None:
                if number == OPENINGS["sign 0"] and len(signs) < TRIES:
                    signs.append(value[0])
                    liar.phi += (1 if value[0] else -1) << (50 - len(signs))
                    begin_anew()

            arena.stage.peek(OUTSIDER, look)
            arena.join(*COMMITTEE)
            arena.join(OUTSIDER, silo=liar)
            outcomes = await arena.outcomes()
            assert len(signs) <= 2
            arena.check(outcomes)

    play(scenario)


def test_interruptions_are_limited_and_the_cause_is_named(tmp_path):
    """Who looks at each opening and begins anew asks nothing twice, and still wears us out."""
    seen: set[int] = set()

    def look(number: int, value: Any) -> None:
        if number not in seen:
            seen.add(number)
            begin_anew()

    async def scenario() -> None:
        async with Arena(tmp_path, [OUTSIDER]) as arena:
            arena.stage.peek(OUTSIDER, look)
            arena.join()
            outcomes = await arena.outcomes()
            for name in COMMITTEE:
                assert isinstance(outcomes[name], JoinError)
                assert "interruption" in str(outcomes[name])
                assert OUTSIDER in " ".join([*arena.said[name], str(outcomes[name])])
                assert arena.parameters(name) is None
            arena.check(outcomes)

    play(scenario)
    assert len(seen) <= MOST_INTERRUPTIONS + 1


# An opening that a member withholds.


@pytest.mark.parametrize(
    ("victims", "kind"),
    [
        *((("bob", "cem", "dua"), kind) for kind in OPENINGS),
        *((victims, kind) for victims in [("bob",), ("bob", "dua")] for kind in FEW),
    ],
)
def test_a_withheld_opening_reaches_everybody_and_is_made_once(tmp_path, expected, kind, victims):
    """Member ana takes part in an opening, keeps its own part to itself, looks, and restarts."""
    looks: list[Any] = []

    def withhold(number: int | None, message: Any) -> Any:
        asked = number == OPENINGS[kind] and len(looks) < TRIES
        return None if asked and message.recipient in victims else message

    def look(number: int, value: Any) -> None:
        if number == OPENINGS[kind] and len(looks) < TRIES:
            looks.append(value)
            begin_anew()

    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"]) as arena:
            arena.stage.messages["ana"] = withhold
            arena.stage.peek("ana", look)
            arena.join()
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            for name in arena.honest:
                if isinstance(outcomes[name], Transcript):
                    assert outcomes[name].to_text() == expected.to_text()

    play(scenario)
    assert len(looks) <= 2
