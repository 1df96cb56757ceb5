"""In a submitted run nobody can ask a question: inputs are fixed, and every exchange is verified.

A member that alters anything in an exchange of the search learns no sign of it: no honest party
opens anything before all checks have passed. Counts that no rows have are refused before that.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from securefedyj.engines.registry import facts_of
from securefedyj.errors import InputError, PartyStopped, ProtocolError, Stalled, Unverified
from securefedyj.numerics import wide
from securefedyj.numerics.weighed import LIMBS
from securefedyj.party.inprocess import run
from securefedyj.party.machine import Party
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol import program
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import Counts, Headers, Possible
from securefedyj.protocol.silos import timed_silo
from securefedyj.protocol.state import OpeningLog
from securefedyj.protocol.submissions import Submissions, held_by, share
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import agreement
from tests.protocol import cheats
from tests.protocol.cheating import WAYS, forged
from tests.refusals import refused

SILOS = ("ana", "bob", "cem", "dua")
MEMBERS = ("bob", "cem", "ana")
COUNTS = {0: [3, 1, 0, 2, 4], 1: [0, 2, 2, 0, 1]}
"""How often the points 0, 1, ..., 4 of two features occur, over all silos."""
FACTS: dict[str, Any] = {
    "parties": SILOS,
    "committee": MEMBERS,
    "engine": "replicated",
    "verified": True,
    "submitted": True,
    "methods": ({"yeo-johnson": (), "quantiles": ("0.5",)}, {"standard": ()}),
    "resolution": ("1", "1"),
    "max_steps": 4,
    "levels_per_exchange": 2,
}


def agreed(**changes: Any) -> Agreement:
    return agreement(2, 4, (0.0, 4.0), **{**FACTS, **changes})


def submissions(
    counts: Iterable[int] | None = None, own: Agreement | None = None
) -> dict[str, Submissions]:
    """What the members hold, of one submission with the counts of all silos, or with others."""
    every = [count for own in COUNTS.values() for count in own] if counts is None else [*counts]
    return held_by(own or agreed(), [share(wide.from_ints(every, LIMBS))], bytes(range(32)))


@dataclass
class Outcome:
    """What came of a run at each party."""

    transcripts: dict[str, Transcript] = field(default_factory=dict)
    opened: dict[str, list[int]] = field(default_factory=dict)
    """The numbers of the openings that a party was about to send."""
    errors: dict[str, Exception] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)

    def known(self, name: str) -> list[str]:
        """What was revealed to a party, line by line."""
        lines = self.transcripts[name].to_lines()
        return [json.dumps(line) for line in lines if "reveal" in line]


def play(
    observe: Callable[[Message], Iterable[Message]] | None = None,
    held: Mapping[str, Submissions] | None = None,
    *,
    own: Agreement | None = None,
    tamper: Callable[[Any, str], None] = lambda engine, name: None,
    silos: Mapping[str, Any] | None = None,
    starts: Mapping[str, Transcript] | None = None,
) -> Outcome:
    """Run the parties that are online; errors other than those of a protocol come through."""
    agreement, outcome = own or agreed(), Outcome()
    given = submissions() if held is None else held
    connect = facts_of("replicated").connect

    class Log(OpeningLog):
        def __init__(self, name: str) -> None:
            self._name = name

        def opening(self, transcript: Transcript) -> None:
            outcome.opened.setdefault(self._name, []).append(len(transcript.reveals))

    async def one(name: str) -> Transcript:
        transcript = starts[name] if starts else Transcript(agreement)
        outcome.transcripts[name] = transcript
        live = () if agreement.given.all() else agreement.silos
        engine = await connect(name, agreement.online, agreement.committee, live)
        tamper(engine, name)
        return await program.secure_fed_yj(
            engine, (silos or {}).get(name), agreement, transcript, Log(name), None, given.get(name)
        )

    session = secrets.token_bytes(16)
    parties = [
        Party(name, agreement.online, one(name), session=session, parameters=agreement.to_bytes())
        for name in agreement.online
    ]
    with suppress(ProtocolError, PartyStopped, Stalled, InputError):
        run(parties, observe)
    for party in parties:
        if party.done and party.error is None:
            outcome.finished.add(party.name)
        elif isinstance(party.error, ProtocolError | PartyStopped | Stalled | InputError):
            outcome.errors[party.name] = party.error
        elif party.error is not None:
            raise party.error
    return outcome


@cache
def right() -> tuple[tuple[str, ...], tuple[tuple[Message, int], ...]]:
    """What an honest run reveals, and its messages, each with how many openings came before."""
    seen: list[tuple[Message, int]] = []
    outcome = Outcome()
    openings = 0
    last = 0

    def observe(message: Message) -> Iterable[Message]:
        nonlocal openings, last
        if message.round > last:
            openings += any(m.round == last and m.kind & Kind.OPENING for m, _ in seen)
            last = message.round
        seen.append((message, openings))
        return [message]

    outcome = play(observe)
    assert outcome.finished == set(MEMBERS)
    return tuple(outcome.known("ana")), tuple(seen)


def targets() -> list[tuple[Message, int]]:
    """What may be changed, and how many openings do not depend on it: the headers are one.

    The numbers of values are opened from what was given, without a key.
    """
    return [
        (message, 2 if message.kind & Kind.KEY else openings + 1)
        for message, openings in right()[1]
        if message.payload and not message.kind & (Kind.HELLO | Kind.STOP)
    ]


def change(target: Message, way: str, everybody: bool) -> tuple[Outcome, bool]:
    """Play with a message changed, that to one receiver or to everybody."""
    before = {(m.sender, m.recipient, m.round): m.payload for m, _ in right()[1]}
    last: dict[tuple[str, int], bytes] = {}
    changed = False

    def observe(message: Message) -> Iterable[Message]:
        nonlocal changed
        place = message.recipient, len(message.payload)
        earlier = last.get(place)
        if message.sender == target.sender:
            last[place] = message.payload
        if (message.sender, message.round) != (target.sender, target.round) or not message.payload:
            return [message]
        if not everybody and message.recipient != target.recipient:
            return [message]
        other = before.get((message.sender, message.recipient, message.round))
        payload = forged(message.payload, way, earlier, other)
        changed |= payload != message.payload
        return [replace(message, payload=payload)]

    return play(observe), changed


def wrong_in(outcome: Outcome, cheater: str, over: int, opening: bool) -> str | None:
    """What may not come of a change in a round after that many openings, in a sentence.

    A changed part of an opening changes no value: who received it stops, and the others go on.
    """
    for name in MEMBERS:
        if name == cheater:
            continue
        if outcome.known(name) != list(right()[0][: len(outcome.known(name))]):
            return f"{name} believes what is not so"
        if name in outcome.finished or opening:
            continue
        if len(outcome.known(name)) > over or any(n >= over for n in outcome.opened.get(name, ())):
            return f"{name} has opened {outcome.opened[name]}, and only {over} were over"
    return None


def try_changes(count: int) -> None:
    """This many changes: each message is as likely as another, first every kind of every sender."""
    every = targets()
    first = {(m.sender, m.kind): (m, over) for m, over in every}
    chosen = [*first.values(), *(secrets.choice(every) for _ in range(count - len(first)))]
    stopped = 0
    for number, (message, over) in enumerate(chosen):
        way, everybody = WAYS[number % len(WAYS)], not secrets.randbelow(3)
        outcome, changed = change(message, way, everybody)
        about = f"{message.sender} to {message.recipient}, round {message.round}: {way}"
        # Openings, and the word that all is well, come after the checks; no value depends on them.
        opening = bool(message.kind & Kind.OPENING) or message.payload == b"\x01"
        assert wrong_in(outcome, message.sender, over, opening) is None, about
        if changed and not opening:
            assert not outcome.finished - {message.sender}, about
            stopped += 1
    assert stopped > count // 4


def test_a_changed_message_of_the_search_opens_nothing() -> None:
    kinds = {kind for message, _ in targets() for kind in message.kind}
    assert {Kind.KEY, Kind.PRODUCT, Kind.CARRY, Kind.CHECK, Kind.OPENING, Kind.DIGEST} <= kinds
    assert Kind.INPUT not in kinds, "nothing is shared"
    try_changes(40)


@pytest.mark.slow
def test_a_thousand_changed_messages_of_the_search_open_nothing() -> None:
    try_changes(1000)


def wrong_product(number: int, changed: list[int]) -> Callable[[Any], None]:
    """Let a member send and keep another term of a product."""
    now = cheats.Nth(0, number)

    def change(engine: Any) -> None:
        original = engine._role.reshare

        async def reshare(ring: Any, kind: Kind, term: Any) -> Any:
            if kind == Kind.PRODUCT and now():
                changed.append(number)
                term = ring.add(term, cheats.noise(term.shape, term.dtype))
            return await original(ring, kind, term)

        engine._role.reshare = reshare

    return change


def wrong_gate(number: int, changed: list[int]) -> Callable[[Any], None]:
    """Let a member send and keep another term of a conjunction."""
    now = cheats.Nth(0, number)

    def in_exchange(context: Any) -> None:
        role = context._role
        original = role.conjunction

        async def conjunction(x: Any, y: Any) -> Any:
            if now():
                changed.append(number)
                cheats.shift_next(role, cheats.some_bits)
            return await original(x, y)

        role.conjunction = conjunction

    return lambda engine: cheats.in_verified(engine, in_exchange)


@pytest.mark.parametrize("cheater", MEMBERS)
@pytest.mark.parametrize(
    ("cheat", "number"),
    [(wrong_product, 0), (wrong_product, 3), (wrong_gate, 0), (wrong_gate, 20), (wrong_gate, 50)],
)
def test_a_member_that_stands_by_what_it_falsified_opens_nothing(
    cheater: str, cheat: Callable[..., Callable[[Any], None]], number: int
) -> None:
    """It computes on with a wrong term in an exchange of the search, and ignores its own checks."""
    changed: list[int] = []
    with cheats.deaf(cheater):
        outcome = play(tamper=cheats.of(cheater, cheat(number, changed)))
    assert changed
    lengths = set()
    for name in MEMBERS:
        if name != cheater:
            known = outcome.known(name)
            lengths.add(len(known))
            assert isinstance(outcome.errors[name], ProtocolError | PartyStopped)
            assert known == list(right()[0][: len(known)])
            assert max(outcome.opened[name]) < len(known)
    assert len(lengths) == 1
    assert any(isinstance(error, Unverified) for error in outcome.errors.values())


class Untouched:
    """Rows that nobody may ask for anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


def test_made_up_sums_have_nowhere_to_go() -> None:
    """No party is asked for sums, whatever rows it has, and a silo outside is not online at all."""
    outcome = play(silos={name: Untouched() for name in SILOS})
    assert outcome.finished == set(MEMBERS)
    assert "dua" not in outcome.transcripts


def test_a_live_silo_is_asked_for_live_features_only() -> None:
    """In a run of both kinds: what it shares cannot add to what was submitted."""
    own = agreed(resolution=("", "1"))
    rows = np.array([[0.25, 0.0], [1.5, 1.0], [3.5, 4.0]])
    asked: set[int] = set()

    class Spy:
        def __init__(self) -> None:
            self._silo: Any = timed_silo(own, rows)
            self.count = np.where(own.given[own.asked.column], 1 << 30, self._silo.count)

        def phi_sum(self, features: Any, limbs: int) -> Any:
            asked.update(features.tolist())
            return self._silo.phi_sum(features, limbs)

        def sums(self, feature: Any, *rest: Any) -> Any:
            asked.update(feature.tolist())
            return self._silo.sums(feature, *rest)

        def ranks(self, feature: Any, points: Any) -> Any:
            asked.update(feature.tolist())
            return self._silo.ranks(feature, points)

    outcome = play(held=submissions(COUNTS[1], own), own=own, silos={name: Spy() for name in SILOS})
    assert outcome.finished == set(SILOS)
    assert asked == {0, 1}
    assert [own.asked.all[i].column for i in range(3)] == [0, 0, 1]
    (counts,) = outcome.transcripts["dua"].all(Counts)
    assert counts.n.tolist() == [12, 12, 5]


def of_points(first: Iterable[int], second: Iterable[int] = COUNTS[1]) -> dict[str, Submissions]:
    return submissions([*first, *second])


@pytest.mark.parametrize(
    "counts",
    [[3, -1, 0, 2, 4], [1 << 60, 0, 5, 3, -(1 << 60)], [1 << 125, 4 - (1 << 125), 0, 0, 1]],
    ids=["one less", "large and back", "as large as fits"],
)
def test_negative_counts_are_refused_before_the_search(counts: list[int]) -> None:
    outcome = play(held=of_points(counts))
    assert outcome.finished == set()
    for name in MEMBERS:
        reveals = outcome.transcripts[name].reveals
        assert [type(reveal) for reveal in reveals] == [Headers, Counts, Possible]
        with refused("SFY-RUN-014", Unverified):
            raise outcome.errors[name]


@pytest.mark.parametrize("size", [1 << 41, 1 << 64, (1 << 64) + 7, 1 << 126, -(1 << 64)])
def test_huge_counts_are_refused_with_n(size: int) -> None:
    """Three limbs hold every sum of submissions: none of these is taken for a small number."""
    outcome = play(held=of_points([size, 0, 0, 0, 10]))
    assert outcome.finished == set()
    for name in MEMBERS:
        assert [type(reveal) for reveal in outcome.transcripts[name].reveals] == [Headers]


def test_without_claims_negative_counts_still_give_no_moments() -> None:
    """The agreement may leave the claims out; V and S_y must be in bounds all the same."""
    outcome = play(
        held=of_points([-(1 << 20), 1 << 21, -(1 << 20), 6, 4]), own=agreed(claimed_points=0)
    )
    for name in MEMBERS:
        assert isinstance(outcome.errors[name], Unverified)
        lines = list(outcome.transcripts[name].to_lines())
        assert lines[-1]["reveal"] == "final"
        assert not lines[-1]["holds"]
        assert set(lines[-1]["V"]) == {"0x0"}


def test_members_with_other_submissions_compute_nothing() -> None:
    held = submissions()
    held["cem"] = held["cem"]._replace(headers=bytes(32))
    outcome = play(held=held)
    for name in MEMBERS:
        assert outcome.known(name) == []
        assert isinstance(outcome.errors[name], ProtocolError | PartyStopped)


@pytest.mark.parametrize("liar", MEMBERS)
def test_a_member_with_other_submissions_is_named_by_who_is_outside_of_the_committee(
    liar: str,
) -> None:
    own = agreed(resolution=("", "1"))
    held = submissions(COUNTS[1], own)
    held[liar] = held[liar]._replace(headers=bytes(32))
    rows = timed_silo(own, np.array([[0.25, 0.0], [1.5, 1.0], [3.5, 4.0]]))
    outcome = play(held=held, own=own, silos=dict.fromkeys(SILOS, rows))
    assert outcome.known("dua") == []
    with pytest.raises(ProtocolError, match=f"Party {liar} has"):
        raise outcome.errors["dua"]


def test_copies_of_a_component_that_differ_end_the_run() -> None:
    """The parties compare headers before; if two members held other shares, nothing would come."""
    held = submissions()
    held["cem"].held[0, 0, 2] += np.uint64(1)
    outcome = play(held=held)
    assert outcome.finished == set()
    assert all(len(outcome.known(name)) <= 2 for name in MEMBERS)


def test_a_run_that_began_with_other_submissions_does_not_go_on() -> None:
    began = play().transcripts["ana"]
    start = {name: Transcript(agreed(), began.reveals[:4]) for name in MEMBERS}
    held = {name: own._replace(headers=bytes(32)) for name, own in submissions().items()}
    for error in play(held=held, starts=start).errors.values():
        with refused("SFY-RUN-015"):
            raise error


@pytest.mark.parametrize("own", [agreed(), agreed(resolution=("", "1"))], ids=["all", "some"])
def test_a_run_goes_on_from_every_opening(own: Agreement) -> None:
    """With the same reveals, whatever came before; the final opening begins again."""
    mixed = not own.given.all()
    rows = np.array([[0.25, 0.0], [1.5, 1.0], [3.5, 4.0]])
    silos = {name: timed_silo(own, rows) for name in SILOS} if mixed else None
    held = submissions(COUNTS[1], own) if mixed else submissions()
    whole = play(held=held, own=own, silos=silos)
    expected = whole.known("ana")
    for length in range(len(expected)):
        starts = {
            name: Transcript(own, whole.transcripts["ana"].reveals[:length]) for name in own.online
        }
        again = play(held=held, own=own, silos=silos, starts=starts)
        assert again.finished == set(own.online)
        assert {tuple(again.known(name)) for name in own.online} == {tuple(expected)}
        assert again.opened["ana"] == list(range(length, len(expected)))


def test_members_compute_with_submissions_for_the_agreed_points_and_nobody_else_has_any() -> None:
    own, held = agreed(), submissions()
    with refused("SFY-RUN-018"):
        run_alone(own, "ana", None)
    with refused("SFY-RUN-018"):
        run_alone(own, "dua", held["ana"])
    with refused("SFY-RUN-018"):
        run_alone(replace(own, submitted=False), "ana", held["ana"])
    short = held["ana"]._replace(held=held["ana"].held[:, :, 1:])
    with refused("SFY-RUN-016"):
        short.weighed(own)


def run_alone(own: Agreement, name: str, held: Submissions | None) -> None:
    program.run_party(name, own, None, submissions=held).send(None)
