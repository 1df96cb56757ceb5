"""An event loop whose clock stands still while anything happens, so that slow machines lose no run.

All that the loop and `securefedyj.network` know of the time is `loop.time()`. Here it passes only
while nothing is to be read or written and no thread computes: then it runs faster than a real
clock, until the next timer is due. A timeout thus says that nothing more will happen.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, TypeVarTuple
from unittest import mock

from securefedyj.network.session import participant
from securefedyj.network.session.participant import Worker
from tests.patience import PATIENCE

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_LOOK = 0.002  # real seconds to wait for something to happen, before the clock advances
_IDLE = 0.04  # what it then advances by
_BUSY = 0.0005  # the same while a thread computes, which may wait for a timer itself
_TURN = 1e-6  # at every turn of the loop: some wait for time to pass at all


class _Selector(selectors.DefaultSelector):
    """Waits for a moment, then lets the clock advance instead."""

    loop: QuietLoop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None and self.loop.watched:
            timeout = _LOOK
        if not timeout:
            found = super().select(timeout)
        elif not (found := super().select(_LOOK)):
            self.loop.advance(min(timeout, _BUSY if self.loop.busy else _IDLE))
        self.loop.advance(_TURN)
        self.loop.look()
        return found


class QuietLoop(asyncio.SelectorEventLoop):
    """Its time passes only while it is idle.

    Attributes
    ----------
    busy
        How many computations threads are making for this loop.
    """

    def __init__(self) -> None:
        self.busy = 0
        self._lock = threading.Lock()
        self._now = 1000.0
        self._looks: list[asyncio.Future[None]] = []
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def begin(self) -> None:
        """A thread is about to compute."""
        with self._lock:
            self.busy += 1

    def end(self) -> None:
        with self._lock:
            self.busy -= 1

    @property
    def watched(self) -> bool:
        """Whether somebody wants to look at what has changed."""
        return bool(self._looks)

    def look(self) -> None:
        looks, self._looks = self._looks, []
        for one in looks:
            if not one.done():
                one.set_result(None)

    async def change(self) -> None:
        """Wait until something may have changed."""
        one = self.create_future()
        self._looks.append(one)
        await one

    def run_in_executor(
        self, executor: Any, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        self.begin()
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(lambda _: self.end())
        return future


class _Counted(Worker):
    """Says from when to when it computes."""

    def __init__(self) -> None:
        self._loop: Any = asyncio.get_running_loop()
        super().__init__()

    async def run(self, step: Callable[..., T], *arguments: Any) -> T:
        self._loop.begin()
        return await super().run(step, *arguments)

    def end(self, last: Callable[[], None] = lambda: None) -> None:
        self._loop.begin()
        super().end(last)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._loop.end()


@contextmanager
def _limited(limit: asyncio.Timeout) -> Iterator[None]:
    """End it after so many seconds of a real clock as only a hang takes."""
    loop = asyncio.get_running_loop()
    timer = threading.Timer(PATIENCE, loop.call_soon_threadsafe, [lambda: limit.reschedule(0.0)])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, by a clock that only runs while nothing happens."""

    async def bounded() -> T:
        async with asyncio.timeout(None) as limit:
            with _limited(limit):
                return await scenario

    with (
        mock.patch.object(participant, "Worker", _Counted),
        asyncio.Runner(loop_factory=QuietLoop) as runner,
    ):
        return runner.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that must happen, in a loop of `run` or another."""
    loop = asyncio.get_running_loop()
    while not condition():
        await (loop.change() if isinstance(loop, QuietLoop) else asyncio.sleep(_LOOK))
