"""The clock of tests: it passes when nothing happens, and not because the machine is slow."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from tests.network import clock
from tests.network.clock import run, until


def test_time_in_which_nothing_happens_passes_in_order():
    async def scenario() -> list[str]:
        order = []

        async def later(seconds: float, name: str) -> None:
            await asyncio.sleep(seconds)
            order.append(name)

        await asyncio.gather(later(10.0, "late"), later(0.5, "soon"), later(1.0, "then"))
        return order

    assert run(scenario()) == ["soon", "then", "late"]


@pytest.mark.parametrize("where", ["loop", "thread"])
def test_a_slow_computation_is_no_timeout(where):
    async def scenario() -> None:
        async with asyncio.timeout(0.1):
            if where == "loop":
                time.sleep(0.2)  # longer than the clock needs for 0.1 seconds of idleness
                await asyncio.sleep(0)
            else:
                await asyncio.to_thread(time.sleep, 0.2)

    run(scenario())


def test_what_comes_late_by_a_socket_is_read_before_the_clock_advances():
    async def scenario() -> bytes:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.send(b"there")
            async with asyncio.timeout(1e-3):
                return await loop.sock_recv(ours, 100)

    assert run(scenario()) == b"there"


def test_time_passes_for_who_asks_for_it_without_end():
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() == begun:
            await asyncio.sleep(0)

    run(scenario())


def test_a_timer_goes_off_while_a_thread_waits_for_it():
    async def scenario() -> None:
        enough = threading.Event()
        waiting = asyncio.create_task(asyncio.to_thread(enough.wait))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        enough.set()
        await waiting

    run(scenario())


def test_what_a_thread_does_is_looked_for():
    async def scenario() -> list[str]:
        done: list[str] = []
        threading.Timer(0.05, done.append, ["done"]).start()
        await until(lambda: done)
        return done

    assert run(scenario()) == ["done"]


def test_a_hang_ends(monkeypatch):
    monkeypatch.setattr(clock, "PATIENCE", 0.1)

    async def forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run(forever())
