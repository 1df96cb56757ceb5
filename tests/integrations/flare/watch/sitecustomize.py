"""Loaded by every Python process of a watched run, before anything else.

In the folder WATCH, as long as it has a file `on`, the processes of FLARE's server leave all frames
that they handle, and those of the sites what they share. Of a site's packets LOSE in a hundred are
lost. With IN_THE_CLEAR there is no TLS within the packets. With SWAP=ONE,TWO, the server passes off
these two sites for each other.
"""

import os
import random
import sys
from pathlib import Path

SITES = ("simulator_worker", "client.worker_process")
COMMAND = " ".join(sys.orig_argv)


def append(end: str, data: bytes) -> None:
    folder = Path(os.environ["WATCH"])
    if (folder / "on").exists():
        with open(folder / f"{os.getpid()}.{end}", "ab") as file:
            file.write(data)


def watch_site() -> None:
    from securefedyj.integrations.flare import carrier, executor
    from securefedyj.network.transport import tls
    from tests.network.recording import record_shares
    from tests.network.test_secrets import InTheClear

    chance, post = random.Random(os.getpid()), executor.AuxBus.post
    percent = int(os.environ.get("LOSE", "0"))

    def lossy(self: executor.AuxBus, peer: str, packet: bytes) -> None:
        if chance.randrange(100) < percent:
            append("lost", b".")
        else:
            post(self, peer, packet)

    if percent:
        executor.AuxBus.post = lossy  # type: ignore[method-assign]
        carrier.RESEND = 0.2
    if os.environ.get("IN_THE_CLEAR"):
        tls.Channel = InTheClear  # type: ignore[misc]
    record_shares(lambda secret: append("shares", secret.hex().encode() + b"\n"))


def watch_server() -> None:
    from nvflare.fuel.f3.sfm.conn_manager import ConnManager

    task = ConnManager.process_frame_task

    def seen(self, connection, frame):
        append("frames", bytes(frame))
        return task(self, connection, frame)

    ConnManager.process_frame_task = seen
    if os.environ.get("SWAP"):
        swap_sites(*os.environ["SWAP"].split(","))


def swap_sites(one: str, two: str) -> None:
    """What a third site sends to one of them goes to the other, and what they send is of the other.

    Their names are of one length, so that they can change places in a message of FLARE.
    """
    from nvflare.fuel.f3.cellnet import core_cell
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey as Key
    from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, StreamHeaderKey

    from securefedyj.integrations.flare.executor import TOPIC

    forward, other = core_cell.CoreCell._forward, {one: two, two: one}

    def swapped(cell: str) -> str:
        name, *rest = cell.split(".")
        return ".".join([other.get(name, name), *rest])

    def forward_swapped(self, endpoint, origin, destination, kind, message):
        ends = {cell.split(".")[0] for cell in (origin, destination)}
        if message.get_header(Key.CHANNEL) == STREAM_CHANNEL and not ends <= set(other):
            origin, destination = swapped(origin), swapped(destination)
            message.add_headers({Key.ORIGIN: origin, Key.DESTINATION: destination})
            if message.get_header(StreamHeaderKey.TOPIC) == TOPIC:
                parts = bytes(message.payload).split(one.encode())
                turned = [part.replace(two.encode(), one.encode()) for part in parts]
                message.payload = two.encode().join(turned)
                append("swapped", b".")
        return forward(self, endpoint, origin, destination, kind, message)

    core_cell.CoreCell._forward = forward_swapped


if os.environ.get("WATCH"):
    if any(site in COMMAND for site in SITES):
        watch_site()
    elif "simulator" in COMMAND or "simulate.py" in COMMAND or "fed.app.server" in COMMAND:
        watch_server()
