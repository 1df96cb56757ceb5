"""A party's connection to the hub holds so much and no more."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from typing import Any

import pytest

from securefedyj.errors import ProtocolError
from securefedyj.network.carrier import LinkLost, Unwelcome
from securefedyj.network.transport.framing import (
    MAX_FRAME_BODY,
    FrameReader,
    FrameType,
    FrameWriter,
    HubFrame,
)
from securefedyj.network.transport.link import Link, connect
from tests.network import clock
from tests.network.harness import THREE, Loopback, prepare


class Counting(Link):
    """Keeps the frames that it has read, received or not."""

    def __init__(self, *streams: Any) -> None:
        self.arrived: list[HubFrame] = []
        super().__init__(*streams)

    async def _keep(self, frame: HubFrame) -> None:
        self.arrived.append(frame)
        await super()._keep(frame)


def test_what_waits_to_be_received_is_bounded_and_nothing_is_lost():
    frames, most = 200, 10 * MAX_FRAME_BODY

    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        link = Counting(*await asyncio.open_connection(sock=ours), most)
        arrived = link.arrived
        _, hub = await asyncio.open_connection(sock=theirs)
        numbered = FrameWriter()
        for number in range(frames):
            body = bytes([number]) * MAX_FRAME_BODY
            hub.write(numbered.encode(HubFrame(FrameType.DATA, "bob", 1, body)))
        while len(arrived) * MAX_FRAME_BODY < most:
            await asyncio.sleep(0)
        for _ in range(1000):  # it would go on reading now, if it did
            await asyncio.sleep(0)
        assert len(arrived) * MAX_FRAME_BODY <= most + MAX_FRAME_BODY
        for number in range(frames):
            frame = await link.receive_frame(30.0)
            assert frame is not None
            assert frame.body[0] == number
        hub.close()
        await link.close(1.0)

    clock.run(scenario())


def test_a_reader_takes_frames_up_to_its_bound():
    frame = FrameWriter().encode(HubFrame(FrameType.HELLO, body=bytes(100)))
    assert list(FrameReader("x", most=100).feed(frame))
    with pytest.raises(ProtocolError, match="wrong length"):
        list(FrameReader("x", most=99).feed(frame))
    large = FrameWriter().encode(HubFrame(FrameType.HELLO, body=bytes(1000)))
    with pytest.raises(ProtocolError, match=r"announced a frame of 1014 bytes; 14 to 369 are"):
        list(FrameReader("x", most=100).feed(large[:10]))


@pytest.mark.processes
def test_who_spoils_tls_on_the_way_cuts_a_connection_and_ends_no_run(tmp_path):
    """A record behind the hub's last word of the handshake needs no key."""
    spoiled: list[bytes] = []

    async def scenario() -> None:
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            hub = net.consortium.agreed_hub()

            async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                there, back = await asyncio.open_connection(hub.host, hub.port)
                with contextlib.suppress(OSError):
                    back.write(await reader.read(1 << 16))
                    spoiled.append(await there.read(1 << 16))
                    writer.write(spoiled[-1] + b"\x17\x03\x03\x00\x30" + bytes(48))
                    await reader.read()
                back.close()
                writer.close()

            between = await asyncio.start_server(pass_on, "127.0.0.1", 0)
            address = f"127.0.0.1:{between.sockets[0].getsockname()[1]}"
            moved = dataclasses.replace(hub, address=address)
            agreed = dataclasses.replace(net.consortium, hub=moved)
            with pytest.raises(LinkLost) as caught:
                await connect(agreed, "ana", net.identity("ana"), 5.0)
            assert not isinstance(caught.value, Unwelcome)
            between.close()

    clock.run(scenario())
    assert spoiled
