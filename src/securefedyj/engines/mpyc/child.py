"""The process that computes with MPyC for a party: a new one for each session.

Its party asks through a pipe (`pipe.py`), and carries the messages between MPyC and the peers. So
this process has no connection of its own, and of the silo it receives only the sums to share, never
a row. It begins nothing by itself: when a turn ends, all that it could compute is computed, and all
that it has to send is handed over.

No byte of a peer reaches a pickle: MPyC is started so that it needs none, and finds none.
"""

import asyncio
import os
import selectors
import signal
import struct
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, BinaryIO, NoReturn

from securefedyj.engines.mpyc import pipe
from securefedyj.engines.mpyc.library import OPTIONS, Library, load
from securefedyj.errors import ProtocolError

_LABEL = struct.Struct("<qI")  # of a message of MPyC: its number, and the size of what follows


def main(index: int, parties: int, most_waiting: int) -> NoReturn:
    """Serve the party at the other end of standard input and output, until it hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the party decides
    questions, turns = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not end up among the turns
    server: list[_Server] = []
    loop = asyncio.SelectorEventLoop(_WhenIdle(lambda: server[0].take_turn()))
    asyncio.set_event_loop(loop)
    mpc = without_pickle(load(index, parties, OPTIONS))
    server.append(_Server(mpc, loop, questions, turns, most_waiting))
    try:
        while True:
            loop.run_forever()  # MPyC stops it on errors
    except (EOFError, BrokenPipeError):
        os._exit(0)


def without_pickle(mpc: Any) -> Any:
    """Take the module `pickle` away from MPyC."""
    import mpyc.runtime

    mpyc.runtime.pickle = _NoPickle()
    return mpc


class _NoPickle:
    def __getattr__(self, name: str) -> NoReturn:
        raise ProtocolError(
            "SFY-ENG-009", "MPyC was about to use a pickle; nothing was read from it."
        )


class _WhenIdle(selectors.SelectSelector):
    """Makes an event loop take the next turn whenever it would wait."""

    def __init__(self, take_turn: Callable[[], None]) -> None:
        super().__init__()
        self._take_turn = take_turn

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._take_turn()
        return super().select(0)


class _Server:
    """Takes turns with the party."""

    def __init__(
        self,
        mpc: Any,
        loop: asyncio.AbstractEventLoop,
        questions: BinaryIO,
        turns: BinaryIO,
        most_waiting: int,
    ) -> None:
        self._library, self._loop = Library(mpc), loop
        self._questions, self._turns = questions, turns
        self._lines = [_PeerStream(most_waiting) for _ in mpc.parties]
        for party, line in zip(mpc.parties, self._lines, strict=True):
            party.protocol = line
        self._answers: list[bytes] | None = None
        self._failure = ""
        self._asked = False
        loop.set_exception_handler(self._note)

    def take_turn(self) -> None:
        """Hand over the outcome of the last question, and read the next."""
        if self._asked:
            sent = [line.taken() for line in self._lines]
            lacking = [index for index, line in enumerate(self._lines) if line.lacks]
            pipe.write(self._turns, pipe.Turn(sent, lacking, self._answers, self._failure))
            self._answers = None
        self._asked = True
        question: pipe.Question = pipe.read(self._questions, pipe.QUESTION)
        try:
            if isinstance(question, pipe.Piece):
                self._lines[question.sender].data_received(question.data)
            else:
                # Begin all before waiting for any: MPyC numbers messages by the order of calls.
                self._loop.create_task(self._wait([self._library.begin(one) for one in question]))
        except Exception as error:
            self._fail(error)

    async def _wait(self, begun: Sequence[Awaitable[bytes]]) -> None:
        try:
            self._answers = [await one for one in begun]
        except Exception as error:
            self._fail(error)

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """One of MPyC's own tasks has failed."""
        if isinstance(error := context.get("exception"), Exception):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        # The text of another library's error may contain values: give its name alone.
        reason = str(error) if isinstance(error, ProtocolError) else type(error).__name__
        self._failure = self._failure or reason


class _PeerStream:
    """MPyC's connection to a peer: messages, each with a label."""

    def __init__(self, most_waiting: int) -> None:
        self._most = most_waiting
        self._outgoing: list[bytes] = []
        self._incoming = bytearray()
        self._early: dict[int, bytes] = {}
        self._waited_for: dict[int, asyncio.Future[bytes]] = {}
        self._waiting = 0  # bytes that came early, and what it takes to hold them

    def send(self, label: int, payload: bytes) -> None:
        """Send; called by MPyC."""
        self._outgoing += [_LABEL.pack(label, len(payload)), payload]

    def receive(self, label: int) -> "bytes | asyncio.Future[bytes]":
        """Return the message with a label, or a future for it; called by MPyC."""
        if label in self._early:
            payload = self._early.pop(label)
            self._waiting -= pipe.HELD + len(payload)
            return payload
        future = self._waited_for[label] = asyncio.get_event_loop().create_future()
        return future

    @property
    def lacks(self) -> bool:
        return bool(self._waited_for)

    def taken(self) -> bytes:
        """Return what was sent since the last call."""
        sent, self._outgoing = b"".join(self._outgoing), []
        return sent

    def data_received(self, data: bytes) -> None:
        """Take the next bytes of the peer's stream, which need not end with a message."""
        buffer = self._incoming
        buffer += data
        while len(buffer) >= _LABEL.size:
            label, size = _LABEL.unpack_from(buffer)
            if len(buffer) < _LABEL.size + size:
                break
            payload = bytes(buffer[_LABEL.size : _LABEL.size + size])
            del buffer[: _LABEL.size + size]
            self._deliver(label, payload)
        if self._waiting + len(buffer) > self._most:
            raise ProtocolError(
                "SFY-ENG-010",
                f"A party sent more than {self._most} bytes that nothing was waiting for.",
            )

    def _deliver(self, label: int, payload: bytes) -> None:
        if label in self._waited_for:
            self._waited_for.pop(label).set_result(payload)
            return
        if label in self._early:
            raise ProtocolError("SFY-ENG-011", "A party sent two messages with one label.")
        self._early[label] = payload
        self._waiting += pipe.HELD + len(payload)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
