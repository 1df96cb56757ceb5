"""The part of a job that runs at a site."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from securefedyj.integrations import job
from securefedyj.joining.run import Cancelled

TASK = "securefedyj"
TOPIC = "securefedyj.packet"
_PACKET = "packet"
_END = 2.0  # seconds for the last packets
# Packets that wait for FLARE, and for us; further ones are lost, and sent again if needed.
_MOST_OUTGOING = 10_000
_MOST_INCOMING = 256


class AuxBus:
    """FLARE's auxiliary messages as a bus: from client to client, fire and forget.

    They pass through FLARE's server, and may be lost. FLARE's option `secure` is of no use here:
    2.9 ignores it for messages without a reply. The packets contain TLS of our own. A thread sends,
    because FLARE may block; `deliver` receives.
    """

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


class SecureFedYJExecutor(Executor):
    """Takes part in a run as the site's own file in its folder `local` says.

    The job contributes only the digest of the agreed file, which must match the site's own. It gets
    back the result, or a reason that says nothing about the site's data.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bus: AuxBus | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.ABOUT_TO_START_RUN:
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._deliver)

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        if task_name != TASK:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        reply = make_reply(ReturnCode.OK)
        try:
            reply[job.PARAMETERS] = asyncio.run(self._run(shareable, fl_ctx, abort_signal))
        except Cancelled:
            return make_reply(ReturnCode.TASK_ABORTED)
        except Exception as error:
            reply[job.REASON] = job.public_reason(error, fl_ctx.get_identity_name())
            self.log_error(fl_ctx, reply[job.REASON])
        return reply

    async def _run(self, shareable: Shareable, context: FLContext, abort: Signal) -> bytes:
        """Take part until there is a result, or FLARE stops the job."""
        local = Path(context.get_prop(FLContextKey.WORKSPACE_OBJECT).get_site_config_dir())
        client, digest = context.get_identity_name(), shareable.get(job.DIGEST)
        say = job.notes(local)
        self._bus = bus = AuxBus(context.get_engine())
        try:
            job.check_flare(client)
            site = job.site_in(local, client)
            say = job.notes(site.output)
            return await job.take_part(site, client, digest, bus, say, lambda: abort.triggered)
        except Cancelled as stopped:
            say(f"FLARE has ended the job. {stopped}")
            raise
        except Exception as error:
            say(str(error))
            raise
        finally:
            bus.close()

    def _deliver(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        peer = fl_ctx.get_peer_context()
        if self._bus is not None and peer is not None:
            self._bus.deliver(peer.get_identity_name(), request)
        return make_reply(ReturnCode.OK)
