"""A hub that goes on while its files come, change and go."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import signal
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from securefedyj.cli.main import main
from securefedyj.network import local
from securefedyj.network.consortium import Consortium
from securefedyj.network.hub import HubServer
from securefedyj.network.hub import server as service
from securefedyj.network.hub.agreed_files import AgreedFiles
from securefedyj.network.identity import Identity, fingerprint_of_der, keygen
from securefedyj.network.transport.framing import FrameType, HubFrame
from tests.network import clock
from tests.network.harness import THREE, Loopback, prepare
from tests.network.test_hub import Client, connected, joined, refused, with_hub
from tests.patience import PATIENCE, wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def two(tmp_path: Path) -> list[Consortium]:
    """Two consortia with one hub, whose key is in the folder of the first."""
    one = prepare(tmp_path / "one", name="one")
    return [one, dataclasses.replace(prepare(tmp_path / "two", name="two"), hub=one.hub)]


def identity_of(folder: Path, name: str = "hub") -> Identity:
    return Identity(folder / "one" / f"{name}.key", folder / "one" / f"{name}.pem")


# Files.


def names(files: AgreedFiles) -> tuple[list[str], list[str]]:
    consortia, troubles = files.read()
    return [one.name for one in consortia], [trouble.sentence for trouble in troubles]


def test_a_folder_is_read_and_what_is_broken_stays_as_it_was(tmp_path, two):
    folder = tmp_path / "served"
    folder.mkdir()
    files = AgreedFiles([folder], identity_of(tmp_path))
    assert names(files) == ([], [])
    for consortium in two:
        consortium.write(folder / f"{consortium.name}.toml")
    shutil.copy(folder / "one.toml", folder / ".one.toml")
    (folder / "notes.txt").write_text("not a file of the hub", encoding="ascii")
    assert names(files) == (["one", "two"], [])
    (folder / "two.toml").write_text("format = 1\nname =", encoding="ascii")
    served, (trouble,) = names(files)
    assert served == ["one", "two"]
    assert "two.toml is not a TOML file" in trouble
    (folder / "two.toml").unlink()
    assert names(files) == (["one"], [])
    (folder / "three.toml").write_text("", encoding="ascii")
    served, (trouble,) = names(files)
    assert served == ["one"]
    assert "three.toml" in trouble


def test_who_was_there_first_keeps_its_name(tmp_path, two):
    folder = tmp_path / "served"
    folder.mkdir()
    two[1].write(folder / "m.toml")
    files = AgreedFiles([folder], identity_of(tmp_path))
    assert names(files) == (["two"], [])
    dataclasses.replace(two[1], max_steps=9).write(folder / "a.toml")
    (found,), (trouble,) = files.read()
    assert found.max_steps == two[1].max_steps
    assert "a.toml: " in trouble.sentence
    assert "has the same consortium name, 'two'. Rename one." in trouble.sentence


def test_a_file_of_another_hub_is_not_served(tmp_path, two):
    folder = tmp_path / "served"
    folder.mkdir()
    prepare(tmp_path / "elsewhere", name="elsewhere").write(folder / "elsewhere.toml")
    two[0].write(folder / "one.toml")
    served, (trouble,) = names(AgreedFiles([folder], identity_of(tmp_path)))
    assert served == ["one"]
    assert "no party would accept this hub" in trouble


def test_a_certificate_that_tls_cannot_read_ends_nothing(tmp_path, two):
    """It would keep the hub from starting, and others' files from being served."""
    folder = tmp_path / "served"
    folder.mkdir()
    two[0].write(folder / "one.toml")
    ana = two[1].parties[0]
    der = ssl.PEM_cert_to_DER_cert(ana.certificate)
    odd = der.replace(b"\x0c\x03ana", b"\xc2\x03ana")  # a text of a kind that OpenSSL does not know
    text = two[1].to_toml().replace(ana.certificate, ssl.DER_cert_to_PEM_cert(odd))
    text = text.replace(ana.fingerprint, fingerprint_of_der(odd))
    (folder / "two.toml").write_text(text, encoding="utf-8")
    files = AgreedFiles([folder], identity_of(tmp_path))
    served, (trouble,) = names(files)
    assert served == ["one"]
    assert "the certificate of 'ana': this is not a certificate" in trouble

    async def update(hub: HubServer, *_: Loopback) -> None:
        hub.update(files.read()[0])

    with_both(tmp_path, files.read()[0], update)


def test_a_folder_that_is_gone_ends_nothing(tmp_path, two):
    folder = tmp_path / "served"
    folder.mkdir()
    two[0].write(folder / "one.toml")
    files = AgreedFiles([folder], identity_of(tmp_path))
    assert names(files) == (["one"], [])
    folder.rename(tmp_path / "unmounted")
    served, (trouble,) = names(files)
    assert served == ["one"]
    assert "the hub still serves its files" in trouble


class Looks:
    """Files that look so at one look after the other."""

    def __init__(self, states: str) -> None:
        self._states: Iterator[str] = iter(states)
        self.read_at: list[str] = []
        self.over = asyncio.Event()
        self._now = ""

    def state(self) -> tuple[object, ...]:
        self._now = next(self._states, "")
        if not self._now:
            self.over.set()
        return (self._now,)

    def read(self) -> tuple[list[Consortium], list[Any]]:
        self.read_at.append(self._now)
        return [], []


class Still:
    def update(self, consortia: list[Consortium]) -> None:
        assert consortia == []


def watched(monkeypatch: pytest.MonkeyPatch, states: str, *, asked: bool = False) -> list[str]:
    monkeypatch.setattr(service, "LOOK_EVERY", 0.0)

    async def scenario() -> list[str]:
        looks: Any = Looks(states)
        still: Any = Still()
        again = asyncio.Event()
        if asked:
            again.set()
        task = asyncio.create_task(service.watch(looks, still, again, lambda event, **_: None))
        await looks.over.wait()
        task.cancel()
        return [state for state in looks.read_at if state]

    return clock.run(scenario())


def test_a_file_is_read_when_it_has_stopped_changing(monkeypatch):
    """Half of a list of parties is a list of parties: who reads at once ends a run."""
    assert watched(monkeypatch, "aaaa") == []
    assert watched(monkeypatch, "aabcdddd") == ["d"]
    assert watched(monkeypatch, "abbbaaa") == ["b", "a"]


def test_when_asked_files_are_read_at_once(monkeypatch):
    assert watched(monkeypatch, "aaaa", asked=True) == ["a"]


# Parties that are there.


def with_both(folder: Path, two: list[Consortium], scenario: Any) -> list[str]:
    lines: list[str] = []

    def log(event: str, **fields: object) -> None:
        lines.append(f"{event} {fields}")

    async def run() -> None:
        hub = HubServer(two[:1], identity_of(folder), log)
        await hub.start(two[0].agreed_hub().host, two[0].agreed_hub().port)
        nets = [Loopback(folder / one.name, one, THREE) for one in two]
        try:
            await scenario(hub, *nets)
        finally:
            await hub.stop()

    clock.run(run())
    return lines


async def answers(client: Client) -> None:
    client.send(HubFrame(FrameType.PING))
    frame = await client.receive()
    assert frame is not None
    assert frame.type == FrameType.PONG


def test_a_new_consortium_is_served_and_nobody_notices(tmp_path, two):
    async def scenario(hub: HubServer, one: Loopback, other: Loopback) -> None:
        ana = await joined(one, "ana")
        assert (await ana.receive()).type == FrameType.WELCOME
        await refused(await connected(other, other.identity("ana")))  # in no file yet
        hub.update(two)
        client = await joined(other, "ana")
        assert (await client.receive()).type == FrameType.WELCOME
        await answers(ana)

    lines = with_both(tmp_path, two, scenario)
    assert "serving {'consortium': 'two'}" in lines


def test_who_has_no_file_any_more_is_told_so_and_the_others_go_on(tmp_path, two):
    async def scenario(hub: HubServer, one: Loopback, other: Loopback) -> None:
        hub.update(two)
        ana, bob = await joined(one, "ana"), await joined(other, "bob")
        assert (await ana.receive()).type == FrameType.WELCOME
        assert (await bob.receive()).type == FrameType.WELCOME
        hub.update(two[:1])
        frame = await bob.receive()
        assert frame.type == FrameType.REFUSED
        assert b"The hub no longer serves 'two'" in frame.body
        assert await bob.receive() is None
        again = await (await joined(other, "bob")).receive()
        assert again.type == FrameType.REFUSED
        assert b"does not serve a consortium named 'two'" in again.body
        await answers(ana)

    assert "ended {'consortium': 'two'}" in with_both(tmp_path, two, scenario)


def test_a_file_that_was_agreed_upon_anew_ends_the_old_run(tmp_path, two):
    async def scenario(hub: HubServer, one: Loopback, _: Loopback) -> None:
        ana = await joined(one, "ana")
        assert (await ana.receive()).type == FrameType.WELCOME
        moved = dataclasses.replace(two[0].agreed_hub(), address="elsewhere.example:1")
        hub.update([dataclasses.replace(two[0], hub=moved)])  # the digest stays
        await answers(ana)
        anew = dataclasses.replace(two[0], max_steps=9)
        hub.update([anew])
        frame = await ana.receive()
        assert frame.type == FrameType.REFUSED
        assert anew.digest()[:16].encode() in frame.body
        one.consortium = anew
        client = await joined(one, "ana")
        assert (await client.receive()).type == FrameType.WELCOME

    with_both(tmp_path, two, scenario)


def test_who_enters_a_room_that_is_over_is_refused(tmp_path, two):
    async def scenario(hub: HubServer, one: Loopback, _: Loopback) -> None:
        room = hub.served.rooms["one"]
        hub.update([])
        with pytest.raises(Exception, match="no longer serves 'one'"):
            room.enter("ana", 1)

    with_both(tmp_path, two, scenario)


# The command.


def test_a_hub_of_a_folder_serves_what_comes_and_goes(tmp_path, two):
    folder = tmp_path / "served"
    folder.mkdir()
    status = local.free_port()
    hub = identity_of(tmp_path)
    processes = local.Processes(tmp_path / "one")

    def served() -> str:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{status}/metrics", timeout=PATIENCE
        ) as answer:
            return str(answer.read().decode())

    with processes:
        processes.start("hub", "-m", "securefedyj", "hub", str(folder), "--certificate",
                        str(hub.certificate), "--key", str(hub.key), "--listen", "127.0.0.1:0",
                        "--status", f"127.0.0.1:{status}")  # fmt: skip
        wait_until(lambda: " status " in processes.log("hub"))
        assert 'consortium="' not in served()
        two[0].write(folder / "one.toml")
        (folder / "broken.toml").write_text("?", encoding="ascii")
        processes.running["hub"].send_signal(signal.SIGHUP)
        wait_until(lambda: 'consortium="one"' in served())
        (folder / "one.toml").unlink()
        wait_until(lambda: 'consortium="one"' not in served())  # without being asked
        processes.kill("hub", signal.SIGTERM)
    log = processes.log("hub")
    for words in ("serving", "broken.toml is not a TOML file", 'ended consortium="one"', "stopped"):
        assert words in log


def test_a_hub_without_files_asks_for_a_port(tmp_path, two, capsys):
    folder = tmp_path / "served"
    folder.mkdir()
    identity = [str(path) for path in identity_of(tmp_path)]
    hub = ["hub", str(folder), "--key", identity[0], "--certificate", identity[1]]
    assert main(hub) == 1
    assert "There is no agreed file yet" in capsys.readouterr().err
    assert main([*hub, "--listen", "127.0.0.1:0", "--status", "7480"]) == 1
    assert "--status must be HOST:PORT, not '7480'" in capsys.readouterr().err
    (folder / "x.toml").write_text("?", encoding="ascii")
    assert main(["hub", str(folder / "x.toml"), *hub[2:]]) == 1
    assert "x.toml is not a TOML file" in capsys.readouterr().err


def test_the_hub_stays_who_it_is(tmp_path, two):
    """Its certificate on the disk may be replaced; parties would not know the new one."""
    files = AgreedFiles([tmp_path / "one" / "consortium.toml"], identity_of(tmp_path))
    assert names(files) == (["one"], [])
    other = keygen("hub", tmp_path / "other")
    shutil.copy(other.certificate, identity_of(tmp_path).certificate)
    assert names(files) == (["one"], [])


def test_a_planned_stop_waits_until_no_run_can_be_under_way(tmp_path):
    async def scenario(net: Loopback) -> None:
        parties = {name: await joined(net, name) for name in THREE}
        for client in parties.values():
            assert (await client.receive()).type == FrameType.WELCOME
        draining = asyncio.create_task(net.hub.drain())
        await asyncio.sleep(service.SILENCE / 2)
        assert not draining.done()
        with pytest.raises(ConnectionRefusedError):
            await joined(net, "bob")
        parties["cem"].writer.close()
        await draining
        (room,) = net.hub.served.rooms.values()
        assert sorted(room.present) == ["ana", "bob"]

    lines = with_hub(tmp_path, scenario).lines
    assert [line.split()[0] for line in lines].count("draining") == 1


def test_a_hub_where_no_run_can_be_under_way_stops_at_once(tmp_path, two):
    hub = identity_of(tmp_path)
    with local.Processes(tmp_path / "one") as processes:
        file = str(tmp_path / "one" / "consortium.toml")
        processes.start("hub", "-m", "securefedyj", "hub", file,
                        "--certificate", str(hub.certificate), "--key", str(hub.key),
                        "--listen", "127.0.0.1:0", "--drain", "1e9")  # fmt: skip
        wait_until(lambda: " listening " in processes.log("hub"))
        processes.running["hub"].send_signal(signal.SIGTERM)
        assert processes.running["hub"].wait(PATIENCE) == 0
    assert processes.log("hub").count(" stopped") == 1
