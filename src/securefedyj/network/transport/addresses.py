"""Addresses in options and files, and sockets that listen there, by IPv4 and IPv6."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Any

from securefedyj.errors import InputError

ANYWHERE = "*"
"""The host that stands for all interfaces."""

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def parse_address(address: str, option: str) -> tuple[str, int]:
    """The host and port in HOST:PORT; an IPv6 address is in brackets."""
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    plain = host[1:-1] if bracketed else host
    if (
        not plain
        or (":" in plain) != bracketed
        or not (port.isascii() and port.isdecimal())
        or int(port) > 65535
    ):
        raise InputError(
            "SFY-HUB-003",
            f"{option} must be HOST:PORT, not {address!r}; an IPv6 address is in brackets, such as "
            "[::1]:7443, and * means all interfaces.",
        )
    return plain, int(port)


def written(host: str, port: int) -> str:
    """HOST:PORT."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listeners(host: str, port: int, backlog: int, who: str, option: str) -> list[socket.socket]:
    """A socket for each address of a host, all on the same port; 0 lets the system choose it."""
    made: list[socket.socket] = []
    try:
        for family, address, dual in _places(host, port):
            if made:
                address = (address[0], made[0].getsockname()[1], *address[2:])
            try:
                one = socket.create_server(
                    address, family=family, backlog=backlog, dualstack_ipv6=dual
                )
            except OSError as error:  # such as ::1 of "localhost" on a machine without IPv6
                missing = error
                if error.errno not in _NOT_HERE:
                    raise
            else:
                one.setblocking(False)
                made.append(one)
        if not made:
            raise missing
    except OSError as error:
        for one in made:
            one.close()
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise InputError(
            "SFY-NET-038",
            f"{who} cannot listen on {written(host, port)} ({reason}): choose another address with "
            f"{option}, or stop the program that uses this one.",
        ) from None
    return made


def _places(host: str, port: int) -> list[tuple[int, Any, bool]]:
    """Family and address of each socket, and whether it serves IPv4 and IPv6."""
    if host == ANYWHERE:
        dual = socket.has_dualstack_ipv6()
        return [(socket.AF_INET6 if dual else socket.AF_INET, ("", port), dual)]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, address, False) for family, _, _, _, address in dict.fromkeys(found)]


def plain_address(address: str) -> str:
    """The address of a peer; an IPv4 address mapped into IPv6 becomes plain."""
    try:
        mapped = ipaddress.IPv6Address(address.partition("%")[0]).ipv4_mapped
    except ValueError:
        return address
    return address if mapped is None else str(mapped)
