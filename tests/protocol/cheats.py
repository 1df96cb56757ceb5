"""Cheats that go further than a changed message: the cheater stands by what it has done.

It computes on with what it has falsified, and never stops on account of its own checks (`Deaf`).
"""

from __future__ import annotations

import copy
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from securefedyj.engines import digests
from securefedyj.engines.replicated import products
from securefedyj.engines.replicated.engine import Verified
from securefedyj.engines.replicated.gates import Check
from securefedyj.numerics import wide
from securefedyj.party.machine import Party
from securefedyj.party.messages import Kind, Message
from tests.protocol import cheating
from tests.protocol.cheating import FOUR, Outcome, Summary, beginning, play, right
from tests.simulation import wrapped

MEMBERS = FOUR.committee


@contextmanager
def deaf(cheater: str) -> Iterator[None]:
    """Let a party say that all is well, whatever its own checks say."""
    active: list[str] = []

    def stepping(original: Any) -> Any:
        def step(party: Party[Any], *arguments: Any) -> Any:
            active.append(party.name)
            try:
                return original(party, *arguments)
            finally:
                active.pop()

        return step

    def unless_cheater(original: Any, answer: Any = None) -> Any:
        def checked(*arguments: Any) -> Any:
            return answer if active[-1:] == [cheater] else original(*arguments)

        return checked

    with ExitStack() as patches:
        for where, name, instead in [
            (Party, "start", stepping(Party.start)),
            (Party, "receive", stepping(Party.receive)),
            (products, "must_agree", unless_cheater(products.must_agree)),
            (digests, "compare", unless_cheater(digests.compare)),
            (Check, "accepts", unless_cheater(Check.accepts, True)),
        ]:
            patches.enter_context(mock.patch.object(where, name, instead))
        yield


def in_verified(engine: Any, change: Callable[[Any], None]) -> None:
    """Change what a party does in its verified exchange, when that begins."""
    original = engine.verified

    def verified() -> Verified:
        context: Verified = original()
        change(context)
        return context

    engine.verified = verified


def of(cheater: str, change: Callable[[Any], None]) -> Callable[[Any, str], None]:
    """A change of one party's engine."""
    return lambda engine, name: change(engine) if name == cheater else None


def noise(shape: tuple[int, ...], dtype: Any) -> Any:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(secrets.token_bytes(size), dtype).reshape(shape)


def some_bits(shape: tuple[int, ...]) -> Any:
    """Noise, or a single bit."""
    if secrets.randbelow(2):
        return noise(shape, np.uint8)
    error = np.zeros(shape, dtype=np.uint8)
    error.reshape(-1)[secrets.randbelow(error.size)] = 1 << secrets.randbelow(8)
    return error


class Nth:
    """True once, at a call chosen at random among so many, or at this one."""

    def __init__(self, calls: int, number: int | None = None) -> None:
        self.left = secrets.randbelow(calls) if number is None else number

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == -1


# --- Cheats: each returns what came of it --------------------------------------------------------


def wrong_products(cheater: str) -> Outcome:
    """Errors in z and c of a product, which may be the same."""
    return _wrong_products(cheater, lambda low: 1 << secrets.choice([secrets.randbelow(low), 0]))


def spare_limb(cheater: str) -> Outcome:
    """Errors in the limb that is dropped."""
    return _wrong_products(cheater, lambda low: (1 + secrets.randbits(63)) << low)


def wrong_moment(cheater: str) -> Outcome:
    """Another V at lambda*, by an error that the opened bits show; all claims hold."""
    size = 1 << 8 * right()[-1]["magnitude"][0]
    return _wrong_products(cheater, lambda low: size, call=0, place=0)


def _wrong_products(
    cheater: str, error: Callable[[int], int], call: int | None = None, place: int | None = None
) -> Outcome:
    now, changed = Nth(4, call), []

    def change(engine: Any) -> None:
        original = engine._role.reshare

        async def reshare(ring: Any, kind: Kind, term: Any) -> Any:
            if kind == Kind.PRODUCT and now():
                limbs, both = term.shape
                own = secrets.randbelow(both // 2) if place is None else place
                values, e = [0] * both, error(64 * (limbs - 1))
                values[own] = e
                values[both // 2 + own] = secrets.choice([0, e, e * secrets.randbits(64)])
                term = ring.add(term, wide.from_ints([wrapped(v, limbs) for v in values], limbs))
                changed.append(own)
            return await original(ring, kind, term)

        engine._role.reshare = reshare

    return deafly(cheater, change, changed)


def wrong_gates(cheater: str) -> Outcome:
    """Other factors, of which the product is proved; or an error that is sent and kept."""
    now, changed, factors = Nth(55), [], secrets.randbelow(2)

    def change(context: Any) -> None:
        role = context._role
        original = role.conjunction

        async def conjunction(x: Any, y: Any) -> Any:
            if not now():
                return await original(x, y)
            changed.append(None)
            if factors:
                return await original(x, y ^ some_bits(y.shape))
            shift_next(role, some_bits)
            return await original(x, y)

        role.conjunction = conjunction

    return deafly(cheater, lambda engine: in_verified(engine, change), changed)


def shift_next(role: Any, error: Callable[[tuple[int, ...]], Any]) -> None:
    """Let a member add something to its next product, and keep it as what it has drawn."""
    set_aside = role._member.set_aside

    def other(ring: Any, shape: tuple[int, ...]) -> Any:
        del role._member.set_aside
        draw, added = set_aside(ring, shape), error(shape)

        def drawn() -> Any:
            plus, minus = draw()
            return plus ^ added, minus

        return drawn

    role._member.set_aside = other


def with_a_wrong_sign() -> list[dict[str, Any]]:
    """All before the verified exchange, but for the last sign of a feature."""
    lines = copy.deepcopy(list(right()[: -cheating.BEFORE_THE_END]))
    lines[-1]["delta"][0] *= -1
    return lines


def false_verdict(cheater: str) -> Outcome:
    """A sign that was made up led to another lambda; a member turns the verdict to 1."""
    lines, changed = with_a_wrong_sign(), []

    def change(context: Any) -> None:
        original, last = context.verdict, Nth(0, 5)

        async def verdict() -> Any:
            async def conjunction(x: Any, y: Any, original: Any = context._conjunction) -> Any:
                if last():  # of 64 sums, halved six times
                    changed.append(None)
                    shift_next(context._role, lambda shape: np.uint8(1))
                return await original(x, y)

            context._conjunction = conjunction
            return await original()

        context.verdict = verdict

    with deaf(cheater):
        outcome = play(start=lines, tamper=of(cheater, lambda engine: in_verified(engine, change)))
    outcome.changed = bool(changed)
    return outcome


def other_seed(cheater: str) -> Outcome:
    """Another part of the seed of the subsets, to one of the other members or to both."""
    (turn,) = (turn for turn, what in cheating.labels(False).items() if what.endswith("the seed"))
    victims = [name for name in MEMBERS if name != cheater]
    victims = secrets.choice([victims, victims[:1], victims[1:]])

    def observe(message: Message) -> Iterable[Message]:
        if (message.sender, message.round) != (cheater, turn) or message.recipient not in victims:
            return [message]
        return [replace(message, payload=message.payload[:-32] + secrets.token_bytes(32))]

    with deaf(cheater):
        outcome = play(observe, beginning(False))
    outcome.changed = True
    return outcome


def keystream_again(cheater: str) -> Outcome:
    """A member that uses the same part of its keystreams twice."""
    now, changed = Nth(20), []

    def change(engine: Any) -> None:
        def again(original: Any, before: dict[Any, Any], ring: Any, shape: tuple[int, ...]) -> Any:
            drawn = original(ring, shape)
            earlier = before.get((ring.dtype, shape))
            before[ring.dtype, shape] = drawn
            if earlier is None or not now():
                return drawn
            changed.append(None)
            return earlier

        for name in ("draw", "set_aside"):
            setattr(engine._role, name, partial(again, getattr(engine._role, name), {}))

    return deafly(cheater, change, changed)


def other_input(cheater: str) -> Outcome:
    """What a member keeps of its own input is not what it has sent to its neighbour."""
    changed = []

    def change(context: Any) -> None:
        role = context._role
        original = role.share

        async def share(values: Any) -> Any:
            components = (await original(values)).copy()
            components[0] ^= noise(components[0].shape, np.uint64) * np.uint64(secrets.randbelow(2))
            components[0].reshape(-1)[secrets.randbelow(components[0].size)] ^= np.uint64(1)
            changed.append(None)
            return components

        role.share = share

    return deafly(cheater, lambda engine: in_verified(engine, change), changed)


def helper_with_input(cheater: str) -> Outcome:
    """The helper adds something to S_y at lambda*, where it shows."""
    number = 1 << 4 * right()[-1]["magnitude"][0]
    now, changed = Nth(0, 0), []

    def change(context: Any) -> None:
        original = context._role.share

        async def share(values: Any) -> Any:
            if now():
                limbs, size = values.shape
                values = wide.add(values, wide.from_ints([number] + [0] * (size - 1), limbs))
                changed.append(number)
            return await original(values)

        context._role.share = share

    return deafly(cheater, lambda engine: in_verified(engine, change), changed)


def two_vectors(cheater: str) -> Outcome:
    """An outsider gives one member a share of another input, which is a right one by itself."""
    victims = secrets.choice([MEMBERS[:1], MEMBERS[1:2], MEMBERS[2:], MEMBERS[:2], MEMBERS[1:]])
    payloads: dict[str, bytes] = {}
    for message in cheating.messages(False):
        if message.sender == cheater and message.kind & Kind.INPUT:
            payloads[message.recipient] = message.payload

    def observe(message: Message) -> Iterable[Message]:
        here = message.sender == cheater and message.kind & Kind.INPUT
        if not here or message.recipient not in victims:
            return [message]
        digest = message.payload[:32]
        return [replace(message, payload=digest + payloads[message.recipient][32:])]

    with deaf(cheater):
        outcome = play(observe, beginning(False))
    outcome.changed = True
    return outcome


def accepted_early(cheater: str) -> Outcome:
    """A member says that its checks have passed before anything was checked; and has lied."""
    words = max(turn for turn, what in cheating.labels(False).items() if what.endswith("words"))
    lie = secrets.choice(
        ["CARRY", "PRODUCT+CARRY+CHECK parts of the seed", "CHECK random factor, proofs"]
    )
    turns = [turn for turn, what in cheating.labels(False).items() if what == lie]
    turn, said = secrets.choice(turns), set()

    def observe(message: Message) -> Iterable[Message]:
        if message.sender != cheater:
            return [message]
        if message.round == words:
            return []
        if message.round == turn:
            payload = cheating.forged(message.payload, "bit", None, None)
            message = replace(message, payload=payload)
        early = []
        if message.round >= turn and not said:
            said.add(turn)
            early = [
                replace(message, recipient=name, round=words, kind=Kind.CHECK, payload=b"\x01")
                for name in FOUR.parties
                if name != cheater
            ]
        return [message, *early]

    with deaf(cheater):
        outcome = play(observe, beginning(False))
    outcome.changed = True
    return outcome


def replayed(cheater: str) -> Outcome:
    """All that a party says from some round on is what it said in an earlier session."""
    whole = bool(secrets.randbelow(2))
    first = secrets.choice([m.round for m in cheating.can_be_changed(whole) if m.sender == cheater])
    before = {(m.sender, m.recipient, m.round): m.payload for m in cheating.messages(whole)}
    once = secrets.randbelow(2)

    def observe(message: Message) -> Iterable[Message]:
        here = message.round == first or (message.round > first and not once)
        if message.sender != cheater or not here or message.kind == Kind.STOP:
            return [message]
        place = (message.sender, message.recipient, message.round)
        return [replace(message, payload=before.get(place, message.payload))]

    with deaf(cheater):
        outcome = play(observe, beginning(whole))
    outcome.changed = True
    return outcome


def made_up(lines: Any) -> Any:
    """A transcript with one reveal that was made up, and what was revealed before it."""
    known = copy.deepcopy(list(lines))
    number = 1 + secrets.randbelow(len(known) - 2)  # neither the agreement nor the end
    line = known[number]
    feature = secrets.randbelow(len(line["features"]))
    match line["reveal"]:
        case "counts":
            line["n"][feature] += secrets.choice([-1, 1, 7])
        case "variation":
            line["varies"][feature] ^= True
        case "step":
            line["delta"][feature] *= -1
    return known[: number + 1]


def made_up_transcript(cheater: str) -> Outcome:
    """After a restart all go on from what the cheater has handed to them; or it alone does."""
    lines = made_up(right())
    with deaf(cheater):
        if secrets.randbelow(4):
            outcome = play(start=lines)
        else:
            outcome = play(start=right()[: len(lines)], starts={cheater: lines})
    outcome.changed = True
    return outcome


class Liar:
    """A silo that adds numbers to its sums."""

    def __init__(self, silo: Any, phi: int, yy: int) -> None:
        self._silo, self.count = silo, silo.count
        self.phi, self.yy = phi, yy

    def phi_sum(self, features: Any, limbs: int) -> Any:
        return _plus(self._silo.phi_sum(features, limbs), self.phi)

    def sums(self, *arguments: Any) -> Any:
        sums = self._silo.sums(*arguments)
        return sums._replace(yy=_plus(sums.yy, self.yy))


def _plus(values: Any, number: int) -> Any:
    limbs, size = values.shape
    return wide.add(values, wide.from_ints([number] * size, limbs))


def lying_silo(cheater: str) -> Outcome:
    """Made-up sums: always, in the search alone, or in the verified exchange alone.

    Right is what a run without cheats makes of the sums that were given in the verified exchange.
    """
    when = secrets.choice(["always", "search", "end"])
    size = 1 << secrets.choice([2, 20, 36, 44])
    liar = Liar(cheating.honest_silo(cheater), secrets.choice([-1, 1]) * size, size)
    plain = play(silos={cheater: liar}, verified=False).accepted["ana"]

    def fall_silent(context: Any) -> None:
        if when == "search":
            liar.phi = liar.yy = 0

    outcome = play(
        start=beginning(when != "end"),
        silos={cheater: liar},
        tamper=of(cheater, lambda engine: in_verified(engine, fall_silent)),
    )
    outcome.changed = True
    if when != "search":
        outcome.wanted = [right()[0], *plain[1:-2], cheating.as_final(*plain[-2:])]
    return outcome


def deafly(cheater: str, change: Callable[[Any], None], changed: list[Any]) -> Outcome:
    """Play a verified exchange with a changed engine at one party."""
    with deaf(cheater):
        outcome = play(start=beginning(False), tamper=of(cheater, change))
    outcome.changed = bool(changed)
    return outcome


CHEATS: dict[Callable[[str], Outcome], tuple[str, ...]] = {
    wrong_products: MEMBERS,
    spare_limb: MEMBERS,
    wrong_moment: MEMBERS,
    false_verdict: MEMBERS,
    other_seed: MEMBERS,
    wrong_gates: MEMBERS,
    keystream_again: MEMBERS,
    other_input: MEMBERS,
    accepted_early: MEMBERS,
    helper_with_input: ("cem",),
    two_vectors: ("dua",),
    replayed: FOUR.parties,
    made_up_transcript: FOUR.parties,
    lying_silo: FOUR.silos,
}
"""By whom each can be tried."""


def try_cheats(count: int, summary: Summary) -> None:
    """Try all in turn, by all parties that can."""
    every = [(cheat, who) for cheat, parties in CHEATS.items() for who in parties]
    for number in range(count):
        cheat, who = every[number % len(every)]
        outcome = cheat(who)
        if (wrong := cheating.wrong_in(who, outcome)) is not None:
            summary.wrong.append(f"{cheat.__name__} by {who}: {wrong}")
        if outcome.changed:
            summary.add(f"cheat {cheat.__name__}", who, outcome.end(who))
        if number % 100 == 99:
            print(f"{number + 1} cheats", file=sys.stderr, flush=True)
