"""FLARE's auxiliary messages as a bus: from client to client, fire and forget.

They pass through FLARE's server, and may be lost. FLARE's option `secure` is of no use here: 2.9
ignores it for messages without a reply. The packets contain TLS of our own.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

from nvflare.apis.shareable import Shareable

TOPIC = "securefedyj.packet"
_PACKET = "packet"
_END = 2.0  # seconds for the last packets
# Packets that wait for FLARE, and for us; further ones are lost, and sent again if needed.
_MOST_OUTGOING = 10_000
_MOST_INCOMING = 256


class AuxBus:
    """Sends from a thread, because FLARE may block; `deliver` receives."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._take: Callable[[str, bytes], None] = lambda peer, packet: None
        self._outgoing: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(_MOST_INCOMING)
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def post(self, peer: str, packet: bytes) -> None:
        if self._outgoing.qsize() < _MOST_OUTGOING:
            self._outgoing.put((peer, packet))

    def listen(self, take: Callable[[str, bytes], None]) -> None:
        self._take = take

    def deliver(self, peer: object, request: Shareable) -> None:
        """Take a message of FLARE, in any thread; the sender's name is not verified."""
        packet = request.get(_PACKET)
        if not (isinstance(peer, str) and isinstance(packet, bytes)):
            return
        if self._room.acquire(blocking=False):
            with contextlib.suppress(RuntimeError):  # the loop is closed: we are through
                self._loop.call_soon_threadsafe(self._taken, peer, packet)

    def _taken(self, peer: str, packet: bytes) -> None:
        self._room.release()
        self._take(peer, packet)

    def close(self) -> None:
        """Send the waiting packets, then stop."""
        self._outgoing.put(None)
        self._thread.join(_END)

    def _send(self) -> None:
        with self._engine.new_context() as context:
            while (outgoing := self._outgoing.get()) is not None:
                peer, packet = outgoing
                with contextlib.suppress(Exception):  # it is lost, as any packet may be
                    self._engine.send_aux_request(
                        targets=[peer],
                        topic=TOPIC,
                        request=Shareable({_PACKET: packet}),
                        timeout=0.0,
                        fl_ctx=context,
                        optional=True,
                    )
