"""What a hub knows, as a page and as metrics: who is there, since when, bytes, last activity.

Off unless asked for, read-only, and without anything that the hub does not say in its log.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import ipaddress
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from securefedyj.network.hub.consortia import Room
from securefedyj.network.transport.addresses import listeners

MOST_REQUEST = 1 << 13  # bytes
MOST_AT_ONCE = 16  # connections
PATIENCE = 5.0  # seconds for a request, and to take the answer
_REFRESH = 5  # seconds

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif;
  --soft: #555; --line: #ddd; --away: #8a3b00; }
@media (prefers-color-scheme: dark) { :root { --soft: #aaa; --line: #444; --away: #f0a060; } }
body { margin: 0 auto; max-width: 68rem; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h2, td { overflow-wrap: anywhere; }
p { margin: .5rem 0; color: var(--soft); }
table { border-collapse: collapse; table-layout: fixed; width: 100%;
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { box-sizing: border-box; } th:nth-child(2), th:nth-child(5) { width: 27.5%; }
.number { text-align: right; width: 14%; padding-right: 2rem; }
.away { color: var(--away); }
@media (max-width: 40rem) {
  thead { display: none; }
  tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .1rem 0; }
  td::before { content: attr(data-label); color: var(--soft); white-space: nowrap; }
  td:first-child { font-weight: 600; } td:first-child::before { content: none; }
  td + td { text-align: right; } .number { width: auto; padding: .1rem 0; }
}
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = (
    f"Content-Security-Policy: default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n"
)
_HTML, _TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"  # Prometheus' own name for its format


class PartyStatus(NamedTuple):
    """One party of one consortium; times are in seconds since 1970."""

    consortium: str
    party: str
    since: float | None
    """When it came, if it is there."""
    received: int
    """Bytes from it, since the hub serves the consortium."""
    sent: int
    active: float | None
    """When it last sent something for a peer."""


def snapshot(rooms: Iterable[Room]) -> list[PartyStatus]:
    """All parties of all consortia, in the order of the files."""
    return [
        PartyStatus(
            room.consortium.name,
            name,
            room.present[name].since if name in room.present else None,
            tally.received.bytes,
            tally.sent.bytes,
            tally.active,
        )
        for room in rooms
        for name, tally in room.tallies.items()
    ]


def metrics(parties: list[PartyStatus]) -> str:
    """Prometheus' text format."""
    lines: list[str] = []
    for name, kind, what, value in (
        ("connected", "gauge", "Whether the party is there.", lambda p: int(p.since is not None)),
        ("connected_since_seconds", "gauge", "When it came (Unix time).", lambda p: p.since),
        ("received_bytes_total", "counter", "Bytes from the party.", lambda p: p.received),
        ("sent_bytes_total", "counter", "Bytes to the party.", lambda p: p.sent),
        ("last_activity_seconds", "gauge", "When it last sent something for a peer (Unix time).",
         lambda p: p.active),
    ):  # fmt: skip
        lines += (
            f"# HELP securefedyj_hub_party_{name} {what}",
            f"# TYPE securefedyj_hub_party_{name} {kind}",
        )
        for party in parties:
            number = value(party)
            if number is not None:
                labels = f'consortium="{_label(party.consortium)}",party="{_label(party.party)}"'
                lines.append(f"securefedyj_hub_party_{name}{{{labels}}} {number!r}")
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def page(parties: list[PartyStatus], now: float) -> str:
    """The same for people."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="refresh" content="{_REFRESH}"><link rel="icon" href="data:,">'
        f"<title>securefedyj hub</title><style>{_STYLE}</style></head><body>"
        f"<h1>securefedyj hub</h1><p>{_moment(now)} UTC, anew every {_REFRESH} seconds</p>"
        + "".join(_tables(parties, now))
        + "</body></html>\n"
    )


def _tables(parties: list[PartyStatus], now: float) -> Iterator[str]:
    labels = ("Party", "There since", "Bytes from it", "Bytes to it", "Last activity")
    head = "".join(
        f'<th scope="col"{_number(label)}>{label}</th>' for label in labels
    )  # the same words label the cells on a narrow screen
    for name in dict.fromkeys(party.consortium for party in parties):
        ours = [party for party in parties if party.consortium == name]
        there = sum(party.since is not None for party in ours)
        yield f"<h2>{html.escape(name)}</h2><p>{there} of {len(ours)} parties are there</p>"
        yield f"<table><thead><tr>{head}</tr></thead><tbody>"
        for party in ours:
            cells = (
                html.escape(party.party),
                "not there" if party.since is None else _ago(party.since, now),
                f"{party.received:,}",
                f"{party.sent:,}",
                "none" if party.active is None else _ago(party.active, now),
            )
            away = ' class="away"' if party.since is None else ""
            yield (
                f"<tr{away}>"
                + "".join(
                    f'<td data-label="{label}"{_number(label)}>{cell}</td>'
                    for label, cell in zip(labels, cells, strict=True)
                )
                + "</tr>"
            )
        yield "</tbody></table>"
    if not parties:
        yield "<p>No consortium is served.</p>"


def _number(label: str) -> str:
    return ' class="number"' if label.startswith("Bytes") else ""


def _moment(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment))


def _ago(moment: float, now: float) -> str:
    seconds = max(0, round(now - moment))
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    unit, size = next(one for one in units if seconds >= 2 * one[1] or one[1] == 1)
    return f"{_moment(moment)} ({seconds // size}&nbsp;{unit}&nbsp;ago)"


class Status:
    """A small web server, which knows two pages.

    Parameters
    ----------
    rooms
        Who is there now.
    """

    def __init__(self, rooms: Callable[[], Iterable[Room]]) -> None:
        self._rooms = rooms
        self._host = ""
        self._servers: list[asyncio.Server] = []
        self._open: dict[asyncio.StreamWriter, None] = {}  # the oldest first

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port."""
        self._host = host
        made = listeners(host, port, MOST_AT_ONCE, "The status page", "--status")
        for one in made:
            self._servers.append(
                await asyncio.start_server(self._serve, sock=one, limit=MOST_REQUEST)
            )
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
            async with asyncio.timeout(PATIENCE):
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
            writer.transport.abort()  # who does not take the answer in time

    def _answer(self, head: bytes) -> bytes:
        request = re.match(rb"([A-Z]+) (/\S*) HTTP/1\.[01]\r\n", head)
        host = re.search(rb"\r\nhost:[ \t]*(\S*)[ \t]*\r\n", head, re.IGNORECASE)
        if request is None:
            return _response(400, "Bad Request", _TEXT, "This is not a request.\n")
        method, path = request[1], request[2].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, "Method Not Allowed", _TEXT, "Only GET and HEAD.\n")
        if host is not None and not self._is_ours(host[1].decode("latin-1")):
            # Another site's name that leads here: its pages could read ours in a browser.
            sentence = "Use the address that was given to --status.\n"
            return _response(421, "Misdirected Request", _TEXT, sentence)
        now, parties = time.time(), snapshot(self._rooms())
        if path == b"/":
            answer = _response(200, "OK", _HTML, page(parties, now))
        elif path == b"/metrics":
            answer = _response(200, "OK", _METRICS, metrics(parties))
        else:
            answer = _response(404, "Not Found", _TEXT, "There is / and /metrics.\n")
        return answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == b"HEAD" else answer

    def _is_ours(self, host: str) -> bool:
        name = re.sub(r":\d+$", "", host).strip("[]")
        if name.lower() in ("localhost", self._host.lower()):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _response(code: int, reason: str, kind: str, body: str) -> bytes:
    content = body.encode()
    allow = "Allow: GET, HEAD\r\n" if code == 405 else ""
    return (
        f"HTTP/1.1 {code} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        f"{allow}{_HEADERS}\r\n"
    ).encode() + content
