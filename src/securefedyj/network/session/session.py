"""One session: what all have agreed to begin with, its messages and its program."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Sequence

from securefedyj.errors import ProtocolError
from securefedyj.network.errors import JoinError
from securefedyj.network.session.events import Compute
from securefedyj.network.session.progress import Tally
from securefedyj.network.session.records import Ready
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES, VERSION, Kind, Message
from securefedyj.protocol.program import TooFewValues
from securefedyj.protocol.transcript import Transcript


class Session:
    """A session that has begun, may have started, and may be over.

    Parameters
    ----------
    readies
        What all parties have said.
    name, peers
        Ours, and those of the others.
    most_waiting
        Bytes of one peer that may wait until the program reads them.

    Attributes
    ----------
    id
        The same at all parties, and never used before.
    started
        Whether all have begun it, so that its end is an interruption.
    party
        The program, as soon as it has started.
    """

    def __init__(
        self, readies: Sequence[Ready], name: str, peers: Sequence[str], most_waiting: int
    ) -> None:
        # Every party has put random bytes into the id: nobody can make it that of an earlier one.
        text = "".join(sorted(ready.random for ready in readies))
        self.id = hashlib.sha256(text.encode()).digest()[:SESSION_BYTES]
        self.started = False
        self.party: Party[Transcript] | None = None
        self._name, self._peers, self._most_waiting = name, peers, most_waiting
        self._unread: deque[Message] = deque()
        self._waiting: Counter[str] = Counter()  # bytes of each peer in there
        self._received = 0  # bytes
        self._computing = 0.0  # seconds
        self._started_at = self._asked = 0.0
        self._interrupted_at: float | None = None

    def deliver(self, message: Message) -> None:
        """Hold a message until the program can read it; drop those of other sessions."""
        if message.session != self.id:
            return
        self._waiting[message.sender] += message.size
        if self._waiting[message.sender] > self._most_waiting:
            raise ProtocolError(
                "SFY-JOIN-049",
                f"Party {message.sender} sent more than {self._most_waiting} bytes ahead of us.",
            )
        self._received += message.size
        self._unread.append(message)

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    def start(self, party: Party[Transcript], now: float) -> Compute:
        self.party = party
        self._started_at = self._asked = now
        return Compute(party.start)

    def read_next(self, now: float) -> Compute:
        """Let the program read the next message."""
        assert self.party is not None
        self._asked = now
        return Compute(self.party.receive, (self._next(),))

    def _next(self) -> Message:
        message = self._unread.popleft()
        self._waiting[message.sender] -= message.size
        return message

    def computed(self, messages: list[Message], now: float) -> list[Message]:
        """Note that the program has computed; return what the peers must be sent of it."""
        assert self.party is not None
        self._computing += now - self._asked
        if isinstance(self.party.error, TooFewValues):  # everybody finds that out by itself
            return [message for message in messages if message.kind != Kind.STOP]
        return messages

    def farewell(self, by: str, now: float) -> list[Message]:
        """What tells the peers that the session is over, and on whose account.

        The time from then until the next session is nobody's cost.
        """
        self._interrupted_at = now
        return [
            Message(VERSION, self.id, self._name, peer, 0, Kind.STOP, by.encode())
            for peer in self._peers
        ]

    def settle(self) -> list[Message]:
        """Let the program take what was on its way when the session ended; nothing is sent."""
        while self._unread:
            message = self._next()
            if self.party is not None:  # else it had not started: nothing can come of it
                self.party.receive(message)
        return []

    @property
    def error(self) -> Exception | None:
        """What has ended the program before its time."""
        return None if self.party is None else self.party.error

    @property
    def lacking(self) -> tuple[str, ...]:
        """The peers that the program waits for."""
        return () if self.party is None else self.party.waiting_for

    def close(self, tally: Tally, now: float) -> None:
        """End the program, and add what the session took."""
        if self.party is not None:
            if not self.party.done:
                self.party.stop(JoinError("SFY-JOIN-050", "The session is over."))
            ended_at = now if self._interrupted_at is None else self._interrupted_at
            tally.add(self.party, self._received, self._computing, ended_at - self._started_at)
            self.party = None
