"""The part of a job that runs at FLARE's server, which learns only the result."""

from __future__ import annotations

from pathlib import Path

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from securefedyj.files import write_atomically
from securefedyj.integrations import job
from securefedyj.integrations.flare.executor import TASK


class SecureFedYJController(Controller):
    """Asks all parties to take part, and keeps their result if it is the same everywhere.

    `digest` is that of the agreed file, as `job.named` writes it; the parties have the names of
    FLARE's clients. `timeout` is in seconds, for the whole job; with 0 the sites decide.
    """

    def __init__(self, digest: str, parties: list[str], timeout: int = 0) -> None:
        super().__init__()
        # FLARE writes arguments into the job by the attributes of the same names.
        self.digest, self.parties, self.timeout = digest, parties, timeout
        self._answers, self._reason = job.Answers(parties), ""

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to clean up."""

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable,
        fl_ctx: FLContext,
    ) -> None:  # fmt: skip
        """It came too late."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        task = Task(
            name=TASK,
            data=Shareable({job.DIGEST: self.digest}),
            timeout=self.timeout,
            result_received_cb=self._take,
        )
        self.broadcast_and_wait(
            task=task,
            fl_ctx=fl_ctx,
            targets=self.parties,
            min_responses=len(self.parties),
            abort_signal=abort_signal,
        )
        if abort_signal.triggered:
            return
        try:
            result = self._answers.result()
        except job.NoResult as error:
            self.system_panic(self._reason or str(error), fl_ctx)
            return
        folder = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_run_dir(fl_ctx.get_job_id())
        write_atomically(Path(folder) / job.RESULT, result)
        self.log_info(fl_ctx, f"All parties have returned the same {job.RESULT}.")

    def _take(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        name, reply = client_task.client.name, client_task.result
        answer = {**reply, job.PARTY: name}
        if (code := reply.get_return_code(ReturnCode.OK)) != ReturnCode.OK:
            answer.setdefault(job.REASON, f"{name} has no result ({code}).")
        try:
            self._answers.take(answer)
        except job.NoResult as error:
            self._reason = self._reason or str(error)  # the first is the cause of the others
            self.cancel_task(client_task.task)
