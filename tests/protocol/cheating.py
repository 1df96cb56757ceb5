"""One party cheats in a run that is to be verified; does anybody believe it?

`python -m tests.protocol.cheating --changes 2000` changes every message of a run once, and then
some at random until there were so many; `--cheats` are those of `cheats`, which go further. It says
what came of them by kind and by round, and ends with exit code 1 if anything was believed, or if
an honest party's run ended otherwise than it must.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from securefedyj.errors import PartyStopped, ProtocolError, Stalled, Unverified
from securefedyj.numerics.sums import ArraySilo
from securefedyj.party.inprocess import run
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.methods import Methods
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.reveals import Final, Reveal
from securefedyj.protocol.schedule import Schedule
from securefedyj.protocol.state import OpeningLog
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import agreement
from tests.simulation import Consortium, assemble

STEPS = 4
FOUR = Consortium(("ana", "bob", "cem", "dua"), ("bob", "cem", "ana"), ("ana", "bob", "dua"))
"""With a helper in the committee, cem, and a party with data outside of it, dua."""
ROWS = np.array([[0.5, 2.0, 7.0], [1.0, 2.0, 3.0], [4.0, 2.0, 1.0], [9.0, 2.0, np.nan]])
TABLES = {"ana": ROWS[:1], "bob": ROWS[1:2], "dua": ROWS[2:]}
BEFORE_THE_END = 1
"""How many openings the verified exchange has."""
CHECKS = (
    "hashes of inputs", "words of inputs", "parts of the seed", "challenges, evaluations",
    "random factor, proofs", "masked factors", "hashes of zeros", "words",
)  # fmt: skip
"""The rounds of kind CHECK, by what they have."""

Lines = Sequence[dict[str, Any]]
Observer = Callable[[Message], Iterable[Message]]


@dataclass
class Outcome:
    """What came of a cheat."""

    accepted: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The transcripts of those that have ended well."""
    known: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The transcripts of all, as far as they came."""
    errors: dict[str, Exception] = field(default_factory=dict)
    """What has ended the runs of the others."""
    parts: dict[str, bytes] = field(default_factory=dict)
    """What each party holds of the final opening, once it has accepted it."""
    begun: dict[str, list[tuple[int, type[Reveal]]]] = field(default_factory=dict)
    """Where each party's exchanges began: the number and the kind of the next opening."""
    opened: dict[str, list[int]] = field(default_factory=dict)
    """The numbers of the openings that each party was about to send."""
    changed: bool = False
    """Whether there was something to change at all."""
    wanted: list[dict[str, Any]] | None = None
    """The transcript that would be right, if not that of an honest run."""

    def end(self, cheater: str) -> str:
        """In a word."""
        honest = [name for name in FOUR.parties if name != cheater]
        return "right" if all(name in self.accepted for name in honest) else "stopped"


GAMES: Mapping[str, tuple[Methods, ...]] = {
    "yeo-johnson": (),
    "box-cox": ({"box-cox": ()},) * 3,
    "standard": ({"standard": ()},) * 3,
    "robust": ({"robust": ("0.25", "0.5", "0.75")},) * 3,
    "quantiles": ({"quantiles": ("0.5",)}, {"quantiles": ("0", "1")}, {"quantiles": ("0.3",)}),
    "mixed": ({"yeo-johnson": (), "quantiles": ("0.5",)}, {"standard": ()}, {"box-cox": ()}),
}
"""What is asked about the three features."""
_game = [GAMES["yeo-johnson"]]


@contextmanager
def game(name: str) -> Iterator[None]:
    """Play with other methods."""
    before = _game[0]
    try:
        _start(GAMES[name])
        yield
    finally:
        _start(before)


def _start(methods: tuple[Methods, ...]) -> None:
    _game[0] = methods
    for cached in (right, messages, labels):
        cached.cache_clear()


def agreed(verified: bool = True) -> Agreement:
    methods = _game[0]
    bounds = (0.5, 9.0) if methods else (0.0, 9.0)
    return agreement(
        3,
        bounds=bounds,
        methods=methods,
        resolution=("0.5",) * len(methods),
        parties=FOUR.parties,
        committee=FOUR.committee,
        engine="replicated",
        max_steps=STEPS,
        helpers=("cem",),
        verified=verified,
    )


def play(
    observe: Observer | None = None,
    start: Lines | None = None,
    *,
    tamper: Callable[[Any, str], None] = lambda engine, name: None,
    silos: Mapping[str, Any] | None = None,
    starts: Mapping[str, Lines] | None = None,
    verified: bool = True,
    accepted: Mapping[str, tuple[int, bytes]] | None = None,
) -> Outcome:
    """Run all parties; errors other than those of a protocol come through.

    Parameters
    ----------
    observe
        Sees every message, and says what is delivered in its place.
    start
        What the run goes on from.
    tamper
        May change the engine of a party.
    silos
        In place of those that have the rows.
    starts
        What some parties go on from, in place of ``start``.
    accepted
        The number of an opening that is not computed, and what each party holds of it.
    """
    agreement, outcome = agreed(verified), Outcome()

    class Log(OpeningLog):
        def __init__(self, name: str) -> None:
            self._name = name

        def exchange(self, transcript: Transcript) -> None:
            due = Schedule.of(transcript).due
            assert due is not None
            number = len(transcript.reveals)
            outcome.begun.setdefault(self._name, []).append((number, due.kind))

        def opening(self, transcript: Transcript) -> None:
            outcome.opened.setdefault(self._name, []).append(len(transcript.reveals))

        def accepted(self, transcript: Transcript, part: bytes) -> None:
            outcome.parts[self._name] = part

        def revealed(self, transcript: Transcript) -> None:
            outcome.known[self._name] = list(transcript.to_lines())

    async def one(engine: Any, name: str) -> Transcript:
        silo = silos.get(name) if silos else None
        if silo is None and name in TABLES:
            silo = honest_silo(name)
        lines = (starts or {}).get(name, start)
        before = Transcript.from_lines(lines) if lines else None
        tamper(engine, name)
        part = accepted[name] if accepted else None
        return await secure_fed_yj(engine, silo, agreement, before, Log(name), part)

    parties = assemble(one, FOUR, "replicated")
    with suppress(ProtocolError, PartyStopped, Stalled):
        run(parties, observe)
    for party in parties:
        if party.done and party.error is None:
            outcome.accepted[party.name] = list(party.result.to_lines())
        elif isinstance(party.error, ProtocolError | PartyStopped | Stalled):
            outcome.errors[party.name] = party.error
        elif party.error is not None:
            raise party.error
    return outcome


def honest_silo(name: str) -> ArraySilo:
    asked, names = agreed().asked, agreed().questions
    return ArraySilo(TABLES[name], asked.domain, names, asked.column)


@cache
def right() -> tuple[dict[str, Any], ...]:
    """The transcript of an honest run."""
    return tuple(play().accepted["ana"])


def beginning(whole: bool) -> Lines:
    """What to go on from: the agreement alone, or all before the verified exchange."""
    return right()[:1] if whole else right()[:-BEFORE_THE_END]


@cache
def messages(whole: bool) -> tuple[Message, ...]:
    """All that is sent in an honest run, or in its verified exchange alone, keys included."""
    seen: list[Message] = []

    def observe(message: Message) -> Iterable[Message]:
        seen.append(message)
        return [message]

    play(observe, beginning(whole))
    return tuple(seen)


@cache
def labels(whole: bool) -> Mapping[int, str]:
    """What each round is about."""
    kinds = {message.round: message.kind for message in messages(whole)}
    found = {turn: str(kind) for turn, kind in kinds.items()}
    checks = sorted(turn for turn, kind in kinds.items() if kind & Kind.CHECK)
    found |= {turn: f"{kinds[turn]} {what}" for turn, what in zip(checks, CHECKS, strict=True)}
    return found | {max(kinds): "OPENING final"}


class Change(NamedTuple):
    """What to do with a message: that of a sender and round, to one or to all receivers."""

    target: Message
    whole: bool
    everybody: bool
    way: str

    @property
    def label(self) -> str:
        return labels(self.whole)[self.target.round]


WAYS = ("bit", "bit", "bit", "random", "zeros", "earlier", "another run")


def forged(payload: bytes, way: str, earlier: bytes | None, other: bytes | None) -> bytes:
    """The same with one bit flipped, all bytes random or zero, one from before or another run."""
    replayed = {"earlier": earlier, "another run": other}.get(way)
    if replayed is not None and len(replayed) == len(payload):
        return replayed
    if way == "random":
        return secrets.token_bytes(len(payload))
    if way == "zeros":
        return bytes(len(payload))
    changed = bytearray(payload)
    changed[secrets.randbelow(len(changed))] ^= 1 << secrets.randbelow(8)
    return bytes(changed)


def cheat(change: Change) -> Outcome:
    """Play with one message changed; each receiver gets something else."""
    target, whole, everybody, way = change
    last: dict[tuple[str, int], bytes] = {}
    before = {(m.sender, m.recipient, m.round): m.payload for m in messages(whole)}
    changed = False

    def observe(message: Message) -> Iterable[Message]:
        nonlocal changed
        earlier = last.get((message.recipient, len(message.payload)))
        if message.sender == target.sender:
            last[message.recipient, len(message.payload)] = message.payload
        here = (message.sender, message.round) == (target.sender, target.round)
        if not here or not message.payload:
            return [message]
        if not (everybody or message.recipient == target.recipient):
            return [message]
        other = before.get((message.sender, message.recipient, message.round))
        new = forged(message.payload, way, earlier, other)
        changed |= new != message.payload
        return [replace(message, payload=new)]

    outcome = play(observe, beginning(whole))
    outcome.changed = changed
    return outcome


def believed(cheater: str, outcome: Outcome) -> str | None:
    """What an honest party has believed and is not so, in a sentence."""
    wanted = outcome.wanted or list(right())
    for name, own in outcome.accepted.items():
        if name != cheater and own != wanted:
            return f"{name} accepts another result"
    for name, own in outcome.known.items():
        final = [line for line in own if line.get("reveal") == "final" and line != nothing()]
        if name != cheater and final and own != wanted:
            return f"{name} has taken something wrong for verified"
    return None


def nothing() -> dict[str, Any]:
    """What is opened where a claim does not hold."""
    size = len(agreed().asked)
    zeros = {"magnitude": [0] * size, "V": ["0x0"] * size, "S_y": ["0x0"] * size}
    return {"reveal": "final", "features": [*range(size)], "holds": False, **zeros}


NOTHING = nothing()


def as_final(magnitudes: dict[str, Any], moments: dict[str, Any]) -> dict[str, Any]:
    """The last line of a verified run, by those of one that is not; every feature has values."""
    return {**moments, "reveal": "final", "holds": True, "magnitude": magnitudes["magnitude"]}


def badly_ended(cheater: str, outcome: Outcome) -> str | None:
    """Which honest party's run has ended otherwise than it must, in a sentence.

    A party that notices a cheat in the verified exchange says that the result is not verified, and
    nobody begins the exchange again. If the cheat can come from before it, an error of the protocol
    is enough.
    """
    for name in FOUR.parties:
        if name == cheater:
            continue
        error, begun = outcome.errors.get(name), outcome.begun.get(name, [])
        # In a run that begins here; a message of a wrong form is refused before it is looked at.
        verified = {kind for _, kind in begun} == {Final} and "The message " not in str(error)
        expected = Unverified if verified else ProtocolError
        if name not in outcome.accepted and not isinstance(error, expected | PartyStopped):
            return f"{name} ends with {error!r}"
        if len(set(begun)) < len(begun):
            return f"{name} begins an exchange again"
        opened = outcome.opened.get(name, [])
        if len(set(opened)) < len(opened):
            return f"{name} opens something again"
    told = [error for error in outcome.errors.values() if isinstance(error, ProtocolError)]
    if outcome.end(cheater) == "stopped" and not told:
        return "nobody says why there is no result"
    return None


def wrong_in(cheater: str, outcome: Outcome) -> str | None:
    """What may not come of a cheat, in a sentence."""
    return believed(cheater, outcome) or badly_ended(cheater, outcome)


def can_be_changed(whole: bool) -> list[Message]:
    return [m for m in messages(whole) if not m.kind & (Kind.HELLO | Kind.STOP) and m.payload]


def choose(whole: bool) -> Change:
    """A change of a message, each sender, kind and round as likely as another."""
    by_round: dict[str, dict[tuple[str, int], list[Message]]] = {}
    for message in can_be_changed(whole):
        same = by_round.setdefault(labels(whole)[message.round], {})
        same.setdefault((message.sender, message.round), []).append(message)
    rounds = secrets.choice(list(by_round.values()))
    target = secrets.choice(secrets.choice(list(rounds.values())))
    return Change(target, whole, not secrets.randbelow(4), secrets.choice(WAYS))


def changes(count: int) -> Iterator[Change]:
    """Every message once, with another way each time; then so many in all, at random."""
    every = [
        Change(m, whole, False, "bit") for whole in (False, True) for m in can_be_changed(whole)
    ]
    yield from (change._replace(way=WAYS[k % len(WAYS)]) for k, change in enumerate(every))
    for number in range(count - len(every)):
        yield choose(bool(number % 2))


class Summary:
    """How many changes came to which end, by kind and round."""

    def __init__(self) -> None:
        self.ends: Counter[tuple[str, str, str]] = Counter()
        self.rounds: dict[str, set[tuple[bool, int]]] = {}
        self.wrong: list[str] = []

    def add(self, label: str, who: str, end: str, *places: tuple[bool, int]) -> None:
        """Note one; the places are the rounds that it was tried in, if it was tried in one."""
        self.ends[label, who, end] += 1
        self.rounds.setdefault(label, set()).update(places)

    def tell(self) -> None:
        for label in sorted(self.rounds):
            count = len(self.rounds[label])
            print(f"{label}, {count} round{'s' * (count > 1)}" if count else label)
            whos = sorted({who for known, who, _ in self.ends if known == label})
            for who in whos:
                right, stopped = (self.ends[label, who, end] for end in ("right", "stopped"))
                print(f"    {who:<5} {stopped:>5} stopped {right:>5} right")
        for sentence in self.wrong:
            print(sentence)
        total = sum(self.ends.values())
        print(f"{total} tried, {len(self.wrong)} went wrong", flush=True)


def try_changes(count: int, summary: Summary) -> None:
    for number, change in enumerate(changes(count), start=1):
        target = change.target
        outcome = cheat(change)
        if (wrong := wrong_in(target.sender, outcome)) is not None:
            summary.wrong.append(f"{change}: {wrong}")
        if outcome.changed:
            place = (change.whole, target.round)
            summary.add(change.label, target.sender, outcome.end(target.sender), place)
        if number % 100 == 0:
            print(f"{number} changes", file=sys.stderr, flush=True)


def main() -> None:
    from tests.protocol import cheats

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=2000, help="of single messages")
    parser.add_argument("--cheats", type=int, default=300, help="that go further")
    parser.add_argument("--game", choices=GAMES, default="yeo-johnson", help="the methods")
    options = parser.parse_args()
    summary = Summary()
    try:
        with game(options.game):
            try_changes(options.changes, summary)
        if options.game == "yeo-johnson":
            cheats.try_cheats(options.cheats, summary)
    finally:
        summary.tell()
    sys.exit(bool(summary.wrong))


if __name__ == "__main__":
    main()
