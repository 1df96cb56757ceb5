"""The command line under observation: what a process shares and writes is kept for the test.

Below the folder RECORD, each process leaves PID.shares (payloads of messages and own sums, in
hexadecimal digits), PID.paths (every file opened for writing) and PID.NUMBER (the content of every
file that was renamed or removed, just before).
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from securefedyj.cli.main import main as command
from securefedyj.engines.replicated.engine import Replicated
from securefedyj.party.messages import Kind, Message


def main() -> int:
    folder = Path(os.environ["RECORD"])
    shares, paths = (
        os.open(folder / f"{os.getpid()}.{end}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for end in ("shares", "paths")
    )
    record_shares(lambda secret: os.write(shares, secret.hex().encode() + b"\n"))
    numbers = itertools.count()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            known = isinstance(arguments[0], str | bytes)  # else a file that is open already
            path = os.path.abspath(os.fsdecode(arguments[0])) if known else ""
            if path and Path(path).parent != folder:
                os.write(paths, path.encode() + b"\n")
        elif event in ("os.rename", "os.remove"):
            folder_of_it = arguments[2 if event == "os.rename" else 1]
            descriptor = os.open(
                arguments[0], os.O_RDONLY, dir_fd=None if folder_of_it == -1 else folder_of_it
            )
            with open(descriptor, "rb") as file:
                (folder / f"{os.getpid()}.{next(numbers)}").write_bytes(file.read())

    sys.addaudithook(watch)
    return command()


def record_shares(keep: Any) -> None:
    """Call `keep` with the payload of every message, and with the sums that are shared.

    But not with what greets, a digest that each state begins with, nor with who ends a session.
    """
    to_bytes, share = Message.to_bytes, Replicated.share

    def seen(message: Message) -> bytes:
        if message.kind not in (Kind.HELLO, Kind.STOP):
            keep(message.payload)
        return to_bytes(message)

    async def shared(engine: Replicated, values: Any, *, size: int, limbs: int) -> Any:
        if values is not None:
            keep(values.tobytes())
        return await share(engine, values, size=size, limbs=limbs)

    mock.patch.object(Message, "to_bytes", seen).start()
    mock.patch.object(Replicated, "share", shared).start()
