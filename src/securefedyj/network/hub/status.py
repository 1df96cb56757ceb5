"""The hub's status page and metrics: who is connected, since when, bytes, last activity.

Off unless asked for, read-only, and without anything that is not in the hub's log.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import re
import time
from collections.abc import Callable, Collection
from functools import cache
from http import HTTPStatus

from jinja2 import Environment, PackageLoader, StrictUndefined

from securefedyj.network.hub.consortia import Room
from securefedyj.network.transport.addresses import listeners

MOST_REQUEST = 1 << 13  # bytes
MOST_AT_ONCE = 16  # connections
REQUEST_SECONDS = 5.0  # seconds to send a request and to take the answer
_REFRESH = 5  # seconds
_TEXT = "text/plain; charset=utf-8"

_PARTY_METRICS = (
    ("connected", "connected", "gauge", "Whether the party is connected."),
    ("since", "connected_since_seconds", "gauge", "When the party connected (Unix time)."),
    ("bytes_received", "received_bytes_total", "counter", "Bytes from the party."),
    ("bytes_sent", "sent_bytes_total", "counter", "Bytes to the party."),
    ("active", "last_activity_seconds", "gauge", "When it last sent data for a peer (Unix time)."),
    ("submitted", "submitted_seconds", "gauge", "When its submission was stored (Unix time)."),
)


def metrics(rooms: Collection[Room]) -> str:
    """The status of all parties in Prometheus' text format."""
    lines: list[str] = []
    for field, name, kind, what in _PARTY_METRICS:
        full = f"securefedyj_hub_party_{name}"
        lines += f"# HELP {full} {what}", f"# TYPE {full} {kind}"
        for room in rooms:
            for party, status in room.status.items():
                if (value := getattr(status, field)) is not None:
                    labels = f'consortium="{_label(room.consortium.name)}",party="{_label(party)}"'
                    lines.append(f"{full}{{{labels}}} {value!r}")
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def page(rooms: Collection[Room], now: float) -> str:
    """The same as HTML."""
    return _templates().get_template("status.html").render(rooms=rooms, now=now, refresh=_REFRESH)


@cache
def _templates() -> Environment:
    made = Environment(loader=PackageLoader(__package__), autoescape=True, trim_blocks=True,
                       undefined=StrictUndefined)  # fmt: skip
    made.filters |= {"moment": _moment, "ago": _ago}
    return made


def _moment(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment))


def _ago(moment: float, now: float) -> str:
    seconds = max(0, round(now - moment))
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    unit, size = next(one for one in units if seconds >= 2 * one[1] or one[1] == 1)
    return f"{_moment(moment)} ({seconds // size}\N{NO-BREAK SPACE}{unit}\N{NO-BREAK SPACE}ago)"


_PAGES: dict[bytes, tuple[str, Callable[[Collection[Room]], str]]] = {
    b"/": ("text/html; charset=utf-8", lambda rooms: page(rooms, time.time())),
    # Prometheus' own name for its format.
    b"/metrics": ("text/plain; version=0.0.4; charset=utf-8", metrics),
    b"/healthz": (_TEXT, lambda rooms: "ok\n"),
}


class StatusServer:
    """A web server for `/`, `/metrics` and `/healthz`, and nothing else."""

    def __init__(self, rooms: Callable[[], Collection[Room]]) -> None:
        self._rooms = rooms  # returns those that the hub serves now
        self._host = ""
        self._servers: list[asyncio.Server] = []
        self._open: dict[asyncio.StreamWriter, None] = {}  # the oldest first

    async def start(self, host: str, port: int) -> int:
        self._host = host
        made = listeners(host, port, MOST_AT_ONCE, "The status page", "--status")
        starting = (asyncio.start_server(self._serve, sock=one, limit=MOST_REQUEST) for one in made)
        self._servers = await asyncio.gather(*starting)
        return int(made[0].getsockname()[1])

    async def stop(self) -> None:
        for server in self._servers:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > MOST_AT_ONCE:
            oldest = next(iter(self._open))  # it makes room, or a few idle ones would keep it
            del self._open[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except asyncio.LimitOverrunError:
                    head = b""
                writer.write(self._answer(head))
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError):
            pass
        finally:
            self._open.pop(writer, None)
            writer.transport.abort()  # a client that does not take the answer in time

    def _answer(self, head: bytes) -> bytes:
        request = re.match(rb"([A-Z]+) (/\S*) HTTP/1\.[01]\r\n", head)
        host = re.search(rb"\r\nhost:[ \t]*(\S*)[ \t]*\r\n", head, re.IGNORECASE)
        if request is None:
            return _response(400, "This is not an HTTP request.\n")
        method, path = request[1], request[2].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, "Only GET and HEAD are possible.\n")
        if host is not None and not self._is_ours(host[1].decode("latin-1")):
            # Another site's name that leads here: its pages could read ours in a browser.
            return _response(421, "Use the address that was given to --status.\n")
        if path not in _PAGES:
            return _response(404, "There are /, /metrics and /healthz.\n")
        kind, content = _PAGES[path]
        answer = _response(200, content(self._rooms()), kind)
        return answer[: answer.index(b"\r\n\r\n") + 4] if method == b"HEAD" else answer

    def _is_ours(self, host: str) -> bool:
        name = re.sub(r":\d+$", "", host).strip("[]")
        if name.lower() in ("localhost", self._host.lower()):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _response(code: int, body: str, kind: str = _TEXT) -> bytes:
    content, style = body.encode(), _templates().get_template("status.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    lines = [
        f"HTTP/1.1 {code} {HTTPStatus(code).phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(content)}",
        f"Content-Security-Policy: default-src 'none'; style-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Connection: close",
        *["Allow: GET, HEAD"] * (code == HTTPStatus.METHOD_NOT_ALLOWED),
        "",
    ]
    return "".join(f"{line}\r\n" for line in lines).encode() + content
