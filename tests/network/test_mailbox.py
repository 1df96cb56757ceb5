"""The hub's mailbox: what it takes from whom, keeps over restarts, and deletes in the end."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from securefedyj import files
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.errors import JoinError
from securefedyj.network.hub import mailbox as hub_mailbox
from securefedyj.network.hub.consortia import HubRefusal
from securefedyj.network.hub.mailbox import MOST_VISITS, MailFolder, open_mailbox
from securefedyj.network.mailbox import Courier
from securefedyj.network.transport.framing import (
    MAX_FRAME_BODY,
    RESULT,
    SUBMISSION,
    WINDOW,
    FrameType,
    HubFrame,
    Item,
)
from tests.network import clock
from tests.network.harness import BOUNDS, FIVE, SHORT, Loopback, prepare
from tests.network.test_hub import Client, joined

pytestmark = pytest.mark.processes

MEMBERS = ("coordinator", "ana", "dua")
SILOS = ("ana", "bob", "dua", "eva")
FEATURES = [Feature(name, *BOUNDS, resolution="0.1") for name in ("lactate", "age")]


def submitted(folder: Path) -> Consortium:
    return prepare(folder, FIVE, FEATURES, submitted=True)


def sealed(name: str, size: int = 2 * WINDOW + 5) -> bytes:
    """Bytes that look like a submission: the hub does not open it."""
    return (hashlib.sha256(name.encode()).digest() * (size // 32 + 1))[:size]


def item(kind: Any, name: str, data: bytes) -> Item:
    return Item(kind, name, len(data), hashlib.sha256(data).hexdigest())


def courier(net: Loopback, name: str, **more: Any) -> Courier:
    return Courier(net.consortium, name, net.identity(name), **{**SHORT, **more})


def files_in(folder: Path) -> set[str]:
    """The names of all files, hidden ones as well."""
    return {path.name for path in folder.rglob("*") if path.is_file()}


def with_mailbox(folder: Path, scenario: Any) -> Loopback:
    async def run() -> Loopback:
        async with Loopback(folder, submitted(folder), FIVE) as net:
            net.mailbox = folder / "mailbox"
            await net.start_hub()
            await scenario(net)
            return net

    return clock.run(run())


async def refusal(work: Any) -> str:
    """The code of what the mailbox says to something that it refuses."""
    with pytest.raises(JoinError) as raised:
        await work
    return raised.value.code


def test_members_fetch_submissions_and_silos_fetch_results(tmp_path):
    async def scenario(net: Loopback) -> None:
        for name in SILOS:
            await courier(net, name).put(SUBMISSION, sealed(name))
        await courier(net, "dua").put(RESULT, b"signed by dua")
        found = await courier(net, "coordinator").get([SUBMISSION, RESULT])
        assert found == {
            **{(SUBMISSION, name): sealed(name) for name in SILOS},
            (RESULT, "dua"): b"signed by dua",
        }
        later = await courier(net, "coordinator").get([SUBMISSION], without=["ana", "bob", "dua"])
        assert set(later) == {(SUBMISSION, "eva")}
        assert await courier(net, "bob").get([RESULT]) == {(RESULT, "dua"): b"signed by dua"}
        assert await refusal(courier(net, "bob").get([SUBMISSION])) == "SFY-NET-035"

    net = with_mailbox(tmp_path, scenario)
    assert sum(line.startswith("stored") for line in net.lines) == 5
    assert not any(sealed("ana").hex()[:32] in line for line in net.lines)


def test_a_hub_that_is_killed_and_restarted_with_a_full_mailbox_loses_nothing(tmp_path):
    async def scenario(net: Loopback) -> None:
        for name in SILOS:
            await courier(net, name).put(SUBMISSION, sealed(name))
        await courier(net, "ana").put(RESULT, b"signed by ana")
        before = files_in(tmp_path / "mailbox")
        await net.crash_hub()
        await net.start_hub()
        assert files_in(tmp_path / "mailbox") == before
        assert net.hub is not None
        (room,) = net.hub.served.rooms.values()
        assert {name for name, status in room.status.items() if status.submitted} == set(SILOS)
        found = await courier(net, "dua").get([SUBMISSION, RESULT])
        assert found[SUBMISSION, "eva"] == sealed("eva")
        assert len(found) == 5

    with_mailbox(tmp_path, scenario)


def test_a_party_waits_for_a_hub_that_comes_back(tmp_path):
    async def scenario(net: Loopback) -> None:
        await net.crash_hub()
        said: list[str] = []
        sending = asyncio.create_task(
            courier(net, "ana", wait=60.0, say=said.append).put(SUBMISSION, sealed("ana"))
        )
        await clock.until(lambda: said)
        await net.start_hub()
        await sending
        assert set(await courier(net, "dua").get([SUBMISSION])) == {(SUBMISSION, "ana")}
        await net.crash_hub()
        assert await refusal(courier(net, "ana").get([RESULT])) == "SFY-NET-014"

    with_mailbox(tmp_path, scenario)


def test_the_same_submission_again_is_fine_and_another_is_refused(tmp_path):
    async def scenario(net: Loopback) -> None:
        for _ in range(2):
            await courier(net, "ana").put(SUBMISSION, sealed("ana"))
        assert await refusal(courier(net, "ana").put(SUBMISSION, sealed("other"))) == "SFY-NET-035"
        found = await courier(net, "dua").get([SUBMISSION])
        assert found == {(SUBMISSION, "ana"): sealed("ana")}

    with_mailbox(tmp_path, scenario)


@pytest.mark.parametrize(
    ("code", "name", "kind", "sender", "size"),
    [
        ("SFY-HUB-012", "bob", SUBMISSION, "ana", 100),
        ("SFY-HUB-012", "coordinator", SUBMISSION, "coordinator", 100),
        ("SFY-HUB-012", "bob", RESULT, "bob", 100),
        ("SFY-HUB-014", "bob", SUBMISSION, "bob", 1 << 20),
        ("SFY-HUB-014", "ana", RESULT, "ana", 1 << 20),
    ],
)
def test_what_a_party_may_not_leave_is_refused(tmp_path, code, name, kind, sender, size):
    data = sealed(name, size)

    async def scenario(net: Loopback) -> None:
        client = await visitor(net, name)
        client.send(HubFrame(FrameType.PUT, body=msgspec.json.encode(item(kind, sender, data))))
        assert (await client.receive()).type == FrameType.REFUSED
        (room,) = net.hub.served.rooms.values()
        with pytest.raises(HubRefusal) as refused:
            room.mail.place_for(item(kind, sender, data), name)
        assert refused.value.code == code

    with_mailbox(tmp_path, scenario)
    assert not files_in(tmp_path / "mailbox")


async def visitor(net: Loopback, name: str) -> Client:
    """A party that comes for the mailbox, and speaks frames and nothing else."""
    client = await joined(net, name, mailbox=True)
    assert (await client.receive()).type == FrameType.WELCOME
    return client


async def begin_upload(client: Client, name: str, data: bytes) -> None:
    client.send(HubFrame(FrameType.PUT, body=msgspec.json.encode(item(SUBMISSION, name, data))))
    assert (await client.receive()).type == FrameType.PUT


def send_pieces(client: Client, data: bytes) -> None:
    for start in range(0, len(data), MAX_FRAME_BODY):
        client.send(HubFrame(FrameType.DATA, body=data[start : start + MAX_FRAME_BODY]))


@pytest.mark.parametrize("spoil", ["truncated", "changed", "too long", "another frame"])
def test_an_upload_that_is_not_what_was_announced_leaves_nothing(tmp_path, spoil):
    data = sealed("ana", WINDOW)

    async def scenario(net: Loopback) -> None:
        client = await visitor(net, "ana")
        await begin_upload(client, "ana", data)
        match spoil:
            case "truncated":
                send_pieces(client, data[: WINDOW // 2])
                await clock.until(lambda: files_in(tmp_path / "mailbox"))
                assert (await courier(net, "dua").get([SUBMISSION])) == {}
                client.writer.close()
            case "changed":
                send_pieces(client, bytes([data[0] ^ 1]) + data[1:])
            case "too long":
                send_pieces(client, data[:-1])
                send_pieces(client, data)
            case "another frame":
                client.send(HubFrame(FrameType.LIST))
        while await client.receive() is not None:
            pass
        await clock.until(lambda: not files_in(tmp_path / "mailbox"))
        await courier(net, "ana").put(SUBMISSION, data)

    with_mailbox(tmp_path, scenario)
    assert files_in(tmp_path / "mailbox") == {"ana.submission"}


def test_on_a_full_disk_nothing_is_left_and_nothing_is_lost(tmp_path, monkeypatch):
    @contextmanager
    def to_a_full_disk(path: Path, *, private: bool) -> Iterator[Path]:
        with files.replacing(path, private=private) as temporary:
            temporary.unlink()
            temporary.symlink_to("/dev/full")
            yield temporary

    async def scenario(net: Loopback) -> None:
        await courier(net, "bob").put(SUBMISSION, sealed("bob"))
        with monkeypatch.context() as patched:
            patched.setattr(hub_mailbox, "replacing", to_a_full_disk)
            assert await refusal(courier(net, "ana").put(SUBMISSION, sealed("ana"))) == (
                "SFY-NET-035"
            )
            assert files_in(tmp_path / "mailbox") == {"bob.submission"}
        await courier(net, "ana").put(SUBMISSION, sealed("ana"))

    net = with_mailbox(tmp_path, scenario)
    assert files_in(tmp_path / "mailbox") == {"ana.submission", "bob.submission"}
    assert any(line.startswith("trouble") and "No space left" in line for line in net.lines)


def test_submissions_are_deleted_when_all_members_have_sent_their_results(tmp_path):
    async def scenario(net: Loopback) -> None:
        for name in SILOS:
            await courier(net, name).put(SUBMISSION, sealed(name))
        for name in MEMBERS:
            assert len(await courier(net, name).get([SUBMISSION])) == len(SILOS)
            await courier(net, name).put(RESULT, b"signed")
        assert await courier(net, "ana").get([SUBMISSION]) == {}
        assert len(await courier(net, "eva").get([RESULT])) == len(MEMBERS)
        assert await refusal(courier(net, "eva").put(SUBMISSION, sealed("eva"))) == "SFY-NET-035"

    with_mailbox(tmp_path, scenario)
    assert files_in(tmp_path / "mailbox") == {f"{name}.result" for name in MEMBERS}


def test_files_are_private_and_remains_of_a_killed_hub_are_removed(tmp_path):
    async def scenario(net: Loopback) -> None:
        await courier(net, "ana").put(SUBMISSION, sealed("ana"))

    net = with_mailbox(tmp_path, scenario)
    folder = tmp_path / "mailbox" / net.consortium.digest()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder)]
    assert modes == [0o700, 0o700]
    assert stat.S_IMODE((folder / "ana.submission").stat().st_mode) == 0o600
    (folder / ".0a1b2c3d.bob.submission").write_bytes(b"half of")
    open_mailbox(tmp_path / "mailbox")
    assert files_in(tmp_path / "mailbox") == {"ana.submission"}


def test_a_party_that_comes_again_and_again_ends_its_own_visits(tmp_path):
    """Else it could take memory and disk without a limit."""
    data = sealed("ana", WINDOW)

    async def scenario(net: Loopback) -> None:
        clients = []
        for _ in range(3 * MOST_VISITS):
            clients.append(await visitor(net, "ana"))
            await begin_upload(clients[-1], "ana", data)
        for client in clients[:-MOST_VISITS]:
            assert await client.receive() is None
        await clock.until(lambda: len(files_in(tmp_path / "mailbox")) == MOST_VISITS)
        for client in clients[-MOST_VISITS:]:
            send_pieces(client, data)
            assert (await client.receive()).type == FrameType.STORED

    with_mailbox(tmp_path, scenario)
    assert files_in(tmp_path / "mailbox") == {"ana.submission"}


def test_of_two_uploads_at_once_the_first_that_is_whole_stays(tmp_path):
    async def scenario(net: Loopback) -> None:
        one, two = sealed("one", 1000), sealed("two", 1000)
        clients = [await visitor(net, "ana") for _ in range(2)]
        for client, data in zip(clients, (one, two), strict=True):
            await begin_upload(client, "ana", data)
        for client, data, answer in zip(
            clients, (one, two), (FrameType.STORED, FrameType.REFUSED), strict=True
        ):
            send_pieces(client, data)
            assert (await client.receive()).type == answer
        assert await courier(net, "dua").get([SUBMISSION]) == {(SUBMISSION, "ana"): one}

    with_mailbox(tmp_path, scenario)
    assert files_in(tmp_path / "mailbox") == {"ana.submission"}


def test_who_comes_for_the_mailbox_does_not_disturb_its_own_run(tmp_path):
    async def scenario(net: Loopback) -> None:
        ana, bob = await joined(net, "ana"), await joined(net, "bob")
        assert (await ana.receive()).type == FrameType.WELCOME
        assert (await ana.receive()).name == "bob"
        await courier(net, "ana").put(SUBMISSION, sealed("ana"))
        ana.send(HubFrame(FrameType.PING))
        assert (await ana.receive()).type == FrameType.PONG
        assert (await bob.receive()).type == FrameType.WELCOME

    with_mailbox(tmp_path, scenario)


def test_a_hub_without_a_mailbox_says_so(tmp_path):
    async def scenario(net: Loopback) -> None:
        net.mailbox = None
        await net.crash_hub()
        await net.start_hub()
        assert await refusal(courier(net, "ana").put(SUBMISSION, b"sealed")) == "SFY-NET-003"

    with_mailbox(tmp_path, scenario)


def test_a_run_whose_file_is_gone_is_served_no_more_and_its_files_stay(tmp_path):
    async def scenario(net: Loopback) -> None:
        await courier(net, "ana").put(SUBMISSION, sealed("ana"))
        client = await visitor(net, "ana")
        net.hub.update([])
        client.send(HubFrame(FrameType.LIST))
        assert (await client.receive()).type == FrameType.REFUSED

    with_mailbox(tmp_path, scenario)
    assert files_in(tmp_path / "mailbox") == {"ana.submission"}


def test_a_folder_knows_who_is_missing(tmp_path):
    consortium = submitted(tmp_path)
    open_mailbox(tmp_path / "mailbox")
    folder = MailFolder(tmp_path / "mailbox", consortium)
    assert sorted(folder.missing) == sorted(SILOS)
    data = sealed("bob", 10)
    path = folder.place_for(item(SUBMISSION, "bob", data), "bob")
    path.write_bytes(data)
    assert sorted(folder.missing) == ["ana", "dua", "eva"]
    assert folder.holds(path, hashlib.sha256(data).hexdigest())
    with pytest.raises(HubRefusal) as refused:
        folder.holds(path, hashlib.sha256(b"other").hexdigest())
    assert refused.value.code == "SFY-HUB-017"
    for name in MEMBERS:
        folder.place_for(item(RESULT, name, b"signed"), name).write_bytes(b"signed")
    assert folder.finished
    assert not folder.missing


@pytest.mark.parametrize(
    "offered",
    [
        [Item(SUBMISSION, "ana", 1 << 27)],
        [Item(RESULT, "ana", 1 << 27)],
        [Item(SUBMISSION, "stranger", 100)],
        [Item(SUBMISSION, "ana", 100)] * 2,
    ],
)
def test_a_hub_cannot_fill_the_memory_of_a_party(tmp_path, monkeypatch, offered):
    async def scenario(net: Loopback) -> None:
        monkeypatch.setattr(MailFolder, "items", lambda _: offered)
        work = courier(net, "dua").get([SUBMISSION, RESULT])
        assert await refusal(work) == "SFY-NET-036"

    with_mailbox(tmp_path, scenario)
