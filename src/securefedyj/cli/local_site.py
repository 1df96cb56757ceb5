"""Web pages for the person at this machine, and for nobody else.

Two kinds of strangers can send requests here: other users of this machine, and pages of other sites
in this person's browser. The pages are below a secret path, which neither of them knows. A page of
another site that leads its own name to this machine is recognized by that name (Host), and a form
that it sends by its Origin.
"""

from __future__ import annotations

import re
import secrets
import socketserver
import sys
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"
MOST_POSTED = 1 << 16  # bytes of a form
_MOST_FIELDS = 100
_SECONDS = 10.0  # to send a request
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "sandbox allow-scripts"
)
"""For a page with a script: it may load nothing, and belongs to no site, not even to this one."""


class Answer(NamedTuple):
    """What a page is, or where to look for it."""

    body: str = ""
    kind: str = "text/html"
    policy: str = _POLICY
    status: HTTPStatus = HTTPStatus.OK
    location: str | None = None
    """A page to go to, as a path below the secret one."""


Pages = Callable[[str, str, Mapping[str, str]], Answer | None]
"""Answers GET or POST of a page with some fields; None if there is no such page."""


class LocalSite(socketserver.ThreadingTCPServer):
    """Serves pages at an address that nobody can guess."""

    daemon_threads = True

    def __init__(self, pages: Pages) -> None:
        super().__init__((HOST, 0), _Handler)
        self.pages, self.token = pages, secrets.token_urlsafe(32)
        port = self.server_address[1]
        self.names = (f"{HOST}:{port}", f"localhost:{port}")

    @property
    def url(self) -> str:
        """Where the pages are; whoever knows it can use them."""
        return f"http://{self.names[0]}/{self.token}/"

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), OSError):  # else a browser has gone
            traceback.print_exc()


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; nothing is logged, since addresses have the secret."""

    server: LocalSite
    timeout = _SECONDS

    def do_GET(self) -> None:
        self._reply(self._answer({}))

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"\d{1,6}", size) or int(size) > MOST_POSTED:
            self._reply(_refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large."))
        else:  # read in any case: a browser shows no answer to what it cannot send
            self._reply(self._answer(_fields(self.rfile.read(int(size)).decode(errors="replace"))))

    def _answer(self, posted: Mapping[str, str]) -> Answer:
        host, address = self.headers.get("Host", ""), urlsplit(self.path)
        _, token, page = [*address.path.split("/", 2), "", ""][:3]
        if host not in self.server.names:
            return _refused(HTTPStatus.MISDIRECTED_REQUEST, "This page is for this machine alone.")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return _refused(HTTPStatus.NOT_FOUND, "Use the address that the command has shown.")
        if self.command == "POST" and self.headers.get("Origin") != f"http://{host}":
            return _refused(HTTPStatus.FORBIDDEN, "This form is not from this page.")
        fields = posted if self.command == "POST" else _fields(address.query)
        answer = self.server.pages(self.command, page, fields)
        return answer or _refused(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _reply(self, answer: Answer) -> None:
        content = answer.body.encode()
        self.send_response(answer.status)
        if answer.location is not None:
            self.send_header("Location", f"/{self.server.token}/{answer.location}")
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", answer.policy)
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        # Of forms of this site, a browser would hide the origin with "no-referrer".
        self.send_header("Referrer-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "securefedyj"

    def log_message(self, format: str, *args: object) -> None:
        pass


def see(page: str) -> Answer:
    """Go to another page, so that loading it again sends no form again."""
    return Answer(status=HTTPStatus.SEE_OTHER, location=page)


def _refused(status: HTTPStatus, why: str) -> Answer:
    return Answer(f"{why}\n", "text/plain", status=status)


def _fields(query: str) -> dict[str, str]:
    """The last value of each field."""
    try:
        found = parse_qs(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:  # too many
        return {}
    return {name: values[-1] for name, values in found.items()}
