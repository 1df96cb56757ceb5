"""What waits at the hub for one connection, bounded in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from securefedyj.network.frames import Frame

_OVERHEAD = 128  # bytes that a frame takes besides its body
_MOST_NOTICES = 1024


class Outbox:
    """Frames that wait for one connection: so many bytes, and a frame more.

    Notices, such as who is there, never wait for room, so that a slow party cannot hold up the
    news of others.
    """

    def __init__(self, limit: int) -> None:
        self.bytes = 0
        self._limit = limit
        self._most_frames = limit // _OVERHEAD + _MOST_NOTICES
        self._frames: deque[Frame] = deque()
        self._changed = asyncio.Condition()
        self._closed = False

    async def put(self, frame: Frame) -> None:
        """Wait for room, then add; nothing is added to a closed box."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or self.bytes < self._limit)
            self._append(frame)

    async def put_notice(self, frame: Frame) -> None:
        """Add without waiting for room; a box that nobody empties is closed."""
        async with self._changed:
            if len(self._frames) >= self._most_frames:
                self._closed = True
            self._append(frame)

    def _append(self, frame: Frame) -> None:
        if not self._closed:
            self._frames.append(frame)
            self.bytes += _OVERHEAD + len(frame.body)
        self._changed.notify_all()

    async def close(self) -> None:
        """Take no more; what is in there may still be taken."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def frames(self) -> AsyncIterator[Frame]:
        """All frames in order, until the box is closed and empty."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._closed or bool(self._frames))
                if not self._frames:
                    return
                frame = self._frames.popleft()
                self.bytes -= _OVERHEAD + len(frame.body)
                self._changed.notify_all()
            yield frame
