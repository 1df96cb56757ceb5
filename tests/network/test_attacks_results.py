"""All have the same result, or nobody has one; and nobody is kept waiting for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from securefedyj.network.session import records
from securefedyj.network.session.participant import JoinError
from securefedyj.party.messages import Message
from securefedyj.protocol.transcript import Transcript
from tests.network.arena import OPENINGS, Arena, content, play, undisturbed
from tests.network.attackers import Flipping, confirm
from tests.network.harness import SHORT

pytestmark = pytest.mark.processes

FORGED = "5" * 64


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> Transcript:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


def check_nobody_has_a_result(arena: Arena, outcomes: dict[str, Any]) -> None:
    """Honest parties stop with a sentence, and have written nothing."""
    arena.check(outcomes)
    for name in arena.honest:
        assert isinstance(outcomes[name], JoinError), name
        assert arena.parameters(name) is None, name


@pytest.mark.parametrize("victim", ["ana", "cem", "dua"])
@pytest.mark.parametrize("kind", ["counts", "sign 5", "magnitudes", "moments"])
def test_an_opening_altered_towards_one_party_gives_nobody_another_result(
    tmp_path, expected, victim, kind
):
    """Member bob changes one bit of what it sends to one party.

    What comes later than the same from another member changes nothing; near the end of the run, it
    may come when all is over.
    """
    altered = []

    def alter(number: int | None, message: Message) -> Message:
        if number != OPENINGS[kind] or message.recipient != victim:
            return message
        altered.append(message)
        payload = bytes([message.payload[0] ^ 1]) + message.payload[1:]
        return dataclasses.replace(message, payload=payload)

    async def scenario() -> None:
        async with Arena(tmp_path, ["bob"]) as arena:
            arena.stage.messages["bob"] = alter
            arena.join(**SHORT)
            outcomes = await arena.outcomes()
            if isinstance(outcomes[victim], Transcript):
                arena.check(outcomes)
                for name in arena.honest:
                    assert content(outcomes[name]) == content(expected)
            else:
                check_nobody_has_a_result(arena, outcomes)

    play(scenario)
    assert altered, "every member sends every other party its part"


def magnitudes(transcript: Transcript) -> np.ndarray:
    """Of V, by the features in order."""
    (found,) = (reveal.magnitude for reveal in transcript.reveals if hasattr(reveal, "magnitude"))
    return np.asarray(found)


@pytest.mark.parametrize("to", ["0", "a gap"])
def test_flipped_magnitudes_give_nobody_a_result(tmp_path, expected, to):
    """Member bob adds to its products what flips the magnitude of V, the same for everybody.

    Only what cannot be true is found; that V is smaller by a byte is for verification to find.
    """
    true = magnitudes(expected)
    flipped = []

    def flips(size: int) -> np.ndarray:
        """Thresholds one after the other, for both features; V reaches the first ones."""
        steps = np.arange(size // len(true))[:, None]
        wanted = {
            "0": steps < true,
            "a gap": steps == true - 2,
        }[to]
        flipped.append(size)
        return wanted.ravel()

    async def scenario() -> None:
        async with Arena(tmp_path, ["bob"]) as arena:
            arena.stage.engines["bob"] = lambda engine, play: Flipping(
                engine, play, OPENINGS["magnitudes"], flips
            )
            arena.join(**SHORT)
            outcomes = await arena.outcomes()
            assert flipped
            for name in arena.honest:
                outcome = outcomes[name]
                if isinstance(outcome, Transcript):
                    assert content(outcome) != content(expected), "the attack did nothing"
            check_nobody_has_a_result(arena, outcomes)

    play(scenario)


def test_another_hash_at_the_end_gives_nobody_a_result(tmp_path):
    """Member cem confirms something else than what was computed."""

    def forge(peer: str, record: Any) -> list[Any]:
        return [confirm(record, FORGED) if isinstance(record, records.Done) else record]

    async def scenario() -> None:
        async with Arena(tmp_path, ["cem"]) as arena:
            arena.stage.records["cem"] = forge
            arena.join(**SHORT)
            outcomes = await arena.outcomes()
            check_nobody_has_a_result(arena, outcomes)
            assert any("cem" in str(outcomes[name]) for name in arena.honest)

    play(scenario)


@pytest.mark.parametrize("kept", [True, False])
def test_who_takes_back_what_it_has_confirmed_takes_no_result_away(tmp_path, expected, kept):
    """Party cem says READY after KEPT, or in place of it, and then confirms something else."""

    def forge(peer: str, record: Any) -> list[Any]:
        if not isinstance(record, records.Kept):
            return [record]
        return [record] * kept + [records.Ready("ab" * 32), records.Done(FORGED)]

    async def scenario() -> None:
        async with Arena(tmp_path, ["cem"]) as arena:
            arena.stage.records["cem"] = forge
            arena.join(timeout=SHORT["timeout"])
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            for name in arena.honest:
                assert isinstance(outcomes[name], Transcript), outcomes[name]
                assert content(outcomes[name]) == content(expected)
                assert arena.parameters(name) is not None
                assert "failed" not in arena.state(name).read_text()

    play(scenario)


def test_who_confirms_and_falls_silent_keeps_nobody_waiting(tmp_path, expected):
    """Party cem stays connected, says and hears nothing any more; the others do not --wait."""

    async def scenario() -> None:
        async with Arena(tmp_path, ["cem"]) as arena:
            told: set[str] = set()

            def fall_silent(peer: str, record: Any, number: int | None) -> None:
                if isinstance(record, records.Done):
                    told.add(peer)
                if told == set(arena.honest):
                    arena.stage.dead.add("cem")
                    arena.stage.deaf.add("cem")

            arena.stage.sent["cem"] = fall_silent
            arena.join(timeout=SHORT["timeout"], wait=3600.0)
            silent = arena.tasks.pop("cem")
            outcomes = await arena.outcomes(120.0)
            silent.cancel()
            assert told == set(arena.honest)
            arena.check(outcomes)
            for name in arena.honest:
                assert isinstance(outcomes[name], Transcript)
                assert content(outcomes[name]) == content(expected)
                assert arena.parameters(name) is not None
                assert any("cem" in sentence for sentence in arena.said[name]), arena.said[name]

    play(scenario)
