"""What a peer says of its progress is checked; a result that is there stays, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
from typing import Any

import pytest

from securefedyj.errors import ProtocolError
from securefedyj.network.consortium import Feature
from securefedyj.network.session import records
from securefedyj.network.session.participant import JoinError
from securefedyj.protocol import program
from securefedyj.protocol.transcript import Transcript
from tests.network import odd_party
from tests.network.arena import BOUNDS, OPENINGS, Arena, play
from tests.network.attackers import begin, claim, raw, ready, shorten
from tests.network.harness import SHORT

pytestmark = pytest.mark.processes

ALL = len(OPENINGS)
FORGED = hashlib.sha256(b"forged").hexdigest()


async def finish(arena: Arena) -> dict[str, bytes | None]:
    """A whole run; return what everybody has written."""
    arena.join()
    outcomes = await arena.outcomes()
    assert all(isinstance(outcome, Transcript) for outcome in outcomes.values()), outcomes
    return {name: arena.parameters(name) for name in arena.tables}


def check_untouched(arena: Arena, written: dict[str, bytes | None], before: Any) -> None:
    honest = arena.honest
    assert {name: arena.parameters(name) for name in honest} == {n: written[n] for n in honest}
    assert arena.stage.openings.times() == before


@pytest.mark.parametrize(
    ("reveals", "digest"),
    [
        *((reveals, None) for reveals in (0, 1, 4, ALL - 2, ALL - 1, ALL + 1, 2**40)),
        *((reveals, FORGED) for reveals in (1, ALL - 1, ALL)),
    ],
)
def test_finished_parties_believe_no_claim_of_other_reveals(tmp_path, reveals, digest):
    """Member cem has the whole transcript, and claims to have another number of reveals."""

    async def scenario() -> None:
        async with Arena(tmp_path, ["cem"]) as arena:
            written = await finish(arena)
            before = arena.stage.openings.times()
            shorten(arena.state("cem"), min(reveals, ALL - 1))
            arena.stage.records["cem"] = lambda peer, record: [
                claim(record, reveals=reveals, digest=digest)
            ]
            arena.join(**SHORT)
            arena.check(await arena.outcomes())
            check_untouched(arena, written, before)

    play(scenario)


@pytest.mark.parametrize("reveals", [3, ALL + 1, 2**40])
def test_in_the_middle_a_forged_transcript_ends_the_run_or_changes_nothing(tmp_path, reveals):
    """Member cem fails after opening 5, and comes back with a claim that cannot be true."""

    async def scenario() -> None:
        async with Arena(tmp_path, ["cem"]) as arena:

            def look(number: int, value: Any) -> None:
                if number == 5:
                    arena.kill("cem")
                    raise RuntimeError("power cut")

            arena.stage.peek("cem", look)
            arena.join(**SHORT)
            await arena.ended("cem")
            arena.stage.engines.clear()
            arena.stage.records["cem"] = lambda peer, record: [
                claim(record, reveals=reveals, digest=FORGED)
            ]
            arena.join("cem", **SHORT)
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            for name in arena.honest:
                assert isinstance(outcomes[name], JoinError)
                assert "cem" in str(outcomes[name])
                assert arena.parameters(name) is None

    play(scenario)


def test_a_cut_between_two_moments_does_not_overwrite_a_result(tmp_path, monkeypatch):
    """Two features of different widths: their moments were two reveals, now they are one."""
    monkeypatch.setattr(program, "_WORTHWHILE", 1, raising=False)
    features = [Feature("lactate", *BOUNDS), Feature("age", 0.0, 1e30)]

    async def scenario() -> None:
        async with Arena(tmp_path, ["cem"], features=features) as arena:
            written = await finish(arena)
            before = arena.stage.openings.times()
            shorten(arena.state("cem"), len(arena.results["cem"].reveals) - 1)
            arena.join()
            outcomes = await arena.outcomes()
            arena.check(outcomes)
            check_untouched(arena, written, before)
            assert isinstance(outcomes["cem"], Transcript)  # it was handed the result

    play(scenario)


# Numbers that are none.

NOT_COUNTS: list[Any] = [-1, True, 1.5, 1e300, 10**400, "1", None, [], {}]


def test_numbers_that_are_none_end_in_a_sentence(tmp_path):
    """Whatever field of BEGIN they stand in, as read from a channel."""
    said: list[Any] = []

    async def scenario() -> None:
        async with Arena(tmp_path) as arena:
            arena.stage.sent["ana"] = lambda peer, record, number: said.append(record)
            arena.join()
            await arena.outcomes()

    play(scenario)
    true = next(record for record in said if isinstance(record, records.Begin))
    assert records.read("ana", records.write(true)) == true
    fields = true.__struct_fields__
    assert {"session", "reveals", "digest", "finished"} <= set(fields)
    for field, value in itertools.product(fields, NOT_COUNTS):
        if field in ("finished", "sending", "repeated") and value is True:
            continue
        with pytest.raises(ProtocolError, match="Party ana sent a record of type"):
            records.read("ana", raw(true, **{field: value}))


@pytest.mark.parametrize("value", [-1, True, 1.5, 2**40], ids=str)
def test_a_party_that_says_such_numbers_harms_no_result(tmp_path, value):
    """All honest parties have the result; cem says BEGIN with such a number in its place."""

    async def scenario() -> None:
        async with Arena(tmp_path, ["cem"]) as arena:
            written = await finish(arena)
            before = arena.stage.openings.times()
            words = [
                odd_party.greeting(arena.consortium),
                raw(ready()),
                raw(begin(FORGED), reveals=value),
            ]
            evil = asyncio.create_task(
                odd_party.say_to_all(arena.consortium, "cem", arena.identity("cem"), words)
            )
            arena.join(*arena.honest, **SHORT)
            del arena.tasks["cem"]
            outcomes = await arena.outcomes()
            evil.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await evil
            arena.check(outcomes)
            check_untouched(arena, written, before)

    play(scenario)
