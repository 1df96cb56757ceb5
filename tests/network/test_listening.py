"""Addresses as people write them, and that IPv6 leads to the hub as IPv4 does."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from typing import Any

import pytest

from securefedyj.network import local
from securefedyj.network.consortium import ConsortiumError, HubEntry
from securefedyj.network.hub import HubServer
from securefedyj.network.transport import link
from securefedyj.network.transport.addresses import listeners, parse_address, plain_address, written
from securefedyj.network.transport.framing import FrameType
from securefedyj.network.transport.link import connect
from tests.network import clock
from tests.network.harness import THREE, Loopback, prepare
from tests.refusals import refused


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("10.0.0.5:443", "10.0.0.5", 443),
        ("hub.example.org:7443", "hub.example.org", 7443),
        ("[::1]:7443", "::1", 7443),
        ("[::]:0", "::", 0),
        ("*:7443", "*", 7443),
    ],
)
def test_an_address_is_read_and_written(address, host, port):
    assert parse_address(address, "--listen") == (host, port)
    assert written(host, port) == address


@pytest.mark.parametrize(
    "address", ["", "7443", ":7443", "::1:7443", "[::1]", "[host]:1", "host:", "host:x", "a:65536"]
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match=r"^--listen must be HOST:PORT, not "):
        parse_address(address, "--listen")


@pytest.mark.parametrize("address", ["[::1]:7443", "[2001:db8::1]:443", "::1:7443", "a.b:1"])
def test_the_agreed_file_takes_ipv6(tmp_path, address):
    consortium = prepare(tmp_path)
    hub = HubEntry(address, consortium.agreed_hub().certificate)
    agreed = dataclasses.replace(consortium, hub=hub).agreed_hub()
    assert f"{agreed.host}:{agreed.port}" == address.replace("[", "").replace("]", "")


@pytest.mark.parametrize("address", ["[::1::]:7443", "[1.2.3.4:5]:1", "[::1:7443", "12345::g:1"])
def test_the_agreed_file_refuses_what_is_no_ipv6(tmp_path, address):
    consortium = prepare(tmp_path)
    hub = HubEntry(address, consortium.agreed_hub().certificate)
    with refused("SFY-CON-003", ConsortiumError):
        dataclasses.replace(consortium, hub=hub)


@ipv6
@pytest.mark.parametrize(
    ("listen", "reached"),
    [
        ("::1", ["::1"]),
        ("localhost", ["127.0.0.1"]),
        ("*", ["127.0.0.1", "::1"]),
        ("127.0.0.1", ["127.0.0.1"]),
    ],
)
def test_a_hub_is_reached_where_it_listens(tmp_path, listen, reached):
    lines: list[str] = []

    async def scenario() -> None:
        consortium = prepare(tmp_path)
        identity = Loopback(tmp_path, consortium, THREE).identity
        hub = HubServer(
            [consortium], identity("hub"), lambda event, **fields: lines.append(str(fields))
        )
        port = await hub.start(listen, 0)
        for host in reached:
            there = HubEntry(written(host, port), consortium.agreed_hub().certificate)
            moved = dataclasses.replace(consortium, hub=there)
            link = await connect(moved, "ana", identity("ana"), 5.0)
            welcome = await link.receive_frame(5.0)
            assert welcome is not None
            assert welcome.type == FrameType.WELCOME
            await link.close(1.0)
        await hub.stop()

    clock.run(scenario())
    for host in reached:
        assert any(f"'address': '{host}'" in line for line in lines)


@ipv6
def test_an_address_of_one_kind_is_not_of_the_other():
    (only,) = listeners("::1", 0, 1, "The hub", "--listen")
    with only, pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", only.getsockname()[1]))


def test_who_cannot_listen_says_where_and_how_to_choose():
    (first,) = listeners("127.0.0.1", 0, 1, "The hub", "--listen")
    port = first.getsockname()[1]
    named = (f"The page cannot listen on 127.0.0.1:{port} (Addr", "--status")
    with first, refused("SFY-NET-038", naming=named):
        listeners("127.0.0.1", port, 1, "The page", "--status")


@pytest.mark.parametrize(
    ("address", "plain"),
    [("::ffff:10.1.2.3", "10.1.2.3"), ("::1", "::1"), ("10.1.2.3", "10.1.2.3"),
     ("fe80::1%lo", "fe80::1%lo")],
)  # fmt: skip
def test_an_ipv4_address_stays_one(address, plain):
    assert plain_address(address) == plain


def test_only_loops_of_asyncio_are_asked_to_try_several_addresses(monkeypatch):
    """Others, such as uvloop, do not take the option."""

    async def asked() -> dict[str, Any]:
        return link._trying()

    assert list(clock.run(asked())) == ["happy_eyeballs_delay"]
    monkeypatch.setattr(asyncio, "get_running_loop", object)
    assert link._trying() == {}


def test_a_free_port_is_given_to_nobody_else():
    port = local.free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)):  # which asks for SO_REUSEADDR
        pass
