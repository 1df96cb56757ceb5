"""One party cheats in a run that is to be verified, in one message; does anybody believe it?

`python -m tests.protocol.cheating 2000` tries so many changes, of all senders, rounds and kinds.
"""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from securefedyj.errors import PartyStopped, ProtocolError, Stalled
from securefedyj.numerics.sums import ArraySilo
from securefedyj.party.inprocess import run
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import agreement
from tests.simulation import Consortium, assemble

STEPS = 4
FOUR = Consortium(("ana", "bob", "cem", "dua"), ("bob", "cem", "ana"), ("ana", "bob", "dua"))
"""With a helper in the committee, cem, and a party with data outside of it, dua."""
ROWS = np.array([[0.5, 2.0, 7.0], [1.0, 2.0, 3.0], [4.0, 2.0, 1.0], [9.0, 2.0, np.nan]])
BEFORE_THE_END = 3
"""How many openings the verified exchange has."""


@dataclass
class Outcome:
    """What came of a cheat, at the parties other than the cheater."""

    accepted: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The transcripts of those that have ended well."""
    known: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The transcripts of all, as far as they came."""
    changed: bool = False
    """Whether there was something to change at all."""


def agreed() -> Agreement:
    return agreement(
        3,
        bounds=(0.0, 9.0),
        parties=FOUR.parties,
        committee=FOUR.committee,
        engine="replicated",
        max_steps=STEPS,
        helpers=("cem",),
        verified=True,
    )


def play(
    observe: Callable[[Message], Iterable[Message]] | None = None,
    start: tuple[dict[str, Any], ...] | None = None,
) -> Outcome:
    """Run all parties; errors other than those of a protocol come through."""
    agreement, outcome = agreed(), Outcome()
    tables = {"ana": ROWS[:1], "bob": ROWS[1:2], "dua": ROWS[2:]}

    class Log:
        def __init__(self, name: str) -> None:
            self._name = name

        def exchange(self, transcript: Transcript) -> None:
            pass

        opening = exchange

        def revealed(self, transcript: Transcript) -> None:
            outcome.known[self._name] = list(transcript.to_lines())

    async def one(engine: Any, name: str) -> Transcript:
        silo = None
        if name in tables:
            silo = ArraySilo(tables[name], agreement.domain, list(agreement.features))
        before = Transcript.from_lines(start) if start else None
        return await secure_fed_yj(engine, silo, agreement, before, Log(name))

    parties = assemble(one, FOUR, "replicated")
    with suppress(ProtocolError, PartyStopped, Stalled):
        run(parties, observe)
    for party in parties:
        if party.done and party.error is None:
            outcome.accepted[party.name] = list(party.result.to_lines())
        elif not isinstance(party.error, ProtocolError | PartyStopped | Stalled | None):
            raise party.error
    return outcome


@cache
def right() -> tuple[dict[str, Any], ...]:
    """The transcript of an honest run."""
    return tuple(play().accepted["ana"])


@cache
def messages(whole: bool) -> tuple[Message, ...]:
    """All that is sent in an honest run, or in its verified exchange alone, keys included."""
    seen: list[Message] = []

    def observe(message: Message) -> Iterable[Message]:
        seen.append(message)
        return [message]

    play(observe, None if whole else right()[:-BEFORE_THE_END])
    return tuple(seen)


def forged(payload: bytes, earlier: bytes | None) -> bytes:
    """The same with one bit flipped, all bytes random or zero, or one from before."""
    way = secrets.randbelow(10)
    if way == 0:
        return secrets.token_bytes(len(payload))
    if way == 1:
        return bytes(len(payload))
    if way == 2 and earlier is not None:
        return earlier
    changed = bytearray(payload)
    changed[secrets.randbelow(len(changed))] ^= 1 << secrets.randbelow(8)
    return bytes(changed)


def cheat(target: Message, whole: bool) -> Outcome:
    """Play with one message changed: that of a sender and round, to one or to all receivers."""
    everybody, last = not secrets.randbelow(4), dict[tuple[str, int], bytes]()
    changed = False

    def observe(message: Message) -> Iterable[Message]:
        nonlocal changed
        earlier = last.get((message.recipient, len(message.payload)))
        if message.sender == target.sender:
            last[message.recipient, len(message.payload)] = message.payload
        here = (message.sender, message.round) == (target.sender, target.round)
        if not here or not (everybody or message.recipient == target.recipient):
            return [message]
        new = forged(message.payload, earlier) if message.payload else message.payload
        changed |= new != message.payload
        return [replace(message, payload=new)]

    outcome = play(observe, None if whole else right()[:-BEFORE_THE_END])
    outcome.changed = changed
    return outcome


def believed(target: Message, outcome: Outcome) -> str | None:
    """What an honest party has believed and is not so, in a sentence."""
    lines = list(right())
    for name, own in outcome.accepted.items():
        if name != target.sender and own != lines:
            return f"{name} accepts another result"
    for name, own in outcome.known.items():
        final = [line for line in own if line.get("reveal") in ("magnitudes", "moments")]
        if name != target.sender and final and own != lines[: len(own)]:
            return f"{name} has taken something wrong for verified"
    return None


def choose(whole: bool) -> Message:
    """A message to change, each kind and size of change as likely as another."""
    by_kind: dict[tuple[str, Kind], list[Message]] = {}
    for message in messages(whole):
        if message.kind not in (Kind.HELLO, Kind.STOP):
            by_kind.setdefault((message.sender, message.kind), []).append(message)
    return secrets.choice(secrets.choice(list(by_kind.values())))


def is_input(target: Message) -> bool:
    """Whether a changed message is another input, which a silo may choose as it likes."""
    return bool(target.kind & (Kind.INPUT | Kind.KEY)) and target.sender != "cem"


def main(count: int) -> None:
    """Try that many changes; say what came of them, and stop at the first that was believed."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for number in range(count):
        whole = bool(number % 2)
        target = choose(whole)
        outcome = cheat(target, whole)
        if not outcome.changed:
            continue
        honest = [name for name in FOUR.parties if name != target.sender]
        end = "right" if all(name in outcome.accepted for name in honest) else "stopped"
        if (wrong := believed(target, outcome)) is not None:
            if not is_input(target):
                raise SystemExit(f"{target!r}: {wrong}")
            end = "another input"
        seen[target.sender, str(target.kind), end] += 1
    for (sender, kind, end), times in sorted(seen.items()):
        print(f"{sender:<5} {kind:<16} {end:<14} {times:>6}")
    print(f"{sum(seen.values())} changes, none believed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
