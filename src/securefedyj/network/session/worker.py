"""A thread that computes for a party, while its event loop sends signs of life."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """One thread. Unlike with asyncio's, nobody waits for it when the process is stopped."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    async def run(self, step: Callable[..., T], *arguments: Any) -> T:
        """Let the thread take the step; raise what it raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def give(give_to: Callable[[Any], None], what: Any) -> None:
            if not answer.done():
                give_to(what)

        def job() -> None:
            give_to: Callable[[Any], None] = answer.set_result
            what: Any
            try:
                what = step(*arguments)
            except BaseException as raised:  # or else nobody would hear of it, and wait forever
                give_to, what = answer.set_exception, raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: we were stopped
                loop.call_soon_threadsafe(give, give_to, what)

        self._jobs.put(job)
        return await answer

    def end(self, last: Callable[[], None] = lambda: None) -> None:
        """Do no more after what was begun, but this."""
        self._jobs.put(last)
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
