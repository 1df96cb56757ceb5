"""Who has seen the result may not change it: members that withhold an opening and come back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from securefedyj.network.errors import EndOfRun, NotVerified
from securefedyj.network.session.memory import part_is_lost
from securefedyj.network.session.records import NO_SESSION, Begin, Done, Kept
from securefedyj.numerics import wide
from securefedyj.protocol.silos import timed_silo
from securefedyj.protocol.transcript import Transcript
from tests.network.arena import (
    COMMITTEE,
    FINAL,
    OPENINGS,
    OUTSIDER,
    Arena,
    Mishaps,
    check_all_have,
    content,
    play,
)
from tests.network.attackers import launder

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> Transcript:
    """The result when nobody attacks."""

    async def scenario() -> Any:
        async with Arena(tmp_path_factory.mktemp("undisturbed"), verified=True) as arena:
            arena.join()
            return (await arena.outcomes())["ana"]

    result: Transcript = play(scenario)
    return result


@pytest.mark.parametrize("withheld", [True, False], ids=["withheld", "sent"])
@pytest.mark.parametrize("number", [*list(OPENINGS.values())[:-2], FINAL])
def test_who_has_seen_an_opening_changes_no_result(tmp_path, expected, number, withheld):
    """Member ana sees an opening, maybe alone, crashes, and comes back with other sums."""

    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"], verified=True) as arena:
            liar = arena.liar("ana")
            another = timed_silo(arena.consortium.agreement(), 2 * arena.tables["ana"])
            mishaps = Mishaps(arena, "ana", "had", [number], silo=liar)
            if withheld:
                arena.stage.messages["ana"] = lambda now, message: (
                    None if now == number and not mishaps.seen else message
                )
            arena.join("bob", "cem", "dua")
            arena.join("ana", silo=liar)
            await arena.ended("ana")
            assert len(mishaps.seen) == 1
            liar.elsewhere = (another, expected.result.lmbda)
            await mishaps.watch()
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            for name in arena.honest:
                outcome = outcomes[name]
                assert isinstance(outcome, Transcript), outcome
                if number == FINAL:  # until then it may still choose its sums
                    assert content(outcome) == content(expected)

    play(scenario)


@pytest.mark.parametrize("record", [Done, Kept])
def test_who_has_the_result_and_comes_back_with_other_sums_changes_nothing(
    tmp_path, expected, record
):
    """Member ana crashes when it is about to say DONE or KEPT."""

    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"], verified=True) as arena:
            liar = arena.liar("ana")
            another = timed_silo(arena.consortium.agreement(), 2 * arena.tables["ana"])
            liar.elsewhere = (another, expected.result.lmbda)

            def crash(peer: str, said: Any) -> list[Any]:
                if isinstance(said, record):
                    arena.stage.records.pop("ana", None)
                    arena.kill("ana")
                    return []
                return [said]

            arena.stage.records["ana"] = crash
            arena.join()
            await arena.ended("ana")
            assert "ana" in arena.stage.dead
            arena.join("ana", silo=liar)
            check_all_have(arena, await arena.outcomes(), expected)

    play(scenario)


@pytest.mark.parametrize("how", ["forgets it", "denies it to one", "denies it to all"])
def test_a_member_that_has_not_its_part_any_more_ends_the_run_for_good(tmp_path, how):
    """Member ana has seen the result alone, and would have it computed again."""

    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"], verified=True) as arena:
            mishaps = Mishaps(arena, "ana", "had", [FINAL])
            arena.stage.messages["ana"] = lambda now, message: (
                None if now == FINAL and not mishaps.seen else message
            )

            def deny(peer: str, said: Any) -> list[Any]:
                lies = mishaps.seen and (how == "denies it to all" or peer == "bob")
                if isinstance(said, Begin) and lies:
                    return [msgspec.structs.replace(said, accepted=0, computed=NO_SESSION)]
                return [said]

            if how != "forgets it":
                arena.stage.records["ana"] = deny
            arena.join()
            await arena.ended("ana")
            launder(arena.state("ana"), *(["accepted"] if how == "forgets it" else []))
            arena.join("ana")
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            sentences = [str(part_is_lost(FINAL)), "the reason is shown there"]
            for name in arena.honest:
                assert isinstance(outcomes[name], EndOfRun), (name, outcomes[name])
                assert any(some in str(outcomes[name]) for some in sentences), outcomes[name]
                assert arena.parameters(name) is None

    play(scenario)


def test_a_part_that_is_another_than_before_is_found(tmp_path):
    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"], verified=True) as arena:
            Mishaps(arena, "ana", "before", [FINAL])
            arena.join()
            await arena.ended("ana")
            lines = arena.state("ana").read_text().splitlines()
            for number, line in enumerate(map(json.loads, lines)):
                if "accepted" in line:
                    held = bytearray.fromhex(line["accepted"]["bits"])
                    for first in (0, len(held) // 2):  # of each component
                        held[first] ^= 1
                    line["accepted"]["bits"] = held.hex()
                    lines[number] = json.dumps(line)
            arena.state("ana").write_text("\n".join(lines) + "\n")
            arena.join("ana")
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            for name in arena.honest:
                assert isinstance(outcomes[name], NotVerified), (name, outcomes[name])
                assert arena.parameters(name) is None

    play(scenario)


def test_nobody_opens_what_not_all_members_have_accepted(tmp_path, expected):
    """Member ana says that it has accepted the exchange of a session that nobody has computed."""

    def pretend(peer: str, said: Any) -> list[Any]:
        if isinstance(said, Begin):
            said = msgspec.structs.replace(said, accepted=FINAL, computed="ab" * 16)
        return [said]

    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"], verified=True) as arena:
            mishaps = Mishaps(arena, "bob", "before", [FINAL - 1])
            arena.stage.records["ana"] = pretend
            arena.join()
            await mishaps.watch()
            check_all_have(arena, await arena.outcomes(), expected)
            assert arena.stage.openings.times()[FINAL] == 1

    play(scenario)


@pytest.mark.parametrize("moment", ["before", "after", "had"])
@pytest.mark.parametrize("name", ["ana", "cem", OUTSIDER])
def test_a_final_opening_that_is_interrupted_ends_with_the_same_bits(
    tmp_path, expected, name, moment
):
    """Three times in a row: all send again what they have sent, and nothing is computed."""

    async def scenario() -> None:
        async with Arena(tmp_path, verified=True) as arena:
            times = 3 if name != OUTSIDER or moment == "had" else 0
            mishaps = Mishaps(arena, name, moment, [FINAL] * times)
            arena.join()
            await mishaps.watch()
            check_all_have(arena, await arena.outcomes(), expected)
            for party in COMMITTEE:
                lines = [json.loads(line) for line in arena.state(party).read_text().splitlines()]
                assert sum("accepted" in line for line in lines) == 1
                assert not [line for line in lines if "repeat" in line]

    play(scenario)


class Negative:
    """A silo whose sum of squares makes V negative at some lambdas."""

    def __init__(self, silo: Any) -> None:
        self._silo = silo

    def sums(self, *arguments: Any) -> Any:
        sums, encoding = self._silo.sums(*arguments), arguments[2]
        y_bits = np.maximum(encoding.positive.y_bits, encoding.negative.y_bits).tolist()
        less = wide.from_ints([-(8 << 2 * bits) for bits in y_bits], len(sums.yy))
        return sums._replace(yy=wide.add(sums.yy, less))


def test_a_silo_that_makes_the_variance_negative_sees_nothing(tmp_path, expected):
    """A V below 0 has no magnitude: every bit of S_y would be opened."""

    async def scenario() -> None:
        async with Arena(tmp_path, [OUTSIDER], verified=True) as arena:
            liar = arena.liar(OUTSIDER)
            honest = timed_silo(arena.consortium.agreement(), arena.tables[OUTSIDER])
            liar.elsewhere = (Negative(honest), expected.result.lmbda)
            seen: list[Any] = []
            arena.stage.peek(OUTSIDER, lambda number, value: seen.append((number, value)))
            arena.join("ana", "bob", "cem")
            arena.join(OUTSIDER, silo=liar)
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            number, value = seen[-1]
            assert number == FINAL
            assert not np.any(value)
            for name in arena.honest:
                assert isinstance(outcomes[name], NotVerified), (name, outcomes[name])

    play(scenario)
