"""The part of a job that runs at a site."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from securefedyj.integrations.flare.bus import TOPIC, AuxBus
from securefedyj.integrations.flare.taking_part import read_site, take_part
from securefedyj.integrations.job import Notes, public_reason
from securefedyj.joining.run import Cancelled

TASK = "securefedyj"
DIGEST, PARAMETERS, REASON = "digest", "parameters", "reason"


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
            reply[PARAMETERS] = asyncio.run(self._run(shareable, fl_ctx, abort_signal))
        except Cancelled:
            return make_reply(ReturnCode.TASK_ABORTED)
        except Exception as error:
            reply[REASON] = public_reason(error, fl_ctx.get_identity_name())
            self.log_error(fl_ctx, reply[REASON])
        return reply

    async def _run(self, shareable: Shareable, context: FLContext, abort: Signal) -> bytes:
        """Take part until there is a result, or FLARE stops the job."""
        local = Path(context.get_prop(FLContextKey.WORKSPACE_OBJECT).get_site_config_dir())
        client, digest = context.get_identity_name(), shareable.get(DIGEST)
        notes = Notes(local)
        self._bus = bus = AuxBus(context.get_engine())
        try:
            site = read_site(local, client)
            notes = Notes(site.output)
            return await take_part(site, client, digest, bus, notes, lambda: abort.triggered)
        except Cancelled as stopped:
            notes.say(f"FLARE has ended the job. {stopped}")
            raise
        except Exception as error:
            notes.say(str(error))
            raise
        finally:
            bus.close()

    def _deliver(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        peer = fl_ctx.get_peer_context()
        if self._bus is not None and peer is not None:
            self._bus.deliver(peer.get_identity_name(), request)
        return make_reply(ReturnCode.OK)
