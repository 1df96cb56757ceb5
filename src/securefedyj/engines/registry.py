"""The engines, and the facts about each: one entry per engine.

Everything that depends on the engine of a run is looked up here, but for the sentences about
secrecy (`protocol/secrecy.py`). Sections 8 and 10 of docs/protocol.md describe the engines,
docs/security.md what they protect. An engine's own code is imported when it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from securefedyj.engines.additive import packed_size
from securefedyj.engines.digests import DIGEST_BYTES
from securefedyj.engines.interface import Engine
from securefedyj.errors import InputError
from securefedyj.party import inprocess
from securefedyj.party.machine import Party


class Connect(Protocol):
    """Connects the party of a name."""

    def __call__(
        self,
        name: str,
        parties: Sequence[str],
        committee: Sequence[str],
        silos: Sequence[str],
    ) -> Coroutine[Any, Any, Engine]:
        """The parties and the committee are in the agreed order; silos are those with data."""


@dataclass(frozen=True)
class Facts:
    """The facts about one engine."""

    name: str
    secure: bool
    """Whether it keeps anything secret; reports warn where an engine does not."""
    fewest_parties: int
    """With fewer, it could not keep its promise."""
    committee_size: int | None
    """How many of the parties compute, the first ones; None for all of them."""
    connect: Connect
    """How a party begins with it."""
    largest_message: Callable[[int, int], int]
    """Payload bytes of the largest message when `size` integers of `limbs` limbs are shared,
    multiplied, compared, taken apart or opened at once. Operations that run in lockstep share their
    messages: theirs add up."""
    verifies: bool = False
    """Whether it has verified exchanges (`Engine.verified`)."""
    networked: bool = True
    """Whether parties on the network may agree on it."""
    party: Callable[..., Party[Any]] = Party
    """What drives a program."""
    run: Callable[[Sequence[Party[Any]]], list[Any]] = inprocess.run
    """Runs all parties on this machine."""
    in_parallel: bool = False
    """Whether they compute at the same time there, in processes of their own."""
    check_ready: Callable[[], None] = lambda: None
    """Raises ImportError, with a sentence, where a library is missing."""
    most_ahead: Callable[[int, int, int], int] | None = None
    """Payload bytes that one party sends another while so many integers of so many limbs are dealt
    with, among so many parties; None where a few of the largest messages are the most."""
    largest_verified: Callable[[int, int], int] | None = None
    """The same as `largest_message`, of a verified exchange that ends a batch of `size` features,
    none of which needs more than so many limbs; None for an engine that has none."""

    def committee_of(self, parties: Sequence[str]) -> tuple[str, ...]:
        """Who computes, of all parties in their order."""
        if len(parties) < self.fewest_parties:
            raise InputError(
                "SFY-ENG-022",
                f"{len(parties)} parties cannot keep secrets from each other with engine "
                f"{self.name!r}: it needs {self.fewest_parties}, because what two compute together "
                "each of them can undo. Add a computing party without data, such as a coordinator: "
                "fit([X_1, X_2, None]).",
            )
        return tuple(parties[: self.committee_size])


def _function(module: str, name: str) -> Callable[..., Any]:
    """A function of an engine, whose module is imported when it is called."""

    def call(*arguments: Any, **options: Any) -> Any:
        found = getattr(importlib.import_module(f"securefedyj.engines.{module}"), name)
        return found(*arguments, **options)

    return call


def _largest_of_mpyc(size: int, limbs: int) -> int:
    """A piece of MPyC's stream."""
    from securefedyj.engines.mpyc.party import LARGEST_PIECE

    return LARGEST_PIECE


def _most_ahead_of_mpyc(size: int, limbs: int, parties: int) -> int:
    """To compare integers or to take them apart, a few field elements for each of their bits.

    Measured: of K parties about K / 2 + 1.5 to compare them; 8 to take them apart with K = 3, and
    11 with K = 10. This is twice as much. It is done with `BLOCK` integers at a time, of each width
    that occurs, and all wait for all others on the way: nobody is ahead by more than a block. All
    are shared, multiplied and opened at once, with an element for each bit at most.
    """
    from securefedyj.engines.mpyc.engine import BLOCK

    element, elements = 8 * limbs + 9, 2 * (8 + parties // 2)
    at_once = min(size, (limbs + 1) * BLOCK)
    return (1 << 20) + element * 64 * limbs * (elements * at_once + size)


def _largest_of_replicated(size: int, limbs: int) -> int:
    """The table of `negative`: 240 planes of bits for each limb, and one more.

    Per integer that is 30 bytes a limb; an opening to a party outside, the next largest, has 16.
    A digest travels with inputs, of 8 bytes a limb; where there are next to none, with two keys.
    """
    return max((240 * limbs + 1) * packed_size(size), 8 * limbs * size + DIGEST_BYTES, 64)


def _largest_when_verified(size: int, limbs: int) -> int:
    """Inputs, with a limb to spare; or the evaluations of a proof, one bit a gate.

    A feature has at most 14 inputs, some 44 gates for each bit of an integer (those of `bits` are
    the most, and grow with the logarithm). Bytes of gates are whole in each group, of 256 or more.
    """
    inputs = 8 * (limbs + 1) * 14 * size + 256 * limbs + DIGEST_BYTES
    evaluations = 44 * 64 * limbs * (packed_size(size) + size // 256 + 1) + 2048
    return max(inputs, evaluations)


def _largest_of_clear(size: int, limbs: int) -> int:
    """The inputs, and a digest with them."""
    return 8 * limbs * size + DIGEST_BYTES


ENGINES: Mapping[str, Facts] = {
    facts.name: facts
    for facts in (
        Facts(
            name="replicated",
            secure=True,
            fewest_parties=3,
            committee_size=3,
            verifies=True,
            connect=_function("replicated", "connect"),
            largest_message=_largest_of_replicated,
            largest_verified=_largest_when_verified,
        ),
        Facts(
            name="mpyc",
            secure=True,
            fewest_parties=3,
            committee_size=None,
            connect=_function("mpyc.engine", "connect"),
            party=_function("mpyc.party", "MpycParty"),
            run=_function("mpyc.party", "run"),
            in_parallel=True,
            check_ready=_function("mpyc.library", "check_installed"),
            largest_message=_largest_of_mpyc,
            most_ahead=_most_ahead_of_mpyc,
        ),
        Facts(
            name="clear",
            secure=False,
            fewest_parties=1,
            committee_size=None,
            connect=_function("clear", "connect"),
            networked=False,
            largest_message=_largest_of_clear,
        ),
    )
}


def facts_of(engine: str) -> Facts:
    """The entry of an engine; an unknown one is refused."""
    if engine not in tuple(ENGINES):  # also what cannot be hashed
        raise InputError(
            "SFY-ENG-021", f"engine must be one of {', '.join(map(repr, ENGINES))}, got {engine!r}"
        )
    return ENGINES[engine]
