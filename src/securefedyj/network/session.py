"""One session: what all have agreed to begin with, its messages and its program."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence

from securefedyj.network.errors import JoinError
from securefedyj.network.events import Compute
from securefedyj.network.progress import Tally, digest
from securefedyj.network.records import Begin, Ready
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES, Kind, Message
from securefedyj.protocol.program import TooFewValues
from securefedyj.protocol.transcript import Transcript


class Session:
    """A session that has begun, and may have started.

    Attributes
    ----------
    id
        The same at all parties, and never used before.
    begin
        What we tell the others about it, and expect to be told by them.
    party
        The program, as soon as it has started.
    """

    def __init__(self, readies: Sequence[Ready], transcript: Transcript) -> None:
        # Every party has put random bytes into the id: nobody can make it that of an earlier one.
        text = "".join(sorted(ready.random for ready in readies))
        self.id = hashlib.sha256(text.encode()).digest()[:SESSION_BYTES]
        reveals = min(ready.reveals for ready in readies)
        self.begin = Begin(self.id.hex(), reveals, digest(transcript, reveals))
        self.party: Party[Transcript] | None = None
        self._unread: deque[Message] = deque()
        self._received = 0  # bytes
        self._computing = 0.0  # seconds
        self._started = self._asked = 0.0

    def deliver(self, message: Message) -> None:
        """Hold a message until the program can read it; drop those of other sessions."""
        if message.session == self.id:
            self._received += message.size
            self._unread.append(message)

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    def start(self, party: Party[Transcript], now: float) -> Compute:
        self.party = party
        self._started = self._asked = now
        return Compute(party.start)

    def read_next(self, now: float) -> Compute:
        """Let the program read the next message."""
        assert self.party is not None
        self._asked = now
        return Compute(self.party.receive, (self._unread.popleft(),))

    def computed(self, messages: list[Message], now: float) -> list[Message]:
        """Note that the program has computed; return what the peers must be sent of it."""
        assert self.party is not None
        self._computing += now - self._asked
        if isinstance(
            self.party.error, TooFewValues
        ):  # everybody finds that out without being told
            return [message for message in messages if message.kind != Kind.STOP]
        return messages

    def stop(self, reason: str) -> list[Message]:
        """End the program; return what tells the peers."""
        return [] if self.party is None else self.party.stop(JoinError(reason))

    def count(self, tally: Tally, now: float) -> None:
        """Add what the session took, if it has started."""
        if self.party is not None:
            tally.add(self.party, self._received, self._computing, now - self._started)
