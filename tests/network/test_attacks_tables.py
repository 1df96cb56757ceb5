"""Another table under the same run is refused at home, before anybody hears of it."""

from __future__ import annotations

import numpy as np
import pytest

from securefedyj.network.session.participant import JoinError
from securefedyj.protocol.transcript import Transcript
from tests.network.arena import FOUR, OPENINGS, Arena, play
from tests.network.attackers import shorten
from tests.network.harness import SHORT

pytestmark = pytest.mark.processes


def connections(arena: Arena) -> int:
    """How often the hub has let somebody in."""
    return sum(line.startswith("connected ") for line in arena.lines)


async def refused(arena: Arena, name: str, table: np.ndarray) -> str:
    """Join with this table, in the folder of the run; return the sentence that refuses it."""
    before = connections(arena)
    arena.join(name, table=table)
    await arena.ended(name)
    error = arena.tasks.pop(name).exception()
    assert isinstance(error, JoinError), error
    assert connections(arena) == before, "it was let in"
    return str(error)


@pytest.mark.parametrize("name", ["cem", "dua"])
@pytest.mark.parametrize("number", [1, 4])
def test_another_table_in_the_middle_is_refused_before_connecting(tmp_path, name, number):
    async def scenario() -> None:
        async with Arena(tmp_path, levels_per_exchange=1) as arena:

            def look(now: int, value: object) -> None:
                if now == number:
                    arena.kill(name)
                    raise RuntimeError("power cut")

            arena.stage.peek(name, look)
            arena.join()
            await arena.ended(name)
            arena.stage.engines.clear()
            sentence = await refused(arena, name, FOUR["ana"])
            assert "rows" in sentence or "table" in sentence
            arena.join(name)  # with its own again
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            assert all(isinstance(outcome, Transcript) for outcome in outcomes.values())

    play(scenario)


@pytest.mark.parametrize(
    "changed",
    [
        np.vstack([FOUR["cem"], [7.3291, 1.0]]),
        FOUR["cem"][:-1],
        FOUR["cem"] + np.eye(15, 2) * 1e-9,
        FOUR["ana"],
    ],
    ids=["one row more", "one row less", "one value changed", "of another silo"],
)
def test_another_table_after_the_end_is_refused_before_connecting(tmp_path, changed):
    async def scenario() -> None:
        async with Arena(tmp_path) as arena:
            arena.join()
            await arena.outcomes()
            written = arena.parameters("cem")
            await refused(arena, "cem", changed)
            assert arena.parameters("cem") == written

    play(scenario)


def test_a_new_row_after_the_end_does_not_come_out(tmp_path):
    """Silo dua has one row more, and member ana says that it has no moments yet."""

    async def scenario() -> None:
        async with Arena(tmp_path, ["ana"]) as arena:
            arena.join()
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            written = {name: arena.parameters(name) for name in arena.tables}
            for name in ("ana", "dua"):  # as far as those can tell, nothing has ended
                shorten(arena.state(name), OPENINGS["moments"])
            arena.join("ana", "bob", "cem", **SHORT)
            more = np.vstack([FOUR["dua"], [7.3291, 1.0]])
            arena.join("dua", table=more)
            outcomes = await arena.outcomes()
            assert isinstance(outcomes["dua"], JoinError)
            arena.check(outcomes)
            assert arena.stage.openings.repeated() == {}
            assert {name: arena.parameters(name) for name in arena.tables} == written

    play(scenario)


@pytest.mark.parametrize("number", [0, 1, 4, OPENINGS["magnitudes"], OPENINGS["moments"]])
def test_a_result_is_handed_over_and_not_computed_again(tmp_path, number):
    """Who has lost the end of its state gets the result from those that have it."""

    async def scenario() -> None:
        async with Arena(tmp_path) as arena:
            arena.join()
            await arena.outcomes()
            written = arena.parameters("ana")
            shorten(arena.state("ana"), number)
            (arena.state("ana").parent / "parameters.json").unlink()
            before = arena.stage.openings.times()
            arena.join()
            outcomes = await arena.outcomes()
            assert arena.stage.openings.times() == before
            arena.check(outcomes)
            assert all(isinstance(outcome, Transcript) for outcome in outcomes.values())
            assert arena.parameters("ana") == written

    play(scenario)
