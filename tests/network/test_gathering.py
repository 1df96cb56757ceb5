"""A member gathers submissions: from the mailbox, from a folder, and nothing that is not one."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from securefedyj.errors import InputError
from securefedyj.network import gathering
from securefedyj.network.errors import JoinError
from securefedyj.network.gathering import FOLDER, Gathering
from securefedyj.network.settling import Copy, TwoSubmissions
from securefedyj.network.transport.framing import SUBMISSION
from tests.network import clock
from tests.network.harness import FIVE, Loopback
from tests.network.test_mailbox import SILOS, courier
from tests.network.test_submission import Run, run_of

pytestmark = pytest.mark.processes


@pytest.fixture
def five(tmp_path: Path) -> Run:
    return run_of(tmp_path, FIVE)


class Member:
    """Ana, who gathers from a folder and, in `scenario`, from a mailbox."""

    def __init__(self, run: Run) -> None:
        self.run, self.said = run, list[str]()
        self.folder, self.output = run.folder / "stick", run.folder / "out"
        self.folder.mkdir(exist_ok=True)

    def gathering(self, net: Loopback | None = None, folder: Path | None = None) -> Gathering:
        way = None if net is None else courier(net, "ana", wait=math.inf, say=self.said.append)
        return Gathering(self.run.consortium, self.output, folder, way, self.said.append)

    async def copies(self, gathering: Gathering) -> dict[str, Copy]:
        return await gathering.copies("ana", self.run.folder / "ana.key")

    def put(self, name: str, data: bytes | None = None) -> None:
        path = self.folder / f"{name}.submission"
        path.write_bytes(self.run.files[name] if data is None else data)

    def from_folder(self) -> dict[str, Copy]:
        return clock.run(self.copies(self.gathering(folder=self.folder)))

    def kept(self) -> set[str]:
        return {path.name for path in (self.output / FOLDER).iterdir()}

    def assert_all(self, copies: dict[str, Copy]) -> None:
        assert set(copies) == set(SILOS)
        for name, copy in copies.items():
            assert copy.whole
            assert copy.shares == self.run.opened(self.run.files[name], "ana")


def with_mailbox(run: Run, scenario: Callable[[Loopback], Any]) -> None:
    async def work() -> None:
        async with Loopback(run.folder, run.consortium, FIVE) as net:
            net.mailbox = run.folder / "mailbox"
            await net.start_hub()
            await scenario(net)

    clock.run(work())


def test_submissions_come_one_by_one_from_the_mailbox_and_from_a_folder(five):
    ana = Member(five)

    async def scenario(net: Loopback) -> None:
        work = asyncio.create_task(ana.copies(ana.gathering(net, ana.folder)))
        for name in ("ana", "bob"):
            await courier(net, name).put(SUBMISSION, five.files[name])
        await clock.until(lambda: any("of dua and eva." in one for one in ana.said))
        ana.put("dua")
        await clock.until(lambda: any("of eva." in one for one in ana.said))
        await courier(net, "eva").put(SUBMISSION, five.files["eva"])
        ana.assert_all(await work)

    with_mailbox(five, scenario)
    assert ana.kept() == {f"{name}.submission" for name in SILOS}
    for path in (ana.output / FOLDER).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((ana.output / FOLDER).stat().st_mode) == 0o700


def test_a_member_that_starts_again_needs_neither_folder_nor_mailbox(five):
    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    ana.assert_all(ana.from_folder())
    gathering = ana.gathering()
    ana.assert_all(clock.run(ana.copies(gathering)))
    gathering.delete()
    assert not (ana.output / FOLDER).exists()


def test_a_hub_that_is_killed_while_a_member_waits_delays_it_and_no_more(five):
    ana = Member(five)

    async def scenario(net: Loopback) -> None:
        work = asyncio.create_task(ana.copies(ana.gathering(net)))
        for name in ("ana", "bob", "dua"):
            await courier(net, name).put(SUBMISSION, five.files[name])
        await clock.until(lambda: any("of eva." in one for one in ana.said))
        await net.crash_hub()
        await clock.until(lambda: any("Trying again" in one for one in ana.said))
        await net.start_hub()
        await courier(net, "eva").put(SUBMISSION, five.files["eva"])
        ana.assert_all(await work)

    with_mailbox(five, scenario)


def test_without_a_mailbox_a_member_needs_a_folder(five):
    ana = Member(five)
    for name in SILOS:
        ana.put(name)

    async def scenario(net: Loopback) -> None:
        net.mailbox = None
        await net.crash_hub()
        await net.start_hub()
        with pytest.raises(JoinError) as refused:
            await ana.copies(ana.gathering(net))
        assert refused.value.code == "SFY-NET-003"
        ana.put("eva", b"")
        work = asyncio.create_task(ana.copies(ana.gathering(net, ana.folder)))
        await clock.until(lambda: any("Submissions are taken from" in one for one in ana.said))
        ana.put("eva")
        ana.assert_all(await work)

    with_mailbox(five, scenario)


def spoiled(run: Run, how: str, folder: Path) -> bytes:
    """Something that is not the submission of eva."""
    data = run.files["eva"]
    match how:
        case "truncated header":
            return data[:300]
        case "changed header":
            return data.replace(b'"silo":"eva"', b'"silo":"bob"')
        case "another run":
            other = run_of(folder, FIVE, name="another")
            return other.files["eva"]
        case "a stranger":
            return run_of(folder, FIVE, name="on one machine").files["eva"]
        case _:
            return b'"\\ud800"\n'


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("truncated header", "SFY-SUB-001"),
        ("changed header", "SFY-SUB-00"),
        ("another run", "SFY-SUB-002"),
        ("a stranger", "SFY-SUB-002"),
        ("nonsense", "SFY-SUB-001"),
    ],
)
def test_what_is_no_submission_is_named_and_the_right_one_is_waited_for(five, how, code, tmp_path):
    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    ana.put("eva", spoiled(five, how, tmp_path / "other"))

    async def scenario() -> None:
        work = asyncio.create_task(ana.copies(ana.gathering(folder=ana.folder)))
        await clock.until(lambda: any("of eva." in one for one in ana.said))
        assert sum(code in one for one in ana.said) == 1
        ana.put("eva")
        ana.assert_all(await work)

    clock.run(scenario())


def test_a_damaged_file_is_taken_as_far_as_it_goes_and_replaced_by_a_whole_one(five):
    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    ana.put("eva", five.files["eva"][:-1])
    copies = ana.from_folder()
    assert not copies["eva"].whole
    assert copies["eva"].shares == {}
    assert sum("SFY-SUB-006" in one for one in ana.said) == 1
    ana.put("eva")
    ana.assert_all(ana.from_folder())


def test_a_file_that_is_too_large_is_not_read(five):
    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    ana.put("zoe", bytes(1 << 20))
    os.mkfifo(ana.folder / "pipe.submission")
    ana.assert_all(ana.from_folder())
    assert any("larger than" in one for one in ana.said)


def test_two_submissions_of_a_silo_end_the_run_before_it_starts(five):
    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    other = five.make("bob")
    ana.put("bob-again", other)
    with pytest.raises(TwoSubmissions) as raised:
        ana.from_folder()
    assert raised.value.silo == "bob"


def test_a_full_disk_ends_the_wait_with_what_the_system_says(five, monkeypatch):
    def full(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    with monkeypatch.context() as patched:
        patched.setattr(gathering, "write_atomically", full)
        with pytest.raises(OSError, match="No space"):
            ana.from_folder()
    ana.assert_all(ana.from_folder())


def test_the_same_submission_by_two_ways_is_one(five):
    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    ana.put("bob-again", five.files["bob"])
    ana.assert_all(ana.from_folder())


def test_the_wrong_key_is_refused_before_a_member_waits(five):
    ana = Member(five)
    with pytest.raises(InputError) as refused:
        clock.run(ana.gathering(folder=ana.folder).copies("ana", five.folder / "bob.key"))
    assert refused.value.code.startswith("SFY-KEY")


def test_a_whole_file_is_fetched_for_a_damaged_one_that_was_kept(five):
    """Else a hub that spoils a file once ends the run: each start would find the same again."""
    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    ana.put("eva", five.files["eva"][:-1])
    assert not ana.from_folder()["eva"].whole

    async def scenario(net: Loopback) -> None:
        await courier(net, "eva").put(SUBMISSION, five.files["eva"])
        ana.assert_all(await ana.copies(ana.gathering(net)))

    with_mailbox(five, scenario)


def test_what_a_killed_process_has_left_is_no_submission(five):
    """It was never noted by the silo, which has made another; nobody has submitted twice."""
    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    ana.put(".0123abcd.bob", five.make("bob"))
    ana.assert_all(ana.from_folder())


def test_what_a_member_has_not_kept_itself_is_not_deleted(five):
    ana = Member(five)
    kept = ana.output / FOLDER
    kept.mkdir(parents=True)
    (kept / "another run").mkdir()
    for name in SILOS:
        ana.put(name)
    gathering = ana.gathering(folder=ana.folder)
    ana.assert_all(clock.run(ana.copies(gathering)))
    gathering.delete()
    assert ana.kept() == {"another run"}


def test_a_second_submission_by_another_way_than_the_mailbox_is_found(five):
    """Even by a member that starts with an empty folder, when all members have lost theirs."""
    ana = Member(five)
    for name in SILOS:
        ana.put(name)
    ana.put("bob", five.make("bob"))

    async def scenario(net: Loopback) -> None:
        await courier(net, "bob").put(SUBMISSION, five.files["bob"])
        with pytest.raises(TwoSubmissions) as raised:
            await ana.copies(ana.gathering(net, ana.folder))
        assert raised.value.silo == "bob"

    with_mailbox(five, scenario)
