"""Submit once: the whole way of a submitted run, from tables to the result of each hospital."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj import join_async, result_async, submit_async
from securefedyj.errors import InputError
from securefedyj.joining import member
from securefedyj.joining.member import SubmissionMember
from securefedyj.network import gathering
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.errors import JoinError, OutOfPatience
from securefedyj.network.settling import TwoSubmissions
from securefedyj.network.signed import ResultFileError, sign_result
from securefedyj.network.submission import make, read_head
from securefedyj.parameters import Parameters
from securefedyj.protocol.schedule import TooFewValues
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from tests.network import clock
from tests.network.harness import FIVE, Loopback, prepare
from tests.network.proxies import ConnectProxy
from tests.network.test_mailbox import MEMBERS, SILOS

pytestmark = pytest.mark.processes

GRID = 0.5
TABLES: dict[str, Any] = {
    name: None if rows is None else np.round(rows / GRID) * GRID for name, rows in FIVE.items()
}
FEATURES = [Feature(name, 0.0, 50.0, resolution="0.5") for name in ("lactate", "age")]


@pytest.fixture
def play_of(tmp_path, monkeypatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return partial(Play, tmp_path)


@pytest.fixture
def play(play_of) -> Play:
    return play_of()


class Play:
    """The parties of a submitted run, a hub with a mailbox, and what each is told."""

    def __init__(self, folder: Path, features: Any = FEATURES, tables: Any = TABLES, **more: Any):
        self.folder, self.tables = folder, tables
        self.consortium: Consortium = prepare(folder, tables, features, submitted=True, **more)
        self.said: dict[str, list[str]] = {name: [] for name in tables}
        self.net = Loopback(folder, self.consortium, tables)
        self.net.mailbox = folder / "mailbox"

    def arguments(self, name: str, **others: Any) -> dict[str, Any]:
        return {
            "consortium": self.consortium,
            "key": self.folder / f"{name}.key",
            "certificate": self.folder / f"{name}.pem",
            "ledger": self.folder / f"{name}.ledger.jsonl",
            "timeout": 20.0,
            "wait": 60.0,
            "say": self.said[name].append,
            **others,
        }

    async def submit(self, name: str, **others: Any) -> Path:
        return await submit_async(**self.arguments(name, data=self.tables[name], **others))

    async def join(self, name: str, **others: Any) -> Any:
        more = {"output": self.folder / name, "report": False, **others}
        return await join_async(**self.arguments(name, **more))

    async def result(self, name: str, **others: Any) -> Any:
        more = {"output": self.folder / name, "report": False, **others}
        return await result_async(**self.arguments(name, **more))

    def file(self, name: str, file: str = "parameters.json") -> bytes:
        return (self.folder / name / file).read_bytes()

    def ledger(self, name: str) -> list[Any]:
        """What a silo's ledger has noted."""
        _, *lines = (self.folder / f"{name}.ledger.jsonl").read_text().splitlines()
        return list(map(json.loads, lines))

    def mail_folder(self) -> Path:
        return self.folder / "mailbox" / self.consortium.digest()

    def mail(self) -> set[str]:
        """What is in the mailbox."""
        return {path.name for path in self.mail_folder().iterdir()}

    async def until_said(self, name: str, words: str) -> None:
        await clock.until(lambda: any(words in one for one in self.said[name]))

    def play(self, scenario: Any) -> None:
        async def run() -> None:
            async with self.net:
                await self.net.start_hub()
                await scenario()

        clock.run(run())


def features_of(parameters: bytes) -> Any:
    """All that was fitted, without what differs between runs over the same rows."""
    found = json.loads(parameters)
    return found["features"], found.get("quantiles")


def live(play: Play) -> Any:
    """The same of a live run."""
    agreement = play.consortium.agreement()
    agreement = dataclasses.replace(agreement, submitted=False)
    transcript, _ = simulate(agreement, list(play.tables.values()))
    return features_of(Parameters.of(transcript).to_bytes())


def test_four_hospitals_submit_and_all_get_one_result(play):
    async def scenario() -> None:
        members = [asyncio.create_task(play.join(name)) for name in MEMBERS]
        for name in ("bob", "dua", "ana"):
            await play.submit(name)
        await play.until_said("coordinator", "submission of eva.")
        with pytest.raises(OutOfPatience) as early:
            await play.result("bob", wait=1.0)
        assert early.value.code == "SFY-SUB-056"
        assert "eva" in str(early.value)
        async with ConnectProxy() as proxy:
            await play.submit("eva", proxy=proxy.url)  # late
        assert len(proxy.heads) == 1
        await asyncio.gather(*members)
        assert play.mail() == {f"{name}.result" for name in MEMBERS}
        for name in ("bob", "eva"):
            await play.result(name)

    play.play(scenario)
    assert len({play.file(name) for name in play.tables}) == 1
    assert len({play.file(name, "transcript.jsonl") for name in play.tables}) == 1
    assert features_of(play.file("bob")) == live(play)
    for name in SILOS:
        events = [line["event"] for line in play.ledger(name)]
        assert events == ["began", "submitted", "finished"]
    for name in MEMBERS:
        assert not (play.folder / name / "submissions").exists()
        assert play.file(name, f"{name}.result").endswith(play.file("eva", "transcript.jsonl"))


METHODS = [
    Feature("lactate", 0.5, 50.0, method="box-cox", resolution="0.5"),
    Feature("age", 0.0, 50.0, method="yeo-johnson, standard, robust", resolution="0.5"),
    Feature("crp", 0.0, 900.0, method="quantiles", quantiles="0.25, 0.9", resolution="1", digits=2),
]


def test_all_methods_give_what_a_live_run_gives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(8)
    tables: dict[str, Any] = {
        name: None
        if rows is None
        else np.column_stack([np.maximum(rows, 0.5), np.round(rng.lognormal(2, 0.5, len(rows)))])
        for name, rows in TABLES.items()
    }
    tables["eva"][:, 1] = np.nan
    play = Play(tmp_path, METHODS, tables, minimum_values=5)

    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        await asyncio.gather(*map(play.join, MEMBERS))
        await play.result("eva")

    play.play(scenario)
    assert features_of(play.file("eva")) == live(play)


def test_where_a_feature_is_live_all_silos_join(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    play = Play(tmp_path, [FEATURES[0], Feature("age", 0.0, 50.0)])

    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        with pytest.raises(InputError) as refused:
            await play.join("bob")
        assert refused.value.code == "SFY-JOIN-004"
        await asyncio.gather(*(play.join(name, data=data) for name, data in play.tables.items()))

    play.play(scenario)
    assert len({play.file(name) for name in play.tables}) == 1
    assert features_of(play.file("bob")) == live(play)


@pytest.mark.parametrize("name", ["bob", "dua"])
def test_who_leaves_a_run_with_a_live_feature_comes_back(tmp_path, monkeypatch, name):
    """Outside of the committee and in it."""
    monkeypatch.chdir(tmp_path)
    play = Play(tmp_path, [FEATURES[0], Feature("age", 0.0, 50.0)])
    seen: list[Any] = []

    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        tables = play.tables
        others = [one for one in tables if one != name]
        work = [asyncio.create_task(play.join(one, data=tables[one])) for one in others]
        leaving = asyncio.create_task(play.join(name, data=tables[name], progress=seen.append))
        await clock.until(lambda: len(seen) >= 5)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await asyncio.gather(play.join(name, data=tables[name]), *work)

    play.play(scenario)
    assert len({play.file(one) for one in play.tables}) == 1
    assert features_of(play.file(name)) == live(play)


def test_without_a_mailbox_all_goes_by_hand(play):
    stick = play.folder / "stick"
    stick.mkdir()

    async def scenario() -> None:
        play.net.mailbox = None
        await play.net.crash_hub()
        await play.net.start_hub()
        for name in SILOS:
            await play.submit(name, output=stick / f"{name}.submission")
        await asyncio.gather(*(play.join(name, submissions=stick) for name in MEMBERS))
        files = [play.folder / name / f"{name}.result" for name in MEMBERS[:2]]
        with pytest.raises(ResultFileError) as few:
            await play.result("bob", files=files[:1])
        assert few.value.code == "SFY-SUB-053"
        await play.result("bob", files=files)

    play.play(scenario)
    assert play.file("bob") == play.file("ana")
    assert any("ana.result" in one for one in play.said["ana"])


def test_too_few_values_are_told_to_those_who_were_offline(play_of):
    play = play_of(minimum_values=1000)

    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        ends = await asyncio.gather(*map(play.join, MEMBERS), return_exceptions=True)
        assert all(isinstance(end, TooFewValues) for end in ends)
        with pytest.raises(TooFewValues):
            await play.result("bob")
        assert play.mail() == {f"{name}.result" for name in MEMBERS}

    play.play(scenario)
    assert not (play.folder / "bob" / "parameters.json").exists()


def test_a_hub_that_is_killed_again_and_again_loses_nothing(play):
    async def again() -> None:
        await play.net.crash_hub()
        await play.net.start_hub()

    async def scenario() -> None:
        for name in SILOS:
            await play.submit(name)
            await again()
        await asyncio.gather(*map(play.join, MEMBERS))
        await again()
        await play.result("bob")

    play.play(scenario)
    assert play.file("bob") == play.file("ana")


def test_a_member_that_signs_another_result_is_named_and_delays_nobody(play):
    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        await asyncio.gather(*map(play.join, MEMBERS))
        transcript = Transcript.read(play.folder / "dua" / "transcript.jsonl")
        transcript.reveals.pop()
        lie = sign_result(transcript, play.consortium, "dua", play.folder / "dua.key")
        (play.mail_folder() / "dua.result").write_bytes(lie)
        (play.mail_folder() / "ana.result").rename(play.mail_folder() / "later")
        with pytest.raises(OutOfPatience):
            await play.result("bob", wait=1.0)
        (play.mail_folder() / "later").rename(play.mail_folder() / "ana.result")
        await play.result("bob")

    play.play(scenario)
    assert play.file("bob") == play.file("ana")
    assert any("dua has signed another result" in one for one in play.said["bob"])


def spoiled(play: Play, how: str) -> bytes:
    """What one member has signed, with a change."""
    data = (play.folder / "dua" / "dua.result").read_bytes()
    head, _, text = data.partition(b"\n")
    match how:
        case "changed":
            return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]
        case "truncated":
            return data[:-100]
        case "in the name of another":
            return head.replace(b'"dua"', b'"ana"') + b"\n" + text
        case "of a stranger":
            return head.replace(b'"dua"', b'"bob"') + b"\n" + text
        case _:
            return b"nonsense"


def test_a_result_that_is_no_result_is_not_used(play):
    cases = {
        "changed": "SFY-SUB-052",
        "truncated": "SFY-SUB-052",
        "in the name of another": "SFY-SUB-052",
        "of a stranger": "SFY-SUB-051",
        "nonsense": "SFY-SUB-050",
    }

    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        await asyncio.gather(*map(play.join, MEMBERS))
        for how in cases:
            (play.folder / how).write_bytes(spoiled(play, how))
            files = [play.folder / "ana" / "ana.result", play.folder / how]
            with pytest.raises(ResultFileError) as refused:
                await play.result("bob", files=files)
            assert refused.value.code == "SFY-SUB-053"
            assert cases[how] in play.said["bob"][-1]

    play.play(scenario)
    assert not (play.folder / "bob" / "parameters.json").exists()


def test_the_result_of_another_run_is_refused(play, tmp_path):
    """Its members are the same, with the same keys."""

    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        await asyncio.gather(*map(play.join, MEMBERS))
        other = dataclasses.replace(play.consortium, name="another run")
        files = [play.folder / name / f"{name}.result" for name in MEMBERS]
        with pytest.raises(ResultFileError) as refused:
            await play.result("bob", files=files, consortium=other)
        assert refused.value.code == "SFY-SUB-053"
        assert sum("SFY-SUB-052" in one for one in play.said["bob"]) == len(MEMBERS)

    play.play(scenario)


def test_a_silo_that_submits_twice_ends_the_run_with_evidence(play):
    stick = play.folder / "stick"
    stick.mkdir()

    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        bob = play.consortium.agreement().points
        counts = np.zeros(sum(map(len, bob)), dtype=np.int64)
        other = make(play.consortium, "bob", play.folder / "bob.key", counts)
        (stick / "bob.submission").write_bytes(other)
        ends = await asyncio.gather(
            play.join("ana", submissions=stick),
            play.join("dua", wait=5.0),
            play.join("coordinator", wait=5.0),
            return_exceptions=True,
        )
        assert isinstance(ends[0], TwoSubmissions)
        assert all(isinstance(end, JoinError) for end in ends)

    play.play(scenario)
    lines = play.file("ana", "bob.evidence").splitlines(keepends=True)
    heads = [read_head(b"".join(two), play.consortium) for two in (lines[:2], lines[2:])]
    assert {head.header.silo for head in heads} == {"bob"}
    assert len({head.digest for head in heads}) == 2


def test_who_is_not_in_the_committee_does_not_join(play):
    async def scenario() -> None:
        for name, code in (("bob", "SFY-JOIN-057"), ("coordinator", "SFY-JOIN-004")):
            with pytest.raises(InputError) as refused:
                await play.join(name, data=TABLES["bob"])
            assert refused.value.code == code

    play.play(scenario)


def test_without_a_hub_files_must_be_given(play):
    alone = dataclasses.replace(play.consortium, hub=None)

    async def scenario() -> None:
        for work, code in (
            (play.join("coordinator", consortium=alone, dialer=object()), "SFY-JOIN-061"),
            (play.result("bob", consortium=alone), "SFY-JOIN-059"),
        ):
            with pytest.raises(InputError) as refused:
                await work
            assert refused.value.code == code

    play.play(scenario)


def test_a_member_whose_disk_is_full_loses_nothing(play, monkeypatch):
    def full(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        for module in (gathering, member):  # as files come, and as the result is signed
            others = [asyncio.create_task(play.join(name)) for name in ("dua", "coordinator")]
            with monkeypatch.context() as patched:
                patched.setattr(module, "write_atomically", full)
                with pytest.raises(OSError, match="No space"):
                    await play.join("ana")
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        await asyncio.gather(*map(play.join, MEMBERS))
        await play.result("bob")

    play.play(scenario)
    assert play.file("bob") == play.file("ana")


def test_a_member_that_was_killed_before_it_sent_its_result_sends_it_later(play, monkeypatch):
    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        with monkeypatch.context() as patched:
            patched.setattr(SubmissionMember, "deliver", lambda _: asyncio.sleep(0, {}))
            await asyncio.gather(*map(play.join, MEMBERS))
        assert len(play.mail()) == len(SILOS)
        await asyncio.gather(*map(play.join, MEMBERS))
        assert play.mail() == {f"{name}.result" for name in MEMBERS}
        await play.result("bob")

    play.play(scenario)


def test_the_report_of_a_hospital_shows_its_own_rows(play):
    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        await asyncio.gather(*map(play.join, MEMBERS))
        await play.result("bob", data=TABLES["bob"], report=True)

    play.play(scenario)
    assert b"25 rows" in play.file("bob", "report.html")


def test_the_result_of_an_earlier_run_does_not_take_the_place_of_ours_in_the_mailbox(play):
    """A corrected file, and the output folder of the run before: the hub keeps what comes first."""

    async def scenario() -> None:
        await asyncio.gather(*map(play.submit, SILOS))
        earlier = dataclasses.replace(play.consortium, name="to be corrected")
        signed = sign_result(
            Transcript(earlier.agreement()), earlier, "ana", play.folder / "ana.key"
        )
        (play.folder / "ana").mkdir()
        (play.folder / "ana" / "ana.result").write_bytes(signed)
        with pytest.raises(InputError) as refused:
            await play.join("ana")
        assert refused.value.code == "SFY-JOIN-062"
        await asyncio.gather(
            play.join("ana", output=play.folder / "new"), *map(play.join, MEMBERS[::2])
        )
        await play.result("bob")

    play.play(scenario)
    assert play.file("bob") == play.file("new")
