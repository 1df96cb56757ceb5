"""A rehearsal before a SuperNode starts: an app that brings code of its own must be refused.

Flower's own parts store the app, run it and receive the reply, as in a real run. The code is
harmless; it leaves a trace.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from flwr.app import Context, RecordDict
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import Status
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supernode.main import create_app
from flwr.supernode.nodestate import NodeStateFactory
from flwr.supernode.start_client_internal import _insert_message

from securefedyj.errors import CodedError, code_of
from securefedyj.integrations.flower import template
from securefedyj.integrations.flower.process import REFUSAL

PATIENCE = 120.0  # seconds; Python imports Flower twice
_LOOK_EVERY = 0.05
_RUN = 1  # the identifier of whatever needs one

_CODE = """\
from pathlib import Path
from flwr.clientapp import ClientApp
Path({trace!r}).touch()
app = ClientApp()
"""


class NotGuarded(CodedError):
    """Foreign code would run here, or might."""


def rehearse() -> None:
    """Send the site an app with code; NotGuarded unless it is refused and leaves no trace."""
    with tempfile.TemporaryDirectory(prefix="securefedyj-") as folder:
        trace = Path(folder) / "trace"
        try:
            said = _said_of(_app(trace), Path(folder) / "home")
        except Exception as error:
            raise NotGuarded(
                code_of(error, "SFY-FLOWER-009"), f"{type(error).__name__}: {error}"
            ) from error
        if trace.exists():
            raise NotGuarded("SFY-FLOWER-007", "its code has run")
        if REFUSAL not in said:
            raise NotGuarded("SFY-FLOWER-008", f"it ended with: {said}")


def _app(trace: Path) -> Fab:
    files = {
        template.FILE: template.project("", (), server="foreign", client="foreign"),
        "foreign.py": _CODE.format(trace=str(trace)),
    }
    content, _ = build_fab_from_files({name: text.encode() for name, text in files.items()})
    return Fab(hashlib.sha256(content).hexdigest(), content, {})


def _said_of(app: Fab, home: Path) -> str:
    """Let the site run an app; return how that has ended."""
    states = NodeStateFactory(ObjectStoreFactory())
    state = states.state()
    run = Run.create_empty(_RUN)
    run.fab_id, run.fab_version, run.fab_hash = "securefedyj/securefedyj-fit", "1.0.0", app.hash_str
    state.store_run(run)
    state.store_fab(app)
    state.set_run_series_context(run.series_id, Context(_RUN, _RUN, {}, RecordDict(), {}))
    task = state.create_task(TaskType.CLIENT_APP, _RUN, app.hash_str)
    metadata = Metadata(_RUN, "", _RUN, _RUN, "", "", time.time(), PATIENCE, "query")
    _insert_message(make_message(metadata, RecordDict()), state, state.object_store)
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    deadline = time.monotonic() + PATIENCE
    with _served(states) as address, _executor(address, {"FLWR_HOME": str(home), **quiet}) as runs:
        while runs.poll() is None and time.monotonic() < deadline:
            (ended,) = state.get_tasks(task_ids=[task])
            if ended.status.status == Status.FINISHED:
                return str(ended.status.details)
            time.sleep(_LOOK_EVERY)
    raise TimeoutError("nothing has run the app")


@contextmanager
def _served(states: NodeStateFactory) -> Iterator[str]:
    """What a SuperNode serves on this machine; the address."""
    server = uvicorn.Server(uvicorn.Config(create_app(states), log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _executor(address: str, more: Mapping[str, str]) -> Iterator[subprocess.Popen[Any]]:
    """What a SuperNode starts, and what starts a process for each app."""
    command = ["flower-superexec", "--insecure", "--runtime-api-address", address]
    command += ["--parent-pid", str(os.getpid())]
    with subprocess.Popen(
        command, env={**os.environ, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()
