"""Frames that wait: to be sent on a connection, or to be received from it."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable

from securefedyj.network.transport.framing import FrameWriter, HubFrame

_OVERHEAD = 128  # bytes that a frame takes besides its body
_MOST_NOTICES = 1024


class FrameQueue:
    """A queue of at most `limit` bytes, and one frame more.

    Notices, such as who is connected, never wait for room, so that a slow party cannot hold up the
    news of others.
    """

    def __init__(self, limit: int = sys.maxsize, most_frames: int | None = None) -> None:
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
