"""Connections to the hub through an HTTP proxy, the only way out of many hospitals.

CONNECT asks the proxy for a connection to the hub, and TLS with the hub begins on it: the proxy
sees where we connect, how much we send, and when. A proxy that inspects TLS shows a certificate of
its own, which is not the one in consortium.toml.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import os
import re
import ssl
import urllib.parse
import urllib.request
from dataclasses import dataclass, field, replace

from securefedyj.errors import InputError
from securefedyj.network.carrier import LinkLost, Unwelcome
from securefedyj.network.consortium import HubEntry
from securefedyj.network.transport import tls
from securefedyj.network.transport.addresses import written
from securefedyj.printable import printable

CREDENTIALS = "SECUREFEDYJ_PROXY_AUTH"
"""The environment variable with USER:PASSWORD for a proxy whose URL has none."""
MOST_HEAD = 1 << 14  # bytes of a proxy's answer
_PORTS = {"http": 80, "https": 443}
_TEMPORARY = (408, 429)  # of 400 to 499, what may be over soon
_VARIABLE = "The environment variable https_proxy"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Proxy:
    """The address of a proxy, and how to connect to it."""

    host: str
    port: int
    secure: bool  # whether the connection to the proxy itself uses TLS
    credentials: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        return written(self.host, self.port)


def proxy_to(hub: HubEntry, chosen: str | None) -> Proxy | None:
    """The proxy that leads to the hub, if any: the one chosen, or the one in the environment.

    As usual, the environment variables https_proxy or HTTPS_PROXY name it, and no_proxy lists the
    hosts to reach without it. A hub on this machine is always reached without it.

    Raises
    ------
    InputError
        If it cannot be used; the message has no credentials.
    """
    if chosen is not None:
        proxy = _parsed(chosen, "--proxy")
        if proxy.credentials:
            raise InputError(
                "SFY-NET-024",
                "--proxy must have no user name and password: other users of this machine can see "
                f"them in the list of processes. Set the environment variable {CREDENTIALS} to "
                "USER:PASSWORD instead.",
            )
    else:
        url = urllib.request.getproxies().get("https")
        if not url or _goes_around(hub):
            return None
        proxy = _parsed(url, _VARIABLE)
    return replace(proxy, credentials=proxy.credentials or os.environ.get(CREDENTIALS, ""))


def _goes_around(hub: HubEntry) -> bool:
    """Whether the hub is to be reached without the proxy of the environment."""
    names = [written(hub.host, hub.port)]
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(hub.host).is_loopback:
            return True
        names.append(hub.host)  # an IPv6 address without its brackets
    return hub.host == "localhost" or any(map(urllib.request.proxy_bypass, names))


def _parsed(url: str, where: str) -> Proxy:
    """Parse a URL; errors never quote it, since it may hold a password."""
    try:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        usual = _PORTS[parts.scheme]
        port = parts.port or usual
        host = parts.hostname or ""
        rest = (parts.path.strip("/"), parts.query, parts.fragment)
        if not re.fullmatch(r"[\w.:%-]+", host) or any(rest):
            raise ValueError
    except (ValueError, KeyError):
        raise InputError(
            "SFY-NET-025",
            f"{where} must be the URL of an HTTP proxy, such as http://proxy.example.org:3128; "
            "other kinds, such as SOCKS, are not supported.",
        ) from None
    given = ""
    if parts.username is not None:
        given = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}")
    return Proxy(host, port, parts.scheme == "https", given)


def on_inspection(hub: HubEntry) -> str:
    """Advice for when something on the way may have inspected TLS."""
    return (
        f"If a proxy or firewall inspects TLS on the way, ask your network team to exempt "
        f"{hub.host}, port {hub.port}"
    )


async def through(proxy: Proxy, hub: HubEntry, settings: ssl.SSLContext) -> Streams:
    """Connect to the hub by TLS through a proxy.

    Raises LinkLost if the proxy fails this time, Unwelcome if it will always fail, and the errors
    of TLS with the hub.
    """
    loop = asyncio.get_running_loop()
    outer = ssl.create_default_context() if proxy.secure else None
    answer = asyncio.StreamReader(MOST_HEAD, loop)
    try:
        line, _ = await loop.create_connection(
            lambda: asyncio.StreamReaderProtocol(answer, loop=loop),
            proxy.host,
            proxy.port,
            ssl=outer,
        )
    except OSError as error:
        raise LinkLost(
            "SFY-NET-026",
            f"Cannot connect to the proxy at {proxy.address}: {tls.described(error)}.",
        ) from None
    try:
        line.write(_request(proxy, hub))
        _check(await _head(answer), proxy, hub)
        # The hub speaks after us: what is there already is not from it, and must not look so.
        answer.feed_eof()
        if await answer.read(1):
            raise Unwelcome(
                "SFY-NET-027", f"The proxy at {proxy.address} sends more than an answer to CONNECT."
            )
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        inner = await loop.start_tls(line, protocol, settings, server_hostname=hub.host)
        assert inner is not None
    except BaseException:
        line.close()
        raise
    protocol.connection_made(inner)
    return reader, asyncio.StreamWriter(inner, protocol, reader, loop)


async def _head(answer: asyncio.StreamReader) -> bytes:
    try:
        return await answer.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Unwelcome("SFY-NET-029", "The proxy's answer has no end.") from None
    except (asyncio.IncompleteReadError, OSError):
        raise LinkLost("SFY-NET-028", "The proxy closed the connection.") from None


def _request(proxy: Proxy, hub: HubEntry) -> bytes:
    host = hub.host if hub.host.isascii() else hub.host.encode("idna").decode()
    target = written(host, hub.port)
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", "User-Agent: securefedyj"]
    if proxy.credentials:
        own = proxy.credentials.encode(errors="surrogateescape")  # bytes of the environment
        words = base64.b64encode(own).decode()
        lines.append(f"Proxy-Authorization: Basic {words}")
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def _check(head: bytes, proxy: Proxy, hub: HubEntry) -> None:
    """Refuse an answer other than success."""
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3})(?: ([^\r\n]*))?\r?\n", head)
    if status is None:
        raise Unwelcome("SFY-NET-020", f"The server at {proxy.address} is not an HTTP proxy.")
    code = int(status[1])
    words = printable(f"{code} {(status[2] or b'').decode('latin-1')}".strip(), 80)
    if 200 <= code < 300:
        return
    who = f"The proxy at {proxy.address}"
    if code == 407:
        asks = "requires a user name and password"
        if proxy.credentials:
            asks = "does not accept our user name and password"
        raise Unwelcome(
            "SFY-NET-021",
            f"{who} {asks} ({words}): set the environment variable {CREDENTIALS} to "
            "USER:PASSWORD; only the method Basic is supported.",
        )
    if code == 403:
        raise Unwelcome(
            "SFY-NET-022",
            f"{who} blocked the connection to the hub ({words}): ask your network team to allow "
            f"CONNECT to {hub.host}, port {hub.port}.",
        )
    if 400 <= code < 500 and code not in _TEMPORARY:
        raise Unwelcome(
            "SFY-NET-023", f"{who} refused to connect to the hub at {hub.address} ({words})."
        )
    raise LinkLost("SFY-NET-019", f"{who} cannot reach the hub at {hub.address} ({words}).")
