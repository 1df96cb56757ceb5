"""Proxies on this machine: a small one within the test, and tinyproxy where it is installed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

from securefedyj.network.local import free_port
from tests.patience import PATIENCE, wait_until

TINYPROXY = shutil.which("tinyproxy") or ""


class ConnectProxy:
    """Answers CONNECT as it is told to; without that, it makes the line."""

    def __init__(
        self, answer: bytes = b"", *, injects: bytes = b"", opens: ssl.SSLContext | None = None
    ) -> None:
        self.answer, self._injects, self._opens = answer, injects, opens
        self.heads: list[bytes] = []
        self.port = free_port()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> ConnectProxy:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()

    async def start(self, outer: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=outer)

    def kill(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, EOFError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            if self.answer:
                writer.write(self.answer)
                await writer.drain()
                await reader.read()
                return
            host, _, port = head.split()[1].decode().rpartition(":")
            if self._opens is not None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await writer.start_tls(self._opens)
                return
            there, back = await asyncio.open_connection(host.strip("[]"), int(port))
            self._writers.add(back)
            writer.write(
                b"HTTP/1.1 200 Connection established\r\nVia: a test\r\n\r\n" + self._injects
            )
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()


class TinyProxy:
    """The real one, as a process."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.port = free_port()
        self._file = folder / "tinyproxy.conf"
        lines = (f"Port {self.port}", "Listen 127.0.0.1", "Timeout 60", "MaxClients 20",
                 f'LogFile "{folder / "tinyproxy.log"}"', *settings)  # fmt: skip
        self._file.write_text("\n".join(lines) + "\n", encoding="ascii")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> TinyProxy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [TINYPROXY, "-d", "-c", str(self._file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._listens, lambda: "tinyproxy does not listen")

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)
