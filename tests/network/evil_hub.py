"""A hub that has the right key and does as it likes with what it carries."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import Identity
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import FrameReader, FrameType, FrameWriter, HubFrame


class Piece(NamedTuple):
    """A piece of a stream on its way."""

    sender: str
    recipient: str
    body: bytes


Treatment = Callable[[Piece], Iterable[Piece]]
"""What the hub delivers in place of a piece."""


class Line(NamedTuple):
    number: int
    writer: asyncio.StreamWriter
    numbered: FrameWriter

    def send(self, frame: HubFrame) -> None:
        self.writer.write(self.numbered.encode(frame))


class EvilHub:
    """Speaks the frames of the hub; shares no code with it but their encoding."""

    def __init__(self, consortium: Consortium, identity: Identity, treat: Treatment) -> None:
        certificates = [party.certificate for party in consortium.parties]
        self._tls = tls.context(identity, certificates, server_side=True)
        self._hub, self._treat = consortium.hub, treat
        self._present: dict[str, Line] = {}
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> EvilHub:
        self._server = await asyncio.start_server(
            self._serve, self._hub.host, self._hub.port, ssl=self._tls
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for line in self._present.values():
            line.writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames, line, name = (
            FrameReader("a party"),
            Line(next(self._numbers), writer, FrameWriter()),
            "",
        )
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                for frame in frames.feed(data):
                    if frame.type == FrameType.HELLO:
                        name = json.loads(frame.body)["party"]
                        self._enter(name, line)
                    elif frame.type == FrameType.PING:
                        line.send(HubFrame(FrameType.PONG))
                    else:
                        self._relay(name, frame)
        if self._present.get(name) is line:
            del self._present[name]
            for other in self._present.values():
                other.send(HubFrame(FrameType.LEFT, name, line.number))
        writer.close()

    def _enter(self, name: str, line: Line) -> None:
        line.send(HubFrame(FrameType.WELCOME, name, line.number))
        for other, there in self._present.items():
            line.send(HubFrame(FrameType.PRESENT, other, there.number))
            there.send(HubFrame(FrameType.PRESENT, name, line.number))
        self._present[name] = line

    def _relay(self, name: str, frame: HubFrame) -> None:
        wanted = self._present.get(frame.name)
        if wanted is None or wanted.number != frame.connection:
            return
        for piece in self._treat(Piece(name, frame.name, frame.body)):
            sender, recipient = self._present.get(piece.sender), self._present.get(piece.recipient)
            if sender is not None and recipient is not None:
                recipient.send(HubFrame(FrameType.DATA, piece.sender, sender.number, piece.body))
