"""Connections that do not say who they are: few at once, and in nobody's way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from securefedyj.network.hub import consortia as served
from securefedyj.network.hub import limits as lobby_module
from securefedyj.network.hub import server as hub_module
from securefedyj.network.hub.limits import (
    GUESTS_OF_ADDRESS,
    TURNS_OF_ADDRESS,
    Lobby,
    MadeRoom,
    block_of,
)
from securefedyj.network.log import log_line
from securefedyj.network.transport.framing import FrameType, FrameWriter, HubFrame
from tests.network.clock import run, until
from tests.network.harness import Loopback
from tests.network.test_hub import Client, connected, joined, with_hub

FIRST_BYTE = b"\x16"  # of a handshake
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)


@contextlib.contextmanager
def crowd(net: Loopback, number: int) -> Iterator[list[socket.socket]]:
    """So many connections to the hub that say nothing."""
    with contextlib.ExitStack() as stack:
        lines = []
        for _ in range(number):
            line = stack.enter_context(socket.socket())
            line.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                line.connect(("127.0.0.1", net.consortium.hub.port))
            lines.append(line)
        yield lines


async def say(lines: list[socket.socket], words: bytes) -> None:
    loop = asyncio.get_running_loop()
    for line in lines:
        with contextlib.suppress(OSError):
            await loop.sock_sendall(line, words)


def still_open(lines: list[socket.socket]) -> int:
    count = 0
    for line in lines:
        try:
            count += line.recv(100) != b""
        except BlockingIOError:
            count += 1
        except OSError:
            pass
    return count


@pytest.mark.processes
@pytest.mark.parametrize("says", [b"", FIRST_BYTE, HALF_HELLO], ids=["idle", "byte", "half"])
def test_500_idle_connections_from_the_same_address_keep_nobody_out(tmp_path, monkeypatch, says):
    monkeypatch.setattr(lobby_module, "UNDISTURBED", 0.05)

    async def scenario(net: Loopback) -> None:
        with crowd(net, 500) as lines:
            await until(lambda: len(net.hub._lobby) == GUESTS_OF_ADDRESS)
            await until(lambda: still_open(lines) <= GUESTS_OF_ADDRESS)
            await say(lines, says)
            client = await joined(net, "ana")
            assert (await client.receive()).type == FrameType.WELCOME
            under_way = [guest for guest in net.hub._lobby._guests if guest.turn is not None]
            assert len(under_way) <= TURNS_OF_ADDRESS
            client.writer.close()

    net = with_hub(tmp_path, scenario)
    assert any("too many unidentified connections" in line for line in net.lines)


@pytest.mark.processes
def test_a_connection_that_says_nothing_ends_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "GRACE", 0.05)

    async def scenario(net: Loopback) -> None:
        with crowd(net, 3) as lines:
            await until(lambda: still_open(lines) == 0)
        assert len(net.hub._lobby) == 0

    net = with_hub(tmp_path, scenario)
    assert sum("did not identify itself in time" in line for line in net.lines) == 3


@pytest.mark.processes
def test_a_hello_that_comes_byte_by_byte_ends_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "GRACE", 0.5)

    async def scenario(net: Loopback) -> None:
        slow = await connected(net, net.identity("ana"))
        hello = {"consortium": net.consortium.name, "party": "ana"}
        with contextlib.suppress(OSError):
            for byte in FrameWriter().encode(
                HubFrame(FrameType.HELLO, body=json.dumps(hello).encode())
            )[:-1]:
                slow.writer.write(bytes([byte]))
                await slow.writer.drain()
                await asyncio.sleep(0.01)
            assert await slow.receive() is None

    net = with_hub(tmp_path, scenario)
    assert not any(line.startswith("connected") for line in net.lines)
    assert any("did not identify itself in time" in line for line in net.lines)


async def said(client: Client, body: bytes) -> HubFrame | None:
    client.send(HubFrame(FrameType.HELLO, body=body))
    return await client.receive()


@pytest.mark.processes
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 2000 + b"]" * 2000,
        b"[" * 4000,
        b'{"consortium": ' + b"[" * 1000 + b"]" * 1000 + b', "party": "ana"}',
        b'{"consortium": {}, "party": "ana"}',
        b'{"consortium": "a", "party": 1}',
        b"1" * 4096,
        b"\xff",
        b'{"consortium": NaN}',
        b"null",
        b"",
    ],
)
def test_a_hostile_hello_gets_a_sentence_and_the_hub_goes_on(tmp_path, body):
    async def scenario(net: Loopback) -> None:
        frame = await said(await connected(net, net.identity("ana")), body)
        assert frame.type == FrameType.REFUSED
        assert b"does not say which party this is" in frame.body
        client = await joined(net, "ana")
        assert (await client.receive()).type == FrameType.WELCOME

    with_hub(tmp_path, scenario)


@pytest.mark.processes
def test_a_long_hello_is_not_waited_for(tmp_path):
    async def scenario(net: Loopback) -> None:
        client = await connected(net, net.identity("ana"))
        client.writer.write((1 << 16).to_bytes(4, "big"))
        with contextlib.suppress(OSError):
            assert await client.receive() is None

    net = with_hub(tmp_path, scenario)
    assert any("announced a frame of 65536 bytes" in line for line in net.lines)


@pytest.mark.processes
def test_what_a_party_calls_itself_cannot_control_the_operators_terminal(tmp_path, capsys):
    async def scenario(net: Loopback) -> None:
        hello = {"consortium": "\x1b[2J\x7f\n", "party": "\u202e"}
        frame = await said(await connected(net, net.identity("ana")), json.dumps(hello).encode())
        assert rb"\x1b[2J\x7f\n" in frame.body
        assert frame.body.decode().isprintable()

    net = with_hub(tmp_path, scenario)
    for line in net.lines:
        log_line("refused", reason=line, name="\x1b\x7f\u202e")
    assert all(line.isprintable() for line in capsys.readouterr().err.splitlines())


# Without sockets.


async def guest(lobby: Lobby, address: str, entered: list[str], turn: bool = False) -> str:
    try:
        async with lobby.enter(address) as one:
            entered.append(address)
            if turn:
                await lobby.turn(one)
                entered.append(f"turn of {address}")
            await asyncio.Event().wait()
    except MadeRoom:
        return "made room"
    return ""


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def crowds(monkeypatch, **limits: float) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(lobby_module, name, limit)


def test_the_oldest_of_the_fullest_address_makes_room(monkeypatch):
    crowds(monkeypatch, GUESTS=6, GUESTS_OF_ADDRESS=4)

    async def scenario() -> list[bool]:
        lobby, entered = Lobby(), []
        order = ["a", "b", "b", "b", "b", "b", "c", "d"]
        tasks = []
        for address in order:
            tasks.append(asyncio.create_task(guest(lobby, address, entered)))
            await settle()
        gone = [task.done() for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(lobby) == 0
        return gone

    # The fifth b sends the first b away; d, with 6 there, the second b. Neither a nor c must go.
    assert run(scenario()) == [False, True, True, False, False, False, False, False]


def test_who_takes_long_makes_room_for_who_waits_and_nobody_else(monkeypatch):
    crowds(monkeypatch, TURNS=3, TURNS_OF_ADDRESS=2, UNDISTURBED=0.0)

    async def scenario() -> tuple[list[bool], list[str]]:
        lobby, entered = Lobby(), []
        tasks = []
        for address in ["a", "b", "b", "b"]:
            tasks.append(asyncio.create_task(guest(lobby, address, entered, turn=True)))
            await settle()
        await asyncio.sleep(0)
        await until(lambda: entered.count("turn of b") == 3)
        gone = [task.done() for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return gone, entered

    gone, entered = run(scenario())
    assert gone == [False, True, False, False]
    assert "turn of a" in entered


def test_a_turn_is_undisturbed_for_a_while(monkeypatch):
    crowds(monkeypatch, TURNS_OF_ADDRESS=1, UNDISTURBED=3600.0)

    async def scenario() -> list[str]:
        lobby, entered = Lobby(), []
        tasks = [asyncio.create_task(guest(lobby, "a", entered, turn=True)) for _ in range(2)]
        await settle()
        assert not any(task.done() for task in tasks)
        tasks[0].cancel()  # done, or gone
        await settle()
        assert len(lobby) == 1
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return entered

    assert run(scenario()).count("turn of a") == 2


def test_who_is_stopped_is_not_said_to_have_made_room():
    async def scenario() -> None:
        task = asyncio.create_task(guest(Lobby(), "a", []))
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario())


@pytest.mark.parametrize(
    ("address", "block"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("somewhere", "somewhere"),
    ],
)
def test_one_owner_is_one_address(address, block):
    assert block_of(address) == block


def test_the_limits_are_those_of_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "hub.md").read_text(encoding="utf-8")
    assert f"| {lobby_module.GUESTS} and {GUESTS_OF_ADDRESS} |" in text
    assert f"| {lobby_module.TURNS} and {TURNS_OF_ADDRESS} |" in text
    assert f"| {lobby_module.GRACE:g} and {lobby_module.GRACE:g} |" in text
    assert f"| {served.HELLO} |" in text
