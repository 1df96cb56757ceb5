"""A restart is no oracle: whatever was opened once is not opened again, whoever asks."""

from __future__ import annotations

from typing import Any

import pytest

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
from tests.network.attackers import Peeking, Play, claim_less
from tests.network.harness import SHORT

pytestmark = pytest.mark.processes

MOST_INTERRUPTIONS = 5  # of a new consortium
TRIES = 3
FEW = ("counts", "sign 0", "sign 2", "moments")


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> Transcript:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


def test_without_an_attack_everything_is_opened_once(expected):
    assert expected.audit().passed


@pytest.mark.parametrize("kind", OPENINGS)
def test_who_has_seen_an_opening_and_comes_back_does_not_see_it_again(tmp_path, kind):
    """The outsider has looked at an opening, and says that it has never had it."""

    async def scenario() -> Mishaps:
        async with Arena(tmp_path, [OUTSIDER]) as arena:
            oracle = Mishaps(arena, OUTSIDER, "had", [OPENINGS[kind]] * TRIES)
            arena.join()
            await oracle.watch()
            arena.check(await arena.outcomes())
            return oracle

    assert 1 <= len(play(scenario).seen) <= 2  # once more, if it was lost


@pytest.mark.parametrize("kind", FEW)
def test_who_comes_back_as_if_it_had_never_been_there_is_not_answered_again(tmp_path, kind):
    async def scenario() -> Mishaps:
        async with Arena(tmp_path, [OUTSIDER]) as arena:
            oracle = Mishaps(arena, OUTSIDER, "had", [OPENINGS[kind]] * TRIES, **SHORT)
            arena.join(**SHORT)
            await oracle.watch(empty=True)
            arena.check(await arena.outcomes())
            return oracle

    assert 1 <= len(play(scenario).seen) <= 2


@pytest.mark.parametrize("kind", FEW)
def test_who_says_ready_in_the_middle_of_a_session_is_not_answered_again(tmp_path, kind):
    """The outsider stays connected, says READY after each look, and claims to have less."""
    number, seen = OPENINGS[kind], []

    async def scenario() -> None:
        async with Arena(tmp_path, [OUTSIDER]) as arena:

            def watched(engine: Any, play: Play) -> Peeking:
                def look(now: int, value: Any) -> None:
                    if now == number and len(seen) < TRIES:
                        seen.append(value)
                        arena.stage.stopping[OUTSIDER] = play.session
                        arena.stage.records[OUTSIDER] = lambda peer, record: [
                            claim_less(record, play.transcript, number)
                        ]

                return Peeking(engine, play, look)

            arena.stage.engines[OUTSIDER] = watched
            arena.join(**SHORT)
            arena.check(await arena.outcomes())

    play(scenario)
    assert 1 <= len(seen) <= 2


def test_signs_of_one_step_do_not_answer_a_binary_search(tmp_path):
    """The outsider adds numbers of its choice to S_phi, and looks at the sign of step 0."""

    async def scenario() -> None:
        async with Arena(tmp_path, [OUTSIDER], levels_per_exchange=6) as arena:
            liar = arena.liar(OUTSIDER)
            oracle = Mishaps(arena, OUTSIDER, "had", [OPENINGS["sign 0"]] * TRIES, silo=liar)
            liar.before_sums = lambda: setattr(liar, "phi", bisection(oracle.seen))
            arena.join(*COMMITTEE)
            arena.join(OUTSIDER, silo=liar)
            await oracle.watch()
            assert 1 <= len(oracle.seen) <= 2
            arena.check(await arena.outcomes())

    play(scenario)


def bisection(bits: list[Any], top: int = 60) -> int:
    """What to add to S_phi of the first feature, on its grid, after these signs of the score."""
    middle = 0
    for turn, bit in enumerate(bits):
        middle += (1 if bit[0] else -1) << max(top - turn, 0)
    return middle


def test_interruptions_are_limited_and_the_cause_is_named(tmp_path):
    """Who looks at each opening and begins anew asks nothing twice, and still wears us out."""

    async def scenario() -> Mishaps:
        async with Arena(tmp_path, [OUTSIDER], levels_per_exchange=1) as arena:
            oracle = Mishaps(arena, OUTSIDER, "had", OPENINGS.values())
            arena.join()
            await oracle.watch()
            outcomes = await arena.outcomes()
            for name in COMMITTEE:
                assert isinstance(outcomes[name], JoinError)
                assert "interruption" in str(outcomes[name])
                assert OUTSIDER in str(outcomes[name])
                assert arena.parameters(name) is None
            arena.check(outcomes)
            return oracle

    assert len(play(scenario).seen) == MOST_INTERRUPTIONS + 1


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

    async def scenario() -> Mishaps:
        async with Arena(tmp_path, ["ana"]) as arena:
            oracle = Mishaps(arena, "ana", "had", [OPENINGS[kind]] * TRIES)

            def withhold(number: int | None, message: Any) -> Any:
                asked = number == OPENINGS[kind] and len(oracle.seen) < TRIES
                return None if asked and message.recipient in victims else message

            arena.stage.messages["ana"] = withhold
            arena.join()
            await oracle.watch()
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            for name in arena.honest:
                assert isinstance(outcomes[name], Transcript), outcomes[name]
                assert content(outcomes[name]) == content(expected)
            return oracle

    assert 1 <= len(play(scenario).seen) <= 2
