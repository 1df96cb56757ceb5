"""A party with engine `mpyc`: the program in this process, MPyC in another one.

After the greeting, each message is a piece of the stream that MPyC sends to one peer. The program,
the silo's rows and what was revealed stay in this process. The other one (`child.py`) begins
nothing that it was not asked for: so an opening is noted before it is sent, and its result before
the next message.
"""

import contextlib
import os
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import IO, Any, TypeVar

from securefedyj.engines.mpyc import LARGEST_PIECE, pipe
from securefedyj.errors import ProtocolError
from securefedyj.party.inprocess import raise_first_error
from securefedyj.party.machine import Party
from securefedyj.party.messages import Kind, Message
from securefedyj.party.rounds import Delegation

R = TypeVar("R")

COMMAND = (sys.executable, "-P", "-m", "securefedyj.engines.mpyc.child")
"""What starts the other process, with its arguments."""

# What a Python needs to find its modules, and no more: any other variable may be a secret.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT",
                "OPENBLAS_NUM_THREADS")  # fmt: skip

# By how many rounds a peer may be ahead: far more than an exchange has.
_MOST_AHEAD = 1 << 20
_LAST_ROUND = (1 << 32) - 2  # a message has 32 bits for it, also the one that comes after
_ANY = 1 << 62  # bytes


class MpycParty(Party[R]):
    """Drives a program of engine `mpyc`; parameters and attributes are those of `Party`.

    A round is a link of the longest chain of messages, each sent after the one before was read.
    """

    def __init__(self, name: str, parties: Sequence[str], *arguments: Any, **options: Any) -> None:
        super().__init__(name, parties, *arguments, **options)
        self._order = list(parties)
        self._most = options.get("most_waiting") or _ANY
        self._child: _Child | None = None
        self._released = False
        self._unread: deque[Message] = deque()
        self._waiting: Counter[str] = Counter()  # bytes of each peer, to hold that
        self._last: dict[str, int] = dict.fromkeys(self.peers, 0)  # the round of its last message
        self._answers: Sequence[bytes] | None = None
        self._lacking: tuple[str, ...] = ()

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The peers with a message that is awaited; some of them may suffice."""
        return super().waiting_for if self._child is None else self._lacking

    def stop(self, error: Exception) -> list[Message]:
        """End with an error, and end the other process."""
        self.release()
        return super().stop(error)

    def release(self) -> None:
        """End the other process; this party starts no other one."""
        self._released = True
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _accept(self, message: Message) -> None:
        if message.kind == Kind.STREAM:
            self._check_origin(message)
            self._check_piece(message)
            self._unread.append(message)
        elif message.kind in (Kind.HELLO, Kind.STOP):
            super()._accept(message)
        else:
            raise message.refused("SFY-ENG-020", "is unexpected: expected a STREAM.")

    def _check_piece(self, message: Message) -> None:
        sender, size = message.sender, len(message.payload)
        last = min(self.rounds + _MOST_AHEAD, _LAST_ROUND)
        if not max(1, self._last[sender]) <= message.round <= last:
            raise message.refused("SFY-ENG-016", f"is out of turn, in round {self.rounds}.")
        self._last[sender] = message.round
        self._waiting[sender] += pipe.HELD + size
        if size > LARGEST_PIECE or self._waiting[sender] > self._most:
            raise message.refused(
                "SFY-ENG-017",
                f"is too much: {size} bytes, and {LARGEST_PIECE} are the most of a message, "
                f"{self._most} of all that may wait.",
            )
        if not size:
            raise message.refused("SFY-ENG-018", "is empty; expected a piece of a stream.")

    def _take_request(self, request: Any, outgoing: list[Message]) -> None:
        if not isinstance(request, Delegation):
            super()._take_request(request, outgoing)
            return
        if self._child is None:
            self._child = _Child(self._order.index(self.name), len(self._order), self._most)
        if self._released:  # meanwhile, in another thread
            self.release()
            raise ConnectionError("The process that computes with MPyC was ended.")
        self._take_turn(self._child, [start() for start in request.starts], outgoing)

    def _advance(self, outgoing: list[Message]) -> None:
        super()._advance(outgoing)
        while self._child is not None and not self.done:
            if self._answers is not None:
                answers, self._answers = self._answers, None
                self._step(answers, outgoing)
            elif self._unread:
                message = self._unread.popleft()
                self._waiting[message.sender] -= pipe.HELD + len(message.payload)
                self.rounds = max(self.rounds, message.round + 1)
                piece = pipe.Piece(self._order.index(message.sender), message.payload)
                self._take_turn(self._child, piece, outgoing)
            else:
                return
        if self.done:
            self.release()

    def _take_turn(self, child: "_Child", question: pipe.Question, outgoing: list[Message]) -> None:
        turn = child.ask(question)
        if turn.failure:
            raise ProtocolError(
                "SFY-ENG-019",
                f"MPyC could not continue ({turn.failure}): a party sent what the protocol does "
                "not have, or has another version of MPyC or of this program.",
            )
        for peer, sent in zip(self._order, turn.sent, strict=True):
            for start in range(0, len(sent), LARGEST_PIECE):
                piece = sent[start : start + LARGEST_PIECE]
                outgoing.append(self._message(peer, Kind.STREAM, piece))
        self._lacking = tuple(self._order[index] for index in turn.lacking)
        self._answers = turn.answers


class _Child:
    """The process that computes with MPyC."""

    def __init__(self, index: int, parties: int, most_waiting: int) -> None:
        arguments = (*COMMAND, *map(str, (index, parties, most_waiting)))
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,  # it ends when this is closed, as it is when we are killed
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )

    def ask(self, question: pipe.Question) -> pipe.Turn:
        """Wait for the outcome of a question."""
        try:
            pipe.write(_open(self._process.stdin), question)
            turn: pipe.Turn = pipe.read(_open(self._process.stdout), pipe.Turn)
        except (EOFError, BrokenPipeError):
            code = self._process.wait()
            raise ConnectionError(
                f"The process that computes with MPyC ended too early (exit code {code})."
            ) from None
        return turn

    def end(self) -> None:
        """End the process; a thread that waits in `ask` gets an error."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # of what was not written yet
                _open(stream).close()


def _open(stream: IO[bytes] | None) -> Any:
    assert stream is not None
    return stream


def run(parties: Sequence[Party[R]]) -> list[R]:
    """Run all parties on this machine, each in a thread, so that their processes compute at once.

    Return their results in order, or raise the error that stopped the others. No process is left.
    """
    inboxes: dict[str, SimpleQueue[Message | None]] = {one.name: SimpleQueue() for one in parties}

    def post(messages: Iterable[Message]) -> None:
        for message in messages:
            inboxes[message.recipient].put(message)

    def serve(party: Party[R]) -> None:
        post(party.start())
        while not party.done and (message := inboxes[party.name].get()) is not None:
            post(party.receive(message))

    with ThreadPoolExecutor(len(parties)) as pool:
        serving = [pool.submit(serve, party) for party in parties]
        try:
            wait(serving, return_when=FIRST_EXCEPTION)
        finally:  # after an error, or Ctrl-C, the others must not wait for ever
            for party in parties:
                party.release()
                inboxes[party.name].put(None)
    for one in serving:
        one.result()
    raise_first_error(parties)
    return [party.result for party in parties]
