"""A party: messages in, messages out, no socket, no clock, no file (docs/protocol.md, section 3).

    state      what happens                        becomes
    new        start()                             running: greets all peers (round 0)
    running    the messages of the round are in    running: next round; or done: the result
    running    the program raises                  done: the error; peers get STOP
    running    a message breaks the rules          done: ProtocolError; peers get STOP
    running    STOP arrives                        done: PartyStopped
    any        stop(error)                         done: the error; peers get STOP
    done       anything arrives                    done: it is ignored

What arrives early is kept, within `MAX_AHEAD` rounds, until its round comes. Some rounds need only
some of the messages that they expect, the first to arrive: a later one is compared with those,
within the same number of rounds, and then dropped. A program can wait for that (`all_compared`).
"""

import hashlib
from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar

from securefedyj.errors import InputError, PartyStopped, ProtocolError
from securefedyj.party.messages import SESSION_BYTES, VERSION, Kind, Message
from securefedyj.party.rounds import Comparison, Round, play_round
from securefedyj.printable import printable

R = TypeVar("R")

# By how many rounds a peer's message may be early or late: the rounds of the longest exchange
# (docs/protocol.md, section 3), a verified final opening of 2^18 features with 64 limbs.
MAX_AHEAD = 54


class Party(Generic[R]):
    """Drives one program by the messages of its peers.

    All agree on the order of `parties`. The `program`, a coroutine, starts when all peers have sent
    a matching greeting: the digest of the `parameters`, which are all that the parties must agree
    on, in a canonical form. `session` is 16 bytes that no other session has. Payloads of one peer
    that wait for their round, the present one or a later one, may have `most_waiting` bytes; None
    is for any number.

    Attributes
    ----------
    rounds
        How many rounds are over, the greeting included. The same at all parties at the end.
    bytes_sent
        Bytes sent to each peer, headers included.
    """

    def __init__(
        self,
        name: str,
        parties: Sequence[str],
        program: Coroutine[Any, Any, R],
        *,
        session: bytes,
        parameters: bytes,
        most_waiting: int | None = None,
    ) -> None:
        if len(set(parties)) != len(parties) or name not in parties:
            raise InputError(
                "SFY-MSG-004", f"Party {name} must be one of {list(parties)}, each named once."
            )
        if len(session) != SESSION_BYTES:
            raise InputError(
                "SFY-MSG-005", f"A session has {SESSION_BYTES} bytes, not {len(session)}."
            )
        self.name = name
        self.peers = tuple(peer for peer in parties if peer != name)
        self.rounds = 0
        self.bytes_sent = dict.fromkeys(self.peers, 0)
        self.error: Exception | None = None
        self._program = program
        self._session = session
        self._coroutine = self._greet_and_run(hashlib.sha256(parameters).digest())
        self._current: Round | Comparison | None = None
        self._most_waiting = most_waiting
        self._inbox: dict[tuple[int, str], Message] = {}
        self._late: dict[tuple[int, str], Round] = {}  # rounds that are over, the earliest first
        self._returned: list[R] = []  # empty until the program returns

    @property
    def done(self) -> bool:
        """Whether the program has ended, well or not."""
        return bool(self._returned) or self.error is not None

    @property
    def result(self) -> R:
        """What the program returned; raises the error that ended it."""
        if self.error is not None:
            raise self.error
        if not self._returned:
            raise RuntimeError(f"Party {self.name} is not done; it is in round {self.rounds}.")
        return self._returned[0]

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The peers whose message of the present round is missing; some of them may suffice."""
        if self._current is None:
            return ()
        if isinstance(self._current, Comparison):
            return tuple(dict.fromkeys(peer for _, peer in self._late))
        return tuple(p for p in self._current.expected if (self.rounds, p) not in self._inbox)

    def start(self) -> list[Message]:
        """Begin; return the messages to send."""
        if self._current is not None or self.done:
            raise RuntimeError(f"Party {self.name} has started already.")
        return self._guarded(None)

    def receive(self, message: Message) -> list[Message]:
        """Take one message; return the messages to send.

        Never raises because of a message: the error is kept in `error`, so that STOP can still be
        sent to the peers.
        """
        return [] if self.done else self._guarded(message)

    def stop(self, error: Exception) -> list[Message]:
        """End with an error, say of the network; return what tells the peers.

        They learn that this party ended, never why.
        """
        error.add_note(f"(at party {self.name}, in round {self.rounds})")
        self.error = error
        self._current = None
        self._inbox.clear()
        self._late.clear()
        self._coroutine.close()
        self._program.close()
        if isinstance(error, PartyStopped):
            return []  # the party that stopped has sent STOP to everybody
        return [self._message(peer, Kind.STOP, b"") for peer in self.peers]

    def release(self) -> None:
        """Release what is outside of this process, if anything; from any thread."""

    def _guarded(self, message: Message | None) -> list[Message]:
        """Go as far as possible; turn an error into the end of this party."""
        outgoing: list[Message] = []
        try:
            if message is None:
                self._step(None, outgoing)
            else:
                self._accept(message)
            self._advance(outgoing)
        except Exception as error:
            outgoing += self.stop(error)
        return outgoing

    def _advance(self, outgoing: list[Message]) -> None:
        """Play all rounds for which enough messages are there."""
        while (current := self._current) is not None:
            if isinstance(current, Comparison):
                if self._late:
                    return
                self._step({}, outgoing)
                continue
            came = [peer for peer in current.expected if (self.rounds, peer) in self._inbox]
            if len(came) < (len(current.expected) if current.enough is None else current.enough):
                return
            incoming = {peer: self._inbox.pop((self.rounds, peer)).payload for peer in came}
            for peer in current.expected:
                if peer not in incoming:
                    self._late[self.rounds, peer] = current
            self.rounds += 1
            self._check_overdue()
            self._step(incoming, outgoing)

    def _step(self, incoming: Any, outgoing: list[Message]) -> None:
        """Let the program run to its next round, or to its end."""
        self._current = None
        try:
            request = self._coroutine.send(incoming)
        except StopIteration as stop:
            self._returned.append(stop.value)
            return
        self._take_request(request, outgoing)

    def _take_request(self, request: Any, outgoing: list[Message]) -> None:
        if not isinstance(request, Round | Comparison):
            raise TypeError("A program may await engine operations only, nothing with a clock.")
        self._current = request
        if isinstance(request, Comparison):
            return
        for peer, payload in request.outgoing.items():
            outgoing.append(self._message(peer, request.kind, payload))
        # What came early could not be checked before its round was known.
        for (turn, _), message in self._inbox.items():
            if turn == self.rounds:
                _check_content(message, request)

    def _accept(self, message: Message) -> None:
        """Check one message and keep it until its round is complete."""
        self._check_origin(message)
        if message.kind == Kind.STOP:
            raise PartyStopped(f"Party {message.sender} stopped; the reason is known there.")
        key = message.round, message.sender
        if (over := self._late.pop(key, None)) is not None:
            _check_content(message, over)
            if over.late is not None:
                over.late(message.sender, message.payload)
            return
        if not self.rounds <= message.round <= self.rounds + MAX_AHEAD:
            why = f"is out of turn: expected round {self.rounds} (or up to {MAX_AHEAD} later)."
            raise message.refused("SFY-MSG-008", why)
        if key in self._inbox:
            raise message.refused("SFY-MSG-009", "came twice; expected it once.")
        if message.round == self.rounds and isinstance(self._current, Round):
            _check_content(message, self._current)
        self._inbox[key] = message
        self._check_room(message)

    def _check_origin(self, message: Message) -> None:
        if message.recipient != self.name or message.sender not in self.peers:
            raise message.refused(
                "SFY-MSG-006",
                f"is addressed to {printable(message.recipient, 64)}; expected one from "
                f"{', '.join(self.peers)} to {self.name}.",
            )
        if message.version != VERSION:
            raise ProtocolError(
                "SFY-MSG-001",
                f"Party {message.sender} speaks protocol version {message.version}, we speak "
                f"version {VERSION}; install the same release everywhere.",
            )
        if message.session != self._session:
            raise message.refused(
                "SFY-MSG-007",
                f"belongs to another session: expected {self._session.hex()}, got "
                f"{message.session.hex()}.",
            )

    def _check_room(self, message: Message) -> None:
        """Refuse a message if more of its sender would wait then than one may hold up."""
        own = (other for (_, peer), other in self._inbox.items() if peer == message.sender)
        waiting = sum(len(other.payload) for other in own)
        if self._most_waiting is not None and waiting > self._most_waiting:
            raise message.refused(
                "SFY-MSG-010",
                f"is too much: {waiting} bytes of {message.sender} would wait for their round; "
                f"the maximum is {self._most_waiting}.",
            )

    def _check_overdue(self) -> None:
        turn, peer = next(iter(self._late), (self.rounds, ""))
        if turn < self.rounds - MAX_AHEAD:
            raise ProtocolError(
                "SFY-MSG-011",
                f"The message {self._late[turn, peer].kind} of round {turn} from {peer} never "
                f"came: expected it by round {turn + MAX_AHEAD} at the latest.",
            )

    async def _greet_and_run(self, digest: bytes) -> R:
        """Round 0: compare public parameters with every peer before any data is touched."""
        greeting = dict.fromkeys(self.peers, digest)
        expected = dict.fromkeys(self.peers, len(digest))
        for peer, other in (await play_round(Kind.HELLO, greeting, expected)).items():
            if other != digest:
                raise ProtocolError(
                    "SFY-MSG-012",
                    f"Party {peer} has other public parameters: expected digest "
                    f"{digest.hex()[:16]}, got {other.hex()[:16]}; compare the agreed files.",
                )
        return await self._program

    def _message(self, recipient: str, kind: Kind, payload: bytes) -> Message:
        message = Message(VERSION, self._session, self.name, recipient, self.rounds, kind, payload)
        self.bytes_sent[recipient] += message.size
        return message


def _check_content(message: Message, current: Round) -> None:
    size = current.expected.get(message.sender)
    if message.kind != current.kind or size is None:
        wanted = f"{current.kind} from {', '.join(current.expected) or 'nobody'}"
        raise message.refused("SFY-MSG-002", f"is unexpected: expected {wanted}.")
    if len(message.payload) != size:
        why = f"has the wrong size: expected {size} bytes, got {len(message.payload)}."
        raise message.refused("SFY-MSG-003", why)
