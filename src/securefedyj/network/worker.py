"""A thread that computes for a party, while its event loop sends signs of life."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable

from securefedyj.party.messages import Message


class Worker:
    """One thread. Unlike with asyncio's, nobody waits for it when the process is stopped."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    async def run(self, step: Callable[..., list[Message]], *arguments: Message) -> list[Message]:
        """Let the thread take the step; raise what it raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Message]] = loop.create_future()

        def give(messages: list[Message] | None, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(messages or [])

        def job() -> None:
            messages, error = None, None
            try:
                messages = step(*arguments)
            except BaseException as raised:  # or else nobody would hear of it, and wait forever
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: we were stopped
                loop.call_soon_threadsafe(give, messages, error)

        self._jobs.put(job)
        return await answer

    def end(self) -> None:
        """Do no more after what was begun."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
