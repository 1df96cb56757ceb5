"""The hub: whom it lets in, what it passes on, what it logs, and that it cannot be flooded."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from securefedyj.cli.main import main
from securefedyj.errors import ProtocolError
from securefedyj.network import log as log_module
from securefedyj.network.hub import consortia as rooms
from securefedyj.network.hub import limits as lobby_module
from securefedyj.network.hub import server as hub_module
from securefedyj.network.identity import Identity, keygen, read_certificate
from securefedyj.network.transport import link, tls
from securefedyj.network.transport.framing import (
    MAX_FRAME_BODY,
    FrameQueue,
    FrameReader,
    FrameType,
    FrameWriter,
    HubFrame,
)
from tests.network import clock
from tests.network.harness import THREE, Loopback, prepare
from tests.patience import PATIENCE

pytestmark = pytest.mark.processes


class Client:
    """A party that speaks frames and nothing else."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.frames, self.numbered = FrameReader("the hub"), FrameWriter()
        self.waiting: list[HubFrame] = []

    @property
    def transport(self) -> asyncio.Transport:
        """Reads as well as writes, whatever a StreamWriter says of it."""
        return cast(asyncio.Transport, self.writer.transport)

    def send(self, frame: HubFrame) -> None:
        self.writer.write(self.numbered.encode(frame))

    async def receive(self) -> HubFrame | None:
        while not self.waiting:
            data = await self.reader.read(1 << 16)
            if not data:
                return None
            self.waiting += self.frames.feed(data)
        return self.waiting.pop(0)


async def connected(net: Loopback, identity: Identity | None) -> Client:
    hub = net.consortium.agreed_hub()
    if identity is None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(cadata=hub.certificate)
    else:
        context = tls.context(identity, [hub.certificate], server_side=False)
    return Client(*await asyncio.open_connection(hub.host, hub.port, ssl=context))


async def joined(
    net: Loopback, name: str, said: str | None = None, *, mailbox: bool = False
) -> Client:
    client = await connected(net, net.identity(name))
    hello = {"consortium": net.consortium.name, "party": said or name, "mailbox": mailbox}
    client.send(HubFrame(FrameType.HELLO, body=json.dumps(hello).encode()))
    return client


def with_hub(folder: Path, scenario: Any) -> Loopback:
    async def run() -> Loopback:
        async with Loopback(folder, prepare(folder), THREE) as net:
            await net.start_hub()
            await scenario(net)
            return net

    return clock.run(run())


async def refused(client: Client) -> None:
    """TLS 1.3 tells a client that it was refused at its first read."""
    with contextlib.suppress(OSError):
        assert await client.receive() is None


@pytest.mark.parametrize("foreign", [False, True])
def test_who_has_no_certificate_of_the_file_is_refused_and_logged(tmp_path, foreign):
    async def scenario(net: Loopback) -> None:
        identity = keygen("ana", tmp_path / "elsewhere") if foreign else None
        await refused(await connected(net, identity))

    lines = with_hub(tmp_path, scenario).lines
    (line,) = [line for line in lines if line.startswith("refused")]
    assert "certificate" in line
    assert "127.0.0.1" in line


def test_a_stranger_with_an_odd_certificate_is_a_stranger_like_others(tmp_path):
    """Whatever stumbles over it would write a line each time."""
    troubles: list[object] = []

    async def scenario(net: Loopback) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: troubles.append(found))
        identity = keygen("stranger", tmp_path / "elsewhere")
        der = ssl.PEM_cert_to_DER_cert(read_certificate(identity.certificate))
        odd = der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x26")  # version 39
        identity.certificate.write_text(ssl.DER_cert_to_PEM_cert(odd))
        for _ in range(3):
            await refused(await connected(net, identity))
            await asyncio.sleep(0.1)
            gc.collect()

    lines = with_hub(tmp_path, scenario).lines
    assert len([line for line in lines if line.startswith("refused")]) == 3
    assert not troubles


def test_a_party_that_comes_and_goes_does_not_fill_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr(log_module, "BURST", 3)

    async def scenario(net: Loopback) -> None:
        for name in (*["ana"] * 10, "bob"):
            client = await joined(net, name)
            frame = await client.receive()
            assert frame is not None
            assert frame.type == FrameType.WELCOME
            client.writer.close()
            await asyncio.sleep(0.02)

    lines = with_hub(tmp_path, scenario).lines
    for event in ("connected", "left"):
        said = [line for line in lines if line.startswith(event)]
        assert sum("'ana'" in line for line in said) == 3
        assert sum("'bob'" in line for line in said) == 1


def end_and_spoil(net: Loopback, name: str) -> None:
    """End the handshake, with a record right behind it that is not of TLS."""
    hub = net.consortium.agreed_hub()
    settings = tls.context(net.identity(name), [hub.certificate], server_side=False)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = settings.wrap_bio(incoming, outgoing)
    with socket.create_connection((hub.host, hub.port), timeout=PATIENCE) as line:
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                line.sendall(outgoing.read())
                incoming.write(line.recv(1 << 16))
        line.sendall(outgoing.read() + b"\x17\x03\x03\x00\x30" + bytes(48))
        with contextlib.suppress(OSError):
            line.recv(1 << 16)


def test_a_party_that_breaks_tls_at_once_is_refused_like_others(tmp_path):
    troubles: list[object] = []

    async def scenario(net: Loopback) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: troubles.append(found))
        for _ in range(3):
            await asyncio.to_thread(end_and_spoil, net, "ana")
            await asyncio.sleep(0.1)
            gc.collect()

    lines = with_hub(tmp_path, scenario).lines
    assert len([line for line in lines if line.startswith("refused")]) == 3
    assert not troubles


def test_a_name_with_the_key_of_another_is_refused_with_a_sentence(tmp_path):
    async def scenario(net: Loopback) -> None:
        frame = await (await joined(net, "bob", said="ana")).receive()
        assert frame is not None
        assert frame.type == FrameType.REFUSED
        assert b"is not the one of party 'ana'" in frame.body

    assert any("not the one of party 'ana'" in line for line in with_hub(tmp_path, scenario).lines)


def test_frames_are_passed_on_in_the_name_of_the_certificate(tmp_path):
    async def scenario(net: Loopback) -> None:
        ana, bob = await joined(net, "ana"), await joined(net, "bob")
        welcome = await ana.receive()
        present = await ana.receive()
        assert welcome is not None
        assert present == HubFrame(FrameType.PRESENT, "bob", present.connection)
        ana.send(HubFrame(FrameType.DATA, "bob", present.connection, b"sealed"))
        assert (await bob.receive()).type == FrameType.WELCOME
        assert (await bob.receive()).type == FrameType.PRESENT
        assert await bob.receive() == HubFrame(FrameType.DATA, "ana", welcome.connection, b"sealed")
        ana.send(
            HubFrame(FrameType.DATA, "bob", present.connection + 9, b"for an earlier connection")
        )
        ana.send(HubFrame(FrameType.DATA, "nobody", 1, b""))
        ana.writer.close()
        assert await bob.receive() == HubFrame(FrameType.LEFT, "ana", welcome.connection)

    net = with_hub(tmp_path, scenario)
    assert "sealed" not in "\n".join(net.lines)
    assert any(line.startswith("left") and "'bytes_received': " in line for line in net.lines)


def test_a_small_frame_does_not_wait_for_more(tmp_path, monkeypatch):
    """Nagle's algorithm would hold it back until an earlier one is acknowledged: 40 ms a round."""
    options = []
    secured = lobby_module.secured

    async def spy(*arguments: Any) -> Any:
        reader, writer = await secured(*arguments)
        line = writer.get_extra_info("socket")
        options.append(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return reader, writer

    async def scenario(net: Loopback) -> None:
        client = await joined(net, "ana")
        assert (await client.receive()).type == FrameType.WELCOME
        line = client.writer.get_extra_info("socket")
        options.append(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(hub_module, "secured", spy)
    with_hub(tmp_path, scenario)
    assert len(options) == 2
    assert all(options)


def test_who_joins_twice_ends_the_first(tmp_path):
    async def scenario(net: Loopback) -> None:
        first = await joined(net, "ana")
        assert (await first.receive()).type == FrameType.WELCOME
        await joined(net, "ana")
        frame = await first.receive()
        assert frame.type == FrameType.REFUSED
        assert b"Another process has joined as ana" in frame.body

    with_hub(tmp_path, scenario)


@pytest.mark.parametrize(
    "bad",
    [
        b"\xff" * 100,
        b"\0\0\0\1",
        FrameWriter().encode(HubFrame(FrameType.PING)),
        b"\0\0\0\x0e\x63" + b"\0" * 13,
    ],
    ids=["oversized", "too short", "replayed", "unknown type"],
)
def test_frames_that_break_the_rules_end_the_connection(tmp_path, bad):
    async def scenario(net: Loopback) -> None:
        client = await joined(net, "ana")
        assert (await client.receive()).type == FrameType.WELCOME
        client.writer.write(bad)
        assert await client.receive() is None

    net = with_hub(tmp_path, scenario)
    (line,) = [line for line in net.lines if line.startswith("left")]
    assert "frame" in line.lower()


class Watched(FrameQueue):
    """Counts the bytes of bodies that wait in it."""

    put_in = taken = 0

    async def put(self, frame: HubFrame) -> None:
        await super().put(frame)
        self.put_in += len(frame.body)

    async def frames(self) -> AsyncIterator[HubFrame]:
        async for frame in super().frames():
            self.taken += len(frame.body)
            yield frame

    def bodies(self) -> int:
        return self.put_in - self.taken


def test_a_slow_party_slows_its_senders_and_fills_no_memory(tmp_path, monkeypatch):
    boxes: list[Watched] = []

    def watched(limit: int) -> Watched:
        boxes.append(Watched(limit))
        return boxes[-1]

    monkeypatch.setattr(rooms, "FrameQueue", watched)

    async def scenario(net: Loopback) -> None:
        ana, bob = await joined(net, "ana"), await joined(net, "bob")
        await ana.receive()
        present = await ana.receive()
        bob.transport.pause_reading()
        sent = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while True:
                    ana.send(
                        HubFrame(FrameType.DATA, "bob", present.connection, bytes(MAX_FRAME_BODY))
                    )
                    await ana.writer.drain()
                    sent += MAX_FRAME_BODY
        waiting = sum(box.bodies() for box in boxes)
        assert rooms.QUEUE // 2 < waiting <= rooms.QUEUE + MAX_FRAME_BODY
        assert sent < 64 * MAX_FRAME_BODY + (32 << 20)  # the rest waits in sockets, at its sender
        bob.transport.resume_reading()
        while (frame := await bob.receive()) is not None and frame.type != FrameType.DATA:
            pass
        assert frame is not None

    with_hub(tmp_path, scenario)


def test_hub_tells_the_parties_that_it_stops(tmp_path):
    async def scenario(net: Loopback) -> None:
        ana = await joined(net, "ana")
        assert (await ana.receive()).type == FrameType.WELCOME
        hub, net.hub = net.hub, None
        await hub.stop()
        assert (await ana.receive()).type == FrameType.CLOSING
        assert await ana.receive() is None

    with_hub(tmp_path, scenario)


def test_one_hub_serves_several_consortia(tmp_path):
    """A party of one cannot reach, or see, the parties of another."""
    one, two = tmp_path / "one", tmp_path / "two"
    prepare(one)
    consortium = prepare(one / "inner")
    with pytest.raises(ValueError, match="same consortium name"):
        hub_module.HubServer(
            [consortium] * 2, Identity(one / "inner/hub.key", one / "inner/hub.pem")
        )
    with pytest.raises(ValueError, match="no party would accept this hub"):
        hub_module.HubServer([consortium], Identity(one / "hub.key", one / "hub.pem"))
    assert not two.exists()


def test_hub_listens_where_the_file_says_and_says_if_it_cannot(tmp_path, capsys):
    consortium = prepare(tmp_path)
    host = dataclasses.replace(
        consortium.agreed_hub(), address=f"hub.example:{consortium.agreed_hub().port}"
    )
    moved = dataclasses.replace(consortium, hub=host)
    moved.write(tmp_path / "moved.toml")
    other = dataclasses.replace(host, address="hub.example:1")
    dataclasses.replace(consortium, name="b", hub=other).write(tmp_path / "other.toml")
    identity = ["--certificate", str(tmp_path / "hub.pem"), "--key", str(tmp_path / "hub.key")]
    with socket.create_server(("0.0.0.0", consortium.agreed_hub().port)):
        assert main(["hub", str(tmp_path / "moved.toml"), *identity]) == 1
    error = capsys.readouterr().err
    assert f"cannot listen on *:{consortium.agreed_hub().port} (Address already in use)" in error
    files = [str(tmp_path / f"{name}.toml") for name in ("moved", "other")]
    assert main(["hub", *files, *identity]) == 1
    assert "several ports of the hub (1, " in capsys.readouterr().err


def test_reader_names_what_is_wrong():
    writer = FrameWriter()
    first, second = (writer.encode(HubFrame(FrameType.PING)) for _ in range(2))
    assert [frame.type for frame in FrameReader("x").feed(first + second)] == [FrameType.PING] * 2
    for data, sentence in [
        (second, "out of order"),
        (first + first, "came twice"),
        (b"\xff\xff\xff\xff", "announced a frame"),
    ]:
        with pytest.raises(ProtocolError, match=sentence):
            list(FrameReader("x").feed(data))
    half = FrameReader("x")
    assert list(half.feed(first[:-1])) == []
    with pytest.raises(ProtocolError, match="middle of a frame"):
        half.end()


def test_what_a_party_says_before_it_leaves_is_passed_on(tmp_path):
    """The last word of a run is that it is done; the others wait for it."""

    async def scenario(net: Loopback) -> None:
        ana = await link.connect(net.consortium, "ana", net.identity("ana"), 5.0)
        bob = await joined(net, "bob")
        own, there = await ana.receive_frame(5.0), await ana.receive_frame(5.0)
        assert (await bob.receive()).type == FrameType.WELCOME
        assert (await bob.receive()).type == FrameType.PRESENT
        for _ in range(64):  # more than ana has read when she leaves
            bob.send(HubFrame(FrameType.DATA, "ana", own.connection, bytes(MAX_FRAME_BODY)))
        await bob.writer.drain()
        bodies = [bytes([number]) * MAX_FRAME_BODY for number in range(64)]
        for body in bodies:
            ana.send("bob", there.connection, body)
        closing = asyncio.create_task(ana.close(30.0))
        for body in bodies:
            assert await bob.receive() == HubFrame(FrameType.DATA, "ana", own.connection, body)
        await closing
        assert (await bob.receive()).type == FrameType.LEFT

    with_hub(tmp_path, scenario)
