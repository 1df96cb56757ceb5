"""Through an HTTP proxy: many hospitals let nothing out but by one.

The proxy is asked by CONNECT for a line to the hub, and TLS with the hub begins on that line: the
proxy sees where we go, how much, and when. One that opens TLS shows a certificate of its own, which
is not the agreed one.
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
from dataclasses import dataclass, field

from securefedyj.errors import InputError
from securefedyj.network.carrier import LinkLost, Unwelcome
from securefedyj.network.consortium import HubEntry
from securefedyj.network.transport import tls
from securefedyj.network.transport.addresses import written
from securefedyj.printable import printable

CREDENTIALS = "SECUREFEDYJ_PROXY_AUTH"
"""In the environment: USER:PASSWORD for a proxy whose URL has none."""
MOST_HEAD = 1 << 14  # bytes of a proxy's answer
_PORTS = {"http": 80, "https": 443}
_PASSING = (408, 429)  # of 400 to 499, what may be over soon
_VARIABLE = "The environment variable https_proxy"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Proxy:
    """Where a proxy is, and what it may ask for."""

    host: str
    port: int
    secure: bool
    """Whether the proxy itself is spoken to by TLS."""
    credentials: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        return written(self.host, self.port)


def proxy_to(hub: HubEntry, chosen: str | None) -> Proxy | None:
    """The proxy that leads to the hub, if any: the one chosen, or that of the environment.

    As everywhere, the environment has it in https_proxy or HTTPS_PROXY, and in no_proxy for whom it
    is not used. A hub on this very machine is not behind it.

    Raises
    ------
    ValueError
        If it cannot be used; the sentence has no credentials.
    """
    if chosen is not None:
        proxy = _parsed(chosen, "--proxy")
        if proxy.credentials:
            raise InputError(
                "SFY-NET-024",
                "--proxy must have no user name and password: other users of this machine can see "
                f"them in the list of processes. Put them into the environment, as {CREDENTIALS}="
                "USER:PASSWORD.",
            )
    else:
        url = urllib.request.getproxies().get("https")
        if not url or _goes_around(hub):
            return None
        proxy = _parsed(url, _VARIABLE)
    own = proxy.credentials or os.environ.get(CREDENTIALS, "")
    return Proxy(proxy.host, proxy.port, proxy.secure, own)


def _goes_around(hub: HubEntry) -> bool:
    """Whether the environment's proxy is not for the hub; never for one on this very machine."""
    names = [written(hub.host, hub.port)]
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(hub.host).is_loopback:
            return True
        names.append(hub.host)  # of IPv6, the brackets make a difference
    return hub.host == "localhost" or any(map(urllib.request.proxy_bypass, names))


def _parsed(url: str, where: str) -> Proxy:
    """What a URL says; it is never quoted, since it may hold a password."""
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
            "others, such as SOCKS, cannot be used.",
        ) from None
    given = ""
    if parts.username is not None:
        words = (parts.username, parts.password or "")
        given = ":".join(map(urllib.parse.unquote, words))
    return Proxy(host, port, parts.scheme == "https", given)


def on_inspection(hub: HubEntry) -> str:
    """What to do if something on the way may have opened TLS."""
    return (
        f"If a proxy or firewall opens TLS on the way, ask your network team for no TLS inspection "
        f"for {hub.host}, port {hub.port}"
    )


async def through(proxy: Proxy, hub: HubEntry, settings: ssl.SSLContext) -> Streams:
    """Connect to the hub by TLS on a line that the proxy makes.

    Raises LinkLost if the proxy fails this time, Unwelcome if it will go on to do so, and what TLS
    with the hub raises.
    """
    loop = asyncio.get_running_loop()
    outer = ssl.create_default_context() if proxy.secure else None
    try:
        line, answer = await loop.create_connection(_Answer, proxy.host, proxy.port, ssl=outer)
    except OSError as error:
        raise LinkLost(
            "SFY-NET-026",
            f"The proxy at {proxy.address} cannot be reached: {tls.described(error)}.",
        ) from None
    try:
        line.write(_request(proxy, hub))
        _check(await answer.head, proxy, hub)
        # The hub speaks after us: what is there already is not from it, and must not look so.
        if answer.more:
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
    """Refuse an answer that is not a line to the hub."""
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3})(?: ([^\r\n]*))?\r?\n", head)
    if status is None:
        raise Unwelcome("SFY-NET-020", f"What answers at {proxy.address} is not an HTTP proxy.")
    code = int(status[1])
    words = printable(f"{code} {(status[2] or b'').decode('latin-1')}".strip(), 80)
    if 200 <= code < 300:
        return
    who = f"The proxy at {proxy.address}"
    if code == 407:
        asks = "does not accept our user name and password" if proxy.credentials else (
            "asks for a user name and a password"
        )  # fmt: skip
        raise Unwelcome(
            "SFY-NET-021",
            f"{who} {asks} ({words}): put them into the environment, as {CREDENTIALS}="
            "USER:PASSWORD; only the method Basic is possible.",
        )
    if code == 403:
        raise Unwelcome(
            "SFY-NET-022",
            f"{who} does not let us go to the hub ({words}): ask your network team to allow "
            f"CONNECT to {hub.host}, port {hub.port}.",
        )
    if 400 <= code < 500 and code not in _PASSING:
        raise Unwelcome(
            "SFY-NET-023", f"{who} does not make a line to the hub at {hub.address} ({words})."
        )
    raise LinkLost("SFY-NET-019", f"{who} does not reach the hub at {hub.address} ({words}).")


class _Answer(asyncio.Protocol):
    """Takes the head of a proxy's answer, and nothing that follows it."""

    def __init__(self) -> None:
        self.head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._received = bytearray()

    @property
    def more(self) -> bool:
        """Whether something has come after the head."""
        return len(self._received) > len(self.head.result())

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self.head.done():
            return
        end = self._received.find(b"\r\n\r\n")
        if 0 <= end <= MOST_HEAD:
            self.head.set_result(bytes(self._received[: end + 4]))
        elif len(self._received) > MOST_HEAD:
            self.head.set_exception(Unwelcome("SFY-NET-029", "The proxy's answer has no end."))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.head.done():
            self.head.set_exception(LinkLost("SFY-NET-028", "The proxy closed the connection."))
