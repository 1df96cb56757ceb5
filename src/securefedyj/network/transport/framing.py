"""Frames between a party and the hub, inside their TLS connection, and queues of them.

docs/hub.md, "Frames", has the fields. TLS already keeps bytes whole and in order; sequence numbers
and limits are there for a faulty peer: a frame that does not fit ends the connection with an error,
and nothing is guessed.
"""

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from enum import IntEnum
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from securefedyj.errors import InputError, ProtocolError
from securefedyj.party.messages import VERSION
from securefedyj.strict import Record

MAX_FRAME_BODY = 1 << 16  # bytes; longer streams travel in pieces
WINDOW = 1 << 18  # bytes of a file for the mailbox that a party sends before it waits for PUT
MailKind: TypeAlias = Literal["submission", "result"]
SUBMISSION: MailKind = "submission"
RESULT: MailKind = "result"

_OVERHEAD = 128  # bytes that a frame takes in a queue besides its body
_MOST_NOTICES = 1024

_LENGTH = struct.Struct("!I")
_HEADER = struct.Struct("!BQIB")


class FrameType(IntEnum):
    """What a frame is about."""

    HELLO = 1  # party: which consortium, which party; see `Hello`
    WELCOME = 2  # hub: accepted; the connection is the party's own number
    REFUSED = 3  # hub: a sentence; the connection is over
    PRESENT = 4  # hub: a peer is connected, by that connection
    LEFT = 5  # hub: a peer has left
    DATA = 6  # a piece of the stream between two parties
    PING = 7  # party: is the hub there?
    PONG = 8  # hub: it is
    CLOSING = 9  # hub: it is about to stop
    NOTICE = 10  # hub: a sentence about a peer that it has refused or lost
    LIST = 11  # party: what is in the mailbox? hub: an `Item`; the last LIST is empty
    PUT = 12  # party: I have this `Item` for the mailbox; hub: send the next `WINDOW` bytes
    GET = 13  # party: send me this `Item`
    STORED = 14  # hub: the item is on its disk


class HubFrame(Record, frozen=True):
    """One frame; `FrameWriter` and `FrameReader` add and check the sequence number."""

    type: FrameType
    name: str = ""
    connection: int = 0
    body: bytes = b""

    def __repr__(self) -> str:
        return f"HubFrame({self.type.name}, {self.name!r}, {self.connection})"


Release: TypeAlias = Annotated[str, Meta(max_length=40)]
"""Such as 0.2.0, for people; empty if it is older than 0.3."""


class Hello(Record, frozen=True, forbid_unknown_fields=False):
    """The body of HELLO, in JSON. Later releases may add fields; the version tells."""

    consortium: str
    party: str
    version: int = VERSION
    digest: str = ""  # of the agreed file
    mailbox: bool = False  # whether the party comes for the mailbox, and not to meet others
    look: bool = False  # whether it only wants to know who is here, and is not seen itself
    release: Release = ""


class Item(Record, frozen=True):
    """A file in the mailbox; in JSON the body of LIST, PUT and GET."""

    kind: MailKind
    sender: str
    size: Annotated[int, Meta(ge=1)]
    sha256: str = ""  # of a file to be stored


class FrameWriter:
    """Numbers the frames of one direction."""

    def __init__(self) -> None:
        self._next = 0

    def encode(self, frame: HubFrame) -> bytes:
        name = frame.name.encode()
        if len(frame.body) > MAX_FRAME_BODY:
            raise InputError(
                "SFY-NET-006",
                f"A frame holds at most {MAX_FRAME_BODY} bytes, not {len(frame.body)}.",
            )
        header = _HEADER.pack(frame.type, self._next, frame.connection, len(name))
        self._next += 1
        length = _LENGTH.pack(len(header) + len(name) + len(frame.body))
        return b"".join((length, header, name, frame.body))


class FrameReader:
    """Bytes in, frames out; raises ProtocolError where the bytes are not the next frame.

    `most` limits the bytes of a body; it is small until the other side has identified itself.
    """

    def __init__(self, peer: str, most: int = MAX_FRAME_BODY) -> None:
        self._peer = peer
        self.most = most
        self._next = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[HubFrame]:
        """Take bytes as they come; yield the frames that are complete."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            longest = _HEADER.size + 255 + self.most
            if not _HEADER.size <= length <= longest:
                raise ProtocolError(
                    "SFY-NET-010",
                    f"{self._peer} announced a frame of {length} bytes; "
                    f"{_HEADER.size} to {longest} are possible.",
                )
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            content = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield self._decoded(content)

    def end(self) -> None:
        """Note the end of the stream; within a frame it is an error."""
        if self._buffer:
            raise ProtocolError(
                "SFY-NET-007", f"The connection to {self._peer} ended in the middle of a frame."
            )

    def _decoded(self, content: bytes) -> HubFrame:
        kind, sequence, connection, length = _HEADER.unpack_from(content)
        if sequence != self._next:
            what = "came twice" if sequence < self._next else "is out of order"
            raise ProtocolError(
                "SFY-NET-008",
                f"Frame {sequence} from {self._peer} {what}: expected frame {self._next}.",
            )
        self._next += 1
        start = _HEADER.size + length
        try:
            name = content[_HEADER.size : start].decode()
            frame_type = FrameType(kind)
        except ValueError:
            raise ProtocolError(
                "SFY-NET-011",
                f"Frame {sequence} from {self._peer} has no known type and name (type {kind}).",
            ) from None
        if len(content) < start or len(content) - start > self.most:
            raise ProtocolError(
                "SFY-NET-009", f"Frame {sequence} from {self._peer} has a wrong length."
            )
        return HubFrame(frame_type, name, connection, content[start:])


class FrameQueue:
    """Frames that wait: at most `limit` bytes, and one frame more.

    Notices, such as who is connected, never wait for room, so that a slow party cannot hold up the
    news of others.
    """

    def __init__(self, limit: int, most_frames: int | None = None) -> None:
        self.bytes = 0
        self._limit = limit
        self._most_frames = most_frames or limit // _OVERHEAD + _MOST_NOTICES
        self._frames: deque[HubFrame] = deque()
        self._ready, self._room = asyncio.Event(), asyncio.Event()
        self._closed = False

    async def put(self, frame: HubFrame) -> None:
        """Wait for room, then add; nothing is added to a closed queue."""
        while not self._closed and (
            self.bytes >= self._limit or len(self._frames) >= self._most_frames
        ):
            self._room.clear()
            await self._room.wait()
        self._append(frame)

    def put_notice(self, frame: HubFrame) -> None:
        """Add without waiting for room; a queue that nobody empties is closed."""
        if len(self._frames) >= self._most_frames:
            self.close()
        self._append(frame)

    def _append(self, frame: HubFrame) -> None:
        if not self._closed:
            self._frames.append(frame)
            self.bytes += _OVERHEAD + len(frame.body)
            self._ready.set()

    def close(self) -> None:
        """Take no more frames; those inside can still be taken out."""
        self._closed = True
        self._ready.set()
        self._room.set()

    async def get(self) -> HubFrame | None:
        """Wait for the next frame; None once the queue is closed and empty."""
        while not self._frames:
            if self._closed:
                return None
            self._ready.clear()
            await self._ready.wait()
        frame = self._frames.popleft()
        self.bytes -= _OVERHEAD + len(frame.body)
        self._room.set()
        return frame

    async def frames(self) -> AsyncIterator[HubFrame]:
        """All frames in order, until the queue is closed and empty."""
        while (frame := await self.get()) is not None:
            yield frame

    async def send_to(
        self,
        writer: asyncio.StreamWriter,
        numbered: FrameWriter,
        count: Callable[[HubFrame], None] = lambda frame: None,
    ) -> None:
        """Write all frames as they come; those for a line that is gone are dropped."""
        async for frame in self.frames():
            if not writer.is_closing():  # otherwise the receiver says why
                count(frame)
                writer.write(numbered.encode(frame))
                await writer.drain()
