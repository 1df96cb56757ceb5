"""Loaded by every Python process of a watched run, before anything else.

In the folder WATCH, Flower's SuperLink leaves all bytes that reach it, and the sites what they
share, until there is a file `enough`.
"""

import os
import sys
from pathlib import Path

COMMAND = " ".join(sys.orig_argv)


def append(end: str, data: bytes) -> None:
    with open(Path(os.environ["WATCH"]) / f"{os.getpid()}.{end}", "ab") as file:
        file.write(data)


def enough() -> bool:
    return (Path(os.environ["WATCH"]) / "enough").exists()


def watch_site() -> None:
    from tests.network.recording import record_shares

    record_shares(lambda secret: append("shares", secret.hex().encode() + b"\n"))


def watch_server() -> None:
    """Keep what comes out of TLS, before anything reads it."""
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    for protocol in (H11Protocol, HttpToolsProtocol):

        def seen(self, data, received=protocol.data_received):
            if not enough():
                append("frames", bytes(data))
            return received(self, data)

        protocol.data_received = seen


if os.environ.get("WATCH") and not enough():
    if "integrations.flower.process" in COMMAND:
        watch_site()
    elif "flower-superlink" in COMMAND:
        watch_server()
