"""Members of a submitted run that are killed, come back, and find other submissions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj.errors import code_of
from securefedyj.network import submission
from securefedyj.network.errors import JoinError
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from tests.network import clock
from tests.network.clock import until
from tests.network.harness import FIVE, Loopback
from tests.network.test_mailbox import MEMBERS
from tests.network.test_settling import copies
from tests.network.test_submission import Run, run_of

pytestmark = pytest.mark.processes

OPENINGS = 17
"""Headers, counts, whether totals are possible, variation, twelve steps, and the end."""


@pytest.fixture(scope="module")
def five(tmp_path_factory) -> Run:
    return run_of(tmp_path_factory.mktemp("five"), FIVE, levels_per_exchange=3)


def rows_of(run: Run) -> list[Any]:
    """Tables with the counts of a run; the columns are as long as the longest, by NaN."""
    points = run.consortium.agreement().points
    tables: list[Any] = []
    for party in run.consortium.parties:
        if party.name not in run.counts:
            tables.append(None)
            continue
        ends = np.cumsum([0, *map(len, points)])
        columns = [
            np.repeat(own, run.counts[party.name][begin:end])
            for own, begin, end in zip(points, ends, ends[1:], strict=False)
        ]
        table = np.full((max(map(len, columns)), len(columns)), np.nan)
        for j, column in enumerate(columns):
            table[: len(column), j] = column
        tables.append(table)
    return tables


@pytest.fixture(scope="module")
def expected(five) -> Transcript:
    """What a live run over the same rows finds."""
    agreement = five.consortium.agreement().to_json()
    for name in ("submitted", "resolution"):
        del agreement[name]
    return simulate(Agreement.from_json(agreement), rows_of(five))[0]


def assert_same_bits(transcript: Transcript, expected: Transcript) -> None:
    assert transcript.result is not None
    assert expected.result is not None
    for ours, theirs in zip(transcript.result, expected.result, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert transcript.audit().passed


class Members(Loopback):
    """The committee alone, each with its own folder; silos are not there."""

    def __init__(self, run: Run, folder: Path) -> None:
        super().__init__(run.folder, run.consortium, dict.fromkeys(MEMBERS))
        self.run, self.outputs = run, folder

    def begin(self, *names: str, **options: Any) -> None:
        of_members = copies(self.run)
        for name in names:
            output = self.outputs / name
            self.start(name, **{"copies": of_members[name], "output": output, **options})

    def openings(self, name: str) -> int:
        return len(self.progress[name])


def with_members(run: Run, folder: Path, scenario: Any) -> Members:
    net = Members(run, folder)

    async def work() -> None:
        async with net:
            await net.start_hub()
            await scenario(net)

    clock.run(work())
    return net


def test_the_committee_alone_gives_the_bits_of_a_live_run(five, expected, tmp_path):
    async def scenario(net: Members) -> None:
        net.begin(*MEMBERS)
        for transcript in (await net.outcomes()).values():
            assert_same_bits(transcript, expected)
            assert len(transcript.reveals) == OPENINGS

    net = with_members(five, tmp_path, scenario)
    connected = {line for line in net.lines if line.startswith("connected")}
    assert not any(f"'party': '{name}'" in line for line in connected for name in ("bob", "eva"))


@pytest.mark.parametrize("opening", range(OPENINGS))
def test_a_member_that_is_killed_at_any_opening_changes_no_bit(five, expected, tmp_path, opening):
    killed = MEMBERS[opening % 3]

    async def scenario(net: Members) -> None:
        net.begin(*MEMBERS)
        await until(lambda: net.openings(killed) >= opening)
        await net.crash(killed)
        net.begin(killed)
        for transcript in (await net.outcomes()).values():
            assert_same_bits(transcript, expected)

    with_members(five, tmp_path, scenario)


def test_a_run_that_began_with_other_submissions_is_not_continued(five, tmp_path):
    """Else two members could see the same question answered about two sets of rows."""

    async def scenario(net: Members) -> None:
        net.begin(*MEMBERS)
        await until(lambda: net.openings("ana") >= 3)
        for name in MEMBERS:
            await net.crash(name)
        other = run_with(five, bob=five.make("bob"))
        for name in MEMBERS:
            net.begin(name, copies=copies(other)[name])
        errors = (await net.outcomes()).values()
        assert all(isinstance(error, JoinError) for error in errors)
        assert "SFY-RUN-015" in {code_of(error, "") for error in errors}

    with_members(five, tmp_path, scenario)


def test_a_silo_that_seals_two_different_shares_for_their_two_holders_changes_nothing(
    five, expected, tmp_path, monkeypatch
):
    """The header admits one of them: its holder gives it to the other."""

    class Forger:
        """Seals another s_2 for the member of index 1, which is its second share there."""

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def encrypt(self, plain: bytes, key: Any, info: bytes) -> bytes:
            if info.endswith(b"1"):
                plain = plain[:-1] + bytes([plain[-1] ^ 1])
            return real.encrypt(plain, key, info=info)

    real = submission.SUITE
    with monkeypatch.context() as patched:
        patched.setattr(submission, "SUITE", Forger())
        forged = run_with(five, bob=five.make("bob"))
    second = MEMBERS[1]
    assert set(copies(forged)[second]["bob"].shares) == {1}
    assert set(copies(forged)[second]["eva"].shares) == {1, 2}

    async def scenario(net: Members) -> None:
        net.begin(*MEMBERS)
        for transcript in (await net.outcomes()).values():
            assert_same_bits(transcript, expected)
        assert any("of bob" in one and MEMBERS[2] in one for one in net.said[second])

    with_members(forged, tmp_path, scenario)


def test_a_member_that_lies_about_its_copies_frames_nobody(five, expected, tmp_path):
    """It says that it has nothing, and the others, who have, go on with it."""

    async def scenario(net: Members) -> None:
        net.begin("ana", "coordinator")
        nothing = {name: replace(own, shares={}) for name, own in copies(five)["dua"].items()}
        net.begin("dua", copies=nothing)
        for transcript in (await net.outcomes()).values():
            assert_same_bits(transcript, expected)

    with_members(five, tmp_path, scenario)


def run_with(run: Run, **files: bytes) -> Run:
    return run._replace(files={**run.files, **files})
